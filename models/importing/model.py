"""Data model of an imported checkpoint of any kind, before its publication as a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from models.bundle.manifest import AlignmentSource, DecodingDefaults
from models.bundle.shortlist import Shortlist
from models.export.weights import Integers
from models.importing.checkpoint import Checkpoint
from models.importing.languages import Languages
from models.importing.refusals import UnsupportedCheckpoint
from models.reference.transformer import ReferenceTransformer


@dataclass(frozen=True, slots=True)
class Imported:
    kind: str
    """Its class in ``library``."""
    network: ReferenceTransformer
    source_model: bytes
    """A SentencePiece model whose piece ids are the network's."""
    target_model: bytes
    """The same as ``source_model``, if the sides share one."""
    languages: Languages
    decoding: DecodingDefaults
    source_eos: bool = True
    """Whether eos ends the source."""
    library: str = "Hugging Face transformers"
    """The program that the model was made for."""
    licence: str | None = None
    """The licence that comes with the model, if any."""
    unmapped: tuple[str, ...] = ()
    """Options of its generation configuration that a bundle cannot express."""
    integers: Integers | None = None
    """Matrices and activation scales that are int8 in the model."""
    alignment: AlignmentSource | None = None
    """The map that has learned word alignments, if it is known."""
    shortlist: Shortlist | None = None


NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "no_repeat_ngram_size": (None, 0),
    "encoder_no_repeat_ngram_size": (None, 0),
    "repetition_penalty": (None, 1, 1.0),
    "diversity_penalty": (None, 0, 0.0),
    "do_sample": (None, False),
    "min_length": (None, 0),
    "temperature": (None, 1, 1.0),
    "early_stopping": (True,),
}
"""Values of generation options that equal the behaviour of a bundle's search."""


def decoding_defaults(file: str, beam_size: Any, length_penalty: Any) -> DecodingDefaults:
    """The defaults that a ``file`` has; raises ``UnsupportedCheckpoint``."""
    try:
        return DecodingDefaults(beam_size=beam_size, length_penalty=length_penalty)
    except ValidationError as error:
        wrong = "; ".join(f"{each['loc'][0]}: {each['msg']}" for each in error.errors())
        raise UnsupportedCheckpoint(f"{file} has {wrong}") from error


class Generation:
    """Decoding options: ``generation_config.json``, or the model configuration if it is older.

    Options in neither file have ``transformers``' defaults.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        own = checkpoint.document("generation_config.json", optional=True)
        self._said: dict[str, Any] = own or checkpoint.config

    def ids(self, name: str) -> tuple[int, ...]:
        """Single ids that must not be written, from options such as ``bad_words_ids``."""
        found = self._said.get(name) or []
        entries = found if isinstance(found, list) else [[]]
        flat = [i for entry in entries for i in (entry if isinstance(entry, list) else [entry])]
        if len(flat) != len(entries) or not all(isinstance(i, int) for i in flat):
            raise UnsupportedCheckpoint(
                f"{name} {found!r} forbids sequences; a bundle can forbid single ids"
            )
        return tuple(flat)

    def single(self, name: str) -> int | None:
        found = self._said.get(name)
        if found is not None and not isinstance(found, int):
            raise UnsupportedCheckpoint(f"{name} is {found!r}, not one id")
        return found

    def decoding(self) -> DecodingDefaults:
        beam_size, penalty = self._said.get("num_beams"), self._said.get("length_penalty")
        return decoding_defaults(
            "its generation configuration",
            1 if beam_size is None else beam_size,
            1.0 if penalty is None else penalty,
        )

    def unmapped(self) -> tuple[str, ...]:
        return tuple(
            f"{name} {self._said.get(name)!r}"
            for name, neutral in NEUTRAL.items()
            if name in self._said and self._said[name] not in neutral
        )
