"""Imports a model of another program: reads, converts, proves and publishes it as a bundle."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from models.bundle.bundle import (
    SHORTLIST,
    SOURCE_TOKENIZER,
    TARGET_TOKENIZER,
    TOKENIZER,
    Bundle,
)
from models.bundle.manifest import InvalidBundle, Precision, Provenance, Score, SentenceLimits
from models.bundle.tokenizer import Tokenizer, Tokenizers
from models.export.calibration import Pair
from models.export.errors import NotFinite, ParityError
from models.export.parity import require_finite
from models.export.publication import Proof, Publication, commit, publish, today
from models.importing.archive import LICENCE, unpacked
from models.importing.argos import is_argos, read_argos
from models.importing.checkpoint import Checkpoint
from models.importing.ctranslate2 import is_ctranslate2, read_ctranslate2
from models.importing.m2m100 import read_m2m100
from models.importing.marian import read_marian
from models.importing.marian_native import is_marian, read_marian_native
from models.importing.model import Imported
from models.importing.refusals import NeedsTexts, NotACheckpoint, UnsupportedCheckpoint
from models.importing.texts import (
    GENERATED,
    GENERATED_PROVED,
    LEAST_CALIBRATING,
    LONGEST_GENERATED,
    LONGEST_PROVED,
    LONGEST_TRANSLATED,
    Texts,
    calibrating,
    generated,
    proving,
    texts_by_direction,
)
from models.importing.vocabulary import parse

NAME = r"[a-z0-9][a-z0-9._-]*"
_CARDS = ("README.md", "model_card.md")
LONGEST_HEADER = 1 << 16
"""Characters of a card or a licence that are read."""
_HEADER = re.compile(r"\A---\s*\n(.*?)\n---\s*\n", re.DOTALL)
_TITLE = re.compile(r"\s*([^\s`][^\n`]{0,99})")
_LICENCE = re.compile(r"^license:[ \t]*(?:\n[ \t]*-[ \t]*)?[\"']?([\w.+-]+)", re.MULTILINE)

READERS: Mapping[str, Callable[[Checkpoint], Imported]] = {
    "marian": read_marian,
    "m2m_100": read_m2m100,
}
"""Readers by ``model_type``. NLLB has that of M2M100, except for its mixtures of experts."""


def read_checkpoint(directory: Path) -> Imported:
    """Raises ``NotACheckpoint`` or ``UnsupportedCheckpoint``."""
    with Checkpoint(directory) as checkpoint:
        kind = str(checkpoint.config.get("model_type"))
        if kind not in READERS:
            raise UnsupportedCheckpoint(
                f"{directory} holds a model of type {kind!r}; {', '.join(READERS)} can be imported"
            )
        return READERS[kind](checkpoint)


FORMATS: Mapping[Callable[[Path], bool], Callable[[Path], Imported]] = {
    is_marian: read_marian_native,
    is_argos: read_argos,
    is_ctranslate2: read_ctranslate2,
}
"""Readers by the condition that a path holds their format; other paths are checkpoints."""


def read_model(path: Path) -> Imported:
    """The model at ``path``, of any kind that can be read, with its licence.

    Raises ``NotACheckpoint``, ``UnsupportedCheckpoint`` or ``UnknownLanguages``.
    """
    with unpacked(path) as directory:
        reader = next(
            (read for holds, read in FORMATS.items() if holds(directory)), read_checkpoint
        )
        return replace(reader(directory), licence=licence_of(directory))


def require_name(called: str) -> None:
    """Raise ``UnsupportedCheckpoint`` unless a bundle can have this name."""
    if not re.fullmatch(NAME, called):
        raise UnsupportedCheckpoint(
            f"a bundle cannot be called {called!r}; give it a --name of lower-case letters, "
            "digits, dots, dashes and underscores"
        )


def import_model(
    directory: Path,
    bundles: Path,
    *,
    name: str | None = None,
    origin: str | None = None,
    sources: Sequence[str] = (),
    targets: Sequence[str] = (),
    precisions: Sequence[Precision] = ("int8",),
    texts: Texts = (),
    scores: Sequence[Score] = (),
) -> tuple[Bundle, Proof]:
    """Publish ``bundles/<name>``; ``name`` defaults to that of the directory.

    ``origin`` says where the model was fetched, if it was. The bundle has every pair of ``sources``
    and ``targets``, or all pairs that the model names. ``texts`` calibrate int8, prove the bundle
    and become its examples; without any, generated sentences calibrate and prove it. ``scores`` are
    published ones, for its card. Raises
    ``NotACheckpoint``, ``UnsupportedCheckpoint``, ``UnknownLanguages``, ``NeedsTexts`` and, if
    graphs and network disagree, ``ParityError``.
    """
    resolved = directory.resolve()
    stem = resolved.name if directory.is_dir() else resolved.stem
    called = name or re.sub(r"[^a-z0-9._-]+", "-", stem.lower()).lstrip("._-")
    require_name(called)
    imported = read_model(directory)
    directions = tuple(
        direction.model_copy(update={"source_eos": imported.source_eos})
        for direction in imported.languages.directions(sources, targets)
    )
    longest = imported.network.config.max_length
    with tempfile.TemporaryDirectory() as scratch:
        tokenizer_files = _write_tokenizers(imported, Path(scratch))
        publication = Publication(
            name=called,
            network=imported.network,
            directions=directions,
            tokenizers=_load_tokenizers(tokenizer_files),
            tokenizer_files=tokenizer_files,
            limits=SentenceLimits(source_length=longest, target_length=longest),
            decoding=imported.decoding,
            proof_length=None if texts else min(LONGEST_TRANSLATED, longest),
            shortlist=_write_shortlist(imported, Path(scratch)),
            integers=imported.integers,
            alignment=imported.alignment,
            provenance=Provenance(
                recipe=f"import of {imported.kind}",
                commit=commit(),
                created=today(),
                description=_description(imported, directory, origin),
                origin=origin or "",
                scores=tuple(scores),
            ),
        )
        tokenizer = publication.tokenizers.source
        calibration: list[Pair] = []
        calibrates = "int8" in precisions and imported.integers is None
        if texts:
            by_direction = texts_by_direction(texts, directions, tokenizer, longest)
            found = sum(map(len, by_direction))
            if calibrates and found < LEAST_CALIBRATING:
                raise NeedsTexts(
                    f"int8 is scaled by what sentences make of activations; {found} are too few, "
                    f"{LEAST_CALIBRATING} the least and some hundred better"
                )
            proved = proving(by_direction, shown=True)
        else:
            model = parse(imported.source_model, "the source's SentencePiece model")
            prefixes = 1 + max(len(direction.source_prefix) for direction in directions)
            draw = partial(generated, model, tokenizer, len(directions))
            by_direction = draw(GENERATED, min(LONGEST_GENERATED, longest - prefixes))
            proved = proving(
                draw(GENERATED_PROVED, min(LONGEST_PROVED, longest - prefixes)), shown=False
            )
        special = publication.tokenizers.target.special_ids
        try:
            require_finite(imported.network, list(map(publication.source_ids, proved)), special)
            if calibrates:
                calibration = calibrating(publication, by_direction)
            return publish(publication, proved, calibration, bundles, precisions)
        except NotFinite as error:
            raise UnsupportedCheckpoint(
                f"{directory}: {error}; its weights are too large or damaged"
            ) from error
        except ParityError as error:
            if "int8" not in precisions:
                raise
            raise ParityError(f"{error}; --precisions fp32 or fp16 keeps its numbers") from error


def _write_tokenizers(imported: Imported, scratch: Path) -> dict[str, Path]:
    contents = {SOURCE_TOKENIZER: imported.source_model, TARGET_TOKENIZER: imported.target_model}
    if imported.source_model == imported.target_model:
        contents = {TOKENIZER: imported.source_model}
    for name, content in contents.items():
        (scratch / name).write_bytes(content)
    return {name: scratch / name for name in contents}


def _write_shortlist(imported: Imported, scratch: Path) -> Path | None:
    if imported.shortlist is None:
        return None
    imported.shortlist.save(scratch / SHORTLIST)
    return scratch / SHORTLIST


def _load_tokenizers(files: Mapping[str, Path]) -> Tokenizers:
    """Raises ``NotACheckpoint`` for models that are protobuf, but that SentencePiece refuses."""
    try:
        if TOKENIZER in files:
            shared = Tokenizer.load(files[TOKENIZER])
            return Tokenizers(shared, shared)
        return Tokenizers(
            Tokenizer.load(files[SOURCE_TOKENIZER]), Tokenizer.load(files[TARGET_TOKENIZER])
        )
    except InvalidBundle as error:
        raise NotACheckpoint(
            f"SentencePiece refuses a model of its tokenizer: {error.__cause__ or error}"
        ) from error


def _description(imported: Imported, directory: Path, origin: str | None) -> str:
    licence = imported.licence
    sentences = [
        f"Imported from `{origin or directory.resolve().name}` ({imported.kind} of "
        f"{imported.library}), whose own card says what it was trained on and how good it is.",
        f"Its licence is `{licence}`, which also binds operators of this bundle."
        if licence
        else "It came without a licence: find out what it allows before you serve it.",
    ]
    if imported.unmapped:
        sentences.append(
            f"Its generation configuration has {', '.join(imported.unmapped)}, which this bundle "
            "leaves to requests."
        )
    return " ".join(sentences)


def licence_of(directory: Path) -> str | None:
    """The licence in the card's header, such as ``cc-by-4.0``, or the title of ``LICENSE``.

    ``None`` if the model has neither.
    """
    for name in _CARDS:
        header = _HEADER.match(_start_of(directory / name))
        found = _LICENCE.search(header[1]) if header else None
        if found:
            return found[1]
    title = _TITLE.match(_start_of(directory / LICENCE))
    return title[1].rstrip() if title else None


def _start_of(path: Path) -> str:
    """The first characters of a text; none if it is absent."""
    if not path.is_file():
        return ""
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.read(LONGEST_HEADER)
