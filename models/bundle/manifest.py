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

from models.bundle.languages import canonical

SCHEMA = 1

Precision = Literal["fp32", "int8", "fp16"]
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

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} does not divide into {self.heads} heads")
        return self

    @property
    def head_width(self) -> int:
        return self.width // self.heads


class SpecialIds(_Part):
    """``bos`` starts the decoder; ``eos`` ends the source and the target."""

    pad: int = Field(ge=0)
    unk: int = Field(ge=0)
    bos: int = Field(ge=0)
    eos: int = Field(ge=0)


class SentenceLimits(_Part):
    """Tokens the network can read and write, ``eos`` included."""

    source_length: int = Field(ge=1)
    target_length: int = Field(ge=1)


class DecodingDefaults(_Part):
    """What a request that says nothing gets. Names are CTranslate2's."""

    beam_size: int = Field(default=4, ge=1)
    length_penalty: float = 1.0


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

    ``source_ids`` ends with ``eos``; ``target_ids`` has neither ``bos`` nor ``eos``.
    """

    source: str
    target: str
    source_ids: tuple[int, ...] = Field(min_length=1)
    target_ids: dict[Precision, tuple[int, ...]]


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


class Manifest(_Part):
    """``manifest.json``. Languages are canonical BCP 47 codes, see ``models.bundle.languages``."""

    schema_number: Literal[1] = Field(default=1, alias="schema")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    version: str = Field(min_length=1)
    source: Annotated[str, AfterValidator(canonical)]
    target: Annotated[str, AfterValidator(canonical)]
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
    def _ids_are_in_the_vocabulary(self) -> Self:
        special = self.special_ids
        ids = {special.pad, special.unk, special.bos, special.eos}
        for example in self.examples:
            ids.update(example.source_ids, *example.target_ids.values())
        outside = sorted(i for i in ids if not 0 <= i < self.dimensions.vocabulary_size)
        if outside:
            raise ValueError(
                f"{outside[0]} is not a token id of a vocabulary of "
                f"{self.dimensions.vocabulary_size}"
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
                f"manifest has schema {document.get('schema')}; this reader knows {SCHEMA}"
            )
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
            raise InvalidBundle(f"manifest does not fit: {wrong}") from error
