"""The process that draws: maps in, pictures out, until there is nothing more to read.

Each message is its length in eight bytes and so much content; an answer begins with a byte that
says whether it is a picture or why there is none.
"""

from __future__ import annotations

import pickle
import struct
import sys
import traceback
from typing import BinaryIO

from service.figures.heatmap import draw
from service.priority import step_aside

LENGTH = struct.Struct("<Q")
PICTURE, FAILURE = b"\x01", b"\x00"


def main() -> None:
    step_aside()
    asked, answers = sys.stdin.buffer, sys.stdout.buffer
    # Whatever matplotlib may print is no answer.
    sys.stdout = sys.stderr
    while (content := _read(asked)) is not None:
        try:
            answer = PICTURE + draw(pickle.loads(content))
        # Whoever asked is told, and the next one is drawn.
        except Exception:
            answer = FAILURE + traceback.format_exc().encode()
        answers.write(LENGTH.pack(len(answer)) + answer)
        answers.flush()


def _read(asked: BinaryIO) -> bytes | None:
    """The next message; ``None`` once whoever asks has gone."""
    head = asked.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    content = asked.read(length)
    return content if len(content) == length else None
