"""The commands of ``python -m training``, one module each.

A module has ``add_to(commands)``, which adds its parser and sets ``perform`` to a function of the
parsed options. A command about a recipe has ``HELP``, ``perform(job)`` and, if it has options
of its own, ``add_options(parser)`` instead, so that ``run`` can take the options of every hop and
perform it. Modules import what takes long, such as torch, where it is used, so that ``--help``
answers at once.
"""

from __future__ import annotations

import argparse
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
