"""Translation memories: units like a sentence, and their translations adapted to it."""
