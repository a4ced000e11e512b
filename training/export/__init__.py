"""From a checkpoint to a bundle: graphs, quantisation, proof of parity, publication."""
