"""``python -m service`` is ``dragoman``."""

from __future__ import annotations

import sys

from service.cli import main

sys.exit(main())
