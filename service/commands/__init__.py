"""Subcommands of the ``dragoman`` command line, one module each."""
