"""Schema of a bundle's ``manifest.json``, as validated pydantic models.

``SCHEMA`` changes when an old reader would misread the manifest, not when a field is added.
"""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from models.bundle.languages import PRIVATE_USE, canonical

SCHEMA = 2

Precision = Literal["fp32", "int8", "fp16"]
LengthNormalisation = Literal["power", "gnmt"]
DecoderKind = Literal["self-attention", "ssru"]
"""First sub-layer of each decoder layer; SSRU is a recurrence (Kim et al. 2019)."""
GraphName = Literal["encoder", "step", "attention", "resident"]
GRAPHS: tuple[GraphName, ...] = ("encoder", "step", "attention")
"""The graphs of every precision, each in the file ``<graph>.<precision>.onnx``."""


class InvalidBundle(Exception):
    """The bundle cannot be served; the message gives the reason."""


def _plain_name(name: str) -> str:
    if PurePosixPath(name).name != name or name in {"", ".", ".."} or "\\" in name:
        raise ValueError(f"{name!r} is not the plain name of a file in the bundle")
    return name


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Dimensions(_Part):
    """Dimensions of the network. ``vocabulary_size`` is the target side's."""

    encoder_layers: int = Field(ge=1)
    decoder_layers: int = Field(ge=1)
    width: int = Field(ge=1)
    heads: int = Field(ge=1)
    feed_forward: int = Field(ge=1)
    vocabulary_size: int = Field(ge=1)
    source_vocabulary_size: int | None = Field(default=None, ge=1)
    """``None``: the same as ``vocabulary_size``."""
    decoder: DecoderKind = "self-attention"

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} does not divide into {self.heads} heads")
        return self

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def recurrent(self) -> bool:
        """Whether decoder layers have a state per row instead of self-attention."""
        return self.decoder == "ssru"

    @property
    def source_vocabulary(self) -> int:
        """The number of token ids of the source side."""
        return self.source_vocabulary_size or self.vocabulary_size


class SpecialIds(_Part):
    """Special token ids of both sides. ``bos`` starts decoding; ``eos`` ends source and target.

    A search never chooses ``bos`` or ``pad``.
    """

    pad: int = Field(ge=0)
    unk: int = Field(ge=0)
    bos: int = Field(ge=0)
    eos: int = Field(ge=0)


class Direction(_Part):
    """A language pair that the network translates. Codes are canonical BCP 47.

    Prefixes are token ids that control the network, such as a tag of the target language. They are
    never part of a text.
    """

    source: Annotated[str, AfterValidator(canonical)]
    target: Annotated[str, AfterValidator(canonical)]
    source_prefix: tuple[int, ...] = ()
    """Token ids prepended to the source's tokens."""
    target_prefix: tuple[int, ...] = ()
    """Token ids forced after ``bos``, before the search chooses."""
    source_eos: bool = True
    """Whether ``eos`` ends the source. Networks of OpenNMT-py are trained without it."""

    def source_ids(self, text_ids: tuple[int, ...], eos: int) -> tuple[int, ...]:
        """The encoder's input for the tokens of a text."""
        source_ids = (*self.source_prefix, *text_ids)
        # The encoder needs a token. A text without any is blank.
        return (*source_ids, eos) if self.source_eos or not source_ids else source_ids

    @property
    def private_use(self) -> bool:
        """Whether the source language is a private-use one, whose words may be digits."""
        return self.source.startswith(PRIVATE_USE)


class SentenceLimits(_Part):
    """Maximum tokens of source and target, prefixes and ``eos`` included."""

    source_length: int = Field(ge=1)
    target_length: int = Field(ge=1)


WIDEST_BEAM = 64
"""Publication decodes with the beam size of a bundle, whose memory grows with it."""


