"""What programs wrote into a text for programs: placeholders, URLs and e-mail addresses.

Nothing here looks at tags, but for the ``<x id="7"/>`` of translation files, which stand in texts
that are otherwise plain. Every pattern reads a text once, however it is made.
"""

from __future__ import annotations

import re

from service.translation.alignment import Span

_PRINTF = r"(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcsp@]"
_SPECIAL = re.compile(
    rf"""
      \{{\{{\{{[^{{}}\n]+\}}\}}\}} | \{{\{{[^{{}}\n]+\}}\}}          # {{{{ name }}}}
    | \{{%[^{{}}\n]*%\}}                                             # {{% tag %}}
    | [$%#]\{{[^{{}}\n]+\}}                                          # ${{name}}, %{{name}}
    | \{{[ ]?(?:[\w.\-\[\]]+(?:![rsa])?(?::[^{{}}\s]*)?)?[ ]?\}}     # {{name}}, {{0:.2f}}
    | %\(\w+\)[-+\#0]*\d*(?:\.\d+)?{_PRINTF}                         # %(name)s
    | %\d+\$[-+\#0']*\d*(?:\.\d+)?{_PRINTF}                          # %1$s
    | (?<![%\d])(?<!\d\s)%[-+\#0']*(?:(?:\d+|\*)?\.(?:\d+|\*))?{_PRINTF}
    | (?<!%)%[-+\#0']*(?:\d+|\*)?(?:\.(?:\d+|\*))?{_PRINTF}(?!\w)    # 10 %s, but not 10 %der
    | (?<!%)%%(?!%)
    | <(?:x|bx|ex|ph)(?:\s[^<>]*)?(?:/>|></(?:x|bx|ex|ph)>)          # <x id="7"/>
    | (?<![\w+.-])(?:[a-zA-Z][a-zA-Z0-9+.-]{{1,20}}://|(?i:www\.)(?=[^\W_]))
      (?P<address>[^\s<>"\u2018\u201a-\u201f«»\u2039\u203a\\^`|\u3000-\u303f\uff00-\uff0f]+)
    | (?<![\w+.-])(?:mailto:)?[\w+.-]++@(?:[\w-]+\.)+[^\W\d_]{{2,}}
    """,
    re.VERBOSE,
)
_TRAILING = frozenset(".,;:!?'\u2019*_~…·")
_BRACKETS = {")": "(", "]": "[", "}": "{"}


def find(text: str) -> list[Span]:
    """Where the placeholders and addresses of a text are, in order."""
    spans = []
    position = 0
    while found := _SPECIAL.search(text, position):
        start, end = found.span()
        position = end
        if found["address"] is not None:
            end = _without_trailing(text, found.start("address"), end)
            if end == found.start("address"):
                continue
            position = end
        spans.append((start, end))
    return spans


def _without_trailing(text: str, start: int, end: int) -> int:
    """Where an address ends that punctuation of the sentence may follow."""
    address = text[start:end]
    surplus = {close: address.count(close) - address.count(_BRACKETS[close]) for close in _BRACKETS}
    while end > start:
        last = text[end - 1]
        if surplus.get(last, 0) > 0:
            surplus[last] -= 1
        elif last not in _TRAILING:
            break
        end -= 1
    return end
