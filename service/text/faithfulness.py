"""Keeps what a network should not change: codes, figures, signs, times, and a missing full stop.

Sentences without words are copied, the hypothesis that keeps the figures is preferred, a wrong time
of day is corrected, and an added full stop is removed.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

from models.text import numbers
from service.text.alignment import Span
from service.text.text_edits import Edit

_IDENTIFIER = re.compile(
    r"""
      :// | [@\#\\]                                # URL, e-mail address, @user, #hashtag, C:\path
    | \A[.~]{0,2}/                                 # path
    | [^\W_]_[^\W_]                                # snake_case
    | \w{2}\.[^\W\d_] | \w\.[^\W\d_]\w             # example.com, main.c; not z.B.
    | \d\.\d+\.\d                                  # 1.2.3-beta, 12.05.2026
    """,
    re.VERBOSE,
)
_PARTS = re.compile(r"[^\W_]+")
_NUMBER_WITH_ENDING = re.compile(r"\d+(?:s|[^\W\d_]{2,})")
"""1980s, 1st, 90er, 10am; ``_is_word`` also requires lower case."""
_SHORTEST_WORD = 4


def is_verbatim(sentence: str) -> bool:
    """Whether a sentence has no letters, or consists of codes only.

    A code is a token between blanks that is an URL, e-mail address, path, ``@user``, ``#hashtag``,
    dotted or underscored identifier, or has a digit and no ordinary word: ``B12`` and
    ``XK-2024/B``, but not ``B12-Mangel``, ``1st`` or ``90er``. A token with letters of a script
    without cases is not a code, because such scripts may put no blanks between words.
    """
    return all(_is_code(token) for token in sentence.split() if _has_letters(token))


def _has_letters(text: str) -> bool:
    return any(map(str.isalpha, text))


def _is_code(token: str) -> bool:
    """Requires a token with letters."""
    identifier = _IDENTIFIER.search(token) is not None
    if not identifier and not any(map(str.isdecimal, token)):
        return False
    if any(character.isalpha() and not _has_case(character) for character in token):
        return False
    return identifier or not any(map(_is_word, _PARTS.findall(token)))


def _has_case(letter: str) -> bool:
    return letter.islower() or letter.isupper() or letter.istitle()


def _is_word(part: str) -> bool:
    """Whether a run of letters and digits belongs to ordinary language."""
    if part.isalpha():
        return len(part) >= _SHORTEST_WORD and not part.isupper()
    return part.islower() and _NUMBER_WITH_ENDING.fullmatch(part) is not None


_SIGNS = frozenset("%\u2030°§&@#\\~^_=<>|*+/{}[]")
_SIGN_CATEGORIES = frozenset(("Sc", "So"))
"""Currencies, and other symbols such as © and U+FFFD."""
_WESTERN: dict[int, str] = {
    **{
        code: str(unicodedata.decimal(chr(code)))
        for code in range(0x80, 0x20000)
        if chr(code).isdecimal()
    },
    **{
        ord(sign): ascii_one
        for sign, ascii_one in zip("\u066a\u066b\u066c\uff05\uff04", "%.,%$", strict=True)
    },
}
"""Digits, separators and signs of other scripts, and the ASCII characters that they stand for."""
_NO_LETTER = re.compile(r"[^\w\s]|[\d_]")
"""Matches every digit and every sign, and far fewer characters than a text has."""


def has_figures(text: str) -> bool:
    """Whether a text has a digit or a sign."""
    return any(c.isdecimal() or _is_sign(c) for c in _NO_LETTER.findall(text))


def closest_by_figures(source: str, targets: Iterable[str]) -> int:
    """The number of the target with the fewest missing and added figures and signs.

    The first of equal ones. A target without text is never preferred to the first.
    """
    wanted = _marks(source)
    best, fewest = 0, -1
    for number, target in enumerate(targets):
        found = _marks(target)
        differences = (wanted - found).total() + (found - wanted).total()
        if fewest < 0 or (differences < fewest and target.strip()):
            best, fewest = number, differences
        if not fewest:
            break
    return best


_HALF_DAY = re.compile(
    r"(?<![\d.,:])(1[0-2]|0?[1-9])(?:[:.](\d\d))?\s?([ap])\.?\s?m\b", re.IGNORECASE
)
"""7 p.m., 7:30pm."""
_FULL_HOUR = re.compile(r"(?<![\d.,:])(\d\d?)\s?(?=Uhr\b)")


def _of_a_day(time: re.Match[str]) -> str:
    """A time of twelve hours as one of 24."""
    hour = int(time[1]) % 12 + 12 * (time[3] in "pP")
    return f"{hour}:{time[2] or '00'}"


def _marks(text: str) -> Counter[str]:
    """Count of each number and of each sign; digits of all scripts are equal.

    So are times of twelve and of 24 hours.
    """
    text = _HALF_DAY.sub(_of_a_day, _FULL_HOUR.sub(r"\1:00 ", text.translate(_WESTERN)))
    return numbers(text) + Counter(filter(_is_sign, _NO_LETTER.findall(text)))


def _is_sign(character: str) -> bool:
    return character in _SIGNS or unicodedata.category(character) in _SIGN_CATEGORIES


_TIME = re.compile(
    r"""
    (?<![\d.,:]) (?P<hour>\d\d?) (?P<minutes>[:.]\d\d)? (?![\d:])
    (?: \s? (?P<half>[ap]) (?=\.?\s?m\b) | \s?Uhr\b )?
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Times such as 14:30, 9 Uhr, 2 p.m.; also numbers, which ``_times`` leaves out."""
_DAY = 24 * 60


def corrected_time(source: str, target: str) -> Edit | None:
    """Replaces the only wrong time of day in ``target`` by the one of ``source``.

    Both sides have equally many times, of which one of each has no counterpart. The correction is
    written as the wrong time is, of twelve or of 24 hours.
    """
    wanted = _times(source)
    if not wanted or len(found := _times(target)) != len(wanted):
        return None
    wrong = []
    for time in found:
        meant = set(_minutes(time, written=True))
        same = (each for each in wanted if meant & set(_minutes(each, written=False)))
        if (counterpart := next(same, None)) is None:
            wrong.append(time)
        else:
            wanted.remove(counterpart)
    if len(wrong) != 1 or not (values := _minutes(wanted[0], written=False)):
        return None
    return _rewritten_time(wrong[0], values, wanted[0].span())


def have_same_times(first: str, second: str) -> bool:
    """Whether two texts have the same times of day, written in the same way."""
    return [time[0] for time in _times(first)] == [time[0] for time in _times(second)]


def _times(text: str) -> list[re.Match[str]]:
    return [
        time
        for time in _TIME.finditer(text)
        if not time[0].isdecimal() and not (time[0] == f"{time[1]}{time[2]}" and "." in time[0])
    ]


def _minutes(time: re.Match[str], *, written: bool) -> tuple[int, ...]:
    """Minutes since midnight that a time may mean, as it is written first; none if it is no time.

    9:15 is in the morning or in the evening, and so is 9:15 Uhr, unless ``written`` is set.
    """
    hour, minute = int(time["hour"]), int((time["minutes"] or ":0")[1:])
    if minute > 59 or hour > (12 if time["half"] else 24) or (time["half"] and not hour):
        return ()
    if time["half"]:
        return ((hour % 12 + 12 * (time["half"] in "pP")) * 60 + minute,)
    minutes = (hour * 60 + minute) % _DAY
    if not 1 <= hour <= 12 or (written and time[0][-1] in "rR"):
        return (minutes,)
    return minutes, (minutes + _DAY // 2) % _DAY


def _rewritten_time(time: re.Match[str], values: tuple[int, ...], source: Span) -> Edit:
    """Replaces a time, up to its ``half`` if it has one, by the first value, written alike.

    Of two values, that of the same half of the day is taken.
    """
    half = time["half"]
    of_half = [each for each in values if half and (each >= _DAY // 2) == (half in "pP")]
    hour, minute = divmod((of_half or list(values))[0], 60)
    digits = len(time["hour"]) if time["hour"].startswith("0") else 1
    text = f"{(hour - 1) % 12 + 1 if half else hour:0{digits}}"
    if time["minutes"] or minute:
        text += f"{(time['minutes'] or ':')[0]}{minute:02}"
    end = time.end("minutes") if time["minutes"] else time.end("hour")
    if half:
        letter = "p" if hour >= 12 else "a"
        text += time.string[end : time.start("half")] + (
            letter.upper() if half.isupper() else letter
        )
        end = time.end("half")
    return Edit(time.start(), end, text, source)


_FINAL = frozenset(
    ".!?…:;\u203c\u2047\u2048\u2049"
    "\u3002\uff61\uff0e\uff01\uff1f\uff1a\uff1b"  # Chinese and Japanese
    "\u061b\u061f\u06d4\u0964\u0965\u0589\u1362"  # Arabic, Devanagari, Armenian, Ethiopic
    "\u037e\u0387\u104b\u17d4\u17d5"  # Greek, Burmese, Khmer
)
_FULL_STOPS = frozenset(".\u3002\uff61\uff0e\u06d4\u0964\u0589\u1362\u104b\u17d4")
_ABBREVIATION = re.compile(r"(?:.*[^\w.])?(?:[^\W\d_]{1,2}\.){2,}", re.DOTALL)
"""Matches a text that ends with an abbreviation such as U.S. or p.m."""


def added_full_stop(source: str, target: str) -> int | None:
    """The offset of a final full stop in ``target`` that ``source`` lacks, or ``None``.

    Closing quotation marks and brackets may follow it. The result is ``None`` if the source ends
    with a mark that ends sentences or clauses (``. ! ? … : ;``). The dots of an ellipsis, of an
    abbreviation (``U.S.``), and of an ordinal number (``der 3.`` for ``the third``) do not count.
    """
    end = _without_closing(target)
    if end < 2 or target[end - 1] not in _FULL_STOPS:
        return None
    before = target[end - 2]
    source_end = _without_closing(source)
    if source_end and source[source_end - 1] in _FINAL:
        return None
    if before.isspace() or before in _FINAL or _ABBREVIATION.fullmatch(target[:end]):
        return None
    if before.isdecimal() and not (source_end and source[source_end - 1].isdecimal()):
        return None
    return end - 1


def ends_sentence(text: str) -> bool:
    """Whether a text ends with a mark that ends sentences or clauses."""
    end = _without_closing(text)
    return bool(end) and text[end - 1] in _FINAL


def _without_closing(text: str) -> int:
    """The end of a text before trailing blanks, closing quotation marks and closing brackets."""
    end = len(text)
    while end and (
        text[end - 1].isspace()
        or text[end - 1] in "\"'"
        or unicodedata.category(text[end - 1]) in ("Pe", "Pf", "Pi")
    ):
        end -= 1
    return end
