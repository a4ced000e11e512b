"""ONNX Runtime behind the ``Backend`` contract: sessions, cache memory, and who sees what in it.

A sentence has one self-attention cache, shared by its rows. A step appends one entry per row at
entries that no live row can see, and each row sees the entries of its own ancestors through an
additive mask; so nothing is reordered or concatenated when beams fork, and entries that no live
row can see any more are free again. Sentences stand one behind the other in the arrays: the last
one moves into the place of one that has left.

    P  places, in use or free    C  entries of a cache    D  width of a head    (others: backend.py)
"""

from __future__ import annotations

import logging
import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from models.bundle.bundle import Bundle
from models.bundle.graphs import Signature, TensorType, check_signature, signature
from models.bundle.manifest import GRAPHS, Dimensions, GraphName, InvalidBundle, Precision
from service.runtime.backend import Candidates, EncodeBatch, Limits, StepBatch
from service.runtime.caches import CrossCache, SelfCache

logger = logging.getLogger(__name__)


class OnnxBackend:
    """See ``service.runtime.backend.Backend``."""

    def __init__(
        self,
        encoder: onnxruntime.InferenceSession,
        step: onnxruntime.InferenceSession,
        dimensions: Dimensions,
        pad_id: int,
        limits: Limits,
    ) -> None:
        self.limits = limits
        self._encoder = encoder
        self._step = step
        self._pad_id = pad_id
        self._vocabulary_size = dimensions.vocabulary_size
        self._own = SelfCache(dimensions, limits)
        self._cross = CrossCache(dimensions, limits)
        self._slot_at: list[int] = []
        """The slot of the sentence at each place in use."""
        self._place_of = np.full(limits.slots, -1, np.int64)
        self._cross_names = [output.name for output in encoder.get_outputs()]

    @classmethod
    def load(
        cls, bundle: Bundle, precision: Precision, *, slots: int, rows_per_slot: int, threads: int
    ) -> OnnxBackend:
        """Open and check all three graphs of a precision; keep the two that decode.

        ``threads`` 0 means one for each core. Raises ``InvalidBundle`` if the bundle does not
        offer the precision, or a graph cannot be opened or has other inputs and outputs than its
        manifest says.
        """
        manifest = bundle.manifest
        if precision not in manifest.precisions:
            raise InvalidBundle(
                f"{bundle.path} offers {', '.join(manifest.precisions)}, not {precision}"
            )
        exactly = precision == "int8" and int8_saturates()
        if exactly:
            logger.warning("this CPU has no VNNI: int8 products take a slower, exact way")
        sessions: dict[GraphName, onnxruntime.InferenceSession] = {}
        for graph in GRAPHS:
            path = bundle.graph(graph, precision)
            sessions[graph] = _open(path, threads, exactly)
            check_signature(
                str(path), signature(graph, manifest.dimensions), _signature_of(sessions[graph])
            )
        limits = Limits(
            slots=slots,
            rows_per_slot=rows_per_slot,
            source_length=manifest.limits.source_length,
            target_length=manifest.limits.target_length,
        )
        return cls(
            sessions["encoder"],
            sessions["step"],
            manifest.dimensions,
            manifest.special_ids.pad,
            limits,
        )

    def encode(self, batch: EncodeBatch) -> None:
        self._retire(batch.slots)
        lengths = [len(source) for source in batch.sources]
        source_ids_BS = np.full((len(lengths), max(lengths)), self._pad_id, np.int32)
        for row, source in zip(source_ids_BS, batch.sources, strict=True):
            row[: len(source)] = source
        outputs = self._encoder.run(self._cross_names, {"source_ids": source_ids_BS})
        if not self._slot_at:
            # Nobody is in the arrays: what a long sentence made them grow to need not stay.
            self._own.release()
            self._cross.release()
        places = range(len(self._slot_at), len(self._slot_at) + len(batch.slots))
        self._cross.store(places, lengths, dict(zip(self._cross_names, outputs, strict=True)))
        self._own.clear(places)
        self._slot_at += batch.slots
        self._place_of[batch.slots] = places

    def step(self, batch: StepBatch) -> Candidates:
        per_slot = self.limits.rows_per_slot
        slots_N, rows_N = np.divmod(batch.rows_N, per_slot)
        self._retire_all_but(slots_N)
        places_N = self._place_of[slots_N]
        sentences, rows = len(self._slot_at), int(rows_N.max()) + 1
        # Sentences with fewer rows than the widest are padded with rows that nobody sees.
        token_ids_BK = np.zeros((sentences, rows), np.int32)
        positions_BK = np.zeros((sentences, rows), np.int32)
        parents_BK = np.full((sentences, rows), -1, np.int64)
        token_ids_BK[places_N, rows_N] = batch.tokens_N
        positions_BK[places_N, rows_N] = batch.positions_N
        parents_BK[places_N, rows_N] = batch.parents_N % per_slot
        write_indices, self_bias = self._own.append(parents_BK)
        count = min(batch.num_candidates, self._vocabulary_size)
        log_probs_BKN = np.empty((sentences, rows, count), np.float32)
        ids_BKN = np.empty((sentences, rows, count), np.int64)

        inputs: dict[str, NDArray[Any]] = {
            "token_ids": token_ids_BK,
            "positions": positions_BK,
            "self_bias": self_bias,
            "cross_bias": self._cross.bias(sentences, rows),
            "write_indices": write_indices,
            "num_candidates": np.array([count], np.int64),
            **dict(self._cross.views(sentences)),
        }
        binding = self._step.io_binding()
        for name, array in inputs.items():
            binding.bind_ortvalue_input(name, _on_host(array))
        for name, array in self._own.views(sentences):
            # Bound as input and output alike, the cache is updated in place.
            value = _on_host(array)
            binding.bind_ortvalue_input(name, value)
            binding.bind_ortvalue_output(f"updated_{name}", value)
        binding.bind_ortvalue_output("candidate_log_probs", _on_host(log_probs_BKN))
        binding.bind_ortvalue_output("candidate_ids", _on_host(ids_BKN))
        self._step.run_with_iobinding(binding)
        return Candidates(
            ids_BKN[places_N, rows_N].astype(np.int32), log_probs_BKN[places_N, rows_N]
        )

    def close(self) -> None:
        self._slot_at.clear()
        self._place_of.fill(-1)
        self._own.release()
        self._cross.release()

    def _retire_all_but(self, slots_N: NDArray[np.int32]) -> None:
        staying = np.zeros(self.limits.slots, np.bool_)
        staying[slots_N] = True
        self._retire([slot for slot in self._slot_at if not staying[slot]])

    def _retire(self, slots: Sequence[int]) -> None:
        """Give up the places of slots, as far as they have one."""
        for slot in slots:
            place = int(self._place_of[slot])
            if place < 0:
                continue
            last = len(self._slot_at) - 1
            moved = self._slot_at.pop()
            if place != last:
                self._own.move(last, place)
                self._cross.move(last, place)
                self._slot_at[place] = moved
                self._place_of[moved] = place
            self._place_of[slot] = -1


