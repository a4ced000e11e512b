"""How good translations are: scores, what is behind them, and a report to read."""
