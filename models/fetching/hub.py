"""Fetches a checkpoint from the Hugging Face hub, resumably, and verifies every file.

``huggingface_hub`` does the transfer, into its own cache: ``HF_ENDPOINT``, ``HF_TOKEN``,
``HF_HOME``, ``HF_HUB_OFFLINE`` and proxies have their usual meaning.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import re
import shutil
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import httpx2
import huggingface_hub
from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
)

from models.fetching.errors import FetchFailed

WEIGHTS = ("model.safetensors", "pytorch_model.bin", "model.bin")
"""Names of weights, the best first. The first two may be shards with an index."""
DESCRIPTIONS = re.compile(
    r"config\.json|generation_config\.json|tokenizer_config\.json|tokenizer\.json"
    r"|special_tokens_map\.json|added_tokens\.json|(target_)?vocab\.json|README\.md"
    r"|(source|target)\.spm|sentencepiece(\.bpe)?\.model|(shared|source|target)_vocabulary\.\w+"
)
_SHARD = re.compile(r"(model|pytorch_model)-\d+-of-\d+\.(safetensors|bin)")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Fetched:
    directory: Path
    commit: str


def fetch_repository(repository: str) -> Fetched:
    """The files of a checkpoint, each verified by the hub's hash; raises ``FetchFailed``."""
    try:
        # The library reports every attempt; one line says it at the end.
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        api = huggingface_hub.HfApi()
        info = api.model_info(repository, files_metadata=True)
        files = _needed(repository, info.siblings or [])
        _check_space(repository, files)
        paths = [_fetch(repository, file, str(info.sha)) for file in files]
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
    except LocalEntryNotFoundError as error:
        raise FetchFailed(
            f"{repository} cannot be fetched from {constants.ENDPOINT}: no connection; the same "
            "command continues where this one stopped"
        ) from error
    except OSError as error:
        raise FetchFailed(f"{repository} cannot be stored: {_stored(error)}") from error
    return Fetched(paths[0].parent, str(info.sha))


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


def _check_space(repository: str, files: list[Any]) -> None:
    cache = Path(constants.HF_HUB_CACHE)
    cache.mkdir(parents=True, exist_ok=True)
    wanted = sum(file.size or 0 for file in files)
    free = shutil.disk_usage(cache).free
    if wanted > free:
        raise FetchFailed(
            f"{repository} has {wanted / 1e9:.1f} GB, and {cache} has room for {free / 1e9:.1f} "
            "GB; HF_HOME names another place"
        )


def _fetch(repository: str, file: Any, commit: str) -> Path:
    found = huggingface_hub.hf_hub_download(
        repository,
        file.rfilename,
        revision=commit,
        cache_dir=constants.HF_HUB_CACHE,
    )
    path = Path(found)
    if _hash(path, file) == (file.lfs.sha256 if file.lfs else file.blob_id):
        return path
    # The link and the file that it leads to; another attempt fetches it anew.
    path.resolve().unlink()
    path.unlink(missing_ok=True)
    raise FetchFailed(
        f"{file.rfilename} of {repository} has another hash than the hub says; it was deleted"
    )


def _hash(path: Path, file: Any) -> str:
    """SHA-256 of large files, and Git's hash of small ones, which the hub keeps in Git."""
    if file.lfs:
        digest = hashlib.sha256()
    else:
        digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _reason(error: Exception) -> str:
    if isinstance(error, HfHubHTTPError) and error.response is not None:
        return f"it answers {error.response.status_code}"
    return str(error).split("\n")[0] or type(error).__name__


def _stored(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "no space is left on the disk; HF_HOME names another place"
    return f"{error.filename}: {error.strerror}" if error.filename else str(error).split("\n")[0]
