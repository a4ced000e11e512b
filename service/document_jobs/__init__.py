"""Document translation jobs: accepted, queued, translated, kept and expired."""
