"""Data augmentation of parallel text: layout variants, and spans to be copied unchanged.

A network trained on clean sentences alone corrupts capitals, fragments, figures, URLs and emoji.
``Augmenter`` applies at most one change to each pair, the same on both sides, at the rates of
``recipe.Augmentation``. OpusTrainer (https://github.com/hplt-project/OpusTrainer) does so during
training and needs word alignments. Here, spans are placed where no alignment is needed: at the
ends of the sentence, and at words that occur once on both sides. The random numbers of a corpus
depend only on the seed and its name, so preparation is reproducible.
"""

from __future__ import annotations

import random
import string
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from datetime import date, time, timedelta
from typing import Any

from babel.core import Locale, UnknownLocaleError
from babel.dates import format_date, format_time
from babel.numbers import format_currency, format_decimal

from training.data.corpus import Pair
from training.recipe import Augmentation

FINAL = ".!?…"

CARRIERS = {
    "de": {
        "dates": ("am {}", "vom {}", "bis {}"),
        "times": ("um {}", "ab {}", "bis {}"),
        "amounts": ("für {}", "insgesamt {}", "mehr als {}"),
        "numbers": ("Nummer {}", "Nr. {}", "Seite {}", "{} Personen", "Kapitel {}", "etwa {}"),
    },
    "en": {
        "dates": ("on {}", "of {}", "until {}"),
        "times": ("at {}", "from {}", "until {}"),
        "amounts": ("for {}", "a total of {}", "more than {}"),
        "numbers": ("number {}", "no. {}", "page {}", "{} people", "chapter {}", "about {}"),
    },
}
"""Phrases around a span, by language and kind; the n-th phrases of two languages are translations
of each other. Between languages without carriers, a span stands alone."""

_SCRIPTS = (
    ("абвгдежзийклмнопрстуфхцчшщыэюя", 3, 9),
    ("αβγδεζηθικλμνξοπρστυφχψω", 3, 9),
    ("的一是不了人我在有他这中大来上国个到说们为子和你地出道也时年", 1, 5),
    ("あいうえおかきくけこさしすせそたちつてとなにぬねのはひふへほアイウエオカキクケコ", 2, 7),
    ("가나다라마바사아자차카타파하고도로보소오조", 2, 5),
    ("ابتثجحخدذرزسشصضطظعغفقكلمنهوي", 3, 7),
    ("אבגדהוזחטיכלמנסעפצקרשת", 3, 7),
    ("अआइईउऊएओकखगघचछजझटठडढतथदधनपफबभमयरलवशसह", 2, 6),
    ("กขคงจชซดตถทนบปผพฟมยรลวสหอ", 3, 7),
    ("ąćęłńśźżčďěňřšťůžğışøåæőűîțș", 2, 6),
)
_EMOJI = "😀😂🙂😉😍😎😢😡👍👎👏🙏🎉❤🔥⭐✅❌⚠☀🌍🚀🐶🐱🍕☕⚽🎵📅📞💡🏠🚗✈🎁"
_TLDS = ("de", "com", "org", "net", "io", "eu", "co.uk", "info")
_CURRENCIES = ("EUR", "EUR", "EUR", "USD", "USD", "GBP", "CHF", "JPY")
_UNITS = ("km", "m", "cm", "mm", "kg", "g", "l", "ml", "°C", "%", "km/h", "kWh", "MB", "GB", "m²")
_BRACKETS = (("(", ")"), ("(", ")"), ("[", "]"))
_QUOTES = {"de": ("„“", '""', "»«"), "en": ("“”", '""', "“”")}
_MARKS = ("- ", "– ", "— ", "• ", "* ", "· ", "> ", "# ", "→ ", "✓ ")

Span = Pair
"""One value in both languages; the forms are equal where the value is not localised."""


