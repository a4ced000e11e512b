"""Recognises numbers, dates and times, and lists the forms in which a translation may write them.

A form is a regular expression. A figure counts as kept only in a listed form. Known languages are
German (``de``) and English (``en``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

CONSUMED = "\0"
"""Replaces each character that belongs to a matched figure, span or symbol."""

_MONTH_NAMES = {
    "de": "Jan|Januar|Jänner Feb|Februar Mär|März Apr|April Mai Jun|Juni Jul|Juli Aug|August "
    "Sep|Sept|September Okt|Oktober Nov|November Dez|Dezember",
    "en": "Jan|January Feb|February Mar|March Apr|April May Jun|June Jul|July Aug|August "
    "Sep|Sept|September Oct|October Nov|November Dec|December",
}
_MONTHS = {language: names.split() for language, names in _MONTH_NAMES.items()}
_WORDS = {
    "de": "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "en": "one two three four five six seven eight nine ten eleven twelve",
}
_NUMBER_WORDS = {
    language: {str(value): word for value, word in enumerate(words.split(), start=1)}
    for language, words in _WORDS.items()
}
_PM, _AM = r"(?:\s?[pP]\.?\s?[mM]\b\.?)", r"(?:\s?[aA]\.?\s?[mM]\b\.?)"
_GERMAN_AM = r"(?:\s?(?:[aA]\.\s?[mM]\.|AM\b))"
"""German has the word "am", as in "14:15 Uhr am Mittwoch"."""
_CLOCK = r"(?:\s?(?:Uhr\b|o['\u2019]clock\b))"
_EVENING = r"(?:abends|nachmittags|am (?:Abend|Nachmittag)|in the (?:afternoon|evening))"
_BEFORE_HOUR = r"(?:,\s\d\d?)*(?:\s(?:bis|und|oder)\s|\s?[-–]\s?)\d\d?(?:[:.]\d\d)?\sUhr\b"
"""Rest of a list of hours after its first one, as after ``11`` in ``11, 13 und 15 Uhr``."""
_COMPOUND = "prozent|jähr|täg|wöch|monat|stünd|minüt"
"""Words that may follow a German number word without a blank: ``zehnprozentig``."""
_GROUPERS = (".", ",", " ", "'", "\u2019", "")

_BEFORE, _AFTER = r"(?<!\d)(?<!\d[.,:])", r"(?!\d)(?![.,:]\d)"
_ISO = re.compile(rf"{_BEFORE}(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d){_AFTER}")
_NUMERIC_DATE = re.compile(
    rf"{_BEFORE}(?P<first>\d\d?)(?P<mark>[./-])(?P<second>\d\d?)(?P=mark)(?P<year>\d{{4}}|\d\d)"
    rf"{_AFTER}"
)
_DAY_AND_MONTH = re.compile(rf"{_BEFORE}(?P<first>\d\d?)\.(?P<second>\d\d?)\.(?![\d.])")
_TIME = {
    "de": re.compile(
        rf"{_BEFORE}(?P<hour>\d\d?)(?:(?P<mark>[:.])(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?)?"
        rf"(?P<suffix>\s?Uhr\b(?:\s{_EVENING})?|(?={_BEFORE_HOUR}))?{_AFTER}"
    ),
    "en": re.compile(
        rf"{_BEFORE}(?P<hour>\d\d?)(?:(?P<mark>[:.])(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?)?"
        rf"(?P<suffix>{_CLOCK}|{_PM}|{_AM})?{_AFTER}"
    ),
}
_SCORE = re.compile(rf"{_BEFORE}(\d{{1,3}}):(\d{{1,3}}){_AFTER}")
_NUMBER = re.compile(
    r"(?P<sign>(?<![^\s(])[-−])?"
    r"(?<!\d)(?P<body>\d{1,3}(?:[ '\u2019]\d{3})+(?!\d)(?:[.,]\d+(?!\d))?|\d+(?:[.,]\d+)*)"
)

Forms = tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, date or time of a source text."""

    start: int
    end: int
    accepted: tuple[Forms, ...]
    """Alternatives. All forms of one alternative must match for the figure to be kept."""


def find_figures(text: str, source: str, target: str) -> list[Figure]:
    """The figures of a text in language ``source``, with the forms accepted in ``target``."""
    found: list[Figure] = []
    # A date must not be read as a time, nor a time as a number. Recognised characters are removed.
    for recognise in (_dates, _times, _scores, _numbers):
        for figure in recognise(text, source, target):
            found.append(figure)
            text = consume(text, figure.start, figure.end)
    return found


def match_figures(figures: list[Figure], translation: str) -> tuple[int, str]:
    """How many figures have no match, and the translation without the matched characters.

    Figures are matched in order, each to characters that no other figure has taken.
    """
    missing = 0
    for figure in figures:
        for forms in figure.accepted:
            if (remaining := _match_all(forms, translation)) is not None:
                translation = remaining
                break
        else:
            missing += 1
    return missing, translation


