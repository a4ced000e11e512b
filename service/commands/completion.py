"""``dragoman completion``: prints a shell's completion of commands, options and choices."""

from __future__ import annotations

import argparse

from service.commands.command import DONE

_EXAMPLES = """\
examples:
  source <(dragoman completion bash)
  dragoman completion zsh > "${fpath[1]}/_dragoman"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("shell", choices=("bash", "zsh", "tcsh"))
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    import shtab

    from service import cli

    print(shtab.complete(cli.parser(), shell=options.shell))
    return DONE
