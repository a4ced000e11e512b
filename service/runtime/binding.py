"""I/O binding of a decode step of one shape: host arrays, cache addresses, ONNX Runtime session.

Small arrays are in host memory and keep their addresses. Keys and values are in the memory of the
pools, bound as input and output at once, so that a step updates them in place. See ``onnx.py`` for
the legend of shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from service.runtime.backend import Candidates, Edits, FloatArray, IntArray, StepBatch
from service.runtime.caches import Ancestry, Pool, visible_source
from service.runtime.memory import Memory
from service.runtime.shortlists import BatchShortlist

_HIDDEN = {"float32": -1e9, "float16": -6e4}
"""Bias of a masked attention score. Finite, because infinities could produce NaN."""

_NO_EDITS: dict[str, NDArray[Any]] = {
    "edits_wanted": np.zeros((), np.bool_),
    "edit_indices": np.zeros((0, 2), np.int64),
    "edit_penalties": np.zeros(0, np.float32),
    "edit_biases": np.zeros(0, np.float32),
}


class StepBinding:
    """Runs decode steps of one number of sentences, rows and candidates."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        own: Pool,
        cross: Pool,
        memory: Memory,
        sentences: int,
        rows: int,
        num_candidates: int,
    ) -> None:
        self._session = session
        self._hidden = _HIDDEN[np.dtype(own.element).name]
        self._binding = session.io_binding()
        self._inputs: dict[str, object] = {}
        """References that keep arrays alive which ONNX Runtime reads by address."""
        self._sources_of = -1
        self._edited = False

        shape = sentences, rows
        self._token_ids_BK = self._input("token_ids", np.zeros(shape, np.int32))
        self._positions_BK = self._input("positions", np.zeros(shape, np.int32))
        self._asked_BK = self._input("asked_columns", np.zeros(shape, np.int64))
        self._own_bias_B1KC = self._input(
            "self_bias", np.zeros((sentences, 1, rows, own.length), own.element)
        )
        self._cross_bias_B1KS = self._input(
            "cross_bias", np.zeros((sentences, 1, rows, cross.length), own.element)
        )
        self._write_BKH3 = self._input(
            "write_indices", np.zeros((sentences, rows, own.heads, 3), np.int64)
        )
        self._write_BKH3[..., 0] = np.arange(sentences)[:, None, None]
        self._write_BKH3[..., 1] = np.arange(own.heads)
        self._attention_wanted = self._input("attention_wanted", np.zeros((), np.bool_))
        self._scores_wanted = self._input("scores_wanted", np.ones((), np.bool_))
        self._input("num_candidates", np.array([num_candidates], np.int64))
        self._input("shortlist_wanted", np.zeros((), np.bool_))
        self._input("shortlist_ids", np.zeros(0, np.int64))
        self._input("shortlist_bias", np.zeros((sentences, 0), np.float32))
        for name, array in _NO_EDITS.items():
            self._input(name, array)
        for pool in (own, cross):
            pool_shape = sentences, pool.heads, pool.length, pool.width
            for name, address in pool.arrays():
                place = memory.device, memory.device_id, pool.element, pool_shape, address
                self._binding.bind_input(name, *place)
                if pool is own:
                    self._binding.bind_output(f"updated_{name}", *place)
        self._log_probs_BKN: FloatArray = self._output(
            "candidate_log_probs", np.empty((*shape, num_candidates), np.float32)
        )
        self._columns_BKN: NDArray[np.int64] = self._output(
            "candidate_columns", np.empty((*shape, num_candidates), np.int64)
        )
        self._answers_BK: FloatArray = self._output("asked_log_probs", np.empty(shape, np.float32))
        # Must be bound last: ``run`` reads it as the last output.
        self._binding.bind_output("source_attention", "cpu")

    def run(
        self,
        batch: StepBatch,
        entries_BK: IntArray,
        ancestry: Ancestry,
        lengths_P: NDArray[np.int64],
        shortlist: BatchShortlist | None,
        membership: int,
    ) -> Candidates:
        """Run one step. ``membership`` changes when the slots hold other sentences."""
        self._token_ids_BK[...] = batch.tokens_BK
        self._positions_BK[...] = batch.positions_B[:, None]
        self._write_BKH3[..., 2] = entries_BK[:, :, None]
        ancestry.write_bias(self._own_bias_B1KC[:, 0], self._hidden)
        if self._sources_of != membership:
            self._show_sources(lengths_P, shortlist)
            self._sources_of = membership
        missing_BK = self._ask(batch.asked_BK, shortlist)
        self._edit(batch.edits, shortlist)
        self._scores_wanted[...] = batch.scores
        if batch.attention or self._attention_wanted:
            # The output of the last run has another shape, or a caller still holds it.
            self._binding.bind_output("source_attention", "cpu")
        self._attention_wanted[...] = batch.attention
        self._session.run_with_iobinding(self._binding)
        if missing_BK is not None:
            self._answers_BK[missing_BK] = -np.inf
        ids_BKN = self._columns_BKN if shortlist is None else shortlist.ids_L[self._columns_BKN]
        attention_BKS = None
        if batch.attention:
            attention_BKS = self._binding.get_outputs()[-1].numpy()
        return Candidates(ids_BKN, self._log_probs_BKN, self._answers_BK, attention_BKS)

    def _show_sources(self, lengths_P: NDArray[np.int64], shortlist: BatchShortlist | None) -> None:
        sentences, _, _, length = self._cross_bias_B1KS.shape
        hidden_BS = ~visible_source(lengths_P[:sentences], length)
        bias_BS = hidden_BS * self._cross_bias_B1KS.dtype.type(self._hidden)
        self._cross_bias_B1KS[...] = bias_BS[:, None, None]
        if shortlist is not None:
            self._input("shortlist_wanted", np.ones((), np.bool_))
            self._input("shortlist_ids", shortlist.ids_L)
            self._input("shortlist_bias", shortlist.bias_BL)

    def _ask(
        self, asked_BK: IntArray | None, shortlist: BatchShortlist | None
    ) -> NDArray[np.bool_] | None:
        """Set the columns of ``asked_BK``; returns where the shortlist lacks the token."""
        if asked_BK is None:
            return None
        if shortlist is None:
            self._asked_BK[...] = asked_BK
            return None
        self._asked_BK[...], there_BK = shortlist.columns(asked_BK)
        return ~there_BK

    def _edit(self, edits: Edits | None, shortlist: BatchShortlist | None) -> None:
        if edits is None:
            if self._edited:
                for name, array in _NO_EDITS.items():
                    self._input(name, array)
                self._edited = False
            return
        columns_E: NDArray[np.integer] = edits.token_ids_E
        there_E = slice(None)
        if shortlist is not None:
            columns_E, there_E = shortlist.columns(edits.token_ids_E)  # type: ignore[assignment]
        indices_E2 = np.stack((edits.rows_E, columns_E), axis=1).astype(np.int64)
        self._input("edits_wanted", np.ones((), np.bool_))
        self._input("edit_indices", np.ascontiguousarray(indices_E2[there_E]))
        self._input("edit_penalties", edits.penalties_E[there_E])
        self._input("edit_biases", edits.biases_E[there_E])
        self._edited = True

    def _input(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
        self._inputs[name] = array, value
        self._binding.bind_ortvalue_input(name, value)
        return array

    def _output(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        value = onnxruntime.OrtValue.ortvalue_from_numpy(array)
        self._inputs[name] = array, value
        self._binding.bind_ortvalue_output(name, value)
        return array
