"""Data pipeline: reads, cleans, augments and batches parallel text as token ids."""
