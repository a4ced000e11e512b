"""Finds placeholders, addresses, paths, mentions, hashtags and emoji, which are not translated.

Tags are not matched, except the ``<x id="7"/>`` of translation files, which occur in otherwise
plain texts. Every pattern takes linear time on any text.
"""

from __future__ import annotations

import re

from service.translation.alignment import Span

_PRINTF = r"(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcsp@]"
_EMOJI = r"[\u2600-\u27bf\U0001f000-\U0001f1e5\U0001f200-\U0001faff]"
_WITH = r"[\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
"""Variation, enclosing key, skin tone and tags of regional flags."""
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
    | (?<![\w./\\~<])(?P<path>(?:[a-zA-Z]:\\|~/|(?:\.\.?/)++(?=\w)|/[\w.-]++/)
      [^\s<>"\u2018\u201a-\u201f«»\u2039\u203a]++)                   # C:\a.txt, ~/a, ./a, /a/b
    | (?<![\w+.-])(?:mailto:)?[\w+.-]++@(?:[\w-]+\.)+[^\W\d_]{{2,}}
    | (?<![\w@\#&/.+-])[@\#](?=\d*+[^\W\d])\w++(?:[.-]\w++)*+(?:@\w++(?:[.-]\w++)*+)?  # @user, #tag
    | [\U0001f1e6-\U0001f1ff]{{2}}                                 # flags
    | {_EMOJI}{_WITH}*+(?:\u200d{_EMOJI}{_WITH}*+)*+
    """,
    re.VERBOSE,
)
_POSSIBLE = re.compile("[{%<@#/\\\\\u2600-\u27bf\U0001f000-\U0001faff]|(?i:www)\\.")
"""Matches in every text in which ``_SPECIAL`` does, ten times as fast."""
_TRAILING = frozenset(".,;:!?'\u2019*_~…·")
_BRACKETS = {")": "(", "]": "[", "}": "{"}


def is_one(text: str) -> bool:
    """Whether a text is one placeholder, address, path, mention, hashtag or emoji."""
    return find(text) == [(0, len(text))]


def find(text: str) -> list[Span]:
    """The spans of the placeholders, addresses and the like in a text, in order."""
    spans: list[Span] = []
    if not _POSSIBLE.search(text):
        return spans
    position = 0
    while found := _SPECIAL.search(text, position):
        start, end = found.span()
        position = end
        if (group := found.lastgroup) is not None:
            end = _without_trailing(text, found.start(group), end)
            if end == found.start(group):
                continue
            position = end
        spans.append((start, end))
    return spans


def _without_trailing(text: str, start: int, end: int) -> int:
    """The end of an address or path without the sentence's punctuation after it."""
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
