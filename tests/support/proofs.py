"""Both parts of the parity proof in one call: by the network, then by the graphs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from models.bundle.manifest import Precision
from models.bundle.tokenizer import SPECIAL_IDS
from models.export.graphs import dimensions_of
from models.export.parity import (
    Attended,
    Translated,
    attend,
    search_all,
    translate_all,
)
from models.reference.beam import Searching
from models.reference.decoding import ReferenceDecoder
from models.reference.transformer import ReferenceTransformer


def translated_by_both(
    network: ReferenceTransformer,
    directory: Path,
    precisions: Sequence[Precision],
    sources: Sequence[tuple[int, ...]],
    searching: Searching,
    limit: int | None = None,
) -> list[Translated]:
    limit = limit or network.config.max_length
    by_network = search_all(ReferenceDecoder(network), "network", sources, searching, limit)
    dimensions = dimensions_of(network.config)
    return translate_all(by_network, directory, dimensions, precisions, sources, searching, limit)


def attended_by_network(
    network: ReferenceTransformer, translated: Sequence[Translated]
) -> list[Attended]:
    return [
        attend(
            network,
            each.source_ids,
            (*each.target_prefix, *each.network[0].token_ids),
            SPECIAL_IDS,
        )
        for each in translated
    ]
