"""Entry point of ``python -m training``."""

import os
import sys

# Set before torch loads OpenMP: spinning threads take ten times the processor time on a busy
# machine.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from training.cli import main

sys.exit(main())
