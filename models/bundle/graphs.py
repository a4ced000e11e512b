"""Signatures of a bundle's ONNX graphs: names, element types and shapes of inputs and outputs.

Training writes graphs with these signatures; the service refuses other graphs. Shapes are
symbolic where they vary:

    B  sentences          K  rows (hypotheses) of a sentence      S, T  source, target positions
    C  entries of the decoder's own cache, shared by the rows of a sentence; of states: of all
       sentences
    N  candidates per row           E  edited logits               L  tokens of a shortlist

``encoder``    source ids → the keys and values of cross-attention, once per sentence.
``step``       extends K rows of B sentences by one token. Every row appends its key and value to
               its sentence's cache at a free entry that the caller chooses (``write_indices``) and
               sees the entries of its own ancestors (``self_bias``), so that a cache is never
               reordered when beams fork. Returns the best N next tokens of each row.
               Without ``scores_wanted`` (greedy search needs none) and without edits,
               ``candidate_log_probs`` are logits.
               ``edit_*`` change single logits before the softmax, if ``edits_wanted``: at E places
               (b·K + k, column) a penalty that divides positive and multiplies negative logits,
               then a bias.
               ``asked_columns`` is one more token per row whose log-probability is returned.
               Columns are token ids or, where ``shortlist_wanted``, places in ``shortlist_ids``;
               ``shortlist_bias`` masks the tokens that are in other sentences' shortlists only.
               With ``attention_wanted`` it also returns the last layer's attention, averaged over
               heads. In fp16, which is for GPUs, scores, attention and edits are always computed,
               and there is no shortlist.
               Decoder layers of SSRU have no keys and values of their own. Row k reads the state
               of its parent at entry ``state_reads`` and writes its own at ``state_writes``, which
               no row of the step reads, so that a step can be repeated.
``resident``   optional, for GPUs: ``step``, and then the ranking of ``service.engine.search`` for
               sentences without constraints, with the state of the beams as inputs and outputs.
               Made for one greatest beam width K; R is 2K. Two buffers of state take turns.
               State: ``positions``, the tokens written so far (0 begins a sentence, whatever the
               other state is); ``sums`` of log-probabilities, ``DEAD`` without a hypothesis; the
               last ``tokens``; ``self_bias``, 0 for the entries that a row sees; with SSRU instead
               ``parents``, the row whose state each row continues.
               Membership, which changes with the sentences: ``cross_bias``, with rows for the fused
               kernel; ``row_bias``, 0 for the rows of a sentence's beam and ``DEAD`` for others;
               ``powers``, 2^rank for the ranks of its beam and 0 for others; ``first_lines``,
               where the refilling rules of its beam begin; ``min_lengths``; ``early_bars`` until
               then and ``bars`` after: 1 bars ``eos`` (column 0) and ``unk`` (column 1).
               Constants of a shape: ``entry_numbers``, 0 … C − 1; ``write_base``, (b, head, 0).
               With SSRU, of a turn: ``first_reads``, the entry of a sentence's first parent, and
               ``state_writes``; ``step`` says which entries these are.
               Record of a step: ``rank_places``, row · N + candidate; ``rank_tokens``;
               ``rank_sums``; without SSRU ``entries``, where the rows of this step were written.
``attention``  a teacher-forced pass over source and target: every attention map of every layer
               and head, the log-probability of each target token, and the entropy in nats of the
               distribution that it was drawn from. A bundle may lack the entropies.

Keys, values and biases are ``float16`` in fp16, else ``float``; log-probabilities always ``float``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from models.bundle.manifest import Dimensions, GraphName, InvalidBundle, Precision

ElementType = Literal["float", "float16"]

DEAD = -1e30
"""Sum of log-probabilities in the resident graph where there is no hypothesis."""
BARS = 8
"""Columns of ``bars``. A multiple of 8 keeps matrix products aligned."""
EOS_BAR, UNK_BAR, ALWAYS_BAR = 0, 1, 2
"""Columns in use: ``eos``, ``unk``, and columns of the logits that stand for no token."""
EXTRA_CANDIDATES = 2
"""Candidates of each row beyond the ranks, because ``bos`` and ``pad`` are not ranked."""
ENTROPIES = "target_entropies"
"""Output of ``attention`` that graphs may lack."""
FUSED_ROWS = 8
"""CUTLASS's attention is one launch if the number of rows is a multiple of this."""


