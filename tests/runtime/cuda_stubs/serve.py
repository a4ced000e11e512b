"""``dragoman serve`` on the stubs, whose examples count as reproduced. SIGUSR1 breaks GPU 0.

python -m tests.runtime.cuda_stubs.serve [ARGUMENTS OF SERVE]
"""

from __future__ import annotations

import signal
import sys

from service.cli import main
from tests.runtime.cuda_stubs.scenarios import proved, stubs

if __name__ == "__main__":
    proved()
    # The stubs are loaded with ONNX Runtime; by then a signal may come.
    signal.signal(signal.SIGUSR1, lambda *_: stubs().stub_break(0, 700))
    sys.exit(main(["serve", *sys.argv[1:]]))
