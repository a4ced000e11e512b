"""Inputs and outputs of a decode step: visible cache entries, shortlist, and I/O binding.

Small arrays lie in two exchange blocks, one for inputs and one for outputs, and are bound by
address. On a GPU, a step copies each block once. Keys and values are in the memory of the pools,
bound as input and output at once, so that a step updates them in place. Shapes: backend.py and
memory.py.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from models.bundle.shortlist import Shortlist
from service.runtime.backend import BARRED, Candidates, Edits, FloatArray, IntArray, StepBatch
from service.runtime.memory import ALIGNMENT, Exchange, Memory, Pool
from service.runtime.sessions import run

Ids = NDArray[np.int64]
K = TypeVar("K")
V = TypeVar("V")

_KEPT_BINDINGS = 64

HIDDEN = {"float32": -1e9, "float16": -6e4}
"""Bias of a masked attention score. Finite, because infinities could produce NaN."""
_WORD = 64
_FULL = np.uint64(2**_WORD - 1)
_ONE = np.uint64(1)


class Ancestry:
    """Bit sets of the cache entries that each row sees: the entries of its own prefix.

    An entry that no row sees is free and can be overwritten.
    """

    def __init__(self, slots: int, rows_per_slot: int) -> None:
        self._seen_PKW = np.zeros((slots, rows_per_slot, 1), np.uint64)

    def clear(self, first_slot: int, slots: int) -> None:
        self._seen_PKW[first_slot : first_slot + slots] = 0

    def move(self, origin: int, slot: int) -> None:
        self._seen_PKW[slot] = self._seen_PKW[origin]

    def highest(self, slots: slice) -> int:
        """One more than the highest entry visible to any row of these slots."""
        words = np.bitwise_or.reduce(self._seen_PKW[slots], axis=(0, 1))
        return max(
            (i * _WORD + int(word).bit_length() for i, word in enumerate(words) if word), default=0
        )

    def lay_out(self, given: Layout, own: Pool, sentences: int, rows: int) -> None:
        """Add the inputs of a step that ``write`` fills."""
        given.add("self_bias", (sentences, 1, rows, own.length), own.element)
        given.add("write_indices", (sentences, rows, own.heads, 3), np.int64)

    def begin(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write what is constant, with valid places for sentences that pad the batch."""
        indices_BKH3 = arrays["write_indices"]
        indices_BKH3[..., 0] = np.arange(len(indices_BKH3))[:, None, None]
        indices_BKH3[..., 1] = np.arange(indices_BKH3.shape[2])

    def write(
        self, arrays: Mapping[str, NDArray[Any]], entries_BK: IntArray, hidden: float
    ) -> None:
        """Write the inputs of the step, after ``append``."""
        count = len(entries_BK)
        arrays["write_indices"][:count, ..., 2] = entries_BK[:, :, None]
        self.write_bias(arrays["self_bias"][:count, 0], hidden)

    def append(self, parents_BK: IntArray) -> IntArray:
        """Assign a free entry to every row of the first B sentences, where row k continues
        ``parents[k]``.

        An empty row (parent ``EMPTY_ROW``) gets an entry too, because its output must be stored
        somewhere. No other row sees it. Returns the entries ``[B, K]``, which are assigned once
        ``commit`` is called: a step that fails for want of memory is tried again.
        """
        sentences, rows = parents_BK.shape
        live_BK1 = (parents_BK >= 0)[:, :, None]
        seen_BKW = np.take_along_axis(
            self._seen_PKW[:sentences], np.maximum(parents_BK, 0)[:, :, None], axis=1
        )
        seen_BKW *= live_BK1
        used_BW = np.bitwise_or.reduce(seen_BKW, axis=1)
        if (np.bitwise_count(used_BW).sum(axis=1, dtype=np.int64) + rows).max() > (
            used_BW.shape[1] * _WORD
        ):
            self._widen()
            seen_BKW, used_BW = (_widened(array) for array in (seen_BKW, used_BW))
        entries_BK = np.empty((sentences, rows), np.int32)
        every = np.arange(sentences)
        for row in range(rows):
            word_B = (used_BW == _FULL).argmin(axis=1) if used_BW.shape[1] > 1 else 0
            free_B = ~used_BW[every, word_B]
            lowest_B = free_B & (~free_B + _ONE)
            used_BW[every, word_B] |= lowest_B
            seen_BKW[every, row, word_B] |= lowest_B
            entries_BK[:, row] = np.bitwise_count(lowest_B - _ONE) + np.multiply(word_B, _WORD)
        self._visible_BKW, self._live_BK1 = seen_BKW, live_BK1
        return entries_BK

    def commit(self) -> None:
        """Assign the entries of the last ``append``, whose step has been run."""
        sentences, rows, _ = self._visible_BKW.shape
        self._seen_PKW[:sentences] = 0
        np.multiply(self._visible_BKW, self._live_BK1, out=self._seen_PKW[:sentences, :rows])

    def write_bias(self, bias_BKC: FloatArray, hidden: float) -> None:
        """Write the attention mask after ``append``: 0 for visible entries, else ``hidden``."""
        visible = np.unpackbits(
            self._visible_BKW.view(np.uint8), axis=-1, count=bias_BKC.shape[-1], bitorder="little"
        )
        visible ^= 1
        # The bias is written as integers, because arithmetic in fp16 is forty times slower on a
        # CPU.
        integer = np.dtype(f"u{bias_BKC.itemsize}")
        bits = bias_BKC.dtype.type(hidden).view(integer)
        np.multiply(visible, bits, out=bias_BKC.view(integer))

    def _widen(self) -> None:
        self._seen_PKW = _widened(self._seen_PKW)