class DecodingDefaults(_Part):
    """Decoding options of a request that sets none. Names are CTranslate2's."""

    beam_size: int = Field(default=4, ge=1, le=WIDEST_BEAM)
    length_penalty: float = Field(default=1.0, ge=-10, le=10, allow_inf_nan=False)
    length_normalisation: LengthNormalisation = "power"
    """The divisor of the score of a hypothesis of T tokens: T^penalty; with ``gnmt``,
    ((5 + T) / 6)^penalty."""
    copy_without_letters: bool | None = None
    """Whether sentences without letters, and bare codes, are copied to the translation. ``None``
    copies them, unless the source is a private-use language (``x-…``)."""
    keep_figures: bool | None = None
    """Whether the finished hypothesis that keeps the figures of the source is preferred. ``None``
    prefers it, unless the source is a private-use language."""


class AlignmentSource(_Part):
    """The cross-attention map, averaged over heads, that gives the best word alignment."""

    head: int | None = Field(default=None, ge=0)
    """The only head that has learned alignments, counted from 0. ``None``: their mean."""

    layer: int = Field(ge=0)
    """Decoder layer, counted from 0."""
    shifted: bool = False
    """Whether a target token's row of the map is the position that reads it, not the one that
    predicts it."""


class File(_Part):
    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Example(_Part):
    """A sentence that the bundle must translate exactly, by precision. Also warms up an engine.

    ``source_ids`` begins with the direction's prefix and ends with ``eos``; ``target_ids`` has
    neither ``bos`` nor ``eos`` nor a prefix.
    """

    source: str
    target: str
    source_ids: tuple[int, ...] = Field(min_length=1)
    target_ids: dict[Precision, tuple[int, ...]]
    direction: int = Field(default=0, ge=0)
    """Index into the manifest's directions, counted from 0."""


class Score(_Part):
    """A measured quality score; ``signature`` is the metric's own description of its settings.

    For a score that others have published, it names the publication.
    """

    metric: str
    value: float
    test_set: str
    precision: Precision
    beam_size: int
    """0 if it is not known, as that of a published score."""
    signature: str


class Corpus(_Part):
    name: str
    licence: str
    pairs: int


class Provenance(_Part):
    """Origin of the bundle, for readers. It does not influence the service."""

    recipe: str
    commit: str
    created: str
    data: tuple[Corpus, ...] = ()
    scores: tuple[Score, ...] = ()
    description: str = ""
    """Abilities and limits of the model, in Markdown."""
    strength: float = Field(default=1.0, gt=0, le=1)
    """Share of the trained weights; the remainder are those that training began with."""
    origin: str = ""
    """Origin of an imported model, such as ``hf:Helsinki-NLP/opus-mt-de-en at 1a2b3c``."""


