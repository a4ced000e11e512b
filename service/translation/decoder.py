"""Interface between the texts of a request and the networks, which see token ids only.

``service.translation.engine_decoder`` implements it with the engines of this process, and
``service.workers.owner_link`` with those of the process that has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from service.catalogue.loaded_model import LoadedModel
from service.catalogue.result_cache import DeliverDecoded, SourceSentence
from service.engine.types import Decoded


@dataclass(frozen=True, slots=True, eq=False)
class ForcedPass:
    """Result of one teacher-forced pass over a source and the target tokens that were written.

    T is the number of written tokens and ``eos``, S that of source ids.
    """

    cross_TS: NDArray[np.float32]
    """Cross-attention from which words are aligned: mean over the heads of one layer."""
    log_probs_T: NDArray[np.float32]
    entropies_T: NDArray[np.float32] | None


class Decoder(Protocol):
    """The networks on behalf of one request. Event loop only; cancelling a call frees its rows."""

    async def decode(
        self,
        model: LoadedModel,
        sentences: Sequence[SourceSentence],
        work: int = 0,
        deliver: DeliverDecoded | None = None,
    ) -> list[Decoded]:
        """The results of the sentences, in order. The first failure cancels all.

        ``work`` is reserved in source tokens, until the request ends, before anything is decoded.
        ``deliver`` is called with each result as soon as it is known.

        Raises ``ModelReplaced`` before anything is decoded if the model is no longer on offer,
        ``Overloaded``, ``TextTooLarge``, and the errors of ``Engine.decode``.
        """
        ...

    async def teacher_force(
        self, model: LoadedModel, source_ids: tuple[int, ...], written: tuple[int, ...]
    ) -> ForcedPass:
        """One pass over a sentence that was decoded for this request, and its translation.

        ``written`` are the tokens that the decoder reads after ``bos``.

        Raises the errors of ``AttentionReader.read``.
        """
        ...
