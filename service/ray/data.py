"""Bulk translation over a cluster: ``python -m service.ray.data IN OUT --from de --to en``.

A corpus is cut into shards (``service.ray.shards``). Ray Data distributes them over actors, each
with its own translator and GPU. Texts never pass through Ray: an actor reads its shard and writes
its part on a file system that all nodes share. See docs/scaling.md.

Exit codes: 0 done, 1 done except for rows that could not be translated, 2 not done, with the reason
on standard error, 130 interrupted.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import re
import sys
import threading
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow
import ray
from pyarrow import parquet
from ray.data import ActorPoolStrategy, DataContext
from tqdm import tqdm

from service.bulk.rows import (
    Columns,
    Format,
    FormatName,
    Lines,
    Objects,
    Row,
    UnknownColumn,
    guessed,
)
from service.bulk.translating import BlockTranslator
from service.commands.command import DONE, FAILED, INTERRUPTED, CommandFailed, language
from service.local_models import local_translator
from service.observability.logging import configure
from service.ray.shard_translation import ShardDone, translate_lines
from service.ray.shards import (
    CorpusError,
    CorpusPlan,
    Shard,
    cut,
    files_of,
    names_of,
    sweep,
    undone,
    write_atomically,
)
from service.server.process import prepare_process, spare_what_stays
from service.settings import InvalidSetting, Settings
from service.text.errors import TranslationError
from service.text.types import LanguagePair
from service.translation.decoding import NO_OVERRIDES
from service.translation.local_translator import LocalTranslator

_UNFIT = 1
_ROWS = 4096
"""Parquet rows read and translated together."""
_EXCEPTION = re.compile(r"[\w.]+: ")
"""Beginning of the line of an exception in a traceback."""


@dataclass(frozen=True, slots=True)
class Work:
    """Language pair and columns, the same for every shard."""

    source: str
    target: str
    column: str
    """The column of the texts, in TSV, JSON lines and Parquet."""
    into: str
    """The column or field added for the translations."""

    @property
    def pair(self) -> LanguagePair:
        return LanguagePair(self.source, self.target)

    def format(self, name: str) -> Format:
        kind: FormatName = guessed(name)
        if kind == "lines":
            return Lines()
        if kind == "jsonl":
            return Objects(self.column, self.into)
        column = int(self.column) if self.column.isdigit() else self.column
        return Columns(column, header=False, into=self.into, replace=False)


class ShardTranslator:
    """A Ray Data actor: loads the model once and translates any number of shards."""

    def __init__(self, work: Work, overrides: dict[str, Any]) -> None:
        prepare_process()
        settings = Settings.from_environment(log_level="warning", **overrides)
        configure(settings.log_level, settings.log_format)
        self._work = work
        # Ray calls from a thread without an event loop; the translator needs one.
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="translator", daemon=True).start()
        self._stack = AsyncExitStack()
        self._translator = self._run(
            self._stack.enter_async_context(local_translator(settings, work.pair))
        )
        spare_what_stays()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        names = list(batch)
        shards = [
            Shard(**{name: _plain(value) for name, value in zip(names, row, strict=True)})
            for row in zip(*batch.values(), strict=True)
        ]
        done = [asdict(self._run(self._translate(shard))) for shard in shards]
        return {name: [each[name] for each in done] for name in done[0]}

    async def _translate(self, shard: Shard) -> ShardDone:
        if is_parquet(shard.source):
            return await _translate_parquet(self._translator, self._work, shard)
        format_ = self._work.format(shard.source)
        return await translate_lines(self._translator, self._work.pair, shard, format_)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def is_parquet(name: str) -> bool:
    return name.endswith(".parquet")


async def _translate_parquet(translator: LocalTranslator, work: Work, shard: Shard) -> ShardDone:
    """Write a shard's row groups with a column of translations; raises ``CorpusError``."""
    translate = BlockTranslator(
        translator, work.pair, Lines(), NO_OVERRIDES, skip=True, alone=False
    )
    rows = unfit = cut_ = 0
    first = ""
    with parquet.ParquetFile(shard.source) as file, write_atomically(Path(shard.part)) as part:
        schema = file.schema_arrow
        if work.column not in schema.names or work.into in schema.names:
            raise CorpusError(
                f"{shard.source} has the columns {', '.join(schema.names)}; {work.column} is to be "
                f"translated into {work.into}, which must not be there"
            )
        groups = range(shard.begin, min(shard.end, file.num_row_groups))
        widened = schema.append(pyarrow.field(work.into, pyarrow.string()))
        with parquet.ParquetWriter(part, widened) as writer:
            for batch in file.iter_batches(_ROWS, row_groups=list(groups)):
                texts = batch.column(work.column).to_pylist()
                found = await translate.rows([Row(text or "") for text in texts])
                if found.problems and not unfit:
                    first = f"row {rows + min(found.problems) + 1}"
                rows, cut_ = rows + len(texts), cut_ + len(found.cut)
                unfit += len(found.problems)
                empty = {n for n, text in enumerate(texts) if text is None} | set(found.problems)
                kept = [None if n in empty else text for n, text in enumerate(found.texts)]
                columns = [*batch.columns, pyarrow.array(kept, pyarrow.string())]
                writer.write_batch(pyarrow.RecordBatch.from_arrays(columns, schema=widened))
        done = ShardDone.of(shard, rows, unfit, cut_, first)
        done.keep()
    return done