@dataclass(frozen=True, slots=True)
class TensorType:
    element: str
    shape: tuple[int | str | None, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]


def element_type(precision: Precision) -> ElementType:
    """The element type of keys, values, biases and maps."""
    return "float16" if precision == "fp16" else "float"


def signature(graph: GraphName, dimensions: Dimensions, precision: Precision) -> Signature:
    """The signature of one of ``GRAPHS`` in one precision."""
    element = element_type(precision)
    heads, head_width = dimensions.heads, dimensions.head_width
    layers = range(dimensions.decoder_layers)
    cross = TensorType(element, ("B", heads, "S", head_width))
    source_ids = {"source_ids": TensorType("int32", ("B", "S"))}
    cross_cache = {f"cross_{kind}.{i}": cross for i in layers for kind in ("keys", "values")}
    if graph == "encoder":
        return Signature(source_ids, cross_cache)
    if graph == "step":
        own_inputs, own = _decoder_cache(dimensions, element)
        return Signature(
            {
                "token_ids": TensorType("int32", ("B", "K")),
                "positions": TensorType("int32", ("B", "K")),
                **own_inputs,
                "cross_bias": TensorType(element, ("B", 1, "K", "S")),
                "num_candidates": TensorType("int64", (1,)),
                "scores_wanted": TensorType("bool", ()),
                "edits_wanted": TensorType("bool", ()),
                "edit_indices": TensorType("int64", ("E", 2)),
                "edit_penalties": TensorType("float", ("E",)),
                "edit_biases": TensorType("float", ("E",)),
                "asked_columns": TensorType("int64", ("B", "K")),
                "attention_wanted": TensorType("bool", ()),
                "shortlist_wanted": TensorType("bool", ()),
                "shortlist_ids": TensorType("int64", ("L",)),
                "shortlist_bias": TensorType("float", ("B", "L")),
                **own,
                **cross_cache,
            },
            {
                "candidate_log_probs": TensorType("float", ("B", "K", "N")),
                "candidate_columns": TensorType("int64", ("B", "K", "N")),
                "asked_log_probs": TensorType("float", ("B", "K")),
                "source_attention": TensorType("float", (None, None, None)),
                **{f"updated_{name}": tensor for name, tensor in own.items()},
            },
        )
    encoder_layers, decoder_layers = dimensions.encoder_layers, dimensions.decoder_layers
    maps = {
        "encoder_attention": TensorType(element, ("B", encoder_layers, heads, "S", "S")),
        "decoder_attention": TensorType(element, ("B", decoder_layers, heads, "T", "T")),
        "cross_attention": TensorType(element, ("B", decoder_layers, heads, "T", "S")),
    }
    if dimensions.recurrent:
        del maps["decoder_attention"]
    return Signature(
        {
            **source_ids,
            "target_input_ids": TensorType("int32", ("B", "T")),
            "target_output_ids": TensorType("int32", ("B", "T")),
        },
        {
            **maps,
            "target_log_probs": TensorType("float", ("B", "T")),
            ENTROPIES: TensorType("float", ("B", "T")),
        },
    )


