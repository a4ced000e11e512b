"""Generates the short source texts from ``inputs.de.txt`` and ``inputs.en.txt``.

A file has sections, one for each kind of input. A line is a text, or a template with fields such as
``⟨date⟩``, which are filled by a random generator with a fixed seed. ``⟦…⟧`` marks a span that the
translation must keep unchanged, and ``\\n`` a line break.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from random import Random

PER_KIND = 17
LANGUAGES = ("de", "en")
FIRST_DAY, LAST_DAY = date(1900, 1, 1), date(2030, 12, 31)

Field = Callable[[Random, str], str]
"""Returns a value, from a random generator and the language."""

_FIELD = re.compile("⟨(.+?)⟩")
_SPAN = re.compile("⟦(.*?)⟧", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Input:
    """A source text, and the parts of it that must not change."""

    kind: str
    text: str
    spans: tuple[str, ...] = ()


def inputs(language: str) -> list[Input]:
    """The inputs of a source language, the same at every call: at least ``PER_KIND`` of a kind."""
    path = Path(__file__).with_name(f"inputs.{language}.txt")
    found = []
    for kind, lines in sections(path.read_text(encoding="utf-8")).items():
        found += _of_kind(kind, lines, language)
    return found


def sections(text: str) -> dict[str, list[str]]:
    """The lines below each heading ``## kind``. Lines that begin with ``# `` are comments."""
    found: dict[str, list[str]] = {}
    kind = ""
    for line in text.splitlines():
        if heading := re.fullmatch("## (.+)", line):
            kind = heading[1]
            found[kind] = []
        elif line and not line.startswith("# "):
            found[kind].append(line.replace("\\n", "\n"))
    return found


def parse(kind: str, line: str) -> Input:
    """A line without the marks of its spans."""
    return Input(kind, _SPAN.sub(r"\1", line), tuple(_SPAN.findall(line)))


def _of_kind(kind: str, lines: list[str], language: str) -> list[Input]:
    random = Random(f"{language} {kind}")
    templates = [line for line in lines if _FIELD.search(line)]
    found = [parse(kind, line) for line in lines if not _FIELD.search(line)]
    known = {each.text for each in found}
    number = 0
    while number < len(templates) or (templates and len(found) < PER_KIND):
        line = templates[number % len(templates)]
        number += 1
        filled = parse(kind, _FIELD.sub(lambda field: value(field[1], random, language), line))
        if filled.text not in known:
            known.add(filled.text)
            found.append(filled)
    return found


def value(field: str, random: Random, language: str) -> str:
    """A random value for a field, with the marks of a span where it must not change."""
    if field in _VERBATIM:
        return f"⟦{_VERBATIM[field](random, language)}⟧"
    return _TRANSLATED[field](random, language)


def _grouped(number: int, language: str) -> str:
    return f"{number:,}".replace(",", "." if language == "de" else ",")


def _decimal(random: Random, language: str, places: int = 1, highest: int = 999) -> str:
    whole, fraction = random.randrange(highest), random.randrange(1, 10**places)
    return f"{whole}{',' if language == 'de' else '.'}{fraction:0{places}}"


def _day_of_calendar(random: Random) -> date:
    return date.fromordinal(random.randint(FIRST_DAY.toordinal(), LAST_DAY.toordinal()))


def _date(random: Random, language: str) -> str:
    day = _day_of_calendar(random)
    if random.random() < 0.2:
        return day.isoformat()
    return f"{day:%d.%m.%Y}" if language == "de" else f"{day.month}/{day.day}/{day.year}"


def _written_date(random: Random, language: str) -> str:
    day = _day_of_calendar(random)
    month = _MONTHS[language].split()[day.month - 1]
    return (
        f"{day.day}. {month} {day.year}" if language == "de" else f"{month} {day.day}, {day.year}"
    )


def _clock(random: Random, language: str) -> str:
    hour, minute = random.randint(0, 23), random.choice((0, 5, 15, 30, 45, 59))
    if language == "de":
        return f"{hour}{random.choice(':.')}{minute:02} Uhr"
    return f"{hour % 12 or 12}:{minute:02} {'p.m.' if hour >= 12 else 'a.m.'}"


def _amount(random: Random, language: str) -> str:
    number, cents = random.randint(1, 25_000), random.randrange(100)
    whole = _grouped(number, language)
    if language == "de":
        form = random.choice(("{},{:02} €", "{},{:02} EUR", "{} €", "{} $", "{},{:02} £"))
    else:
        form = random.choice(("${}.{:02}", "€{}.{:02}", "{}.{:02} EUR", "£{}", "${}"))
    return form.format(whole, cents)


