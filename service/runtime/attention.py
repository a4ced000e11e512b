"""Runs a bundle's ``attention`` graph with ONNX Runtime: maps and probabilities of a sentence.

One sentence at a time, without padding. The weights are not prepacked, because that would copy them
once more. An open graph takes the memory of the weights and is fast enough for interactive
inspection.
"""

from __future__ import annotations

import logging

import numpy as np
import onnxruntime

from models.bundle.bundle import Bundle
from models.bundle.graphs import ENTROPIES
from models.bundle.manifest import Precision, SpecialIds
from service.runtime.backend import AttentionMaps
from service.runtime.cuda import ignore_other_captures
from service.runtime.sessions import Device, open_session
from service.runtime.variants import Variant

logger = logging.getLogger(__name__)

_DECODER = "decoder_attention"
_OUTPUTS = ("encoder_attention", _DECODER, "cross_attention", "target_log_probs")


class AttentionGraph:
    """See ``service.runtime.backend.TeacherForced``."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        special_ids: SpecialIds,
        device: Device = "cpu",
    ) -> None:
        self._device = device
        self._session: onnxruntime.InferenceSession | None = session
        self._bos, self._eos = special_ids.bos, special_ids.eos
        given = {output.name for output in session.get_outputs()}
        self._outputs = [name for name in (*_OUTPUTS, ENTROPIES) if name in given]

    @classmethod
    def load(
        cls,
        bundle: Bundle,
        precision: Precision,
        *,
        device: Device = "cpu",
        device_id: int = 0,
    ) -> AttentionGraph:
        """Open and check the graph, with one thread; raises ``InvalidBundle`` as ``open_session``.

        Open it together with the bundle, not at first use: by then the path may hold another
        version.
        """
        session = open_session(
            bundle,
            "attention",
            precision,
            variant=Variant(threads=1),
            device=device,
            device_id=device_id,
            prepack=False,
        )
        graph = cls(session, bundle.manifest.special_ids, device)
        if ENTROPIES not in graph._outputs:
            logger.warning(
                "%s in %s has no entropies, so the confidence of words is without them; exporting "
                "or importing it again adds them",
                bundle.manifest.name,
                precision,
            )
        return graph

    def run(self, source_ids: tuple[int, ...], target_ids: tuple[int, ...]) -> AttentionMaps:
        session = self._session
        if session is None:
            raise RuntimeError("the attention graph has been closed")
        self._enter()
        feeds = {
            "source_ids": np.array([source_ids], np.int32),
            "target_input_ids": np.array([(self._bos, *target_ids)], np.int32),
            "target_output_ids": np.array([(*target_ids, self._eos)], np.int32),
        }
        outputs = session.run(self._outputs, feeds)
        found = {
            name: output[0].astype(np.float32, copy=False)
            for name, output in zip(self._outputs, outputs, strict=True)
        }
        if _DECODER not in found:
            # SSRU has no map.
            heads, length = found["cross_attention"].shape[1:3]
            found[_DECODER] = np.zeros((0, heads, length, length), np.float32)
        encoder, decoder, cross, log_probs = (found[name] for name in _OUTPUTS)
        return AttentionMaps(encoder, decoder, cross, log_probs, found.get(ENTROPIES))

    def close(self) -> None:
        self._enter()
        self._session = None

    def _enter(self) -> None:
        if self._device == "cuda":
            ignore_other_captures()
