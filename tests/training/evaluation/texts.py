"""Test sentences, a good and a bad system's translations, and references."""

from __future__ import annotations

from training.evaluation.bitext import Bitext

SOURCES = (
    "Ein Hund läuft am Strand.",
    "Zwei Männer kochen in einer Küche.",
    "Das Mädchen liest <b>ein</b> Buch & lacht.",
    "Eine Frau steht vor einem roten Haus.",
    "Kinder spielen im Schnee.",
    "Ein alter Mann schläft auf einer Bank.",
)
REFERENCES = (
    "A dog runs on the beach.",
    "Two men are cooking in a kitchen.",
    "The girl reads <b>a</b> book & laughs.",
    "A woman stands in front of a red house.",
    "Children are playing in the snow.",
    "An old man sleeps on a bench.",
)
GOOD = (
    "A dog runs on the beach.",
    "Two men cook in a kitchen.",
    "The girl reads <b>a</b> book & laughs.",
    "A woman stands before a red house.",
    "Children are playing in the snow.",
    "An old man is sleeping on a bench.",
)
BAD = (
    "A dog.",
    "Two two two two men men.",
    "<script>alert('x')</script>",
    "Eine Frau steht vor einem roten Haus.",
    "",
    "An old man sleeps on a bench.",
)
BITEXT = Bitext("captions", "de", "en", REFERENCES, SOURCES)
