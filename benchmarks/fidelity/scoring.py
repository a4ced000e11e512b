"""Judges whether a translation keeps figures, symbols and layout, and whether it hallucinates.

A rule is a function that returns whether a pair of texts violates it. Matched characters are
consumed in this order: verbatim spans, figures, symbols. What is left must hold no further figure.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from benchmarks.fidelity.figures import CONSUMED, consume, find_figures, match_figures
from models.text import repeats_itself

UNKNOWN = re.compile("[\u2047\ufffd]")
"""The tokenizer's unknown piece ``⁇`` and the replacement character of broken UTF-8."""
LONGEST_RATIO, LONGEST_EXTRA = 3, 20

_DASHES = "-–—\u2012\u2015"
_MARKER = re.compile(rf"(?m)^[^\S\n]*([{_DASHES}•*·▪►✓♪]+|\d+[.)]|[a-z]\))(?=\s)")
_DOUBLE_QUOTE = re.compile('["“”„‟«»]')
_SINGLE_QUOTED = re.compile(
    r"(?<!\w)['\u2018\u201a\u2039][^'\u2018-\u201a\u2039\u203a]+['\u2018\u2019\u203a](?!\w)"
)
_FINAL = re.compile(r"([.!?:;,…]+)[\s\"“”„«»'\u2018\u2019)\]}\0♪]*$")


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol or unit, and the words that may replace it."""

    sign: re.Pattern[str]
    words: re.Pattern[str]


def _symbol(sign: str, words: str = "(?!)") -> Symbol:
    # Letters on either side would make it another word. CONSUMED marks a figure and is allowed.
    bounded = rf"(?<![^\W\d_])(?:{sign})(?![^\W\d_])" if sign[0].isalpha() else sign
    return Symbol(re.compile(bounded), re.compile(rf"(?<![^\W\d_])(?:{words})(?![^\W\d_])"))


SYMBOLS = {
    # A longer symbol must be consumed before its part.
    "km/h": _symbol("km/h", "kph|[Kk]ilomet(?:er|re)s? per hour|Stundenkilometern?"),
    "m²": _symbol("m²", "[Ss]quare met(?:er|re)s?|Quadratmetern?|sq ?m"),
    "kWh": _symbol("kWh", "[Kk]ilowatt[ -]hours?|Kilowattstunden?"),
    "km": _symbol("km", "[Kk]ilomet(?:er|re)s?|Kilometern"),
    "cm": _symbol("cm", "[Cc]entimet(?:er|re)s?|Zentimetern?"),
    "mm": _symbol("mm", "[Mm]illimet(?:er|re)s?|Millimetern"),
    "ml": _symbol("ml", "[Mm]illilit(?:er|re)s?|Millilitern"),
    "kg": _symbol("kg", "[Kk]ilo(?:gram(?:me?)?)?s?"),
    "GB": _symbol("GB", "[Gg]igabytes?"),
    "MB": _symbol("MB", "[Mm]egabytes?"),
    "°C": _symbol("° ?C", "[Dd]egrees? (?:Celsius|[Cc]entigrade)|Grad Celsius"),
    "€": _symbol(r"(?:€|\bEUR\b)", "[Ee]uros?"),
    "$": _symbol(r"(?:(?:US)?\$|\bUSD\b)", "(?:US-)?[Dd]ollars?"),
    "£": _symbol(r"(?:£|\bGBP\b)", "[Pp]ounds?(?: sterling)?|Pfund"),
    "%": _symbol("%", "[Pp]rozent|[Pp]er ?cent"),
    "°": _symbol("°", "[Gg]rad|[Dd]egrees?"),
    "§": _symbol(
        "§+", "[Ss]ections?|[Ss]ec\\.|Paragraf|[Pp]aragraph|Abschnitt|Art(?:\\.|ikel|icle)"
    ),
    "&": _symbol("&", "und|and"),
    "#": _symbol("#", "Nr\\.|No\\.|[Nn]umber|Nummer"),
    **{sign: _symbol(re.escape(sign)) for sign in "@*_+=≈<>/\\|~^→←•·✓✗♪♫©®™±×÷½¼…"},
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome for one translation."""

    violated: tuple[str, ...]
    """Names of the violated rules of keeping. Empty: everything is kept."""
    hallucinated: bool
    unknown: bool
    other_ending: bool
    """The final punctuation differs in kind. Reported, and not part of ``violated``."""

    @property
    def kept(self) -> bool:
        return not self.violated

    @property
    def failures(self) -> list[str]:
        return [*self.violated, *(["hallucinated"] * self.hallucinated)]


