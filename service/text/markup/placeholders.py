"""Finds placeholders, addresses, paths, codes, fillers, mentions, hashtags and emoji, for copying.

Tags are not matched, except the ``<x id="7"/>`` of translation files, which occur in otherwise
plain texts. Every pattern takes linear time on any text.
"""

from __future__ import annotations

import re

from service.text.alignment import Span

_PRINTF = r"(?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcsp@]"
_EMOJI = r"[\u2600-\u27bf\U0001f000-\U0001f1e5\U0001f200-\U0001faff]"
_WITH = r"[\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"
"""Variation, enclosing key, skin tone and tags of regional flags."""
_HEX = "[0-9a-fA-F]"
_GROUPS = rf"{_HEX}{{1,4}}(?::{_HEX}{{1,4}})"
_CODE = rf"""
    (?<![\w+./\\@-])(?:(?:
      {_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}                    # UUID
    | {_HEX}{{2}}(?:[:-]{_HEX}{{2}}){{5}}                             # MAC address
    | (?:{_GROUPS}{{7}} | (?=[a-fA-F:]*+\d)(?:{_GROUPS}{{0,6}})?::(?:{_GROUPS}{{0,6}})?)
      (?:%\w+)?(?:/\d{{1,3}})?                                       # IPv6 address
    | 0[xX]{_HEX}{{8,}}
    | (?!(?:\d++[a-fA-F]*+|[a-fA-F]++\d*+)(?!\w)){_HEX}{{8,}}         # more than 50000000e
    | (?!(?:[0-9]{{0,4}}[A-Z]++|[0-9]++[A-Z]{{1,3}}|[A-Z]++[0-9]{{0,4}})(?!\w))
      (?=(?:[A-Z]*+[0-9]){{2}})(?=[0-9]*+[A-Z])[A-Z0-9]{{8,}}         # C02XK0AAJG5J, not EURO2024
    | (?P<groups>[A-Z0-9]{{3,8}}(?:-[A-Z0-9]{{3,8}})++)               # AB12-CD34-EF56
    )(?![\w:-]|[./]\w)
    | (?=[\w+/.-]{{24}})  # base64
      (?P<mixed>[a-zA-Z0-9+/_-]++(?:\.[a-zA-Z0-9+/_-]++)*+={{0,2}})(?!\w)
    )
"""
_FILLER = r"""
    _(?<!__)_{2,}+(?!\w) | _(?<!\w_)_{2,}+                            # blank of a form
    | \.(?<!\S\.)(?:\.{5,}+ | \.{3,}+(?=[ ]\d)) | \.{4,}+(?=\d) | \.{8,}+ | \.(?:[ ]\.){3,}+
    | …(?<!\S…)…++ | …{4,}+ | ·{3,}+ | ={4,}+ | -(?<!--)-{3,}+(?!\w) | -(?<![\w-]-)-{3,}+
    | \*(?<![\w*]\*)\*{3,}+(?![\w-])
"""
_SIGN = r"""
    \|++ | [©®™℠]
    | ~(?<![\w~]~)~*+ | ~(?<!~~)~*+(?!\w)                             # not a~b
    | (?P<ticks>`++)
"""
_SPECIAL = re.compile(
    rf"""
    (?!(?<=\w)[^\W_])(?:  # None begins inside a word. This saves trying all at each letter.
      \{{\{{\{{[^{{}}\n]+\}}\}}\}} | \{{\{{[^{{}}\n]+\}}\}}          # {{{{ name }}}}
    | \{{%[^{{}}\n]*%\}}                                             # {{% tag %}}
    | [$%#]\{{[^{{}}\n]+\}}                                          # ${{name}}, %{{name}}
    | \{{[ ]?(?:[\w.\-\[\]]+(?:![rsa])?(?::[^{{}}\s]*)?)?[ ]?\}}     # {{name}}, {{0:.2f}}
    | %\(\w+\)[-+\#0]*\d*(?:\.\d+)?{_PRINTF}                         # %(name)s
    | %\d+\$[-+\#0']*\d*(?:\.\d+)?{_PRINTF}                          # %1$s
    | (?<![%\d])(?<!\d\s)%[-+\#0']*(?:(?:\d+|\*)?\.(?:\d+|\*))?{_PRINTF}
    | (?<!%)%[-+\#0']*(?:\d+|\*)?(?:\.(?:\d+|\*))?{_PRINTF}(?!\w)    # 10 %s, but not 10 %der
    | (?<!%)%%(?!%)
    | _(?<!\w_)_[A-Z][A-Z0-9_]*+(?<=__)(?!\w)                        # __NAME__
    | \*\|[^|*\n]+\|\*                                              # *|NAME|*
    | \#(?<!\#\#)\#[A-Z][A-Z0-9_]*+\#\#(?!\#)                           # ##NAME##
    | \\\([^()\s]++\)                                               # \\(name)
    | \\(?<!\\[nrt]\\)[nrt](?:\\[nrt])*+(?![a-z])
    | \\(?<=[.,:;!?]\\)[nrt](?:\\[nrt])*+                             # \\n, not \\neu
    | <(?:x|bx|ex|ph)(?:\s[^<>]*)?(?:/>|></(?:x|bx|ex|ph)>)          # <x id="7"/>
    | (?<![\w+.-])(?:[a-zA-Z][a-zA-Z0-9+.-]{{1,20}}://|(?i:www\.)(?=[^\W_]))
      (?P<address>[^\s<>"\u2018\u201a-\u201f«»\u2039\u203a\\^`|\u3000-\u303f\uff00-\uff0f]+)
    | (?<![\w./\\~<])(?P<path>(?:[a-zA-Z]:\\|~/|(?:\.\.?/)++(?=\w)|/[\w.-]++/)
      [^\s<>"\u2018\u201a-\u201f«»\u2039\u203a]++)                   # C:\a.txt, ~/a, ./a, /a/b
    | (?<![\w+.-])(?:mailto:)?[\w+.-]++@(?:[\w-]+\.)+[^\W\d_]{{2,}}
    | (?<![\w@\#&/.+-])[@\#](?=\d*+[^\W\d])\w++(?:[.-]\w++)*+(?:@\w++(?:[.-]\w++)*+)?  # @user, #tag
    | {_FILLER}
    | {_CODE}
    | {_SIGN}
    | [\U0001f1e6-\U0001f1ff]{{2}}                                 # flags
    | {_EMOJI}{_WITH}*+(?:\u200d{_EMOJI}{_WITH}*+)*+
    )
    """,
    re.VERBOSE,
)
_POSSIBLE = re.compile(
    r"""
    [{%<@\#/\\|~`©®™℠0-9._…·=*\-\u2600-\u27bf\U0001f000-\U0001faff]
    (?: (?<![0-9._…·=*\-])
      | (?<=[_·=*\-])[_·=*\-]{2} | (?<=_)_[A-Z] | (?<=…)… | (?<=\.)(?:\.{3}|[ ]\.[ ]\.)
      | (?<=[wW]{3}\.)
      | (?<=[0-9])
        (?: [a-zA-Z] | (?<=[a-zA-Z].) | (?<=[a-fA-F:][:-].)
          | :[0-9a-fA-F]{0,4}: | -[0-9]{4}- | -[0-9a-fA-F]{2}- ) )
    """,
    re.VERBOSE,
)
"""Matches in every text in which ``_SPECIAL`` does, thirty times as fast.

A set of characters comes first, which is what makes searching fast.
"""
_DIVIDER = re.compile(r"[.…·=*|-]+|\.(?: \.)+|(?:\\[nrt])+")
_QUOTED_CODE = re.compile(r"(?<!\w)(`++)(?! )[^`\n]++(`++)(?!\w)")
"""Backticks that only open a quotation, as in `this', and those inside words are no marks."""
_RUNS = re.compile("[a-z]+|[A-Z]+|[0-9]+")
_TRAILING = frozenset(".,;:!?'\u2019*_~…·")
_SHORTEST_OF_TWO = 4
_LONGEST_MEAN_RUN = 2.3
_BRACKETS = {")": "(", "]": "[", "}": "{"}


