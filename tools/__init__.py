"""Programs of development that write files of the repository."""
