"""``dragoman translate``: translates a phrase, files of lines, or documents.

Decides what the arguments are. ``lines`` and ``documents`` do the work, with models of this process
(``local``) or those of a running service (``remote``).
"""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from service.commands.command import DONE, FAILED, PARTLY, CommandFailed, add_bundles
from service.commands.documents import Translations, translate_documents
from service.commands.formats import add_format
from service.commands.inputs import Phrase, found, standard_output
from service.commands.terminal import Failures

_EXAMPLES = """\
examples:
  dragoman translate "Guten Tag" --to en
  echo "Guten Tag" | dragoman translate --to en
  dragoman translate corpus.de.gz -o corpus.en.gz --from de --to en
  dragoman translate rows.tsv -o rows.en.tsv --column text --to en
  dragoman translate angebot.docx -o offer.docx --to en
  dragoman translate handbuch/ -o manual/ --to en
  dragoman translate *.srt --to en --url http://127.0.0.1:8000

Lines of a file or of standard input are translated one by one; files whose name
ends like a document's (.docx, .html, .srt, ...) keep their layout. After an
interruption, the same command goes on with a file of lines; see docs/bulk.md.

exit codes: 0 done, 1 some of several files failed, 2 failed, 130 interrupted
"""

_LOCAL = ("bundles", "precision", "device", "threads", "shortlist")
"""Options that a running service does not take."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "inputs",
        metavar="TEXT or FILE",
        nargs="*",
        help="text, files, folders or patterns such as '*.docx'; else standard input",
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="a file, or a folder for several")
    parser.add_argument(
        "--from", dest="source", metavar="CODE", help="language (default: detected)"
    )
    parser.add_argument("--to", dest="target", required=True, metavar="CODE", help="language")
    parser.add_argument("--text", action="store_true", help="the arguments are text, not files")
    parser.add_argument("--model", metavar="NAME", help="a model (default: the best of the pair)")
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.add_argument(
        "--skip-existing", action="store_true", help="leave out files whose translation exists"
    )
    remote = parser.add_argument_group("running service")
    remote.add_argument("--url", help="translate there, such as http://127.0.0.1:8000")
    remote.add_argument("--api-key", metavar="KEY", help="its key; @FILE reads it from a file")
    add_format(parser)
    parser.add_argument(
        "--gzip",
        choices=("in", "out", "both", "none"),
        help="which side is compressed (default: files named .gz)",
    )
    parser.add_argument(
        "--on-error",
        choices=("stop", "skip"),
        default="stop",
        help="whether a line that cannot be translated ends the work (stop) or is left empty",
    )
    parser.add_argument("--restart", action="store_true", help="discard unfinished output")
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        help="show a progress bar (default: on a terminal only)",
    )
    decoding = parser.add_argument_group("decoding", "Default: from the settings or the bundle.")
    decoding.add_argument("--beam-size", type=int, metavar="N")
    decoding.add_argument("--length-penalty", type=float, metavar="X")
    decoding.add_argument("--precision", metavar="NAME", help="auto, int8, fp16 or fp32")
    decoding.add_argument("--device", metavar="NAME", help="auto, cpu or cuda")
    decoding.add_argument("--threads", metavar="N", help="0 takes every core")
    decoding.add_argument("--shortlist", action=argparse.BooleanOptionalAction)
    add_bundles(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.url:
        for name in _LOCAL:
            if getattr(options, name) is not None:
                raise CommandFailed(f"--{name} says nothing about the service of --url")
    elif options.api_key is not None:
        raise CommandFailed("--api-key needs --url")
    work = found(options)
    if isinstance(work, Phrase):
        output = standard_output()
        output.write(f"{asyncio.run(_phrase(work.text, options))}\n".encode())
        output.flush()
        return DONE
    for item in work:
        folder = Path(item.target).parent
        if item.in_folder:
            folder.mkdir(parents=True, exist_ok=True)
        elif not folder.is_dir():
            raise CommandFailed(f"there is no directory {folder} for {item.target}")
    failures = Failures() if len(work) > 1 or any(item.in_folder for item in work) else None
    if documents := [item for item in work if item.document]:
        opened = partial(_opened, options)
        asyncio.run(translate_documents(documents, options, opened, failures))
    if of_lines := [item for item in work if not item.document]:
        # Importing the engine takes a second, which phrases for a service need not wait for.
        from service.commands.lines import translate_lines

        asyncio.run(translate_lines(of_lines, options, failures))
    failed = failures.end() if failures else 0
    if failed == len(work) > 0:
        return FAILED
    return PARTLY if failed else DONE


async def _phrase(text: str, options: argparse.Namespace) -> str:
    async with _opened(options) as translations:
        return await translations.phrase(text, options.source, options.target)


def _opened(options: argparse.Namespace) -> AbstractAsyncContextManager[Translations]:
    """The models of this process, or the service of ``--url``."""
    if options.url:
        from service.commands.remote import RemoteTranslations

        return RemoteTranslations.of(options)
    from service.commands.local import LocalTranslations

    return LocalTranslations.of(options)