class RowStates:
    """Entries of the SSRU states of each sentence: two for a row, in turns read and written.

    Has the methods of ``Ancestry``. A step writes no entry that it reads, so it may run twice.
    """

    def __init__(self, slots: int, rows_per_slot: int) -> None:
        self._rows = rows_per_slot
        self._turn_P = np.zeros(slots, np.int64)
        """Number of steps, modulo 2. State and entries of the first step are zeros."""

    def clear(self, first_slot: int, slots: int) -> None:
        self._turn_P[first_slot : first_slot + slots] = 0

    def move(self, origin: int, slot: int) -> None:
        self._turn_P[slot] = self._turn_P[origin]

    def highest(self, slots: slice) -> int:
        """Number of entries of a slot, all of which are in use."""
        return 2 * self._rows

    def lay_out(self, given: Layout, own: Pool, sentences: int, rows: int) -> None:
        for name in ("state_reads", "state_writes"):
            given.add(name, (sentences, rows), np.int64)

    def begin(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for name in ("state_reads", "state_writes"):
            arrays[name][...] = self._first(len(arrays[name]))

    def write(
        self, arrays: Mapping[str, NDArray[Any]], entries_BK: IntArray, hidden: float
    ) -> None:
        count = len(entries_BK)
        first_B1 = self._first(count)
        arrays["state_reads"][:count] = first_B1 + self._reads_BK
        arrays["state_writes"][:count] = first_B1 + entries_BK

    def append(self, parents_BK: IntArray) -> IntArray:
        """The entry that each row of the first B sentences writes, ``[B, K]``."""
        sentences, rows = parents_BK.shape
        turn_B1 = self._turn_P[:sentences, None]
        self._reads_BK = turn_B1 * self._rows + np.maximum(parents_BK, 0)
        return ((1 - turn_B1) * self._rows + np.arange(rows)).astype(np.int32)

    def commit(self) -> None:
        """Let the next step read what the last one has written."""
        written_B = self._turn_P[: len(self._reads_BK)]
        written_B[...] = 1 - written_B

    def _first(self, sentences: int) -> NDArray[np.int64]:
        """The first entry of each sentence in the array of all, ``[B, 1]``."""
        first: NDArray[np.int64] = np.arange(sentences)[:, None] * (2 * self._rows)
        return first


def _widened(array: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The array with one more zero word in the last dimension."""
    return np.concatenate((array, np.zeros_like(array[..., :1])), axis=-1)


def visible_source(lengths_B: NDArray[np.int64], length: int) -> NDArray[np.bool_]:
    """``[B, S]``: true for source tokens, false for padding."""
    seen: NDArray[np.bool_] = np.arange(length) < lengths_B[:, None]
    return seen


class BatchShortlist:
    """Shortlists of the sentences in all slots, and their union."""

    def __init__(self, shortlist: Shortlist, slots: int) -> None:
        self._shortlist = shortlist
        self._ids_P: list[Ids] = [np.zeros(0, np.int64)] * slots
        self._of: tuple[int, int] = (-1, -1)
        self.ids_L: Ids = np.zeros(0, np.int64)
        """The token id of each column, ascending."""
        self.bias_BL: FloatArray = np.zeros((0, 0), np.float32)
        """Logit bias that bars each sentence from tokens outside its own shortlist."""

    def put(self, first_slot: int, sources: Sequence[tuple[int, ...]]) -> None:
        for slot, source in enumerate(sources, first_slot):
            self._ids_P[slot] = self._shortlist.ids_for(source).astype(np.int64)

    def move(self, origin: int, slot: int) -> None:
        self._ids_P[slot] = self._ids_P[origin]

    def size(self, sentences: int, membership: int) -> int:
        """Number of columns for the first slots; ``membership`` changes with their sentences."""
        if self._of != (sentences, membership):
            own = self._ids_P[:sentences]
            allowed_V = np.zeros(self._shortlist.target_bound, np.bool_)
            for ids in own:
                allowed_V[ids] = True
            self.ids_L = np.flatnonzero(allowed_V)
            self.bias_BL = np.full((sentences, len(self.ids_L)), BARRED, np.float32)
            for bias_L, ids in zip(self.bias_BL, own, strict=True):
                bias_L[np.searchsorted(self.ids_L, ids)] = 0
            self._of = sentences, membership
        return len(self.ids_L)

    def columns(self, token_ids: NDArray[np.integer]) -> tuple[Ids, NDArray[np.bool_]]:
        """The column of each token, and whether it has one; otherwise the column is arbitrary."""
        columns = np.minimum(np.searchsorted(self.ids_L, token_ids), len(self.ids_L) - 1)
        return columns, self.ids_L[columns] == token_ids


class Layout:
    """Places arrays one behind the other in an exchange block."""

    def __init__(self, end: int = 0) -> None:
        self.end = end
        self.places: dict[str, tuple[int, tuple[int, ...], type[np.generic]]] = {}
        """Offset, shape and element type by name."""

    def add(self, name: str, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
        self.places[name] = self.end, shape, dtype
        size = math.prod(shape) * np.dtype(dtype).itemsize
        self.end += -(-size // ALIGNMENT) * ALIGNMENT


class KeptBindings(Generic[K, V]):
    """The bindings of the shapes used last, which ``clear`` forgets when arrays have moved."""

    def __init__(self) -> None:
        self._bindings: OrderedDict[K, V] = OrderedDict()

    def get(self, shape: K, bind: Callable[[], V]) -> V:
        """The binding of a shape, made by ``bind`` if none is kept."""
        if shape not in self._bindings:
            self._bindings[shape] = bind()
            if len(self._bindings) > _KEPT_BINDINGS:
                self._bindings.popitem(last=False)
        self._bindings.move_to_end(shape)
        return self._bindings[shape]

    def clear(self) -> None:
        self._bindings.clear()


class StepBinding:
    """Runs decode steps of at most one number of sentences, and one of rows and candidates.

    A smaller batch is padded with the sentences of earlier steps, whose results are not used.

    The blocks are shared by the bindings of all shapes. ``Exchange.holder`` is the binding of the
    last step.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        own: Pool,
        cross: Pool,
        places: Ancestry | RowStates,
        memory: Memory,
        inputs: Exchange,
        outputs: Exchange,
        sentences: int,
        rows: int,
        num_candidates: int,
    ) -> None:
        self._session = session
        self._places = places
        self._memory = memory
        self._inputs, self._outputs = inputs, outputs
        self._element = own.element
        self._hidden = HIDDEN[np.dtype(own.element).name]
        self._shape = sentences, rows
        self._sources_of = -1
        self._binding = session.io_binding()
        self._bound_at = 0, 0
        """Addresses of the exchange blocks that are bound."""
        self._edits_bound = -1
        """Number of edits that are bound."""
        self._asked = False
        """Whether the columns of an earlier step are in ``asked_columns``."""
        addresses = [address for pool in (own, cross) for _, address in pool.arrays()]
        self._identity = sentences, rows, num_candidates, own.length, cross.length, *addresses
        self._lay_out(own, cross, num_candidates)
        self._bind_host(num_candidates)
        for pool in (own, cross):
            for name, address in pool.arrays():
                shape = pool.shape(sentences)
                place = memory.device, memory.device_id, pool.element, shape, address
                self._binding.bind_input(name, *place)
                if pool is own:
                    self._binding.bind_output(f"updated_{name}", *place)

    def _lay_out(self, own: Pool, cross: Pool, num_candidates: int) -> None:
        sentences, rows = shape = self._shape
        given = Layout()
        # Inputs that change with the sentences only are first, and most steps do not copy them.
        given.add("cross_bias", (sentences, 1, rows, cross.length), own.element)
        self._each_step = given.end
        given.add("token_ids", shape, np.int32)
        given.add("positions", shape, np.int32)
        given.add("asked_columns", shape, np.int64)
        self._places.lay_out(given, own, sentences, rows)
        self._given = given
        self._no_edits = _layout_of(_NO_EDITS, given.end)
        found = Layout()
        found.add("candidate_columns", (*shape, num_candidates), np.int64)
        found.add("candidate_log_probs", (*shape, num_candidates), np.float32)
        found.add("asked_log_probs", shape, np.float32)
        self._without_attention = found.end
        found.add("source_attention", (*shape, cross.length), np.float32)
        self._found = found

    def _bind_host(self, num_candidates: int) -> None:
        """Bind what kernels and branches read on the host, wherever they run."""
        self._on_host: dict[str, NDArray[Any]] = {
            "num_candidates": np.array([num_candidates], np.int64),
            "scores_wanted": np.ones((), np.bool_),
            "edits_wanted": np.zeros((), np.bool_),
            "attention_wanted": np.zeros((), np.bool_),
            "shortlist_wanted": np.zeros((), np.bool_),
        }
        for name, array in self._on_host.items():
            self._bind_array(name, array)
        self._bind_shortlist(np.zeros(0, np.int64), np.zeros((self._shape[0], 0), np.float32))

    def _bind_shortlist(self, ids_L: Ids, bias_BL: FloatArray) -> None:
        # Kept: ONNX Runtime reads them by address. No shortlist is used on a GPU.
        self._shortlisted = ids_L, bias_BL
        self._bind_array("shortlist_ids", ids_L)
        self._bind_array("shortlist_bias", bias_BL)

    def _bind_array(self, name: str, array: NDArray[Any]) -> None:
        place = "cpu", 0, array.dtype.type, array.shape, array.ctypes.data
        self._binding.bind_input(name, *place)

    def run(
        self,
        batch: StepBatch,
        entries_BK: IntArray,
        lengths_P: NDArray[np.int64],
        shortlist: BatchShortlist | None,
        membership: int,
    ) -> Candidates:
        """Run one step. ``membership`` changes when the slots hold other sentences."""
        edits = _in_columns(batch.edits, shortlist)
        edits_layout = _layout_of(edits, self._given.end) if len(edits.rows_E) else self._no_edits
        self._take(edits_layout.end)
        arrays = self._arrays
        count = len(batch.tokens_BK)
        arrays["token_ids"][:count] = batch.tokens_BK
        arrays["positions"][:count] = batch.positions_B[:, None]
        self._places.write(arrays, entries_BK, self._hidden)
        start = self._each_step
        if self._sources_of != membership:
            start = 0
            self._show_sources(lengths_P, shortlist)
            self._sources_of = membership
        missing_BK = self._ask(batch.asked_BK, shortlist)
        self._on_host["edits_wanted"][...] = batch.edits is not None
        self._edit(edits, edits_layout)
        self._on_host["scores_wanted"][...] = batch.scores
        self._want_attention(batch.attention)
        self._inputs.send(start, edits_layout.end)
        # A captured graph has no edits, whose number varies.
        edited = len(edits.rows_E) > 0
        options = self._memory.run_options if edited else self._options
        run(self._session, self._binding, options)
        self._outputs.receive(self._found.end if batch.attention else self._without_attention)
        self._memory.wait()
        columns_BKN, log_probs_BKN, answers_BK, attention_BKS = (
            arrays[name][:count] for name in self._found.places
        )
        if missing_BK is not None:
            answers_BK[missing_BK] = -np.inf
        return Candidates(
            columns_BKN if shortlist is None else shortlist.ids_L[columns_BKN],
            log_probs_BKN,
            answers_BK,
            attention_BKS if batch.attention else None,
        )

    def _take(self, input_size: int) -> None:
        """Bind the exchange blocks if they have moved, and write the constants of this shape."""
        inputs, outputs = self._inputs, self._outputs
        inputs.reserve(input_size)
        outputs.reserve(self._found.end)
        if self._bound_at != (inputs.address, outputs.address):
            self._bind_blocks()
        if inputs.holder is self:
            return
        inputs.holder = self
        self._sources_of = -1
        # Sentences that pad the batch need valid indices.
        inputs.host[: self._given.end] = 0
        self._places.begin(self._arrays)

    def _bind_blocks(self) -> None:
        inputs, outputs = self._inputs, self._outputs
        self._bound_at = inputs.address, outputs.address
        self._options = self._memory.graph_options((*self._identity, *self._bound_at))
        self._edits_bound = -1
        self._arrays = {
            name: block.view(*place)
            for block, layout in ((inputs, self._given), (outputs, self._found))
            for name, place in layout.places.items()
        }
        for name in self._given.places:
            self._bind(name, self._given)
        for name, (offset, shape, dtype) in self._found.places.items():
            if name != "source_attention":
                self._bind_output(name, offset, shape, dtype)
        self._bind_attention()

    def _bind(self, name: str, layout: Layout) -> None:
        offset, shape, dtype = layout.places[name]
        memory, address = self._memory, self._inputs.address + offset
        self._binding.bind_input(name, memory.device, memory.device_id, dtype, shape, address)

    def _bind_output(
        self, name: str, offset: int, shape: tuple[int, ...], dtype: type[np.generic]
    ) -> None:
        memory, address = self._memory, self._outputs.address + offset
        self._binding.bind_output(name, memory.device, memory.device_id, dtype, shape, address)

    def _bind_attention(self) -> None:
        offset, shape, dtype = self._found.places["source_attention"]
        # In fp16, the graph has no branches and always computes the attention.
        computed = self._element == np.float16 or bool(self._on_host["attention_wanted"])
        self._bind_output("source_attention", offset, shape if computed else (0, 0, 0), dtype)

    def _want_attention(self, wanted: bool) -> None:
        if wanted != bool(self._on_host["attention_wanted"]):
            self._on_host["attention_wanted"][...] = wanted
            self._bind_attention()

    def _show_sources(self, lengths_P: NDArray[np.int64], shortlist: BatchShortlist | None) -> None:
        bias_B1KS = self._arrays["cross_bias"]
        sentences, _, _, length = bias_B1KS.shape
        hidden_BS = ~visible_source(lengths_P[:sentences], length)
        bias_B1KS[...] = (hidden_BS * bias_B1KS.dtype.type(self._hidden))[:, None, None]
        if shortlist is not None:
            self._on_host["shortlist_wanted"][...] = True
            self._bind_shortlist(shortlist.ids_L, shortlist.bias_BL)

    def _ask(
        self, asked_BK: IntArray | None, shortlist: BatchShortlist | None
    ) -> NDArray[np.bool_] | None:
        """Set the columns of ``asked_BK``; returns where the shortlist lacks the token."""
        columns_BK = self._arrays["asked_columns"]
        if asked_BK is None:
            if self._asked:
                # The shortlist of other sentences may have fewer columns.
                columns_BK[...] = 0
                self._asked = False
            return None
        self._asked = True
        if shortlist is None:
            columns_BK[: len(asked_BK)] = asked_BK
            return None
        columns_BK[: len(asked_BK)], there_BK = shortlist.columns(asked_BK)
        return ~there_BK

    def _edit(self, edits: Edits, layout: Layout) -> None:
        """Write the edits behind the other inputs."""
        count = len(edits.rows_E)
        if count != self._edits_bound:
            for name in layout.places:
                self._bind(name, layout)
            self._edits_bound = count
        if not count:
            return
        indices_E2, penalties_E, biases_E = (
            self._inputs.view(*place) for place in layout.places.values()
        )
        indices_E2[:, 0], indices_E2[:, 1] = edits.rows_E, edits.token_ids_E
        penalties_E[...], biases_E[...] = edits.penalties_E, edits.biases_E


_NO_EDITS = Edits(
    np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.float32), np.zeros(0, np.float32)
)


def _in_columns(edits: Edits | None, shortlist: BatchShortlist | None) -> Edits:
    """The edits with columns instead of token ids, without tokens that the shortlist lacks."""
    if edits is None:
        return _NO_EDITS
    if shortlist is None:
        return edits
    columns_E, there_E = shortlist.columns(edits.token_ids_E)
    return Edits(
        edits.rows_E[there_E],
        columns_E[there_E].astype(np.int32),
        edits.penalties_E[there_E],
        edits.biases_E[there_E],
    )


def _layout_of(edits: Edits, start: int) -> Layout:
    layout, count = Layout(start), len(edits.rows_E)
    layout.add("edit_indices", (count, 2), np.int64)
    layout.add("edit_penalties", (count,), np.float32)
    layout.add("edit_biases", (count,), np.float32)
    return layout
