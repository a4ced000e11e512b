"""What outlives the process: keys, usage, glossaries, suggestions. Knows no HTTP."""
