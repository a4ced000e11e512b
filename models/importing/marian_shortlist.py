"""Reader of the lexical shortlist of Bergamot and Firefox (``lex.50.50.*.s2t.bin``).

Little-endian: six u64 (magic number, checksum, number of first ids, number of ids per source token,
number of offsets, number of ids), offsets u64, ids u32. A sentence may be translated by the first
ids, by those of each of its tokens and, with one vocabulary, by its tokens themselves.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.bundle.shortlist import Shortlist
from models.bundle.tokenizer import SPECIAL_IDS
from models.importing.compressed import read_unpacked
from models.importing.refusals import NotACheckpoint
from models.importing.vocabulary import Vocabulary

MAGIC = 0xF11A48D5013417F5
LARGEST = 256 << 20
_HEADER = struct.Struct("<6Q")
_IDS = (SPECIAL_IDS.pad, SPECIAL_IDS.bos)


def read_shortlist(path: Path, source: Vocabulary, target: Vocabulary) -> Shortlist:
    """The shortlist in the ids of the vocabularies, which are the same object if they are shared.

    Raises ``NotACheckpoint`` for a file that is damaged or of other vocabularies.
    """
    content = read_unpacked(path, LARGEST)
    if len(content) < _HEADER.size:
        raise NotACheckpoint(f"{path} is no shortlist: it has {len(content)} bytes")
    magic, _, first, _, offset_count, id_count = _HEADER.unpack_from(content)
    if magic != MAGIC:
        raise NotACheckpoint(f"{path} is no shortlist of Bergamot: it begins with {magic:#x}")
    if len(content) != _HEADER.size + 8 * offset_count + 4 * id_count:
        raise NotACheckpoint(
            f"{path} has {len(content)} bytes, and {offset_count} offsets and {id_count} ids"
        )
    offsets = np.frombuffer(content, "<u8", offset_count, _HEADER.size)
    ids = np.frombuffer(content, "<u4", id_count, _HEADER.size + 8 * offset_count)
    new = _new_ids(target)
    old_source = [row.origin for row in source.rows]
    if (
        not offset_count
        or offsets[0] != 0
        or offsets[-1] != id_count
        or (offsets[1:] < offsets[:-1]).any()
        or offset_count - 1 > len(source)
        or first > len(new)
        or ids.max(initial=0) >= len(new)
    ):
        raise NotACheckpoint(f"{path} is a shortlist of other vocabularies, or damaged")
    lists: list[NDArray[np.int32]] = []
    for i, origin in enumerate(old_source):
        nothing = i in _IDS or origin >= offset_count - 1
        own = [] if nothing else new[ids[int(offsets[origin]) : int(offsets[origin + 1])]]
        itself = [i] if source is target and i not in _IDS else []
        lists.append(np.concatenate((own, itself)).astype(np.int32))
    always = np.append(new[:first], SPECIAL_IDS.eos)
    return Shortlist(
        always=np.unique(always).astype(np.int32),
        offsets=np.cumsum([0, *map(len, lists)]).astype(np.int32),
        targets=np.concatenate(lists),
    )


def _new_ids(vocabulary: Vocabulary) -> NDArray[np.int64]:
    """The id of each row of the file. The zero rows of pad and bos follow them."""
    rows = {row.origin: i for i, row in enumerate(vocabulary.rows) if i not in _IDS}
    found = np.full(max(rows) + 1, SPECIAL_IDS.unk)
    found[list(rows)] = list(rows.values())
    return found
