"""What a model is when it is served: a directory of verified files, read and written whole."""
