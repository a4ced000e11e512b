"""NumPy reference of the network and of its beam search: written for reading, without torch."""
