"""Translates one shard of lines in the blocks of ``service.bulk``, and writes its part.

Line n of a part is the translation of line n of its shard. A line that cannot be translated is
left empty and counted. Independent of Ray.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from service.bulk.job import translate_blocks
from service.bulk.journal import Progress
from service.bulk.output import Stream
from service.bulk.progress import Bar
from service.bulk.reading import BadLine, BlockSize, blocks, in_thread
from service.bulk.rows import Format, Row
from service.bulk.source import BadSource, Source
from service.bulk.translating import BlockFailed, BlockTranslator
from service.ray.shards import CorpusError, Shard, bounds, first_line, write_atomically
from service.text.types import LanguagePair
from service.translation.decoding import NO_OVERRIDES
from service.translation.local_translator import LocalTranslator

_BLOCK = BlockSize(lines=1024)
_AHEAD = 4
"""Blocks that share batches, so that no batch runs empty before the end of the shard."""


@dataclass(frozen=True, slots=True)
class ShardDone:
    """Result of a shard."""

    part: str
    rows: int
    unfit: int
    """Rows left empty because they could not be translated."""
    cut: int
    """Rows whose translation was truncated at the maximum length."""
    first_unfit: str
    """Place of the first such row; empty if there is none."""
    actor: str
    """Host name and process id of the actor."""

    @classmethod
    def of(cls, shard: Shard, rows: int, unfit: int, cut: int, first_unfit: str) -> ShardDone:
        """The result, with this process as actor."""
        actor = f"{os.uname().nodename}:{os.getpid()}"
        place = f"{shard.part}, {first_unfit}" if unfit else ""
        return cls(shard.part, rows, unfit, cut, place, actor)

    def keep(self) -> None:
        """Write a file beside the part if anything is left to report, for later runs."""
        path = _report(self.part)
        path.unlink(missing_ok=True)
        if self.unfit or self.cut:
            with write_atomically(path) as file:
                file.write(json.dumps(asdict(self)).encode())

    @classmethod
    def kept(cls, part: str) -> ShardDone | None:
        """Report of an earlier run about a part, without its rows, which are none of this run."""
        path = _report(part)
        if not path.exists():
            return None
        return replace(cls(**json.loads(path.read_text("utf-8"))), rows=0)


def _report(part: str) -> Path:
    path = Path(part)
    return path.with_name(f".{path.name}.left")


class _ShardRows:
    """A format that counts rows. Only the first shard of a file begins with the file's header."""

    def __init__(self, rows: Format, shard: Shard) -> None:
        self._rows = rows
        self._first = shard.begin == 0
        self.count = 0
        if not self._first:
            rows.header(first_line(shard))

    def header(self, line: bytes) -> bytes | None:
        return self._rows.header(line) if self._first else None

    def read(self, line: bytes) -> Row:
        self.count += 1
        return self._rows.read(line)

    def write(self, row: Row, translation: str) -> bytes:
        return self._rows.write(row, translation)


async def translate_lines(
    translator: LocalTranslator, pair: LanguagePair, shard: Shard, format_: Format
) -> ShardDone:
    """Write the part of a shard; raises ``CorpusError``, ``UnknownColumn`` and ``OSError``."""
    begin, end = bounds(shard)
    rows = _ShardRows(format_, shard)
    translate = BlockTranslator(translator, pair, rows, NO_OVERRIDES, skip=True, alone=False)
    try:
        with (
            closing(Source(shard.source, begin=begin, end=end)) as source,
            write_atomically(Path(shard.part)) as part,
        ):
            progress = await translate_blocks(
                in_thread(blocks(source, rows, _BLOCK)),
                translate,
                Stream(part, compressed=False),
                Progress(),
                ahead=_AHEAD,
                bar=Bar(None, None),
            )
            unfit, cut = progress.skipped, progress.cut.count
            done = ShardDone.of(shard, rows.count, unfit.count, cut, str(unfit))
            done.keep()
    except (BadLine, BadSource, BlockFailed) as error:
        raise CorpusError(f"{shard.source}: {error}") from error
    return done
