"""The commands of ``python -m training``, one module each.

A module has ``add_to(commands)``, which adds its parser and sets ``perform`` to a function of the
parsed options. Modules import what takes long, such as torch, where it is used, so that ``--help``
answers at once. A hop of a run has ``perform(options)`` and, if it has options of its own,
``add_options(parser)``, so that ``run`` can take the same options and perform it.
"""

from __future__ import annotations

import argparse
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