def translate_corpus(
    source: Path,
    output: Path,
    work: Work,
    *,
    actors: int,
    gpus: float,
    cpus: float,
    shard_bytes: int,
    overrides: dict[str, Any],
) -> Iterator[ShardDone]:
    """Translate the shards without a part, in any order, on an initialised Ray.

    Yields what earlier runs have to report, too.
    Raises ``CorpusError``, or a ``RayError`` if an actor fails.
    """
    output.mkdir(parents=True, exist_ok=True)
    files = names_of(files_of(source), source)
    stats = {name: path.stat() for name, path in files.items()}
    made_with = {**asdict(work), "shard_bytes": shard_bytes}
    found = {name: (each.st_size, each.st_mtime_ns) for name, each in stats.items()}
    whole = [s for name in files for s in _cut(name, files[name], output, shard_bytes)]
    CorpusPlan(made_with, found).keep(output)
    sweep(output)
    todo = undone(whole)
    waiting = set(todo)
    for shard in whole:
        if shard not in waiting and (done := ShardDone.kept(shard.part)) is not None:
            yield done
    if not todo:
        return
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    shards = ray.data.from_items([asdict(s) for s in todo], override_num_blocks=len(todo))
    translated = shards.map_batches(
        ShardTranslator,
        fn_constructor_args=(work, overrides),
        batch_size=1,
        compute=ActorPoolStrategy(size=min(actors, len(todo))),
        num_cpus=cpus,
        num_gpus=gpus or None,
    )
    for row in translated.iter_rows():
        yield ShardDone(**row)


def _cut(name: str, path: Path, output: Path, shard_bytes: int) -> Iterable[Shard]:
    if not is_parquet(name):
        return cut(name, path, output, shard_bytes, path.stat().st_size)
    with parquet.ParquetFile(path) as file:
        groups = file.num_row_groups
    # Assumes row groups of about equal size.
    together = max(1, round(shard_bytes * groups / max(1, path.stat().st_size)))
    return cut(name, path, output, together, groups)


def _plain(value: Any) -> Any:
    """A NumPy scalar as a Python number."""
    return value.item() if hasattr(value, "item") else value


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (
        CommandFailed,
        CorpusError,
        InvalidSetting,
        TranslationError,
        UnknownColumn,
        OSError,
        pyarrow.ArrowException,
    ) as error:
        print(f"ray_data: {error}", file=sys.stderr)
    except ray.exceptions.RayError as error:
        print(f"ray_data: an actor could not go on: {_reason(error)}", file=sys.stderr)
    return FAILED


def _reason(error: ray.exceptions.RayError) -> str:
    """The exception of the actor. Ray's message is its traceback, and advice at times."""
    lines = str(error).strip().splitlines()
    return next((line for line in reversed(lines) if _EXCEPTION.match(line)), lines[-1])


def _run(options: argparse.Namespace) -> int:
    work = Work(language(options.source), language(options.target), options.column, options.into)
    # Report an invalid environment once, here, rather than from every actor.
    Settings.from_environment(bundles=options.bundles)
    overrides = {"device": "cuda" if options.gpus else "cpu"}
    if options.bundles is not None:
        overrides["bundles"] = str(Path(options.bundles).resolve())
    if not options.gpus:
        overrides["threads"] = str(max(1, int(options.cpus)))
    if not ray.is_initialized():
        ray.init(address=options.address, log_to_driver=False, configure_logging=False)
    rows = unfit = cut_ = 0
    first, actors = "", set()
    with tqdm(unit=" rows", unit_scale=True, disable=None) as bar:
        for done in translate_corpus(
            options.input.resolve(),
            options.output.resolve(),
            work,
            actors=options.actors,
            gpus=options.gpus,
            cpus=options.cpus,
            shard_bytes=options.shard_bytes,
            overrides=overrides,
        ):
            rows, unfit, cut_ = rows + done.rows, unfit + done.unfit, cut_ + done.cut
            first = first or done.first_unfit
            if done.rows:
                actors.add(done.actor)
            bar.update(done.rows)
    print(
        f"ray_data: {rows} rows translated into {options.output} by {len(actors)} actors",
        file=sys.stderr,
    )
    if cut_:
        print(f"ray_data: {cut_} cut at the longest allowed length", file=sys.stderr)
    if unfit:
        print(f"ray_data: {unfit} left empty; the first is {first}", file=sys.stderr)
    return _UNFIT if unfit else DONE


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than one")
    return number


def _share(text: str) -> float:
    number = float(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is no number of at least 0")
    return number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m service.ray.data",
        description="Translate a corpus over a Ray cluster, shard by shard.",
        epilog="The same command again does what has not been done.",
    )
    parser.add_argument("input", type=Path, metavar="IN", help="a file, or a directory of files")
    parser.add_argument("output", type=Path, metavar="OUT", help="a directory, for the parts")
    parser.add_argument("--from", dest="source", required=True, metavar="CODE", help="language")
    parser.add_argument("--to", dest="target", required=True, metavar="CODE", help="language")
    parser.add_argument("--bundles", metavar="DIR", help="directory that holds the bundles")
    parser.add_argument("--column", default="text", help="of TSV (or its number), JSON, Parquet")
    parser.add_argument("--into", default="translation", help="the column or field that is added")
    parser.add_argument("--actors", type=_count, default=1, help="as many as there are GPUs")
    parser.add_argument("--gpus", type=_share, default=0, help="of an actor; 0 runs on the CPU")
    parser.add_argument("--cpus", type=_share, default=2, help="of an actor")
    parser.add_argument(
        "--shard-bytes", type=_count, default=64 << 20, help="of source, in one part"
    )
    parser.add_argument("--address", default="auto", help="Ray's; local starts one here")
    return parser


if __name__ == "__main__":
    # Pickled classes must belong to a module that actors can import, which __main__ is not.
    from service.ray import data

    sys.exit(data.main())