def judge(
    source: str, translation: str, spans: tuple[str, ...], languages: tuple[str, str]
) -> Verdict:
    """Compare a translation with its source.

    ``spans`` are parts of the source that must appear unchanged; ``languages`` are the source and
    target language.
    """
    left, right = normalise(source), normalise(translation)
    lost_spans, left, right = match_spans(spans, left, right)
    figures = find_figures(left, *languages)
    missing, right = match_figures(figures, right)
    for figure in figures:
        left = consume(left, figure.start, figure.end)
    # The full stop of "5 p.m." is also that of its sentence.
    abbreviated = any(re.search(r"[ap]\.\s?m\.$", text.strip()) for text in (source, translation))
    other_ending = not abbreviated and ending(left) != ending(right)
    other_quotes = quotes(left) != quotes(right)
    other_brackets = brackets(left) != brackets(right)
    symbols, left, right = match_symbols(left, right)
    letters = has_letters(source)
    broken = {
        "spans": lost_spans > 0,
        "figures": missing > 0 or re.search(r"\d", right) is not None,
        "symbols": bool(symbols) or other_brackets,
        "quotes": other_quotes,
        "line marks": markers(source) != markers(translation),
        "blanks": margins(source) != margins(translation),
        # "3.30 Uhr" may become "3:30". Other words must have a translation.
        "words": has_letters(left) and not has_letters(right),
        # "42." is an ordinal in German, and "---" has nothing but punctuation.
        "punctuation": not letters and punctuation(left) != punctuation(right),
    }
    invented = not letters and has_letters(right)
    return Verdict(
        tuple(rule for rule, violated in broken.items() if violated),
        invented or is_too_long(source, translation) or has_new_loop(source, translation),
        UNKNOWN.search(translation) is not None and UNKNOWN.search(source) is None,
        other_ending,
    )


def keeps_figures(source: str, translation: str, languages: tuple[str, str]) -> bool:
    """Whether all figures of a sentence are kept. Further figures are permitted.

    A translator may write "two" as "2".
    """
    figures = find_figures(normalise(source), *languages)
    return match_figures(figures, normalise(translation))[0] == 0


def normalise(text: str) -> str:
    """No-break blanks become blanks, and three full stops an ellipsis."""
    return re.sub("[\u00a0\u202f\u2009]", " ", text).replace("...", "…").replace("\u00ad", "")


def match_spans(spans: tuple[str, ...], source: str, translation: str) -> tuple[int, str, str]:
    """How many spans the translation lacks, and both texts without the matched spans."""
    missing = 0
    for span in sorted(map(normalise, spans), key=len, reverse=True):
        # A longer word, number or address that contains the span is another one.
        pattern = re.compile(rf"(?<!\w){re.escape(span)}(?!\w)")
        if match := pattern.search(source):
            source = consume(source, *match.span())
        if match := pattern.search(translation):
            translation = consume(translation, *match.span())
        else:
            missing += 1
    return missing, source, translation


def match_symbols(source: str, translation: str) -> tuple[list[str], str, str]:
    """Symbols lost or added, and both texts without symbols and the words that replace them."""
    differing = []
    for name, symbol in SYMBOLS.items():
        signs, made = (len(symbol.sign.findall(text)) for text in (source, translation))
        if not signs and not made:
            continue
        words, spelt = (len(symbol.words.findall(text)) for text in (source, translation))
        if made + spelt < signs or made > signs + words:
            differing.append(name)
        source, translation = (
            _without(symbol.words, _without(symbol.sign, text)) for text in (source, translation)
        )
    return differing, source, translation


def _without(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: CONSUMED * len(match[0]), text)


def brackets(text: str) -> tuple[Counter[str], bool]:
    """The brackets, and whether each opening one is closed by the next closing one of its kind."""
    found = "".join(character for character in text if character in "()[]{}")
    inner = found
    while (shorter := re.sub(r"\(\)|\[\]|\{\}", "", inner)) != inner:
        inner = shorter
    return Counter(found), not inner


def quotes(text: str) -> int:
    """Number of quotation marks of any style. Apostrophes do not count."""
    return len(_DOUBLE_QUOTE.findall(text)) + 2 * len(_SINGLE_QUOTED.findall(text))


def markers(text: str) -> list[str]:
    """The bullet, number or dash at the beginning of each line, or nothing. All dashes are equal.

    The number of a single line may be a German ordinal, and is no marker.
    """
    found = []
    lines = text.strip().split("\n")
    for line in lines:
        match = _MARKER.match(line)
        marker = match[1] if match and not (len(lines) == 1 and match[1][0].isdigit()) else ""
        found.append("-" if marker and marker in _DASHES else marker)
    return found


def margins(text: str) -> tuple[str, str]:
    """The blanks before and after a text."""
    stripped = text.strip()
    start = text.find(stripped)
    return text[:start], text[start + len(stripped) :]


def ending(text: str) -> str:
    """Kind of the final punctuation. A full stop may replace ``!``."""
    match = _FINAL.search(text)
    return match[1][-1].replace("!", ".") if match else ""


def punctuation(text: str) -> Counter[str]:
    """Punctuation and other signs. Dashes are equal, and quotation marks."""
    plain = _DOUBLE_QUOTE.sub('"', re.sub(f"[{_DASHES}]", "-", text))
    return Counter(
        each for each in plain if not (each.isalnum() or each.isspace() or each == CONSUMED)
    )


def is_too_long(source: str, translation: str) -> bool:
    """Whether the translation is longer than any correct one."""
    return len(translation) > LONGEST_RATIO * len(source) + LONGEST_EXTRA


def has_new_loop(source: str, translation: str) -> bool:
    """Whether the translation has a repetition loop, and the source has none."""
    return repeats_itself(translation) and not repeats_itself(source)


def has_letters(text: str) -> bool:
    return any(map(str.isalpha, text))