def _decoder_cache(
    dimensions: Dimensions, element: ElementType
) -> tuple[dict[str, TensorType], dict[str, TensorType]]:
    """Inputs of a step that address the decoder's own cache, and the arrays of the cache."""
    layers = range(dimensions.decoder_layers)
    if dimensions.recurrent:
        entries = TensorType("int64", ("B", "K"))
        state = TensorType(element, ("C", dimensions.width))
        return {"state_reads": entries, "state_writes": entries}, {
            f"state.{i}": state for i in layers
        }
    heads = dimensions.heads
    own = TensorType(element, ("B", heads, "C", dimensions.head_width))
    return {
        "self_bias": TensorType(element, ("B", 1, "K", "C")),
        "write_indices": TensorType("int64", ("B", "K", heads, 3)),
    }, {f"self_{kind}.{i}": own for i in layers for kind in ("keys", "values")}


def resident_signature(dimensions: Dimensions, precision: Precision, rows: int) -> Signature:
    """The signature of the resident graph for beams of at most ``rows``."""
    element = element_type(precision)
    heads = dimensions.heads
    _, own = _decoder_cache(dimensions, element)
    state = {
        "positions": TensorType("int64", ("B", 1)),
        "sums": TensorType("float", ("B", rows)),
        "tokens": TensorType("int64", ("B", rows)),
    }
    entries = TensorType("int64", ("B", rows))
    if dimensions.recurrent:
        state["parents"] = entries
        constants = {"first_reads": TensorType("int64", ("B", 1)), "state_writes": entries}
    else:
        state["self_bias"] = TensorType(element, ("B", rows, "C"))
        constants = {
            "entry_numbers": TensorType("int64", ("C",)),
            "write_base": TensorType("int64", ("B", 1, heads, 3)),
        }
    return Signature(
        {
            **state,
            "cross_bias": TensorType(element, ("B", 1, max(rows, FUSED_ROWS), "S")),
            "row_bias": TensorType("float", ("B", rows)),
            "powers": TensorType("float", ("B", 2 * rows, 1)),
            "first_lines": TensorType("int64", ("B", 1, 1)),
            "min_lengths": TensorType("int64", ("B", 1, 1)),
            "early_bars": TensorType(element, ("B", rows, BARS)),
            "bars": TensorType(element, ("B", rows, BARS)),
            **constants,
            **own,
            **signature("encoder", dimensions, precision).outputs,
        },
        {
            **{f"next_{name}": tensor for name, tensor in state.items()},
            **{f"updated_{name}": tensor for name, tensor in own.items()},
            "rank_places": TensorType("int64", ("B", 2 * rows)),
            "rank_tokens": TensorType("int64", ("B", 2 * rows)),
            "rank_sums": TensorType("float", ("B", 2 * rows)),
            **({} if dimensions.recurrent else {"entries": entries}),
        },
    )


def check_signature(where: str, expected: Signature, found: Signature) -> None:
    """Raises ``InvalidBundle`` naming every input and output of ``where`` that differs.

    A symbolic dimension must be symbolic in both; its name is not compared. Only ``ENTROPIES`` may
    be missing.
    """
    wrong: list[str] = []
    for side, wanted, given in (
        ("input", expected.inputs, found.inputs),
        ("output", expected.outputs, found.outputs),
    ):
        wrong += [f"{side} {name} is missing" for name in wanted if name not in {*given, ENTROPIES}]
        wrong += [f"{side} {name} is unknown" for name in given if name not in wanted]
        wrong += [
            f"{side} {name} is {_to_text(given[name])}, not {_to_text(wanted[name])}"
            for name in wanted
            if name in given and not _agree(wanted[name], given[name])
        ]
    if wrong:
        raise InvalidBundle(f"{where} does not fit its manifest: {'; '.join(wrong)}")


def _agree(wanted: TensorType, given: TensorType) -> bool:
    return (
        wanted.element == given.element
        and len(wanted.shape) == len(given.shape)
        and all(
            given_size == size if isinstance(size, int) else not isinstance(given_size, int)
            for size, given_size in zip(wanted.shape, given.shape, strict=True)
        )
    )


def _to_text(tensor: TensorType) -> str:
    return f"{tensor.element}[{', '.join(map(str, tensor.shape))}]"
