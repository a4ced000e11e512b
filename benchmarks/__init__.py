"""Speed and quality of bundles, measured as users meet them. Prints a table and a line of JSON."""
