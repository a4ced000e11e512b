from __future__ import annotations

import gzip
from pathlib import Path

import polib
import pytest

from training.data.corpus import CorpusError, Pair
from training.data.memories import Memory

PAIRS = [
    Pair("Ein Hund läuft.", "A dog runs."),
    Pair("Zwei fette Katzen & mehr.", "Two fat cats & more."),
    Pair("<b> ist ein Zeichen", "<b> is a sign"),
]

TMX = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="de-DE"/><body>
<tu><tuv xml:lang="de-DE"><seg>Ein Hund läuft.</seg></tuv>
<tuv xml:lang="EN-US"><seg>A dog runs.</seg></tuv><tuv xml:lang="fr"><seg>Un chien.</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>Two <bpt i="1">&lt;b&gt;</bpt>fat<ept i="1">&lt;/b&gt;</ept> cats
&amp; more.</seg></tuv>
<tuv xml:lang="de"><seg>Zwei <hi>fette</hi> Katzen &amp; mehr.</seg></tuv></tu>
<tu><tuv lang="de"><seg>&lt;b&gt; ist ein Zeichen</seg></tuv>
<tuv lang="en"><seg>&lt;b&gt; is a sign</seg></tuv></tu>
<tu><tuv xml:lang="de"><seg>leer</seg></tuv><tuv xml:lang="en"><seg> </seg></tuv></tu>
<tu><tuv xml:lang="fr"><seg>autre</seg></tuv><tuv xml:lang="en"><seg>other</seg></tuv></tu>
</body></tmx>"""

XLIFF = """<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">
<file source-language="en-GB" target-language="de"><body>
<trans-unit id="1"><source>A dog runs.</source><target>Ein Hund läuft.</target></trans-unit>
<trans-unit id="2"><source>Two <g id="1">fat</g> cats<x id="2"/> &amp; more.</source>
<target>Zwei <ph id="3">{0}</ph>fette Katzen &amp; mehr.</target></trans-unit>
<trans-unit id="3"><source>&lt;b&gt; is a sign</source><target>&lt;b&gt; ist ein Zeichen</target>
</trans-unit>
<trans-unit id="4"><source>empty</source></trans-unit>
<trans-unit id="6"><source>draft</source><target state="needs-translation">Entwurf</target>
</trans-unit></body></file><file source-language="en" target-language="fr"><body>
<trans-unit id="5"><source>other</source><target>autre</target></trans-unit>
</body></file></xliff>"""


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def tmx(directory: Path) -> Path:
    return written(directory / "a.tmx", TMX.format(encoding="UTF-16").encode("utf-16"))


def xliff(directory: Path) -> Path:
    return written(directory / "a.xlf", XLIFF.encode())


def catalogue(directory: Path) -> Path:
    file = polib.POFile()
    file.metadata = {"Content-Type": "text/plain; charset=UTF-8", "Language": "de_DE"}
    for pair in [*PAIRS, Pair("", "empty")]:
        file.append(polib.POEntry(msgid=pair.target, msgstr=pair.source))
    file.append(polib.POEntry(msgid="fuzzy", msgstr="unscharf", flags=["fuzzy"]))
    file.save(str(directory / "a.po"))
    return (directory / "a.po").rename(directory / "a.PO")


def table(directory: Path) -> Path:
    rows = ["note\ten\tde-AT", *(f"x\t{pair.target}\t{pair.source}" for pair in PAIRS), "x\tempty"]
    content = "\r\n".join(rows).encode() + b"\r\nx\tbad\t\xff"
    return written(directory / "a.tsv.gz", gzip.compress(content))


def saved_by_a_spreadsheet(directory: Path) -> Path:
    rows = ["de\ten", *("\t".join(pair) for pair in PAIRS), "leer\t"]
    return written(directory / "a.tsv", "\r\n".join(rows).encode("utf-16"))


def lines(directory: Path) -> Path:
    for side, language in enumerate(("de", "en")):
        said = [pair[side] for pair in PAIRS] + ["leer" if side == 0 else ""]
        written(directory / f"mine.{language}", "".join(f"{line}\n" for line in said).encode())
    return directory / "mine"


@pytest.mark.parametrize(
    ("make", "left_out"),
    [
        (tmx, {"in other languages": 1, "empty on one side": 1}),
        (xliff, {"in other languages": 1, "empty on one side": 1, "unfinished": 1}),
        (catalogue, {"empty on one side": 1, "fuzzy or obsolete": 1}),
        (table, {"empty on one side": 1, "not in UTF-8": 1}),
        (saved_by_a_spreadsheet, {"empty on one side": 1}),
        (lines, {"empty on one side": 1}),
    ],
)
def test_every_format_gives_the_same_pairs_and_counts_what_it_leaves_out(
    make: object, left_out: dict[str, int], tmp_path: Path
) -> None:
    assert callable(make)
    memory = Memory(make(tmp_path), "de", "en")
    assert list(memory.read()) == PAIRS
    assert dict(memory.left_out) == left_out
    assert memory.units == len(PAIRS) + sum(left_out.values())
    assert f"{memory.units:,} units, left out: 1 " in str(memory)


def test_declared_entities_are_resolved_and_units_with_others_are_left_out(tmp_path: Path) -> None:
    secret = written(tmp_path / "secret", b"secret")
    declared = f'''<!ENTITY co "A &amp; B"><!ENTITY file SYSTEM "{secret.as_uri()}">
    <!ENTITY a "&co;&co;"><!ENTITY long "{"x" * 1_001}"><!ENTITY part "<hi>x</hi>">'''
    references = ["&co;", "<hi>&co;</hi>", "&file;", "&a;", "&long;", "&part;", "&nbsp;"]
    units = [
        f'<tu><tuv xml:lang="de"><seg>Die {each} hat <x>&nbsp;</x>5 kg</seg></tuv>'
        f'<tuv xml:lang="en"><seg>It has 5 kg</seg></tuv>'
        f'<tuv xml:lang="fr"><seg>&nbsp;</seg></tuv></tu>'
        for each in references
    ]
    content = f'<!DOCTYPE tmx SYSTEM "tmx14.dtd" [{declared}]><tmx>{"".join(units)}</tmx>'
    memory = Memory(written(tmp_path / "a.tmx", content.encode()), "de", "en")
    assert list(memory.read()) == [Pair("Die A & B hat 5 kg", "It has 5 kg")] * 2
    assert dict(memory.left_out) == {"with entities that the file does not declare as text": 5}
    assert memory.units == 7


@pytest.mark.parametrize(
    ("content", "pairs"),
    [
        pytest.param(
            'de\ten\r\n"Er sagte ""Ja""."\t"He said ""yes""."\r\n"Zeile\neins"\tline one\r\n'
            'Zeile zwei\t"line\n\ntwo"\r\n"a\nb"\t"c\nd"\r\n',
            [
                ('Er sagte "Ja".', 'He said "yes".'),
                ("Zeile eins", "line one"),
                ("Zeile zwei", "line two"),
                ("a b", "c d"),
            ],
            id="spreadsheet",
        ),
        pytest.param(
            '"a\nb"\tc\nd\te\n', [("a b", "c"), ("d", "e")], id="line break in the first row"
        ),
        pytest.param(
            '"Ja"\t"yes"\n"Ja", sagte er, "nein"\t"yes\n"Hallo.\t"Hi\nGut.\tFine."\n'
            'Hallo.\t"Hello.\n„Gut."\tFine.\n"offen\topen\n"',
            [
                ('"Ja"', '"yes"'),
                ('"Ja", sagte er, "nein"', '"yes'),
                ('"Hallo.', '"Hi'),
                ("Gut.", 'Fine."'),
                ("Hallo.", '"Hello.'),
                ('„Gut."', "Fine."),
                ('"offen', "open"),
            ],
            id="plain text with stray quotation marks",
        ),
        pytest.param('a\t"b\n' * 300, [("a", '"b')] * 300, id="opening quotation marks only"),
    ],
)
def test_quoted_cells_of_spreadsheets_are_read_and_stray_quotation_marks_stay(
    content: str, pairs: list[tuple[str, str]], tmp_path: Path
) -> None:
    memory = Memory(written(tmp_path / "a.TSV", content.encode()), "de", "en")
    assert list(memory.read()) == [Pair(*pair) for pair in pairs]


@pytest.mark.parametrize("swapped", [False, True])
def test_catalogue_without_a_language_is_ordered_by_its_text(swapped: bool, tmp_path: Path) -> None:
    file = polib.POFile()
    for pair in PAIRS:
        sides = pair[::-1] if swapped else pair
        file.append(polib.POEntry(msgid=sides[0], msgstr=sides[1]))
    file.save(str(tmp_path / "a.po"))
    memory = Memory(tmp_path / "a.po", "de", "en")
    assert list(memory.read()) == PAIRS
    assert f"says that msgstr is {'de' if swapped else 'en'}): 3 units" in str(memory)


def test_units_that_were_read_are_freed(tmp_path: Path) -> None:
    unit = "<tu><tuv xml:lang='de'><seg>Hund</seg></tuv></tu>"
    path = written(tmp_path / "a.tmx", f"<tmx><body>{unit * 10_000}</body></tmx>".encode())
    held = [len(element.getparent()) for element in Memory(path, "de", "en")._elements("tu")]
    # The parser is ahead by what it reads at once.
    assert len(held) == 10_000 and max(held) < 2_000


@pytest.mark.parametrize(
    ("state", "is_read"),
    [("translated", True), ("final", True), ("renewed", True), ("new", False), ("initial", False)],
)
def test_segment_of_xliff_2_is_read_if_a_translator_finished_it(
    state: str, is_read: bool, tmp_path: Path
) -> None:
    segment = f'<segment state="{state}"><source>Hund</source><target>dog</target></segment>'
    content = f'<xliff srcLang="de" trgLang="en"><file><unit>{segment}</unit></file></xliff>'
    memory = Memory(written(tmp_path / "a.xlf", content.encode()), "de", "en")
    assert list(memory.read()) == [Pair("Hund", "dog")] * is_read
    assert memory.left_out["unfinished"] == (not is_read)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        # Kinds that are not read.
        *((name, b"de,en") for name in ("a.csv", "a.tmx.gz", "a.xlsx")),
        ("a.tmx", b"<tmx><body>"),
        ("a.po", b"words\n"),
        # Neither a language nor a clear text.
        ("a.po", b'msgid "OK"\nmsgstr "OK"\n'),
        ("a.tsv.gz", b"no gzip"),
        *((name, None) for name in ("a.tmx", "a.xliff", "a.po", "a.tsv", "mine")),
    ],
)
def test_a_broken_missing_or_unsupported_memory_is_refused_by_name(
    name: str, content: bytes | None, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError, match=name):
        list(Memory(tmp_path / name, "de", "en").read())
