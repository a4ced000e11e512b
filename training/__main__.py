"""Entry point of ``python -m training``."""

import os
import signal
import sys

# Set before torch loads OpenMP: spinning threads take ten times the processor time on a busy
# machine.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from training.cli import main

# Ends like Ctrl-C, so that nothing half-written is left.
signal.signal(signal.SIGTERM, signal.default_int_handler)
sys.exit(main())
