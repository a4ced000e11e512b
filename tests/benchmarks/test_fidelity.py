"""Rules of the fidelity benchmark: tables of accepted and rejected translations, and mutations."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.fidelity import __main__ as fidelity
from benchmarks.fidelity.inputs import LANGUAGES, Input, inputs, parse
from benchmarks.fidelity.scoring import (
    brackets,
    ending,
    has_letters,
    has_new_loop,
    is_too_long,
    judge,
    keeps_figures,
    margins,
    markers,
    quotes,
)
from training.evaluation.bitext import Bitext

DE_EN, EN_DE = ("de", "en"), ("en", "de")
Pair = tuple[str, str]

ACCEPTED = [
    (DE_EN, "1.234,56 €", "€1,234.56"),
    (DE_EN, "1.234,56 €", "1,234.56 EUR"),
    (DE_EN, "1.234,56 €", "1.234,56 €"),
    (EN_DE, "$1,234.56", "1.234,56 Dollar"),
    (EN_DE, "€1,234", "1234 €"),
    (EN_DE, "2,000 people", "2 000 Menschen"),
    (DE_EN, "100 000 Euro", "100,000 euros"),
    (DE_EN, "Es sind 5000 Menschen", "There are 5,000 people"),
    (DE_EN, "3,14", "3.14"),
    (EN_DE, "606.166", "606,166"),
    (DE_EN, "-5,2 °C", "−5.2 °C"),
    (DE_EN, "-5 Grad", "minus 5 degrees"),
    (DE_EN, "Er hat 5 Hunde", "He has five dogs"),
    (EN_DE, "A 10 percent fall", "Ein zehnprozentiger Rückgang"),
    (DE_EN, "Der 21. Geburtstag", "The 21st birthday"),
    (EN_DE, "the 1990s", "die 1990er Jahre"),
    (DE_EN, "Sie siegten mit 3:1", "They won 3-1"),
    (DE_EN, "007", "007"),
    (DE_EN, "12.05.2026", "12 May 2026"),
    (DE_EN, "12.05.2026", "May 12, 2026"),
    (DE_EN, "12.05.2026", "5/12/2026"),
    (DE_EN, "12.05.2026", "12/05/2026"),
    (DE_EN, "12.05.2026", "12.05.2026"),
    (DE_EN, "12.05.26", "May 12th, 2026"),
    (DE_EN, "12. Mai 2026", "12th of May 2026"),
    (DE_EN, "vom 4. bis 7. Juli", "from July 4 to 7"),
    (DE_EN, "am 24.12.", "on December 24"),
    (DE_EN, "Hier ist 2.1.", "Here is 2.1."),
    (EN_DE, "5/12/2026", "12.05.2026"),
    (EN_DE, "5/12/2026", "5. Dezember 2026"),
    (EN_DE, "9/28/2009", "28.9.2009"),
    (EN_DE, "2026-05-12", "12. Mai 2026"),
    (EN_DE, "May 12, 2026", "12. Mai 2026"),
    (EN_DE, "On Oct. 3", "Am 3.10."),
    (DE_EN, "10:30 Uhr", "10:30 a.m."),
    (DE_EN, "10:30 Uhr", "10.30"),
    (DE_EN, "14:00", "2 p.m."),
    (DE_EN, "9.15 Uhr", "9:15 am"),
    (DE_EN, "21.15 Uhr", "9:15 pm"),
    (DE_EN, "0:30 Uhr", "12:30 a.m."),
    (DE_EN, "um 6:30 Uhr abends", "at 6:30 p.m."),
    (DE_EN, "von 11 bis 17 Uhr", "from 11.00 a.m. until 5 p.m."),
    (DE_EN, "gegen 14:15 Uhr am Mittwoch", "at about 2.15pm on Wednesday"),
    (EN_DE, "at 2.15pm on Wednesday", "um 14:15 Uhr am Mittwoch"),
    (EN_DE, "6:30 p.m.", "18:30 Uhr"),
    (EN_DE, "6:30 p.m.", "6.30 Uhr abends"),
    (EN_DE, "10:30", "10:30 Uhr"),
    (EN_DE, "shortly after 11am", "kurz nach elf Uhr"),
    (DE_EN, "5 %", "5%"),
    (DE_EN, "5 %", "5 percent"),
    (DE_EN, "5 Prozent", "5%"),
    (DE_EN, "§ 5", "Section 5"),
    (EN_DE, "Miller & Sons", "Miller und Söhne"),
    (EN_DE, "Pizza #5", "Pizza Nr. 5"),
    (DE_EN, "120 km/h", "120 kilometres per hour"),
    (DE_EN, "20 °C", "20 degrees Celsius"),
    (DE_EN, "Laden ...", "Loading…"),
    (DE_EN, "„Komm“", '"Come"'),
    (DE_EN, "»Komm«", "'Come'"),
    (EN_DE, "The dog's ball (red)", "Der Ball des Hundes (rot)"),
    (DE_EN, "– Ja, gern.", "- Yes, please."),
    (DE_EN, "♪ Komm zurück ♪", "♪ Come back ♪"),
    (DE_EN, "3. Platz", "3rd place"),
    (DE_EN, "---", "—-–"),
]
REJECTED = [
    (EN_DE, "42", "422", "figures"),
    (EN_DE, "42", "42.", "punctuation"),
    (EN_DE, "2026", "20266", "figures"),
    (EN_DE, "42", "42 42", "figures"),
    (DE_EN, "1,5", "15", "figures"),
    (DE_EN, "1,234", "1234", "figures"),
    (EN_DE, "1.234", "1234", "figures"),
    (DE_EN, "1.234,56", "1.234.56", "figures"),
    (DE_EN, "12.345,67", "12,345,67", "figures"),
    (DE_EN, "Es sind 100 000", "There are 100", "figures"),
    (DE_EN, "-5", "5", "figures"),
    (DE_EN, "007", "7", "figures"),
    (DE_EN, "Er hat 5 Hunde", "He has four dogs", "figures"),
    (DE_EN, "Er hat 5 Hunde", "He has dogs", "figures"),
    (DE_EN, "Er hat Hunde", "He has 2 dogs", "figures"),
    (DE_EN, "Sie siegten mit 3:1", "They won 1-3", "figures"),
    (DE_EN, "1.2.3.4", "1,2,3,4", "figures"),
    (DE_EN, "12.05.2026", "12.0.2026", "figures"),
    (DE_EN, "12.05.2026", "12 June 2026", "figures"),
    (DE_EN, "12.05.2026", "12 May 2025", "figures"),
    (DE_EN, "12.05.2026", "12 May", "figures"),
    (DE_EN, "12.05.2026", "12.05.26", "figures"),
    (DE_EN, "12. Mai 2026", "12 June 2026", "figures"),
    (EN_DE, "9/28/2009", "21 28 2009", "figures"),
    (EN_DE, "5/13/2026", "5.13.2026", "figures"),
    (EN_DE, "10:30", "22:30 Uhr", "figures"),
    (EN_DE, "10:30 a.m.", "22:30 Uhr", "figures"),
    (DE_EN, "10:30 Uhr", "10:30 p.m.", "figures"),
    (DE_EN, "14:00", "2 a.m.", "figures"),
    (DE_EN, "14:00", "14", "figures"),
    (DE_EN, "14:05", "2 p.m.", "figures"),
    (DE_EN, "14:05", "14 o'clock", "figures"),
    (DE_EN, "21.15 Uhr", "9:15", "figures"),
    (EN_DE, "6:30 p.m.", "6:30 Uhr", "figures"),
    (EN_DE, "6:30 p.m.", "6:30 Uhr morgens", "figures"),
    (DE_EN, "5 €", "5", "symbols"),
    (DE_EN, "5 €", "$5", "symbols"),
    (DE_EN, "5 EUR", "5 ORR", "symbols"),
    (DE_EN, "5 %", "5", "symbols"),
    (DE_EN, "Nur 5", "Only 5%", "symbols"),
    (DE_EN, "251,9 kg", "251.9 pounds", "symbols"),
    (DE_EN, "5 km/h", "5 km", "symbols"),
    (DE_EN, "20 °C", "20 C", "symbols"),
    (DE_EN, "§ 5", "5", "symbols"),
    (DE_EN, "Ein/Aus", "On", "symbols"),
    (DE_EN, "(leer)", "empty", "symbols"),
    (DE_EN, "(leer)", ")empty(", "symbols"),
    (DE_EN, "[leer]", "(empty)", "symbols"),
    (DE_EN, "„Komm“", "Come", "quotes"),
    (DE_EN, "„Komm“", '"Come', "quotes"),
    (DE_EN, "- Komm", "Come", "line marks"),
    (DE_EN, "- Wo?\n- Da.", "- Where?\nThere.", "line marks"),
    (DE_EN, "• Milch\n• Brot", "• Milk • bread", "line marks"),
    (DE_EN, "1. Tee\n2. Brot", "1. Tea\n3. Bread", "line marks"),
    (DE_EN, "♪ Komm", "Come", "symbols"),
    (DE_EN, "***", "**", "symbols"),
    (DE_EN, "!?", "?", "punctuation"),
    (DE_EN, " Komm", "Come", "blanks"),
    (DE_EN, "Komm\n", "Come \n", "blanks"),
    (DE_EN, "Hund", "", "words"),
    (DE_EN, "Hund 5", "5", "words"),
]
SPANS = [
    ("Siehe ⟦https://a.de/b⟧.", "See https://a.de/b.", True),
    ("Siehe ⟦https://a.de/b⟧.", "See https://a.de/bc.", False),
    ("Siehe ⟦https://a.de/b⟧.", "See https://a.de.", False),
    ("Danke, ⟦@anna⟧!", "Thanks, @anna!", True),
    ("Danke, ⟦@anna⟧!", "Thanks, @ anna!", False),
    ("Danke, ⟦@anna⟧!", "Thanks, @hanna!", False),
    ("⟦#MT_2026⟧", "#MT_2026", True),
    ("⟦#MT_2026⟧", "#MT 2026", False),
    ("⟦DE89 3704 0044⟧", "DE89\u00a03704\u00a00044", True),
    ("⟦DE89 3704 0044⟧", "DE89 3704 044", False),
    ("Version ⟦v2.1⟧", "Version v2.1", True),
    ("Version ⟦v2.1⟧", "Version v2.1.7", False),
    ("⟦%s⟧ Dateien", "%s files", True),
    ("⟦%s⟧ Dateien", "% s files", False),
    ("Hallo ⟦{name}⟧", "Hello {name}", True),
    ("Hallo ⟦{name}⟧", "Hello {Name}", False),
    ("Hallo ⟦{name}⟧", "Hello {{name}}", False),
    ("Toll ⟦👩‍💻⟧", "Great 👩‍💻", True),
    ("Toll ⟦👩‍💻⟧", "Great 👩", False),
    ("Aus ⟦東京⟧", "From 東京", True),
    ("Aus ⟦東京⟧", "From Tokyo", False),
    ("⟦@a⟧ und ⟦@a⟧", "@a and @a", True),
    ("⟦@a⟧ und ⟦@a⟧", "@a and I", False),
]


@pytest.mark.parametrize(("languages", "source", "translation"), ACCEPTED)
def test_localised_figures_and_symbols_are_kept(
    languages: Pair, source: str, translation: str
) -> None:
    assert judge(source, translation, (), languages).violated == ()


@pytest.mark.parametrize(("languages", "source", "translation", "rule"), REJECTED)
def test_corrupted_translation_violates_the_rule(
    languages: Pair, source: str, translation: str, rule: str
) -> None:
    assert rule in judge(source, translation, (), languages).violated


@pytest.mark.parametrize(("marked", "translation", "kept"), SPANS)
def test_span_is_kept_only_verbatim_and_bounded(marked: str, translation: str, kept: bool) -> None:
    given_input = parse("any", marked)
    assert judge(given_input.text, translation, given_input.spans, DE_EN).kept == kept


def mutations(text: str) -> list[str]:
    """The text with one digit dropped, changed, doubled or put before another.

    A leading zero of a day, month or hour may be dropped or added. Such texts are left out.
    """
    found = []
    for digit in re.finditer(r"\d", text):
        before, after = text[: digit.start()], text[digit.end() :]
        other = str((int(digit[0]) + 1) % 10)
        found += [before + each + after for each in ("", other, digit[0] * 2, other + digit[0])]
    zeros = re.compile(r"\b0(?=\d)")
    return [each for each in found if zeros.sub("", each) != zeros.sub("", text)]


def assert_mutations_detected(
    source: str, translation: str, spans: Sequence[str], languages: Pair
) -> None:
    assert judge(source, translation, tuple(spans), languages).kept, (source, translation)
    for mutated in mutations(translation):
        assert not judge(source, mutated, tuple(spans), languages).kept, (source, mutated)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_mutation_of_a_digit_span_or_symbol_of_every_input_is_detected(language: str) -> None:
    languages = DE_EN if language == "de" else EN_DE
    for each in inputs(language):
        assert_mutations_detected(each.text, each.text, each.spans, languages)
        for lost in [*each.spans, *set('€$£%°§♪•*()[]"„“»«{}#@+=') & set(each.text)]:
            cut = each.text.replace(lost, "", 1)
            assert not judge(each.text, cut, each.spans, languages).kept, (each.text, cut)


def test_hallucinations_loops_lengths_and_unknown_characters_are_counted() -> None:
    for source, translation, spans, hallucinated in (
        ("42", "42 dogs", (), True),
        ("🚀", "Open it", ("🚀",), True),
        ("12.05.2026", "May 12, 2026", (), False),
        ("5 €", "5 euros", (), False),
        ("42", "42", (), False),
    ):
        assert judge(source, translation, spans, DE_EN).hallucinated == hallucinated
    for source, translation, loops in (
        ("Hund", "dog dog dog", True),
        ("Hund", "a dog, a dog, a dog, a dog.", True),
        ("Berlin", "crlinlinlin", True),
        ("Dorf", "5,6666666", True),
        ("ha ha ha", "ha ha ha", False),
        ("sehr gut", "very, very good", False),
        ("1.000.000", "1,000,000", False),
        ("Kaffee", "coffee", False),
    ):
        assert has_new_loop(source, translation) == loops, translation
    for source, translation, unknown in (("Öl", " ⁇ l", 1), ("Öl", "\ufffdl", 1), ("⁇", "⁇", 0)):
        assert bool(judge(source, translation, (), DE_EN).unknown) == bool(unknown)
    assert [is_too_long("a" * 10, "b" * length) for length in (50, 51)] == [False, True]


def test_small_rules() -> None:
    assert parse("kind", "[a]\n⟦b⟧") == Input("kind", "[a]\nb", ("b",))
    assert margins(" \n a b\t") == (" \n ", "\t")
    assert margins("  ") == ("", "  ")
    assert markers("- a\n– b\n• c\n1. d\ne") == ["-", "-", "•", "1.", ""]
    assert markers("-5 °C") == [""]
    assert brackets("a) b (c)") == brackets("a) d (e)")
    assert quotes("It's the dogs' bowl") == 0
    assert [ending(text) for text in ("dog", "dog.", "Who?", "Stop!")] == ["", ".", "?", "."]
    assert has_letters("5 Ä") and not has_letters("5 € 🚀")


def test_news_counts_sentences_with_figures_which_may_have_more_and_not_fewer() -> None:
    english, german = ("Nothing", "Two of 5", "8 km"), ("Nichts", "2 von 5", "5 km")
    part = fidelity.with_figures(Bitext("news", "de", "en", english, german))
    assert part.sources == ("2 von 5", "5 km")
    news = fidelity.count_news(part, ["2 of 5", "5 km ⁇"])
    assert news == {"sentences": 2, "kept": 2, "kept_by_references": 1, "unknown": 1}
    assert keeps_figures("Zwei von 15", "2 of 15", DE_EN)
    assert not keeps_figures("Zwei von 15", "2 of 16", DE_EN)
    assert not keeps_figures("15 von 15", "15 of them", DE_EN)


@pytest.mark.parametrize("language", LANGUAGES)
def test_inputs_are_about_five_hundred_with_seventeen_of_each_kind(language: str) -> None:
    found = inputs(language)
    assert 500 <= len(found) <= 560
    kinds = [each.kind for each in found]
    assert len(set(kinds)) > 25
    assert min(kinds.count(kind) for kind in kinds) >= 17
    assert all(span in each.text for each in found for span in each.spans)
    assert not any(mark in each.text for each in found for mark in "⟦⟧")
    assert list(dict.fromkeys(kinds)) == list(dict.fromkeys(each.kind for each in inputs("de")))


def test_report_counts_kinds_rules_and_inputs_without_letters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pairs = [("numbers", "42", "422 x"), ("numbers", "42", "42"), ("words", "Hund", "dog.")]
    judged = [
        fidelity.Judged(Input(kind, source), answer, judge(source, answer, (), DE_EN))
        for kind, source, answer in pairs
    ]
    report = fidelity.print_report(judged, failures=5)
    assert (report["inputs"], report["kept"], report["hallucinated"]) == (3, 2, 1)
    assert report["violated"] == {"figures": 1}
    assert report["without_letters"]["inputs"] == 2
    assert report["kinds"]["words"]["other_ending"] == 1
    printed = capsys.readouterr().out
    assert "numbers: '42' -> '422 x': figures, hallucinated" in printed
    assert json.dumps(report)


def test_unusable_bundles_and_directions_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fidelity.main(["--bundle", str(tmp_path / "missing")]) == 2
    assert capsys.readouterr().err.startswith("fidelity: ")
    bundles = str(Path(__file__).parents[2] / "bundles")
    arguments = [
        "--bundles",
        bundles,
        "--model",
        "general-de-en",
        "--direction",
        "fr-en",
        "--no-news",
    ]
    assert fidelity.main(arguments) == 2
    assert "name another bundle or --direction" in capsys.readouterr().err
