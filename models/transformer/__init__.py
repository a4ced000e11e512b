"""The network of "Attention Is All You Need" (Vaswani et al., 2017), in torch; training only."""
