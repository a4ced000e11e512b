"""CTranslate2 servers to compare with: other ways of serving the same weights."""
