"""Builds the requests of the service's endpoints as ``Call`` values. Sends nothing.

``Client`` and ``AsyncClient`` offer these functions, and those of ``dragoman.inspection``, as
methods.
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any, Unpack, overload
from urllib.parse import quote, unquote, urlsplit

from dragoman import reading
from dragoman.answers import Alternatives, Detection, Language, Model, Readiness, Translation, Usage
from dragoman.options import Texts, TranslateOptions, check
from dragoman.request import Call


@overload
def translate(
    text: str, *, target: str, source: str = ..., **options: Unpack[TranslateOptions]
) -> Call[Translation]: ...
@overload
def translate(
    text: Texts, *, target: str, source: str = ..., **options: Unpack[TranslateOptions]
) -> Call[list[Translation]]: ...
def translate(
    text: str | Texts,
    *,
    target: str,
    source: str = "auto",
    **options: Unpack[TranslateOptions],
) -> Call[Any]:
    """Translate a text, or texts in one request; ``options`` are those of ``TranslateOptions``.

    A text may have any number of sentences. If ``source`` is ``auto``, the language of each text is
    detected. A list of texts returns a list.
    """
    check(options)
    single = isinstance(text, str)
    body = {"q": text if single else list(text), "source": source, "target": target, **options}
    if not single and not text:
        raise ValueError("there is no text to translate")

    def read(body: bytes) -> Any:
        found = reading.translations(json.loads(body), source, target, single=single)
        if not single and len(found) != len(text):
            raise ValueError(f"{len(text)} texts were sent, and {len(found)} came back")
        return found[0] if single else found

    return Call("POST", "translate", read, json=body)


def alternatives(
    text: str,
    *,
    target: str,
    position: int,
    source: str = "auto",
    translation: str | None = None,
    limit: int = 10,
    min_probability: float = 0.001,
    model: str | None = None,
) -> Call[Alternatives]:
    """Likely words at a place of the translation of a text, each with what follows from it.

    ``position`` is the number of characters before a word of ``translation``, which defaults to
    what ``translate`` returns. Words below ``min_probability`` are left out.
    """
    body: dict[str, Any] = {"q": text, "source": source, "target": target, "position": position}
    body |= {"limit": limit, "min_probability": min_probability}
    given = {"translation": translation, "model": model}
    body |= {name: value for name, value in given.items() if value is not None}
    return Call(
        "POST", "alternatives", lambda body: reading.alternatives(json.loads(body)), json=body
    )


def detect(text: str) -> Call[list[Detection]]:
    """Up to three candidate languages of a text, the most likely first.

    ``en`` with confidence 0 means that the text is in none of the offered languages.
    """
    return Call(
        "POST",
        "detect",
        lambda body: reading.results(Detection, json.loads(body)),
        json={"q": text},
    )


def languages() -> Call[list[Language]]:
    """The source languages, each with its target languages."""
    return Call("GET", "languages", lambda body: reading.results(Language, json.loads(body)))


def models() -> Call[list[Model]]:
    """The models on offer, with their quality scores."""
    return Call("GET", "models", lambda body: reading.models(json.loads(body)))


def ready() -> Call[Readiness]:
    """Whether the service is ready, and the reasons if not. Not being ready is no error."""
    return Call(
        "GET", "readyz", lambda body: reading.readiness(json.loads(body)), answers=(200, 503)
    )


def usage() -> Call[Usage]:
    """Usage of the caller in the current month."""
    return Call("GET", "v2/usage", lambda body: reading.usage(json.loads(body)))


def translate_file(
    file: PathLike[str] | bytes,
    *,
    target: str,
    source: str = "auto",
    name: str | None = None,
    model: str | None = None,
) -> Call[bytes]:
    """Translate a document and keep its layout and markup; returns the translated file.

    ``file`` is a path, or the content. Content needs a ``name`` with an extension that the
    documentation of the API lists under *Files*, such as ``.docx``.
    """
    if isinstance(file, bytes):
        if name is None:
            raise ValueError("name is missing: its extension says what the document is")
        content = file
    else:
        name, content = name or Path(file).name, Path(file).read_bytes()
    # A name of a file may have bytes that are not UTF-8, which a request cannot have.
    name = name.encode("utf-8", "replace").decode()
    form = {"source": source, "target": target}
    if model is not None:
        form["model"] = model

    def download(body: bytes) -> Call[bytes]:
        # Use only the last path segment: behind a proxy, the service does not know its own address.
        path = urlsplit(json.loads(body)["translatedFileUrl"]).path
        last = quote(unquote(path.rpartition("/")[2]), safe="")
        return Call("GET", f"download_file/{last}", lambda body: body)

    return Call("POST", "translate_file", download, form=form, file=(name, content))
