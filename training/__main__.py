"""``python -m training``."""

import os
import sys

# Set before torch loads OpenMP: threads that wait by spinning take ten times the processor time on
# a machine that has other work.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from training.cli import main

sys.exit(main())
