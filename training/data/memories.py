"""Reads translation memories: TMX, XLIFF, catalogues of gettext, TSV, and pairs of text files.

TMX, XLIFF and TSV are streamed. Inline tags are removed with the codes that they contain.
"""

from __future__ import annotations

import codecs
import gzip
import io
import itertools
import re
import zlib
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polib
from lxml import etree

from training.data.cleaning import order_of
from training.data.corpus import CorpusError, Pair, find_side

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_TEXT_INSIDE = frozenset({"seg", "source", "target", "g", "pc", "mrk", "hi"})
"""Elements whose content is text. That of others is code of the original document."""

_UNFINISHED = re.compile("new$|initial$|needs-")
"""States of a target in XLIFF 1.2, or of a segment in XLIFF 2, that no translator confirmed."""


_IDENTIFYING = 200
"""Messages of a catalogue whose text shows the language of each side."""

KINDS = ".tmx, .xliff, .xlf, .sdlxliff, .po, .tsv and .tsv.gz"

_OPEN = re.compile(r'"(?:[^"]|"")*')
"""A cell whose closing quotation mark is missing."""

_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_MOST_LINES = 100
"""Line breaks of a cell, so that a file of opening quotation marks is read in linear time."""

_PREDEFINED = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'"}
_REFERENCE = re.compile("|".join(_PREDEFINED))
_LONGEST_ENTITY = 1_000
"""Characters of an entity that is resolved. Longer ones may be an attack on memory."""


class _UnknownEntity(Exception):
    """A reference to an entity that the file does not declare as plain text."""