def is_one(text: str) -> bool:
    """Whether a text is one placeholder, address, path, mention, hashtag or emoji."""
    return find(text) == [(0, len(text))]


def find(text: str) -> list[Span]:
    """The spans of the placeholders, addresses, codes and the like in a text, in order."""
    spans: list[Span] = []
    if not _POSSIBLE.search(text):
        return spans
    position, end_of_code = 0, -1
    while found := _SPECIAL.search(text, position):
        start, end = found.span()
        position = end
        match found.lastgroup:
            case "address" | "path" as group:
                end = _without_trailing(text, found.start(group), end)
                if end == found.start(group):
                    continue
                position = end
            case "groups" | "mixed" as group:
                if not (_is_grouped if group == "groups" else _is_mixed)(found[group]):
                    # Other placeholders may begin inside. A code may not: letters are before it.
                    position = start + 1
                    continue
            case "ticks" if end != end_of_code:
                code = _QUOTED_CODE.match(text, start)
                if code is None or code[1] != code[2]:
                    continue
                end_of_code = code.end()
        spans.append((start, end))
    return spans


def divides(placeholder: str) -> bool:
    """Whether what ``find`` has found separates two texts, which are not one sentence.

    A leader of dots, a vertical bar and an escaped line break do. The blank of a form may be a
    word of its sentence.
    """
    return _DIVIDER.fullmatch(placeholder) is not None


def _is_grouped(text: str) -> bool:
    """Whether words joined by hyphens are a code: letters and digits are mixed in them."""
    groups = text.split("-")
    with_digits = [group for group in groups if not group.isalpha()]
    mixed = [group for group in with_digits if not group.isdigit()]
    if len(groups) == 2:
        return len(mixed) == 2 and min(map(len, mixed)) >= _SHORTEST_OF_TWO
    return bool(mixed) and (len(with_digits) > 1 or len(set(map(len, groups))) == 1)


def _is_mixed(text: str) -> bool:
    """Whether capitals, small letters and digits alternate as often as in base64.

    The mean run of one kind has 1.6 characters in base64, and 4 or more in compounds.
    """
    runs = _RUNS.findall(text)
    return len(text) <= _LONGEST_MEAN_RUN * len(runs) and any(map(str.isdecimal, runs))


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
