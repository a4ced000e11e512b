"""One module for each family of document formats."""
