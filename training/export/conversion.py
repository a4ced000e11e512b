"""Converts a PyTorch network to the NumPy reference, which export and its proof read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from models.export.errors import ParityError
from models.reference.transformer import FloatArray, ReferenceTransformer, log_softmax
from models.transformer.transformer import Transformer

CHECKED_SENTENCES = 16
TOLERANCE = 1e-4
"""Largest accepted difference of log-probabilities, in nats."""


def numpy_network(network: Transformer) -> ReferenceTransformer:
    """The same network in NumPy, which shares the memory of weights in fp32 on the CPU."""
    tensors = {
        **network.state_dict(),
        # Sinusoids are not in a state dict.
        "source_embedding.positions": network.source_embedding.positions.detach(),
        "target_embedding.positions": network.target_embedding.positions.detach(),
    }
    weights: dict[str, FloatArray] = {
        name: tensor.float().cpu().numpy() for name, tensor in tensors.items()
    }
    return ReferenceTransformer(network.config, weights)


@torch.inference_mode()
def check_conversion(
    network: Transformer, reference: ReferenceTransformer, sources: Sequence[Sequence[int]]
) -> None:
    """Raises ``ParityError`` unless both networks give the same log-probabilities.

    The target of each of the first sentences is the beginning of its source.
    """
    network.eval()
    device = next(network.parameters()).device
    targets = network.config.target_vocabulary
    for source_ids in sources[:CHECKED_SENTENCES]:
        target_ids = [token % targets for token in source_ids[: network.config.max_length]]
        expected_TV = (
            network(
                torch.tensor([source_ids], device=device), torch.tensor([target_ids], device=device)
            )[0]
            .float()
            .log_softmax(-1)
        )
        memory = reference.source_keys_values(reference.encode(source_ids))
        found_TV = log_softmax(reference.project(reference.decode(memory, target_ids)))
        wanted_TV = expected_TV.cpu().numpy()
        # The logit of a masked piece is some -10,000, where neighbouring floats are 0.001 apart.
        size_TV = np.maximum(1.0, np.abs(wanted_TV) / 100)
        apart = float((np.abs(found_TV - wanted_TV) / size_TV).max())
        # This form of the comparison also rejects NaN.
        if not apart <= TOLERANCE:
            raise ParityError(
                f"the network in NumPy differs from the one in PyTorch by {apart:.2g}; at most "
                f"{TOLERANCE:g} is rounding"
            )
