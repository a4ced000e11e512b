"""The ``resident`` graph: a decode step that also ranks, refills and keeps the beams on the device.

It follows the rules of ``service.engine.search`` for sentences without constraints. It reads its
state and writes the next one, so that a step can be launched before the host has read the last.

    R  ranks, 2K    N  candidates of a row, 2K + 2    (other axes: models/bundle/graphs.py)

State has two buffers in turns: ONNX Runtime runs a step three times when it captures it, and no
node may overwrite what another has yet to read. Only keys and values, and states of SSRU, are
written in place, each time the same ones.
"""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto

from models.bundle.graphs import (
    ALWAYS_BAR,
    BARS,
    DEAD,
    EOS_BAR,
    EXTRA_CANDIDATES,
    FUSED_ROWS,
    UNK_BAR,
    resident_signature,
)
from models.bundle.manifest import Precision, SpecialIds
from models.export.builder import MICROSOFT, GraphBuilder, WeightFile
from models.export.emitter import HIDDEN, HIDDEN_FP16, Emitter
from models.export.graphs import dimensions_of
from models.transformer.config import TransformerConfig

MOST_ROWS = 8
"""The rule of refilling is a table of about 4 ** rows lines."""
_BARELY = -5e8
"""Sums below this mark places without a candidate."""


def build_resident(
    weights: WeightFile,
    config: TransformerConfig,
    precision: Precision,
    rows: int,
    special_ids: SpecialIds,
) -> onnx.ModelProto:
    """The graph for beams of at most ``rows``; its weights stay in the shared file.

    Raises ``ValueError`` for too many rows.
    """
    if not 1 <= rows <= MOST_ROWS:
        raise ValueError(f"a beam on the device has 1 to {MOST_ROWS} rows, not {rows}")
    emitter = Emitter(GraphBuilder(weights), config, precision)
    graph = _Resident(emitter, rows, special_ids)
    graph.begin()
    graph.rank(*graph.candidates(graph.decoder()))
    signature = resident_signature(dimensions_of(config), precision, rows)
    return emitter.graph.model(f"resident_{rows}", signature)


def refill_tables(rows: int) -> NDArray[np.int64]:
    """The rank that each position takes, by which of the 2K ranks are endings: ``[…, K]``.

    One table below the other for each narrower beam, in the order of widths, then that of ``rows``.
    The table of width K has a line for each of 4^K patterns; bit k is rank k. Rank k stays at
    position k unless it is an ending; the j-th free position takes the j-th rank beyond K that is
    none. Where there is none left, it takes an ending, whose row is dead.
    """
    tables = []
    for width in range(1, rows + 1):
        codes = np.arange(4**width)
        ended = codes[:, None] >> np.arange(2 * width) & 1 == 1
        spare = np.argsort(ended[:, width:], axis=1, kind="stable") + width
        free = ended[:, :width]
        j = np.maximum(np.cumsum(free, axis=1) - 1, 0)
        table = np.where(free, np.take_along_axis(spare, j, axis=1), np.arange(width))
        tables.append(np.pad(table, ((0, 0), (0, rows - width))))
    return np.concatenate(tables).astype(np.int64)