def consume(text: str, start: int, end: int) -> str:
    """The text with the characters from ``start`` to ``end`` marked as matched."""
    return text[:start] + CONSUMED * (end - start) + text[end:]


def _match_all(forms: Forms, text: str) -> str | None:
    for form in forms:
        match = form.search(text)
        if match is None:
            return None
        text = consume(text, *match.span())
    return text


def _form(*expressions: str) -> re.Pattern[str]:
    """One of the expressions, not as a part of a longer number."""
    either = "|".join(f"(?:{each})" for each in expressions)
    return re.compile(rf"{_BEFORE}(?:{either}){_AFTER}")


def _figure(match: re.Match[str], *accepted: Forms) -> Figure:
    """A figure that may also be copied. The full stop of ``24.12.`` can be that of a sentence."""
    verbatim = _form(re.escape(match[0].rstrip(".")))
    return Figure(*match.span(), ((verbatim,), *accepted))


# Dates


def _dates(text: str, source: str, target: str) -> Iterator[Figure]:
    taken = text
    for pattern in (_ISO, _NUMERIC_DATE, *((_DAY_AND_MONTH,) if source == "de" else ())):
        for match in pattern.finditer(taken):
            readings = _readings(match, source)
            if readings:
                year = match.groupdict().get("year")
                yield _figure(match, (_date_form(readings, year, target),))
                taken = consume(taken, *match.span())
    for match in _written_date(source).finditer(taken):
        day = match["day"] or match["day_after"]
        year = match["year"]
        month = next(
            number
            for number, names in enumerate(_MONTHS[source], start=1)
            if match["month"].rstrip(".") in names.split("|")
        )
        # The day and month of one date are apart in a range such as "4.-6. November".
        apart = [_form(day), *([_form(year)] if year else [])]
        named = re.compile(rf"\b(?:{_MONTHS[target][month - 1]})\b")
        whole = _date_form([(int(day), month)], year, target)
        yield _figure(match, (whole,), (*apart, named))


def _written_date(language: str) -> re.Pattern[str]:
    months = "|".join(_MONTHS[language])
    if language == "de":
        day, day_after = r"(?P<day>\d\d?)\.\s?", r"(?P<day_after>(?!))?"
    else:
        ordinal = r"(?:st|nd|rd|th)?"
        day = rf"(?:(?P<day>\d\d?){ordinal}\s(?:of\s)?)?"
        day_after = rf"(?(day)|\s(?:the\s)?(?P<day_after>\d\d?){ordinal}(?![\d:.,]*\d))"
    month = rf"(?P<month>(?:{months})\b\.?)"
    return re.compile(rf"{_BEFORE}\b{day}{month}{day_after}(?:,?\s(?P<year>\d{{4}})(?!\d))?")


def _readings(match: re.Match[str], source: str) -> list[tuple[int, int]]:
    """Pairs of day and month. ``5/12/2026`` in English has two."""
    fields = match.groupdict()
    if "month" in fields:
        pairs = [(int(fields["day"]), int(fields["month"]))]
    else:
        first, second = int(fields["first"]), int(fields["second"])
        both = source == "en" and fields.get("mark") == "/"
        pairs = [(first, second), (second, first)] if both else [(first, second)]
    return [(day, month) for day, month in pairs if 1 <= day <= 31 and 1 <= month <= 12]


def _date_form(readings: list[tuple[int, int]], year: str | None, target: str) -> re.Pattern[str]:
    forms = []
    for day, month in readings:
        d, m, name = f"0?{day}", f"0?{month}", rf"(?:{_MONTHS[target][month - 1]})\b\.?"
        if year is None:
            y = dot_y = slash_y = comma_y = ""
        else:
            y = rf"(?:19|20)?{year}" if len(year) == 2 else year
            dot_y, slash_y, comma_y = rf"\s?{y}", rf"/{y}", rf",?\s{y}"
            forms += [rf"{y}-{month:02}-{day:02}", rf"{d}-{m}-{y}"]
        forms += [rf"{d}\.\s?{m}\.{dot_y}", rf"{d}/{m}{slash_y}"]
        if target == "en":
            ordinal = r"(?:st|nd|rd|th)?"
            forms += [
                rf"{m}/{d}{slash_y}",
                rf"{d}{ordinal}\s(?:of\s)?{name}{comma_y}",
                rf"{name}\s(?:the\s)?{d}{ordinal}{comma_y}",
            ]
        else:
            forms += [rf"{d}\.\s?{name}{dot_y}"]
    return _form(*forms)


# Times


