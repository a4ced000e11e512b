"""Greedy and beam search of a network in PyTorch."""
