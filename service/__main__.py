"""``python -m service``, the same as ``dragoman``; reports missing server dependencies."""

from __future__ import annotations

import gc
import os
import signal
import sys


def main() -> int:
    if sys.argv[1:2] == ["serve"]:
        # Imports take seconds. Nothing has to be closed, and code that is being imported could
        # catch an exception.
        signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # Imports make a million objects and no garbage; a server sets other thresholds later.
    gc.set_threshold(100_000)
    # OpenBLAS reads this when NumPy is first imported; OPENBLAS_NUM_THREADS has precedence. Its
    # threads wait for each other in busy loops: beside other programs, a product of small matrices
    # takes ten times the processor time (docs/log.md).
    os.putenv("OMP_NUM_THREADS", "1")
    from service import cli

    try:
        return cli.main()
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] in ("models", "service"):
            raise
        print(
            f"dragoman: {missing.name} is not installed; this installation has the client only. "
            "All commands but `translate --url` need the extra cpu or gpu: "
            "pip install 'dragoman-translate[cpu]'",
            file=sys.stderr,
        )
        return 2


if __name__ == "__main__":
    sys.exit(main())