def _times(text: str, source: str, target: str) -> Iterator[Figure]:
    for match in _TIME[source].finditer(text):
        hour, minute, suffix = int(match["hour"]), match["minute"] or "00", match["suffix"]
        if hour > 23 or (suffix is None and match["mark"] != ":"):
            continue
        if match["second"]:
            forms = [rf"0?{hour}:{minute}:{match['second']}"]
        else:
            half = re.sub(r"[\s.]", "", suffix or "").lower()
            if half in ("am", "pm"):
                hour = hour % 12 + 12 * (half == "pm")
            elif re.search(_EVENING, suffix or "") and hour < 12:
                hour += 12
            forms = _time_forms(hour, minute, target, whole=match["minute"] is None)
        yield Figure(*match.span(), ((_form(*forms),),))


def _time_forms(hour: int, minute: str, target: str, whole: bool) -> list[str]:
    """Expressions for a time. ``hour`` is of 24. ``whole``: the source has no minutes."""
    twelve = hour % 12 or 12
    am = _GERMAN_AM if target == "de" else _AM
    half = _PM if hour >= 12 else am
    # "10:30" must not become "10:30 p.m.".
    unlike = rf"(?!{am})" if hour >= 12 else rf"(?!{_CLOCK}?(?:{_PM}|\s{_EVENING}))"
    marked = rf"{unlike}(?:{half}|{_CLOCK})"
    forms = [rf"0?{hour}[:.]{minute}{unlike}(?:{half}|{_CLOCK})?", rf"0?{hour}{marked}"]
    if minute != "00":
        forms.pop()
    elif whole:
        forms.append(rf"0?{hour}{unlike}")
    else:
        forms.append(rf"0?{hour}(?={_BEFORE_HOUR})")
    if minute == "00" and 1 <= hour <= 12:
        forms.append(rf"(?i:{_NUMBER_WORDS[target][str(hour)]}){marked}")
    if hour >= 12:
        minutes = rf"(?:[:.]{minute})" + ("?" if minute == "00" else "")
        forms.append(rf"0?{twelve}{minutes}(?:{_PM}|{_CLOCK}?\s{_EVENING})")
    if hour == 0:
        forms.append(rf"12[:.]{minute}{am}")
    return forms


# Numbers


def _scores(text: str, source: str, target: str) -> Iterator[Figure]:
    for match in _SCORE.finditer(text):
        first, second = match.groups()
        together = _form(rf"{first}\s?(?:[-–:]|to|zu)\s?{second}")
        yield _figure(match, (together,))


def _numbers(text: str, source: str, target: str) -> Iterator[Figure]:
    for match in _NUMBER.finditer(text):
        body = match["body"]
        sign = r"(?:[-−–]\s?|[mM]inus\s)" if match["sign"] else ""
        forms = [re.escape(body), *_number_forms(body, source)]
        if not sign and body in _NUMBER_WORDS[target]:
            forms.append(rf"(?i:\b{_NUMBER_WORDS[target][body]}(?:\b|(?={_COMPOUND})))")
        accepted: list[Forms] = [(_form(*(sign + form for form in forms)),)]
        if " " in body:
            # "in 120 200 Euro" may be two numbers.
            accepted.append(tuple(_form(each) for each in re.split("[ .,]", body)))
        yield Figure(*match.span(), tuple(accepted))


def _number_forms(body: str, source: str) -> list[str]:
    """Expressions for a number with other separators.

    A number with one separator and three digits after it is ambiguous: ``1.234`` is an integer in
    German and a fraction in English.
    """
    point = "," if source == "de" else "."
    comma = "." if source == "de" else ","
    for grouper, decimal in ((comma, point), (point, comma), (" ", "[.,]"), ("['\u2019]", "[.,]")):
        match = re.fullmatch(
            rf"(?P<groups>\d{{1,3}}(?:(?:{_class(grouper)})\d{{3}})+)"
            rf"(?:{_class(decimal)}(?P<fraction>\d+))?",
            body,
        )
        if match is None:
            continue
        groups, fraction = re.split(r"\D", match["groups"]), match["fraction"]
        if grouper == point and len(groups) == 2 and fraction is None:
            continue
        return _grouped(groups, fraction)
    if match := re.fullmatch(r"(\d+)[.,](\d+)", body):
        whole, fraction = match.groups()
        return [rf"{whole}[.,]{fraction}", *(_grouped(_groups(whole), fraction))]
    return _grouped(_groups(body), None) if body.isdecimal() else []


def _class(separator: str) -> str:
    return separator if separator.startswith("[") else re.escape(separator)


def _groups(digits: str) -> list[str]:
    """Digits in groups of three. A leading zero means a code, which has no groups."""
    if digits.startswith("0") or len(digits) < 4:
        return [digits]
    head = len(digits) % 3 or 3
    return [digits[:head], *re.findall(r"\d{3}", digits[head:])]


def _grouped(groups: list[str], fraction: str | None) -> list[str]:
    forms = []
    for grouper in _GROUPERS:
        whole = re.escape(grouper).join(groups)
        if fraction is None:
            forms.append(whole)
        else:
            forms += [rf"{whole}\{mark}{fraction}" for mark in ",." if mark != grouper]
    return forms
