"""Prints a translation while the service still decodes its later sentences.

    python examples/stream.py [URL]

prints

    A dog runs through the snow. Two men are playing soccer.
    by general-de-en: complete
"""

import sys

from dragoman import Client

TEXT = "Ein Hund läuft durch den Schnee. Zwei Männer spielen Fußball."

with Client(*sys.argv[1:2]) as client, client.stream(TEXT, source="de", target="en") as parts:
    # A part is a sentence with the blanks before it. Leaving the block early stops the decoding.
    for part in parts:
        print(part.text, end="", flush=True)

print()
print(f"by {parts.result.model}: {parts.result.finish_reason}")