class Memory:
    """A translation memory in two languages, which counts what it leaves out."""

    def __init__(self, path: Path, source: str, target: str) -> None:
        """``path`` is a file, or for two files of lines their common name without the language."""
        self.path = path
        self.source = source
        self.target = target
        self.units = 0
        self.left_out: Counter[str] = Counter()
        """Units that gave no pair, by reason."""
        self.assumed = ""
        """Properties that the file does not state and that were found from its text."""
        self._entities: dict[str, str] = {}
        """Text of the entities that an XML file declares."""

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.left_out.items())
        assumed = f" ({self.assumed})" if self.assumed else ""
        left_out = f", left out: {reasons}" if reasons else ""
        return f"{self.path}{assumed}: {self.units:,} units{left_out}"

    def read(self) -> Iterator[Pair]:
        """The pairs of the memory, on one line each side. Raises ``CorpusError``."""
        for source, target in self._sides():
            self.units += 1
            if source is None or target is None:
                self.left_out["in other languages"] += 1
                continue
            pair = Pair(" ".join(source.split()), " ".join(target.split()))
            if "\N{REPLACEMENT CHARACTER}" in pair.source + pair.target:
                self.left_out["not in UTF-8"] += 1
            elif not all(pair):
                self.left_out["empty on one side"] += 1
            else:
                yield pair

    def _sides(self) -> Iterator[tuple[str | None, str | None]]:
        suffixes = [suffix.lower() for suffix in self.path.suffixes]
        match suffixes[-1:]:
            case [".tmx"]:
                return self._tmx()
            case [".xliff" | ".xlf" | ".sdlxliff"]:
                return self._xliff()
            case [".po"]:
                return self._po()
            case [".tsv"]:
                return self._tsv()
            case [".gz"] if suffixes[-2:-1] == [".tsv"]:
                return self._tsv()
        return self._lines()

    def _leave_out(self, reason: str) -> None:
        self.units += 1
        self.left_out[reason] += 1

    def _tmx(self) -> Iterator[tuple[str | None, str | None]]:
        for unit in self._elements("tu"):
            segments: dict[str, etree._Element] = {}
            for variant in unit.iterfind("{*}tuv"):
                segment = variant.find("{*}seg")
                if segment is not None:
                    language = _primary(variant.get(_LANG) or variant.get("lang"))
                    segments.setdefault(language, segment)
            sides = [segments.get(_primary(code)) for code in (self.source, self.target)]
            if None in sides:
                yield None, None
            elif (texts := self._texts_of(sides)) is not None:
                yield texts

    def _xliff(self) -> Iterator[tuple[str | None, str | None]]:
        languages = (self.source, self.target)
        # The names of elements are those of XLIFF 1.2, and those of XLIFF 2.
        for unit in self._elements("trans-unit", "segment"):
            around = {
                key: value
                for each in reversed([*unit.iterancestors()])
                for key, value in each.items()
            }
            stated = (
                around.get("source-language") or around.get("srcLang") or self.source,
                around.get("target-language") or around.get("trgLang") or self.target,
            )
            sides = [unit.find(f"{{*}}{side}") for side in ("source", "target")]
            states = [each.get("state", "") for each in (unit, sides[1]) if each is not None]
            if any(map(_UNFINISHED.match, states)):
                self._leave_out("unfinished")
                continue
            if (texts := self._texts_of(sides)) is not None:
                yield _ordered(stated, texts, languages)

    def _po(self) -> Iterator[tuple[str | None, str | None]]:
        # polib opens its argument only if it is the path of a file.
        if not self.path.is_file():
            raise _missing(self.path)
        try:
            file = polib.pofile(str(self.path))
        except (OSError, ValueError) as error:
            raise CorpusError(f"{self.path} is not a catalogue of gettext: {error}") from error
        stated = _primary(file.metadata.get("Language"))
        if stated:
            swapped = stated == _primary(self.source)
            language = stated
        else:
            texts = (
                (each.msgid, each.msgstr or each.msgstr_plural.get(0, ""))
                for each in file
                if not (each.obsolete or each.fuzzy)
            )
            some = list(itertools.islice((sides for sides in texts if all(sides)), _IDENTIFYING))
            first, second = (" ".join(sides[i] for sides in some) for i in (0, 1))
            found = order_of(first, second, self.source, self.target)
            if some and found is None:
                raise CorpusError(
                    f"{self.path} does not say its language, and its text is not clearly "
                    f"{self.source} and {self.target}; add the header "
                    f'"Language: {self.target}\\n", or the language that msgstr is in'
                )
            swapped = found is not None and found[0] == self.target
            language = self.source if swapped else self.target
            self.assumed = f"no Language header, its text says that msgstr is {language}"
        source = self.target if swapped else self.source
        for entry in file:
            if entry.obsolete or entry.fuzzy:
                self._leave_out("fuzzy or obsolete")
                continue
            forms = entry.msgstr_plural
            sides = [(entry.msgid, forms[0] if forms else entry.msgstr)]
            if len(forms) > 1:
                sides.append((entry.msgid_plural, forms[max(forms)]))
            for side in sides:
                yield _ordered((source, language), side, (self.source, self.target))

    def _tsv(self) -> Iterator[tuple[str | None, str | None]]:
        columns = (0, 1)
        wanted = _primary(self.source), _primary(self.target)
        for number, row in enumerate(_rows(_decoded_lines(self.path))):
            names = [_primary(cell.strip().strip('"')) for cell in row]
            if number == 0 and set(wanted) <= set(names):
                columns = names.index(wanted[0]), names.index(wanted[1])
                continue
            cells = [_unquoted(row[column]) if column < len(row) else "" for column in columns]
            yield cells[0], cells[1]

    def _lines(self) -> Iterator[tuple[str | None, str | None]]:
        directory, name = self.path.parent, self.path.name
        languages = self.source, self.target
        try:
            paths = [find_side(name, language, directory) for language in languages]
        except CorpusError as error:
            sides = " and ".join(f"{self.path}.{language}" for language in languages)
            raise CorpusError(
                f"{self.path} is no memory of a kind that is read ({KINDS}), and is not the common "
                f"name of files of lines: these would be {sides}, or with .gz"
            ) from error
        first, second = map(_decoded_lines, paths)
        for number, (source, target) in enumerate(itertools.zip_longest(first, second), start=1):
            if source is None or target is None:
                short = paths[source is not None]
                raise CorpusError(f"{short} ends before line {number} of the other side")
            yield source, target

    def _texts_of(self, sides: Sequence[etree._Element | None]) -> tuple[str, str] | None:
        """Texts of both sides; ``None`` if the unit is left out because of an entity."""
        try:
            source, target = (
                "" if side is None else _text_of(side, self._entities) for side in sides
            )
            return source, target
        except _UnknownEntity:
            self._leave_out("with entities that the file does not declare as text")
            return None

    def _elements(self, *names: str) -> Iterator[etree._Element]:
        """The elements of these names, each of which is freed after it was used."""
        if not self.path.is_file():
            raise _missing(self.path)
        tags = [f"{{*}}{name}" for name in names]
        try:
            with self.path.open("rb") as file:
                reading = etree.iterparse(
                    file, tag=tags, load_dtd=False, no_network=True, resolve_entities=False
                )
                for number, (_, element) in enumerate(reading):
                    if number == 0:
                        self._entities = _entities_of(element)
                    yield element
                    element.clear()
                    # Freed elements stay as siblings otherwise.
                    parent = element.getparent()
                    while parent is not None and element.getprevious() is not None:
                        del parent[0]
        except etree.XMLSyntaxError as error:
            why = " ".join(error.msg.split())
            raise CorpusError(f"{self.path} is not well-formed XML: {why}") from error


