"""What a helper does for tests: whatever it is told."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence


def answer(parts: Sequence[bytes]) -> list[bytes]:
    what, *others = parts
    match what:
        case b"say":
            print("nobody should take this for an answer", flush=True)
            return others
        case b"who":
            return [str(os.getpid()).encode()]
        case b"sleep":
            time.sleep(float(others[0]))
        case b"take":
            return [str(len(bytearray(int(others[0])))).encode()]
        case b"flood":
            return [bytes(int(others[0]))]
        case b"lie":
            os.write(1, b"\xff" * 64)
            # Where answers go, whatever number that is.
            for number in range(3, 16):
                try:
                    os.write(number, b"\xff" * 64)
                except OSError:
                    continue
            time.sleep(60)
        case b"leave":
            os._exit(3)
        case b"fail":
            raise LookupError(others[0].decode())
    return []