class Augmenter:
    """Augments pairs of texts; ``counts`` holds the changes of each kind."""

    def __init__(self, rates: Augmentation, source: str, target: str, seed: int) -> None:
        self._rates = [(each.name, getattr(rates, each.name)) for each in fields(rates)]
        self._languages = source, target
        self._locales = _locale(source), _locale(target)
        self._seed = seed
        self._names: list[str] = ["Anna Müller", "Berlin", "London", "Peter Smith"]
        self._random = random.Random(seed)
        self.counts: Counter[str] = Counter()

    def begin(self, name: str, languages: tuple[str, str] | None = None) -> None:
        """Begin the corpus ``name``, on which its random numbers depend, in other ``languages``."""
        self._random = random.Random(f"{self._seed} {name}")
        if languages is not None:
            self._languages = languages
            self._locales = _locale(languages[0]), _locale(languages[1])

    def state(self) -> dict[str, Any]:
        """The position between two steps, of JSON values, for ``resume``."""
        return {
            "random": self._random.getstate(),
            "names": list(self._names),
            "counts": dict(self.counts),
        }

    def resume(self, state: dict[str, Any]) -> None:
        version, numbers, gauss = state["random"]
        self._random = random.Random()
        self._random.setstate((version, tuple(numbers), gauss))
        self._names = list(state["names"])
        self.counts = Counter(state["counts"])

    def steps(self, pairs: Iterator[Pair], documents: bool = False) -> Iterator[list[Pair]]:
        """The pairs, some of them changed, and additional pairs: a list for each pair, and for
        those that it is joined with. Only successive pairs of ``documents`` are joined to passages.
        """
        if not any(rate for _, rate in self._rates):
            yield from ([pair] for pair in pairs)
            return
        rng = self._random
        for pair in pairs:
            self._remember_names(pair, rng)
            kind = self._draw(rng)
            if kind is None:
                yield [pair]
            elif kind == "joined":
                more = [each for _ in range(rng.randint(1, 2)) if (each := next(pairs, None))]
                self.counts[kind] += 1
                yield [_joined([pair, *more])]
            elif kind == "passages":
                passage = _passage(pair, pairs, rng) if documents else [pair]
                self.counts[kind] += len(passage) > 1
                yield [_joined(passage)]
            elif kind in ("fragments", "alone"):
                if extra := self._extra(kind, pair, rng):
                    self.counts[kind] += 1
                    yield [pair, extra]
                else:
                    yield [pair]
            else:
                changed = self._changed(kind, pair, rng)
                self.counts[kind] += changed is not None
                yield [changed or pair]

    def _draw(self, rng: random.Random) -> str | None:
        drawn = rng.random()
        for kind, rate in self._rates:
            drawn -= rate
            if drawn < 0:
                return kind
        return None

    def _extra(self, kind: str, pair: Pair, rng: random.Random) -> Pair | None:
        if kind == "fragments":
            return _fragment(pair, rng)
        span_kind = rng.choice([*SPANS, "names"])
        if span_kind == "names":
            name = " ".join(rng.choices(self._names, k=rng.randint(2, 3)))
            return Pair(name, name)
        return self._carried(span_kind, SPANS[span_kind](rng, *self._locales), rng)

    def _changed(self, kind: str, pair: Pair, rng: random.Random) -> Pair | None:
        """The pair after a change of ``kind``, or ``None`` if the change does not apply."""
        match kind:
            case "upper_case":
                return Pair(pair.source.upper(), pair.target.upper())
            case "title_case":
                return Pair(_title(pair.source), _title(pair.target))
            case "no_final_punctuation":
                ended = all(side[-1] in FINAL and len(side) > 2 for side in pair)
                return Pair(*(side.rstrip(FINAL) for side in pair)) if ended else None
            case "marked":
                return _marked(pair, rng)
            case "bracketed":
                opening, closing = rng.choice(_BRACKETS)
                return self._wrapped(pair, (opening + closing,) * 2, rng)
            case "quoted":
                sides = [_QUOTES.get(each, _QUOTES["en"]) for each in self._languages]
                style = rng.randrange(len(sides[0]))
                return self._wrapped(pair, (sides[0][style], sides[1][style]), rng)
            case "names":
                return _with_word_replaced(pair, rng.choice(self._names), str.isalpha, rng)
        span = SPANS[kind](rng, *self._locales)
        if kind == "numbers" and (replaced := _with_number_replaced(pair, rng)):
            return replaced
        if kind not in ("dates", "times", "amounts", "emoji") and rng.random() < 0.3:
            replaced = _with_word_replaced(pair, span.source, str.isalpha, rng)
            if replaced:
                return replaced
        return _with_span(pair, self._carried(kind, span, rng), rng, glued=kind == "emoji")

    def _carried(self, kind: str, span: Span, rng: random.Random) -> Span:
        carriers = [CARRIERS.get(each, {}).get(kind) for each in self._languages]
        first, second = carriers
        if first is None or second is None or rng.random() < 0.4:
            return span
        place = rng.randrange(len(first))
        return Pair(first[place].format(span.source), second[place].format(span.target))

    def _wrapped(self, pair: Pair, marks: tuple[str, str], rng: random.Random) -> Pair:
        shared = _shared_words(pair, str.isalpha)
        if shared and rng.random() < 0.5:
            word = rng.choice(shared)
            sides = (
                side.replace(word, f"{mark[0]}{word}{mark[1]}")
                for side, mark in zip(pair, marks, strict=True)
            )
        else:
            sides = (f"{mark[0]}{side}{mark[1]}" for side, mark in zip(pair, marks, strict=True))
        return Pair(*sides)

    def _remember_names(self, pair: Pair, rng: random.Random) -> None:
        """Sample capitalised words that both sides share, as names to insert into other pairs."""
        if rng.random() < 0.2:
            for word in _shared_words(pair, str.isalpha):
                if word[0].isupper():
                    if len(self._names) < 5_000:
                        self._names.append(word)
                    else:
                        self._names[rng.randrange(5_000)] = word


