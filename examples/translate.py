"""Translates two texts in one request, with an alternative and a score for each.

    python examples/translate.py [URL]

prints

    A dog runs through the snow. (from de, score -0.…)
      or: A dog is running through the snow.
    Two men are playing soccer. (from de, score -0.…)
      or: Two men playing soccer.
"""

import sys

from dragoman import Client

TEXTS = ["Ein Hund läuft durch den Schnee.", "Zwei Männer spielen Fußball."]

with Client(*sys.argv[1:2]) as client:
    translations = client.translate(TEXTS, target="en", alternatives=1, return_scores=True)

for translation in translations:
    # The source language was detected, because the request names none.
    print(f"{translation.text} (from {translation.source}, score {translation.score:.2f})")
    print("  or:", *translation.alternatives)
