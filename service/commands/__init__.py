"""What ``dragoman`` can be told to do, one command a module."""
