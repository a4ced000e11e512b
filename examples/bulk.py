"""Translates a file line by line in constant memory, at the priority of bulk work.

    python examples/bulk.py SOURCE TARGET [URL]

prints

    … lines
"""

import sys

from dragoman import Client

source, target, *url = sys.argv[1:]

written = 0
with (
    Client(*url) as client,
    open(source, encoding="utf-8") as lines,
    open(target, "w", encoding="utf-8") as file,
):
    texts = (line.rstrip("\n") for line in lines)
    # Packs lines into requests and keeps four of them running; translations come in order.
    for translation in client.translate_many(texts, source="de", target="en"):
        print(translation.text, file=file)
        written += 1

print(f"{written} lines")