def _missing(path: Path) -> CorpusError:
    return CorpusError(f"there is no file {path}")


def _ordered(
    stated: tuple[str, str], sides: tuple[str, str], wanted: tuple[str, str]
) -> tuple[str | None, str | None]:
    """The sides in the order of the wanted languages, or nothing if they are of others."""
    found = tuple(map(_primary, stated))
    if found == tuple(map(_primary, wanted)):
        return sides
    if found == tuple(map(_primary, reversed(wanted))):
        return sides[1], sides[0]
    return None, None


def _primary(tag: str | None) -> str:
    """The language of a tag such as ``de-AT`` or ``de_AT``."""
    return (tag or "").replace("_", "-").partition("-")[0].lower()


def _entities_of(element: etree._Element) -> dict[str, str]:
    """Text of the entities that the document itself declares, by reference.

    Entities of other files, with elements, or with further entities are left out, so that no other
    file is read and no text grows by more than ``_LONGEST_ENTITY`` characters a reference.
    """
    declared = element.getroottree().docinfo.internalDTD
    found = {}
    for entity in () if declared is None else declared.iterentities():
        text = entity.content
        if text is None or len(text) > _LONGEST_ENTITY:
            continue
        if not {"&", "<"} & set(_REFERENCE.sub("", text)):
            found[f"&{entity.name};"] = _REFERENCE.sub(lambda each: _PREDEFINED[each[0]], text)
    return found


def _text_of(element: etree._Element, entities: Mapping[str, str]) -> str:
    """The text of an element without inline codes. Raises ``_UnknownEntity``."""
    parts = [element.text or ""]
    for child in element:
        if isinstance(child, etree._Entity):
            text = entities.get(child.text or "")
            if text is None:
                raise _UnknownEntity
            parts.append(text)
        elif isinstance(child.tag, str) and etree.QName(child).localname in _TEXT_INSIDE:
            parts.append(_text_of(child, entities))
        parts.append(child.tail or "")
    return "".join(parts)


def _rows(lines: Iterator[str]) -> Iterator[list[str]]:
    """Rows of a TSV, in which a quoted cell may hold line breaks.

    The ``csv`` module would take any cell that begins with a quotation mark for a quoted one, and
    would join lines of plain text. Here lines are joined only into a row with as many cells as the
    first row, or with two if they are the first.
    """
    width = 2
    waiting: deque[str] = deque()
    for number in itertools.count():
        line = waiting.popleft() if waiting else next(lines, None)
        if line is None:
            return
        row, taken, whole = line.split("\t"), list[str](), True
        while _OPEN.fullmatch(row[-1]) and len(taken) < _MOST_LINES:
            following = waiting.popleft() if waiting else next(lines, None)
            if following is None:
                break
            taken.append(following)
            first, *others = following.split("\t")
            row = [*row[:-1], f"{row[-1]}\n{first}", *others]
            # Only the last cell of a line can go on in the next line.
            joined = row[-1 - len(others)]
            whole = bool(_QUOTED.fullmatch(joined) or (not others and _OPEN.fullmatch(joined)))
            if not whole:
                break
        if taken and not (len(row) == width and whole and not _OPEN.fullmatch(row[-1])):
            waiting.extendleft(reversed(taken))
            row = line.split("\t")
        if number == 0:
            width = len(row)
        yield row


def _unquoted(cell: str) -> str:
    """The content of a cell that a spreadsheet program quoted because of what is in it.

    A cell without a doubled mark or a line break is a sentence in quotation marks.
    """
    quoted = _QUOTED.fullmatch(cell)
    if quoted is None or not ('""' in quoted[1] or "\n" in quoted[1]):
        return cell
    return quoted[1].replace('""', '"')


def _decoded_lines(path: Path) -> Iterator[str]:
    """Lines of UTF-8, or of UTF-16 with a byte order mark, as spreadsheet programs write it.

    A replacement character stands for each byte that is neither.
    """
    if not path.is_file():
        raise _missing(path)
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            marks = codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE
            encoding = "utf-16" if file.peek(2)[:2] in marks else "utf-8-sig"
            # Other line ends than \n may stand within a sentence.
            with io.TextIOWrapper(file, encoding, "replace", newline="\n") as lines:
                for line in lines:
                    yield line.rstrip("\r\n")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorpusError(f"{path} is not a whole gzip file: {error}") from error