class Manifest(_Part):
    """The content of ``manifest.json``."""

    schema_number: Literal[2] = Field(default=2, alias="schema")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    version: str = Field(min_length=1)
    directions: tuple[Direction, ...] = Field(min_length=1)
    dimensions: Dimensions
    special_ids: SpecialIds
    limits: SentenceLimits
    precisions: tuple[Precision, ...] = Field(min_length=1)
    int8_fits_16_bits: bool = False
    """Whether sums of two products of the int8 weights fit in 16 bits, as
    ``models.export.weights`` quantises them."""
    decoding: DecodingDefaults = DecodingDefaults()
    alignment: AlignmentSource | None = None
    """``None``: the last layer, not shifted, which is best for small networks."""
    examples: tuple[Example, ...] = ()
    provenance: Provenance
    files: dict[Annotated[str, AfterValidator(_plain_name)], File] = {}

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    def score(self, source: str, target: str) -> float | None:
        """BLEU on FLORES devtest of a direction, as recorded last; ``None`` if it has none."""
        names = ("flores/devtest", f"flores/devtest, {source}-{target}")
        found = [
            score.value
            for score in self.provenance.scores
            if score.metric == "BLEU" and score.test_set in names
        ]
        return found[-1] if found else None

    @model_validator(mode="after")
    def _directions_differ(self) -> Self:
        seen: set[tuple[str, str]] = set()
        for direction in self.directions:
            pair = direction.source, direction.target
            if pair in seen:
                raise ValueError(f"directions has {'-'.join(pair)} twice")
            seen.add(pair)
        return self

    @model_validator(mode="after")
    def _examples_are_of_a_direction(self) -> Self:
        for example in self.examples:
            if example.direction >= len(self.directions):
                raise ValueError(
                    f"the example {example.source!r} is of direction {example.direction}, counted "
                    f"from 0; there are {len(self.directions)}"
                )
            prefix = self.directions[example.direction].source_prefix
            if example.source_ids[: len(prefix)] != prefix:
                raise ValueError(
                    f"the source_ids of the example {example.source!r} lack the source_prefix of "
                    "its direction"
                )
        return self

    @model_validator(mode="after")
    def _ids_are_in_the_vocabulary(self) -> Self:
        special, shape = self.special_ids, self.dimensions
        both = {special.pad, special.unk, special.bos, special.eos}
        source, target = set(both), set(both)
        for direction in self.directions:
            source.update(direction.source_prefix)
            target.update(direction.target_prefix)
        for example in self.examples:
            source.update(example.source_ids)
            target.update(*example.target_ids.values())
        for side, ids, size in (
            ("source", source, shape.source_vocabulary),
            ("target", target, shape.vocabulary_size),
        ):
            outside = sorted(i for i in ids if not 0 <= i < size)
            if outside:
                raise ValueError(f"{outside[0]} is not a token id of a {side} vocabulary of {size}")
        return self

    @model_validator(mode="after")
    def _prefixes_leave_room(self) -> Self:
        special = self.special_ids
        for direction in self.directions:
            for name, prefix, limit in (
                ("source_prefix", direction.source_prefix, self.limits.source_length),
                ("target_prefix", direction.target_prefix, self.limits.target_length),
            ):
                where = f"the {name} of {direction.source}-{direction.target}"
                if {special.pad, special.bos, special.eos}.intersection(prefix):
                    raise ValueError(f"{where} has pad, bos or eos, which it cannot have")
                # At least one token of the text and eos follow the prefix.
                if len(prefix) + 2 > limit:
                    raise ValueError(
                        f"{where} leaves no room for a text in a limit of {limit} tokens"
                    )
        return self

    @model_validator(mode="after")
    def _alignment_is_of_a_layer(self) -> Self:
        layers = self.dimensions.decoder_layers
        if self.alignment is not None and self.alignment.layer >= layers:
            raise ValueError(
                f"alignment is read off layer {self.alignment.layer}, counted from 0; "
                f"the decoder has {layers}"
            )
        heads = self.dimensions.heads
        if self.alignment is not None and (self.alignment.head or 0) >= heads:
            raise ValueError(
                f"alignment is read off head {self.alignment.head}, counted from 0; there are "
                f"{heads}"
            )
        return self

    @property
    def alignment_source(self) -> AlignmentSource:
        """The alignment source of the manifest, or the default."""
        return self.alignment or AlignmentSource(layer=self.dimensions.decoder_layers - 1)

    def to_json(self) -> str:
        return self.model_dump_json(indent=2, by_alias=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read a manifest; raises ``InvalidBundle`` naming every field that is wrong."""
        try:
            document: Any = json.loads(text)
            # Raises for a lone surrogate, which no file could have.
            json.dumps(document, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as error:
            raise InvalidBundle(f"the manifest is not JSON: {error}") from error
        if not isinstance(document, dict):
            raise InvalidBundle("the manifest is not a JSON object")
        if document.get("schema") != SCHEMA:
            raise InvalidBundle(
                f"manifest has schema {document.get('schema')}; this reader knows {SCHEMA}: export "
                "the model again with `python -m training export`"
            )
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise InvalidBundle(f"manifest does not fit: {wrong}") from error