def _locale(language: str) -> Locale:
    try:
        return Locale.parse(language, sep="-")
    except (ValueError, UnknownLocaleError):
        return Locale("en")


def _title(side: str) -> str:
    return " ".join(word[:1].upper() + word[1:] for word in side.split(" "))


def _joined(pairs: Sequence[Pair]) -> Pair:
    return Pair(*(" ".join(side) for side in zip(*pairs, strict=True)))


def _passage(first: Pair, following: Iterator[Pair], rng: random.Random) -> list[Pair]:
    """``first`` and the pairs that follow it, until the passage has a random number of words."""
    passage, words, wanted = [first], len(first.source.split()), rng.randint(15, 40)
    while words < wanted and (pair := next(following, None)) is not None:
        passage.append(pair)
        words += len(pair.source.split())
    return passage


def _marked(pair: Pair, rng: random.Random) -> Pair:
    drawn = rng.random()
    if drawn < 0.15:
        return Pair(*(f"♪ {side} ♪" for side in pair))
    if drawn < 0.3:
        mark = rng.choice(
            (f"{rng.randint(1, 30)}. ", f"{rng.choice('abcdef')}) ", f"({rng.randint(1, 9)}) ")
        )
    else:
        mark = rng.choice(_MARKS)
    return Pair(*(f"{mark}{side}" for side in pair))


def _fragment(pair: Pair, rng: random.Random) -> Pair | None:
    """The parts before or after a mark that occurs once on each side, if of similar length."""
    for mark in rng.sample((": ", " – ", ", ", "; "), 4):
        halves = [side.rstrip(FINAL).split(mark) for side in pair]
        if all(len(each) == 2 for each in halves):
            place = rng.randrange(2)
            first, second = (each[place] for each in halves)
            lengths = sorted((len(first), len(second)))
            if lengths[0] >= 4 and lengths[1] <= 1.5 * lengths[0]:
                return Pair(first, second)
    return None


def _shared_words(pair: Pair, wanted: Callable[[str], bool]) -> list[str]:
    """Words of three or more characters that occur once on each side, without punctuation."""
    counts = [Counter(word.strip(".,:;!?()\"'„“”") for word in side.split()) for side in pair]
    return [
        word
        for word, count in counts[0].items()
        if count == 1
        and counts[1][word] == 1
        and len(word) > 2
        and wanted(word)
        and all(side.count(word) == 1 for side in pair)
    ]


def _with_word_replaced(
    pair: Pair, by: str, wanted: Callable[[str], bool], rng: random.Random
) -> Pair | None:
    words = [word for word in _shared_words(pair, wanted) if word[0].isupper()]
    if not words:
        return None
    word = rng.choice(words)
    return Pair(*(side.replace(word, by) for side in pair))


