"""Routes about translations that exist: attention, scores, searches, alternatives."""
