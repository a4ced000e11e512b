"""Decoder of single sentences on exported graphs, for the beam search of the parity proof.

It shares no code with the service's runtime, so that each checks the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from models.bundle.manifest import Dimensions, GraphName, Precision
from models.export.emitter import HIDDEN, HIDDEN_FP16


class GraphDecoder:
    """A ``models.reference.beam.Decoder`` on the encoder and step graphs of a directory."""

    def __init__(self, directory: Path, dimensions: Dimensions, precision: Precision) -> None:
        self._dimensions = dimensions
        self._element = np.float16 if precision == "fp16" else np.float32
        self._hidden = HIDDEN_FP16 if precision == "fp16" else HIDDEN
        self._encoder = open_graph(directory, "encoder", precision)
        self._step = open_graph(directory, "step", precision)

    def start(self, source_ids: Sequence[int]) -> None:
        names = [output.name for output in self._encoder.get_outputs()]
        outputs = self._encoder.run(None, {"source_ids": np.array([source_ids], np.int32)})
        self._cross = dict(zip(names, outputs, strict=True))
        self._source_length = len(source_ids)
        heads, width = self._dimensions.heads, self._dimensions.head_width
        layers = range(self._dimensions.decoder_layers)
        if self._dimensions.recurrent:
            empty = np.zeros((1, self._dimensions.width), self._element)
            self._own = {f"state.{i}": empty for i in layers}
        else:
            self._own = {
                f"self_{kind}.{i}": np.zeros((1, heads, 0, width), self._element)
                for i in layers
                for kind in ("keys", "values")
            }
        self._visible_KC = np.zeros((1, 0), np.bool_)
        self._rows = 1
        self._position = 0

    def extend(
        self, parents: list[int], tokens: list[int], count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        rows = len(tokens)
        own = self._states(parents) if self._dimensions.recurrent else self._keys_values(parents)
        names = [output.name for output in self._step.get_outputs()]
        outputs = self._step.run(
            None,
            {
                **own,
                "token_ids": np.array([tokens], np.int32),
                "positions": np.full((1, rows), self._position, np.int32),
                "cross_bias": np.zeros((1, 1, rows, self._source_length), self._element),
                "num_candidates": np.array(
                    [min(count, self._dimensions.vocabulary_size)], np.int64
                ),
                "scores_wanted": np.array(True),
                "edits_wanted": np.array(False),
                "edit_indices": np.zeros((0, 2), np.int64),
                "edit_penalties": np.zeros(0, np.float32),
                "edit_biases": np.zeros(0, np.float32),
                "asked_columns": np.zeros((1, rows), np.int64),
                "attention_wanted": np.array(False),
                "shortlist_wanted": np.array(False),
                "shortlist_ids": np.zeros(0, np.int64),
                "shortlist_bias": np.zeros((1, 0), np.float32),
                **self._cross,
            },
        )
        found = dict(zip(names, outputs, strict=True))
        self._own = {name: found[f"updated_{name}"] for name in self._own}
        self._position += 1
        return found["candidate_columns"][0], found["candidate_log_probs"][0]

    def _states(self, parents: list[int]) -> dict[str, NDArray[Any]]:
        """States of the parents, and room behind them for those of the rows."""
        reads = np.arange(len(parents), dtype=np.int64)[None]
        arrays = {
            name: np.concatenate((state[-self._rows :][parents], state[:1].repeat(len(parents), 0)))
            for name, state in self._own.items()
        }
        self._rows = len(parents)
        return {**arrays, "state_reads": reads, "state_writes": reads + len(parents)}

    def _keys_values(self, parents: list[int]) -> dict[str, NDArray[Any]]:
        rows, used = len(parents), self._visible_KC.shape[1]
        heads = self._dimensions.heads
        # Every row appends one entry. It sees the entries its parent saw, and its own.
        seen = np.concatenate((self._visible_KC[parents], np.eye(rows, dtype=np.bool_)), axis=1)
        indices = np.zeros((1, rows, heads, 3), np.int64)
        indices[..., 1] = np.arange(heads)
        indices[..., 2] = used + np.arange(rows)[:, None]
        grown = {
            name: np.pad(cache, ((0, 0), (0, 0), (0, rows), (0, 0)))
            for name, cache in self._own.items()
        }
        self._visible_KC = seen
        bias = np.where(seen, 0, self._hidden).astype(self._element)[None, None]
        return {**grown, "self_bias": bias, "write_indices": indices}


def open_graph(
    directory: Path, graph: GraphName, precision: Precision
) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # A single sentence does not gain from several threads.
    options.intra_op_num_threads = 1
    # Compute int8 products exactly on CPUs where they would overflow, as the service does.
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(
        directory / f"{graph}.{precision}.onnx", options, providers=["CPUExecutionProvider"]
    )
