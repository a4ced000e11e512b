"""From parallel text to batches of token ids."""