def _iban(random: Random, _: str) -> str:
    """A German IBAN with valid check digits (ISO 7064, mod 97-10)."""
    account = f"{random.randrange(10**17, 10**18)}"
    check = 98 - int(f"{account}131400") % 97
    digits = f"DE{check:02}{account}"
    return " ".join(digits[start : start + 4] for start in range(0, len(digits), 4))


def _phone(random: Random, language: str) -> str:
    number = f"{random.randrange(10**6, 10**7)}"
    if language == "de":
        form = random.choice(("+49 170 {}", "030 {}", "0171/{}", "+49 (0)89 {}"))
        return form.format(number)
    form = random.choice(("+1 415 {}-{}", "(020) {}{}", "+44 20 {} {}", "555-{}-{}"))
    return form.format(number[:3], number[3:])


def _version(random: Random, _: str) -> str:
    major, minor, patch = random.randint(0, 20), random.randint(0, 30), random.randint(0, 99)
    form = random.choice(("v{}.{}.{}", "{}.{}.{}", "{}.{}.{}-rc1", "{}.{}.{}-beta.2", "v{}.{}"))
    return form.format(major, minor, patch)


def _host(random: Random) -> str:
    name = random.choice(("example", "my-shop", "beispiel", "news24", "data.example"))
    return f"{name}.{random.choice(('com', 'de', 'org', 'co.uk'))}"


def _url(random: Random, _: str) -> str:
    path = random.choice(("", "/", "/a/b?id={}", "/docs/v2/index.html#part-{}", "/img_{}.png"))
    return f"{random.choice(('https://', 'http://', 'https://www.'))}{_host(random)}" + path.format(
        random.randint(1, 9999)
    )


def _email(random: Random, _: str) -> str:
    name = random.choice(("anna.schmidt", "info", "j_doe", "support+news", "max99"))
    return f"{name}@{_host(random)}"


def _choice(*values: str) -> Field:
    return lambda random, _: random.choice(values)


def _unit(random: Random, language: str) -> str:
    number = random.choice((str(random.randint(2, 990)), _decimal(random, language)))
    unit = random.choice(("km", "kg", "cm", "GB", "kWh", "km/h", "m²", "ml", "°C", "mm", "MB"))
    return f"{number} {unit}"


def _integer(random: Random, _: str) -> str:
    return str(random.randrange(2, 10 ** random.randint(1, 5) + 2))


_MONTHS = {
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "en": "January February March April May June July August September October November December",
}
_TRANSLATED: dict[str, Field] = {
    "integer": _integer,
    "small": lambda random, _: str(random.randint(2, 99)),
    "grouped": lambda random, language: _grouped(random.randint(1_000, 9_999_999), language),
    "decimal": lambda random, language: _decimal(random, language, random.randint(1, 3)),
    "percent": lambda random, language: _decimal(random, language, highest=100),
    "date": _date,
    "day": _written_date,
    "time": lambda random, _: f"{random.randint(0, 23):02}:{random.randint(0, 59):02}",
    "clock": _clock,
    "amount": _amount,
    "unit": _unit,
    "postcode": lambda random, _: str(random.randint(10_000, 99_999)),
    "blank": _choice(" ", "  ", "\t", "\n", " \n", "\n\n", "    "),
}
_VERBATIM: dict[str, Field] = {
    "iban": _iban,
    "phone": _phone,
    "version": _version,
    "url": _url,
    "email": _email,
    "user": _choice("@anna", "@max_m", "@user99", "@JaneDoe", "@tim-b", "@mtnews", "@_x_"),
    "hashtag": _choice(
        "#Berlin2026", "#travel", "#Reiselust", "#MT_2026", "#covid19", "#openSource"
    ),
    "emoji": _choice("😀", "👍🏽", "🎉🎉", "❤️", "👩‍💻", "🇩🇪", "🚀", "😂", "☀️", "⚠️"),
    "code": _choice("LH 2034", "ABC-1234", "ISO 9001", "B2B", "RTX 4090", "A320neo", "HTTP 404"),
    "path": _choice("/etc/hosts", "C:\\Temp\\a.txt", "README.md", "~/.ssh/id_rsa", "main.py"),
    "placeholder": _choice("{name}", "{0}", "%s", "%d", "{{count}}", "${user}", "%(file)s", "%1$s"),
    "element": _choice('<x id="1"/>', '<ph id="2"/>', "{{ user.name }}", "{count}", "%{total}"),
    "foreign": _choice(
        "東京", "Привет", "日本語", "Ελλάδα", "שלום", "안녕", "Москва", "你好", "सत्य"
    ),
}