def _with_number_replaced(pair: Pair, rng: random.Random) -> Pair | None:
    numbers = _shared_words(pair, str.isdecimal)
    if not numbers:
        return None
    number = rng.choice(numbers)
    length = max(1, len(number) + rng.choice((-1, 0, 0, 1)))
    by = rng.choice("123456789") + "".join(rng.choices(string.digits, k=length - 1))
    return Pair(*(side.replace(number, by) for side in pair))


def _with_span(pair: Pair, span: Span, rng: random.Random, glued: bool) -> Pair:
    """Insert the span at the beginning, before the final mark, or after it, on both sides."""
    ended = all(side[-1] in FINAL for side in pair)
    patterns = (
        ("{side} {span}",) if glued else ("{side} {span}", "{span}: {side}", "{span} – {side}")
    )
    if ended and (not glued or rng.random() < 0.3):
        patterns = (
            "{body} {span}{mark}",
            "{body} ({span}){mark}",
            "{body}, {span}{mark}",
            "{body}: {span}",
            "{body} – {span}{mark}",
            *patterns,
        )
    pattern = rng.choice(patterns)
    return Pair(
        *(
            pattern.format(side=side, body=side[:-1], mark=side[-1], span=each)
            for side, each in zip(pair, span, strict=True)
        )
    )


def _word(rng: random.Random, shortest: int = 2, longest: int = 9) -> str:
    """A random pronounceable word."""
    consonants, vowels = "bcdfghjklmnprstvwz", "aeiou"
    made = "".join(
        rng.choice((consonants, vowels)[i % 2]) for i in range(rng.randint(shortest, longest))
    )
    return made.capitalize() if rng.random() < 0.2 else made


def _digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choices(string.digits, k=count))


def _number(rng: random.Random, source: Locale, target: Locale) -> Span:
    drawn = rng.random()
    if drawn < 0.5:
        plain = str(rng.randint(0, 10 ** rng.randint(1, 6)))
        return Pair(plain, plain)
    if drawn < 0.6:
        section = ".".join(str(rng.randint(1, 60)) for _ in range(rng.randint(3, 4)))
        return Pair(section, section)
    unit = f" {rng.choice(_UNITS)}" if rng.random() < 0.5 else ""
    value = rng.uniform(0, 10 ** rng.randint(1, 7))
    form = "#,##0" + ("" if drawn < 0.75 else "." + "0" * rng.randint(1, 2))
    return Pair(*(format_decimal(value, form, locale=each) + unit for each in (source, target)))


def _date(rng: random.Random, source: Locale, target: Locale) -> Span:
    day = date(1900, 1, 1) + timedelta(days=rng.randrange(55_000))
    drawn = rng.random()
    if drawn < 0.4:
        # A numeric date is ambiguous between locales, so both sides have the same.
        form = rng.choice(("%d.%m.%Y", "%d.%m.%y", "%Y-%m-%d", "%d/%m/%Y", "%m/%d/%Y", "%m/%Y"))
        written = day.strftime(form)
        return Pair(written, written)
    form = "long" if drawn < 0.8 else "full"
    return Pair(*(format_date(day, form, locale=each) for each in (source, target)))


def _time(rng: random.Random, source: Locale, target: Locale) -> Span:
    seconds = ":ss" if rng.random() < 0.1 else ""
    at = time(rng.randrange(24), rng.choice((0, 15, 30, 45, rng.randrange(60))), rng.randrange(60))
    # The 24-hour clock on both sides, so that the figures agree.
    return Pair(*(_written_time(at, f"HH:mm{seconds}", rng, each) for each in (source, target)))


def _written_time(at: time, form: str, rng: random.Random, locale: Locale) -> str:
    written = format_time(at, form, locale=locale)
    if locale.language != "de" or rng.random() < 0.3:
        return written
    # "20.59 Uhr" must not be read as a number with a fraction.
    return f"{written.replace(':', '.') if rng.random() < 0.4 else written} Uhr"


