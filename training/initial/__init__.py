"""Starting a run from the weights of another run or of a bundle."""