class _Resident:
    def __init__(self, emitter: Emitter, rows: int, special_ids: SpecialIds) -> None:
        self.e, self.g, self.config = emitter, emitter.graph, emitter.config
        self.rows, self.ids = rows, special_ids
        self.half = emitter.precision == "fp16"
        self.element: type[np.floating] = np.float16 if self.half else np.float32
        self.hidden = HIDDEN_FP16 if self.half else HIDDEN
        missing = emitter.missing_rows if self.half else 0
        self.columns = self.config.target_vocabulary + missing
        """Number of columns of the logits."""
        self.width = min(2 * rows + EXTRA_CANDIDATES, self.config.target_vocabulary)

    def begin(self) -> None:
        """Begin new sentences, and choose the cache entries or states of this step."""
        g, rows = self.g, self.rows
        new = g.op("Equal", "positions", g.constant(0, np.int64))
        first = g.constant([0, *[DEAD] * (rows - 1)], np.float32)
        self.sums = g.op("Where", new, first, "sums")
        self.tokens = g.op("Where", new, g.constant(self.ids.bos, np.int64), "tokens")
        if self.config.recurrent:
            # Whatever its parent is, a new sentence reads zeros, which its admission has written.
            self.reads = g.reshape(g.op("Add", "first_reads", "parents"), -1)
            self.writes = g.reshape("state_writes", -1, 1)
        else:
            self._choose_entries(new)
        # Positions stop at the last one, because the counter of an empty slot is never reset.
        length = self.config.max_length
        after = np.minimum(np.arange(1, length + 1), length - 1)
        g.op("Gather", g.tensor("position_after", after), "positions", into="next_positions")

    def _choose_entries(self, new: str) -> None:
        g, rows = self.g, self.rows
        hidden = g.constant(self.hidden, self.element)
        seen = g.op("Where", g.unsqueeze(new, 2), hidden, "self_bias")
        # The mean over rows is lowest where no row sees the entry; the first K of those are taken.
        # The batch is on the left of the product: broadcast there, ONNX Runtime copies pointers
        # from temporary host memory, which a captured graph would read again.
        scale = g.constant([[-1 / rows]] * rows, self.element)
        unseen = g.op("FusedMatMul", seen, scale, domain=MICROSOFT, transA=1)
        _, free = g.ops(
            "TopK",
            g.reshape(unseen, 0, -1),
            g.ints(rows),
            into=["", "entries"],
            axis=-1,
        )
        here = g.op("Equal", g.unsqueeze(free, 2), "entry_numbers")
        self.seen = g.op("Where", here, g.constant(0, self.element), seen)
        self.self_bias = self._padded(g.unsqueeze(self.seen, 1), 2, 4)
        last = g.op("Mul", g.unsqueeze(free, 2, 3), g.ints(0, 0, 1))
        self.write_indices = g.op("Add", "write_base", last)

    def decoder(self) -> str:
        e = self.e
        x = e.flat(e.embed("target", self.tokens, "positions"))
        return e.fused_decoder(x, self._recur if e.config.recurrent else self._attend, self._cross)

    def _recur(self, i: int, y: str) -> str:
        return self.e.recur(i, y, self.reads, self.writes)

    def _attend(self, i: int, y: str) -> str:
        e, g = self.e, self.g
        name = f"decoder.{i}.attention"
        query, *parts = e.split(e.linear(y, f"{name}.query_key_value", name), 3)
        shape = g.ints(-1, self.rows, *e.head_sizes)
        keys, values = e.extend(i, parts, shape, self.write_indices)
        return self._look(query, keys, values, self.self_bias)

    def _cross(self, i: int, y: str) -> str:
        name = f"decoder.{i}.cross"
        query = self.e.linear(y, f"{name}.query", name)
        return self._look(query, f"cross_keys.{i}", f"cross_values.{i}", "cross_bias")

    def _look(self, query: str, keys: str, values: str, bias: str) -> str:
        """Attention; ``bias`` has the rows of the fused kernel already."""
        e, g = self.e, self.g
        rows = self._padded(g.reshape(query, -1, self.rows, self.config.width), 1, 3)
        joined = e.attention(rows, keys, values, "", "", bias)
        if self.rows < FUSED_ROWS:
            zero, one = g.ints(0), g.ints(1)
            joined = g.op("Slice", joined, zero, g.ints(self.rows), one)
        return e.flat(joined)

    def _padded(self, x: str, axis: int, rank: int) -> str:
        """Zeros behind the rows, up to those of the fused kernel."""
        if self.rows == FUSED_ROWS:
            return x
        pads = [0] * (2 * rank)
        pads[rank + axis] = FUSED_ROWS - self.rows
        return self.g.op("Pad", x, self.g.ints(*pads))

    def candidates(self, x: str) -> tuple[str, str]:
        """Log-probabilities and token ids of the best candidates of each row, ``[B·K, N]``."""
        e, g, config = self.e, self.g, self.config
        early = g.op("Less", g.unsqueeze("positions", 2), "min_lengths")
        bars = g.op("Where", early, "early_bars", "bars")
        wide = g.op("Concat", x, g.reshape(bars, -1, BARS), axis=1)
        name = "generator" if config.tying == "none" else "target"
        # More columns of the matrix: a 1 there in a row's activations bars a token before the
        # softmax. It saves a copy of all logits.
        missing = self.columns - config.target_vocabulary
        shape = g.ints(self.columns, BARS)
        none = onnx.numpy_helper.from_array(np.zeros(1, self.element))
        # Rows that align the logits are barred by a column that is always 1.
        added = [[config.target_vocabulary + i, ALWAYS_BAR] for i in range(missing)]
        barred = g.op(
            "ScatterND",
            g.op("ConstantOfShape", shape, value=none),
            g.constant([[self.ids.eos, EOS_BAR], [self.ids.unk, UNK_BAR], *added], np.int64),
            g.constant([self.hidden] * (2 + missing), self.element),
        )
        matrix, *bias = e.matrix(name, "generator")
        if missing:
            rows = g.tensor("added_rows", np.zeros((missing, config.width), self.element))
            matrix = g.op("Concat", matrix, rows, axis=0)
            bias = [
                g.op("Concat", each, g.constant(np.zeros(missing), self.element), axis=0)
                for each in bias
            ]
        logits = g.op("Gemm", wide, g.op("Concat", matrix, barred, axis=1), *bias, transB=1)
        # The log-probability of the best one says what to subtract from the logits of the others,
        # so that logits in fp16 are not copied as floats.
        number = g.ints(self.width)
        best, columns = g.ops("TopK", logits, number, into=["", ""], axis=-1)
        zero, one = g.ints(0), g.ints(1)
        first, most = (g.op("Slice", each, zero, one, one) for each in (columns, best))
        likeliest = g.op("GatherElements", g.op("LogSoftmax", logits, axis=-1), first, axis=1)
        log_probs = g.op("Add", g.op("Sub", best, most), likeliest)
        if self.half:
            log_probs = g.op("Cast", log_probs, to=TensorProto.FLOAT)
        return log_probs, columns

    def rank(self, best: str, columns: str) -> None:
        """Rank the candidates of each sentence, and write the next state and the record."""
        g, rows, width, ids = self.g, self.rows, self.width, self.ids
        never = g.op(
            "ScatterElements",
            g.op("ConstantOfShape", g.ints(self.columns)),
            g.ints(ids.bos, ids.pad),
            g.constant([DEAD, DEAD], np.float32),
        )
        totals = g.op("Add", best, g.reshape(self.sums, -1, 1))
        totals = g.op("Add", totals, g.op("Gather", never, columns))
        # NaN is not greater than any number. The lowest number is finite: CUDA's TopK fills its
        # rows up with the lowest finite one, which would come before −∞.
        some = g.op("Greater", totals, g.constant(_BARELY, np.float32))
        totals = g.op("Where", some, totals, g.constant(DEAD, np.float32))
        sums_BR, places_BR = g.ops(
            "TopK",
            g.reshape(totals, -1, rows * width),
            g.ints(2 * rows),
            into=["rank_sums", "rank_places"],
            axis=-1,
        )
        tokens_BR = g.op(
            "GatherElements",
            g.reshape(columns, -1, rows * width),
            places_BR,
            axis=1,
            into="rank_tokens",
        )
        ended = g.op("Equal", tokens_BR, g.constant(ids.eos, np.int64))
        ended = g.unsqueeze(g.op("Cast", ended, to=TensorProto.FLOAT), 1)
        code = g.op("Cast", g.op("MatMul", ended, "powers"), to=TensorProto.INT64)
        line = g.op("Add", code, "first_lines")
        ranks = g.op("Gather", g.tensor("refill", refill_tables(rows)), line)
        ranks = g.reshape(ranks, -1, rows)
        sums = g.op("GatherElements", sums_BR, ranks, axis=1)
        g.op("Add", sums, "row_bias", into="next_sums")
        g.op("GatherElements", tokens_BR, ranks, axis=1, into="next_tokens")
        places = g.op("GatherElements", places_BR, ranks, axis=1)
        into = "next_parents" if self.config.recurrent else ""
        parents = g.op("Div", places, g.constant(width, np.int64), into=into)
        if not self.config.recurrent:
            lines = g.unsqueeze(parents, 2)
            g.op("GatherND", self.seen, lines, batch_dims=1, into="next_self_bias")