def _on_host(array: NDArray[Any]) -> onnxruntime.OrtValue:
    """The array as ONNX Runtime sees it: the same memory, which must outlive the run."""
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def _open(path: Path, threads: int, exactly: bool) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # Idle threads of one session must not spin on the cores that another one needs.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if exactly:
        options.add_session_config_entry("session.x64quantprecision", "1")
    try:
        return onnxruntime.InferenceSession(
            path,
            options,
            providers=["CPUExecutionProvider"],
            # The fused operator is several times slower on a CPU than the two it replaces.
            disabled_optimizers=["SkipLayerNormFusion"],
        )
    except Exception as error:
        # ONNX Runtime's exceptions have no common base but Exception.
        raise InvalidBundle(f"{path} cannot be opened by ONNX Runtime: {error}") from error


def int8_saturates(cpu: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether int8 products overflow here: on x86-64 without VNNI, pairs are added in 16 bits."""
    if platform.machine() != "x86_64" or not cpu.exists():
        return False
    found = re.search(r"^flags\s*:(.*)$", cpu.read_text(encoding="utf-8"), re.MULTILINE)
    return found is not None and not {"avx512_vnni", "avx_vnni"} & set(found[1].split())


def _signature_of(session: onnxruntime.InferenceSession) -> Signature:
    def types(nodes: Sequence[onnxruntime.NodeArg]) -> dict[str, TensorType]:
        return {
            node.name: TensorType(
                node.type.removeprefix("tensor(").removesuffix(")"), tuple(node.shape)
            )
            for node in nodes
        }

    return Signature(types(session.get_inputs()), types(session.get_outputs()))
