"""Fetches a checkpoint from the Hugging Face hub, resumably, and verifies every file.

``huggingface_hub`` does the transfer: ``HF_ENDPOINT``, ``HF_TOKEN``, ``HF_HUB_OFFLINE`` and proxies
have their usual meaning. Its cache is not used, because it discards interrupted downloads.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import re
import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import httpx2
import huggingface_hub
from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)
from huggingface_hub.file_download import http_get
from huggingface_hub.utils._headers import build_hf_headers

from models.fetching.errors import FetchFailed

WEIGHTS = ("model.safetensors", "pytorch_model.bin", "model.bin")
"""Names of weights, the best first. The first two may be shards with an index."""
DESCRIPTIONS = re.compile(
    r"config\.json|generation_config\.json|tokenizer_config\.json|tokenizer\.json"
    r"|special_tokens_map\.json|added_tokens\.json|(target_)?vocab\.json|README\.md"
    r"|(source|target)\.spm|sentencepiece(\.bpe)?\.model|(shared|source|target)_vocabulary\.\w+"
)
ELSEWHERE = "DRAGOMAN_BUNDLES names another place"
_SHARD = re.compile(r"(model|pytorch_model)-\d+-of-\d+\.(safetensors|bin)")


@dataclass(frozen=True, slots=True)
class Fetched:
    directory: Path
    commit: str


def fetch_repository(repository: str, downloads: Path) -> Fetched:
    """The files of a checkpoint in a directory of ``downloads``, each verified by the hub's hash.

    Continues an interrupted download. Raises ``FetchFailed``.
    """
    try:
        # The library reports every attempt; one line says it at the end.
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        api = huggingface_hub.HfApi()
        info = api.model_info(repository, files_metadata=True)
        files = _needed(repository, info.siblings or [])
        fetched = Fetched(downloads / f"{repository.replace('/', '--')}-{info.sha}", str(info.sha))
        fetched.directory.mkdir(parents=True, exist_ok=True)
        _check_space(repository, files, fetched.directory)
        for file in files:
            _fetch(repository, file, fetched)
    except GatedRepoError as error:
        raise FetchFailed(
            f"{repository} asks for consent: agree to its terms on {constants.ENDPOINT}, then log "
            "in with `hf auth login` or HF_TOKEN"
        ) from error
    except RepositoryNotFoundError as error:
        raise FetchFailed(
            f"{constants.ENDPOINT} has no model {repository}, or it is private and HF_TOKEN is "
            "not set"
        ) from error
    except HFValidationError as error:
        raise FetchFailed(f"{repository!r} is not the name of a model on the hub") from error
    except OfflineModeIsEnabled as error:
        raise FetchFailed(f"{repository} is not fetched, because HF_HUB_OFFLINE is set") from error
    except (HfHubHTTPError, httpx2.HTTPError) as error:
        raise FetchFailed(
            f"{repository} cannot be fetched from {constants.ENDPOINT}: {_reason(error)}; the "
            "same command continues where this one stopped"
        ) from error
    except OSError as error:
        raise FetchFailed(f"{repository} cannot be stored: {_stored(error)}") from error
    return fetched


def _needed(repository: str, siblings: list[Any]) -> list[Any]:
    """Descriptions, and the weights in one of the forms that can be read."""
    by_name = {
        each.rfilename: each
        for each in siblings
        # Only files of the first level, which also excludes names that climb out.
        if PurePosixPath(each.rfilename).name == each.rfilename
    }
    descriptions = [each for name, each in by_name.items() if DESCRIPTIONS.fullmatch(name)]
    for name in WEIGHTS:
        if name in by_name:
            return [*descriptions, by_name[name]]
        if f"{name}.index.json" in by_name:
            stem, _, suffix = name.rpartition(".")
            shards = [
                each
                for shard, each in by_name.items()
                if (found := _SHARD.fullmatch(shard)) and found.groups() == (stem, suffix)
            ]
            return [*descriptions, by_name[f"{name}.index.json"], *shards]
    raise FetchFailed(f"{repository} has none of {', '.join(WEIGHTS)}")


def _check_space(repository: str, files: list[Any], directory: Path) -> None:
    wanted = sum(file.size or 0 for file in files)
    wanted -= sum(path.stat().st_size for path in directory.iterdir())
    free = shutil.disk_usage(directory).free
    if wanted > free:
        raise FetchFailed(
            f"{repository} needs {wanted / 1e6:.1f} MB more, and {directory} has room for "
            f"{free / 1e6:.1f} MB; {ELSEWHERE}"
        )


def _fetch(repository: str, file: Any, fetched: Fetched) -> None:
    expected = file.lfs.sha256 if file.lfs else file.blob_id
    path = fetched.directory / file.rfilename
    if path.exists() and _hash(path, file) == expected:
        return
    part = path.with_name(f"{file.rfilename}.part")
    with part.open("ab") as content:
        if content.tell() > file.size:
            content.seek(0)
            content.truncate()
        # A part may be complete, if the process ended before it was renamed.
        if content.tell() != file.size:
            http_get(
                huggingface_hub.hf_hub_url(repository, file.rfilename, revision=fetched.commit),
                content,
                resume_size=content.tell(),
                headers=build_hf_headers(),
                displayed_filename=file.rfilename,
            )
    if _hash(part, file) != expected:
        # Another attempt fetches it anew.
        part.unlink()
        raise FetchFailed(
            f"{file.rfilename} of {repository} has another hash than the hub says; it was deleted"
        )
    part.rename(path)


def _hash(path: Path, file: Any) -> str:
    """SHA-256 of large files, and Git's hash of small ones, which the hub keeps in Git."""
    header = b"blob %d\0" % path.stat().st_size
    of_git = partial(hashlib.sha1, header, usedforsecurity=False)
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256" if file.lfs else of_git).hexdigest()


def _reason(error: Exception) -> str:
    if isinstance(error, HfHubHTTPError) and error.response is not None:
        file = error.response.url.path.rpartition("/")[2]
        return f"it answers {error.response.status_code} for {file}"
    return str(error).split("\n")[0] or type(error).__name__


def _stored(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return f"no space is left on the disk; {ELSEWHERE}"
    return f"{error.filename}: {error.strerror}" if error.filename else str(error).split("\n")[0]
