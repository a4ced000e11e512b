"""Vocabulary shortlists: which target tokens each source token may become."""
