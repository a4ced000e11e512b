"""Decoding engine: continuous batching, scheduling and beam search. Moves no tensors."""
