"""Containers of documents: archives, XML, encoded text."""
