"""A client of Dragoman: translate over HTTP, and look inside."""
