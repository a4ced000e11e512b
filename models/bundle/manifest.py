"""The manifest: what a bundle says about itself.

``SCHEMA`` changes when a reader of the old kind would go wrong, not when a field is added.
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
GraphName = Literal["encoder", "step", "attention"]
GRAPHS: tuple[GraphName, ...] = ("encoder", "step", "attention")
"""The three graphs of every precision; ``<graph>.<precision>.onnx`` is the file of each."""


class InvalidBundle(Exception):
    """The bundle cannot be served, and why."""


def _plain_name(name: str) -> str:
    if PurePosixPath(name).name != name or name in {"", ".", ".."} or "\\" in name:
        raise ValueError(f"{name!r} is not the plain name of a file in the bundle")
    return name


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Dimensions(_Part):
    """The shape of the network. ``vocabulary_size`` is of the target side."""

    encoder_layers: int = Field(ge=1)
    decoder_layers: int = Field(ge=1)
    width: int = Field(ge=1)
    heads: int = Field(ge=1)
    feed_forward: int = Field(ge=1)
    vocabulary_size: int = Field(ge=1)
    source_vocabulary_size: int | None = Field(default=None, ge=1)
    """``None``: the same as the target's."""

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} does not divide into {self.heads} heads")
        return self

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    @property
    def source_vocabulary(self) -> int:
        """The number of the source side's token ids."""
        return self.source_vocabulary_size or self.vocabulary_size


class SpecialIds(_Part):
    """``bos`` starts the decoder; ``eos`` ends the source and the target. Of both sides.

    A search never chooses ``bos`` or ``pad``.
    """

    pad: int = Field(ge=0)
    unk: int = Field(ge=0)
    bos: int = Field(ge=0)
    eos: int = Field(ge=0)


class Direction(_Part):
    """A pair of languages that the network translates. Codes are canonical BCP 47.

    Prefixes are token ids that tell the network what is wanted, such as a tag of the target
    language. They are never part of a text.
    """

    source: Annotated[str, AfterValidator(canonical)]
    target: Annotated[str, AfterValidator(canonical)]
    source_prefix: tuple[int, ...] = ()
    """Put before the source's own tokens."""
    target_prefix: tuple[int, ...] = ()
    """What the decoder is fed after ``bos`` before it may choose."""

    @property
    def private_use(self) -> bool:
        """Whether the source language is one of private use, whose words may be digits."""
        return self.source.startswith(PRIVATE_USE)


class SentenceLimits(_Part):
    """Tokens the network can read and write, prefixes and ``eos`` included."""

    source_length: int = Field(ge=1)
    target_length: int = Field(ge=1)


class DecodingDefaults(_Part):
    """What a request that says nothing gets. Names are CTranslate2's."""

    beam_size: int = Field(default=4, ge=1)
    length_penalty: float = 1.0
    length_normalisation: LengthNormalisation = "power"
    """What a hypothesis of T tokens is divided by: T^penalty; with ``gnmt``,
    ((5 + T) / 6)^penalty."""
    copy_without_letters: bool | None = None
    """Whether sentences without letters, and bare codes, are copied to the translation. ``None``
    copies them, unless the source is a private-use language (``x-…``)."""
    keep_figures: bool | None = None
    """Whether the finished hypothesis that keeps the figures of the source is preferred. ``None``
    prefers it, unless the source is a private-use language."""


class AlignmentSource(_Part):
    """Which map tells best what each word of a translation comes from, its heads averaged."""

    layer: int = Field(ge=0)
    """Of the decoder, counted from 0."""
    shifted: bool = False
    """Whether to look where the decoder is fed a token rather than where it predicts it."""


class File(_Part):
    size: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class Example(_Part):
    """A sentence the bundle must translate exactly, by precision. Warms up a fresh engine, too.

    ``source_ids`` begins with the direction's prefix and ends with ``eos``; ``target_ids`` has
    neither ``bos`` nor ``eos`` nor a prefix.
    """

    source: str
    target: str
    source_ids: tuple[int, ...] = Field(min_length=1)
    target_ids: dict[Precision, tuple[int, ...]]
    direction: int = Field(default=0, ge=0)
    """Which of the manifest's directions it is of, counted from 0."""


class Score(_Part):
    """A measured quality, as published: the metric's own signature says how."""

    metric: str
    value: float
    test_set: str
    precision: Precision
    beam_size: int
    signature: str


class Corpus(_Part):
    name: str
    licence: str
    pairs: int


class Provenance(_Part):
    """Where the bundle comes from. For people; the service decides nothing by it."""

    recipe: str
    commit: str
    created: str
    data: tuple[Corpus, ...] = ()
    scores: tuple[Score, ...] = ()
    description: str = ""
    """What the model can and cannot do, in Markdown."""


class Manifest(_Part):
    """``manifest.json``."""

    schema_number: Literal[2] = Field(default=2, alias="schema")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    version: str = Field(min_length=1)
    directions: tuple[Direction, ...] = Field(min_length=1)
    dimensions: Dimensions
    special_ids: SpecialIds
    limits: SentenceLimits
    precisions: tuple[Precision, ...] = Field(min_length=1)
    decoding: DecodingDefaults = DecodingDefaults()
    alignment: AlignmentSource | None = None
    """``None``: the last layer where it predicts, which is best for small networks."""
    examples: tuple[Example, ...] = ()
    provenance: Provenance
    files: dict[Annotated[str, AfterValidator(_plain_name)], File] = {}

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

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
                # A token of the text and eos have to follow it.
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
        return self

    @property
    def alignment_source(self) -> AlignmentSource:
        """What to read alignments off."""
        return self.alignment or AlignmentSource(layer=self.dimensions.decoder_layers - 1)

    def to_json(self) -> str:
        return self.model_dump_json(indent=2, by_alias=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """Read a manifest; raises ``InvalidBundle`` naming every field that is wrong."""
        try:
            document: Any = json.loads(text)
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
