"""Pictures and files of what a model looked at."""