def _amount(rng: random.Random, source: Locale, target: Locale) -> Span:
    value = round(rng.uniform(0, 10 ** rng.randint(1, 6)), 2)
    currency = rng.choice(_CURRENCIES)
    drawn = rng.random()
    if drawn < 0.4:
        made = (format_currency(value, currency, locale=each) for each in (source, target))
        return Pair(*(each.replace("\xa0", " ") for each in made))
    form = "#,##0" if drawn < 0.7 else "#,##0.00"
    symbol = rng.choice((f" {currency}", " €", " $", " £", "€"))
    return Pair(*(format_decimal(value, form, locale=each) + symbol for each in (source, target)))


def _same(make: Callable[[random.Random], str]) -> Callable[..., Span]:
    def made(rng: random.Random, *_: Locale) -> Span:
        text = make(rng)
        return Pair(text, text)

    return made


def _code(rng: random.Random) -> str:
    letters = "".join(rng.choices(string.ascii_uppercase, k=rng.randint(1, 4)))
    match rng.randrange(6):
        case 0:
            return f"{letters}-{_digits(rng, rng.randint(2, 6))}"
        case 1:
            return f"v{rng.randrange(20)}.{rng.randrange(30)}.{rng.randrange(100)}"
        case 2:
            groups = " ".join(_digits(rng, 4) for _ in range(4))
            country = rng.choice(("DE", "AT", "GB", "FR"))
            return f"{country}{_digits(rng, 2)} {groups} {_digits(rng, 2)}"
        case 3:
            country = rng.choice(("49", "44", "1", "43"))
            return f"+{country} {_digits(rng, 3)} {_digits(rng, rng.randint(5, 8))}"
        case 4:
            return "".join(rng.choices(string.ascii_letters + string.digits, k=rng.randint(5, 12)))
        case _:
            return f"{letters}{_digits(rng, rng.randint(1, 5))}"


def _url(rng: random.Random) -> str:
    host = f"{rng.choice(('www.', '', ''))}{_word(rng).lower()}.{rng.choice(_TLDS)}"
    path = "".join(f"/{_word(rng).lower()}" for _ in range(rng.randrange(3)))
    query = f"?{_word(rng, 1, 4).lower()}={_digits(rng, 2)}" if path and rng.random() < 0.3 else ""
    return f"{rng.choice(('https://', 'https://', 'http://', ''))}{host}{path}{query}"


def _address(rng: random.Random) -> str:
    user, host = (_word(rng).lower() for _ in range(2))
    separated = f"{user}{rng.choice('._-')}{_word(rng).lower()}" if rng.random() < 0.6 else user
    return f"{separated}@{host}.{rng.choice(_TLDS)}"


def _user_name(rng: random.Random) -> str:
    number = _digits(rng, rng.randrange(4))
    return (
        f"{rng.choice('@@#')}{_word(rng, 3)}{rng.choice(('_', '', ''))}{_word(rng, 0, 5)}{number}"
    )


def _placeholder(rng: random.Random) -> str:
    name = rng.choice(("name", "count", "user", "date", "file", "n", "title", _word(rng).lower()))
    forms = (
        "{{{0}}}",
        "{{{{{0}}}}}",
        "%({0})s",
        "%s",
        "%d",
        "%1$s",
        "${{{0}}}",
        "<{0}>",
        "[{0}]",
        "$1",
    )
    return rng.choice(forms).format(name) if rng.random() < 0.9 else f"{{{rng.randrange(4)}}}"


def _foreign(rng: random.Random) -> str:
    letters, shortest, longest = rng.choice(_SCRIPTS)
    words = (
        "".join(rng.choices(letters, k=rng.randint(shortest, longest)))
        for _ in range(rng.randint(1, 2))
    )
    return " ".join(words)


SPANS: dict[str, Callable[..., Span]] = {
    "numbers": _number,
    "dates": _date,
    "times": _time,
    "amounts": _amount,
    "codes": _same(_code),
    "urls": _same(_url),
    "addresses": _same(_address),
    "user_names": _same(_user_name),
    "emoji": _same(lambda rng: "".join(rng.choices(_EMOJI, k=rng.choice((1, 1, 1, 2, 3))))),
    "placeholders": _same(_placeholder),
    "foreign": _same(_foreign),
}
"""Span generators by kind, taking a random generator and the locales of both sides."""
