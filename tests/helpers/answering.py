"""Answer function of a helper process for tests; the first part names the action."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence


def answer(parts: Sequence[bytes]) -> list[bytes]:
    what, *arguments = parts
    match what:
        case b"say":
            print("printed text is not an answer", flush=True)
            return arguments
        case b"who":
            return [str(os.getpid()).encode()]
        case b"sleep":
            time.sleep(float(arguments[0]))
        case b"take":
            return [str(len(bytearray(int(arguments[0])))).encode()]
        case b"flood":
            return [bytes(int(arguments[0]))]
        case b"lie":
            os.write(1, b"\xff" * 64)
            # One of these descriptors is the answer pipe.
            for number in range(3, 16):
                try:
                    os.write(number, b"\xff" * 64)
                except OSError:
                    continue
            time.sleep(60)
        case b"leave":
            os._exit(3)
        case b"fail":
            raise LookupError(arguments[0].decode())
    return []
