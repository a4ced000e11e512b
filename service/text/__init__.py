"""Text processing that needs strings only: no model, no event loop."""
