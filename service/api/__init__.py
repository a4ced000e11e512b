"""Wire formats and what every request goes through. Decides nothing about translation."""
