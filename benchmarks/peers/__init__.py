"""Other engines, and other ways of serving them, given the same weights and the same work."""
