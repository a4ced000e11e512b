"""Grammar of paragraphs of runs: WordprocessingML, DrawingML and SpreadsheetML.

The three vocabularies name their elements alike: a run ``r`` has properties ``rPr`` and text ``t``.
Fields are grouped. Some vocabularies demand elements at the end of a paragraph.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence

from lxml import etree

from service.documents.fragments.atoms import Atom, Format, name_of

_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_CONTAINERS = frozenset(
    {"hyperlink", "ins", "moveTo", "smartTag", "bdo", "dir", "sdt", "customXml"}
)
_COMPUTED = frozenset({"dropDownList", "comboBox", "date", "checkbox", "picture", "docPartObj"})
"""Content controls with a computed or selected value, which cannot hold free text."""
_LAST = frozenset({"endParaRPr", "rPh", "phoneticPr"})
"""Properties at the end of a paragraph, and the reading of a Japanese cell."""
_PROPERTIES = frozenset({"pPr", "rPr", "smartTagPr", "sdtPr", "sdtEndPr", "customXmlPr"}) | _LAST
_OF_THE_SOURCE = frozenset({"proofErr", "lastRenderedPageBreak", "softHyphen"})
"""Spelling marks, page breaks and hyphens of the source text, dropped in a translation."""
_BREAKS = frozenset({"br", "cr", "tab", "ptab"})
_THINGS = frozenset(
    {
        *("footnoteReference", "endnoteReference", "footnoteRef", "endnoteRef"),
        *("sym", "object", "pict", "ruby", "pgNum", "oMath", "oMathPara", "fldSimple", "sdt"),
        "fld",
    }
)
_ESCAPE = re.compile("_x(?![dD][89a-fA-F])([0-9A-Fa-f]{4})_")
"""A character in SpreadsheetML that XML cannot represent or would change, such as ``_x000D_`` for a
carriage return (ECMA-376, part 1, 22.9.2.19, ``ST_Xstring``)."""
_NOT_OF_LOOK = frozenset({"lang", "noProof", "rPrChange"})
_ATTRIBUTES_NOT_OF_LOOK = frozenset({"lang", "altLang", "dirty", "err", "noProof", "smtClean"})


class _Runs:
    def atoms_of(self, element: etree._Element) -> list[Atom]:
        """The atoms of a paragraph or a container, in order."""
        return list(
            _with_fields([atom for child in contents_of(element) for atom in _atoms(child)])
        )

    def format_of(self, properties: etree._Element | None) -> Format:
        """Comparable formatting of a run, without its language."""
        if properties is None:
            return ()
        attributes = {
            key: value
            for key, value in properties.attrib.items()
            if key not in _ATTRIBUTES_NOT_OF_LOOK
        }
        children = (_look(c) for c in properties if name_of(c) not in _NOT_OF_LOOK)
        return (*sorted(attributes.items()), *children)

    def clear(self, element: etree._Element) -> None:
        holder = self.holder_of(element)
        for child in contents_of(holder):
            holder.remove(child)

    def holder_of(self, element: etree._Element) -> etree._Element:
        """The element whose children are the content of ``element``."""
        if name_of(element) != "sdt":
            return element
        return next((child for child in element if name_of(child) == "sdtContent"), element)

    def say(self, holder: etree._Element, text: str, properties: etree._Element | None) -> None:
        namespace = _namespace(holder)
        element = etree.Element(f"{{{namespace}}}t")
        if "spreadsheetml" in namespace:
            text = _ESCAPE.sub(r"_x005F_x\1_", text)
        element.text = text
        if "drawingml" not in namespace:
            # DrawingML has no such attribute, and preserves blanks.
            element.set(_SPACE, "preserve")
        if "spreadsheetml" in namespace and properties is None and not contents_of(holder):
            _append(holder, element)
        else:
            _new_run(holder, properties).append(element)

    def put(self, holder: etree._Element, atom: Atom) -> None:
        if atom.loose:
            _append(holder, atom.element)
        else:
            _new_run(holder, atom.properties).append(atom.element)


RUNS = _Runs()


def _namespace(element: etree._Element) -> str:
    return etree.QName(element).namespace or ""


def _append(holder: etree._Element, element: etree._Element) -> None:
    place = len(holder)
    while place and name_of(holder[place - 1]) in _LAST:
        place -= 1
    holder.insert(place, element)


def _new_run(holder: etree._Element, properties: etree._Element | None) -> etree._Element:
    namespace = _namespace(holder)
    if "spreadsheetml" in namespace:
        # A cell has one text, or runs only.
        for alone in holder.findall(f"{{{namespace}}}t"):
            etree.SubElement(holder, f"{{{namespace}}}r").append(alone)
    run = etree.Element(f"{{{namespace}}}r")
    if properties is not None:
        run.append(copy.deepcopy(properties))
    _append(holder, run)
    return run


def contents_of(holder: etree._Element) -> list[etree._Element]:
    """The children of ``holder``, except its properties."""
    return [child for child in holder if name_of(child) not in _PROPERTIES]


def _look(element: etree._Element) -> Format:
    return (
        element.tag,
        tuple(sorted((str(key), str(value)) for key, value in element.attrib.items())),
        tuple(_look(child) for child in element),
    )


def _atoms(element: etree._Element) -> Iterator[Atom]:
    name = name_of(element)
    if name == "r":
        properties = next((child for child in element if name_of(child) == "rPr"), None)
        for child in contents_of(element):
            yield from _in_run(child, properties)
    elif name == "t":
        yield Atom("text", element, text=_text_of(element))
    elif name == "br":
        yield Atom("break", element, loose=True)
    elif name in _CONTAINERS and not _is_computed(element):
        yield Atom("open", element, loose=True)
        yield from RUNS.atoms_of(RUNS.holder_of(element))
        yield Atom("close", element, loose=True)
    elif name not in _OF_THE_SOURCE:
        yield Atom("thing" if name in _THINGS else "mark", element, loose=True)


def _text_of(element: etree._Element) -> str:
    text = element.text or ""
    if "spreadsheetml" not in _namespace(element):
        return text
    return _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text)


def _is_computed(element: etree._Element) -> bool:
    return any(
        name_of(child) in _COMPUTED
        for properties in element
        if name_of(properties) == "sdtPr"
        for child in properties
    )


def _in_run(element: etree._Element, properties: etree._Element | None) -> Iterator[Atom]:
    name = name_of(element)
    if name == "t":
        text = _text_of(element)
        preserved = element.get(_SPACE) == "preserve" or "drawingml" in _namespace(element)
        kept = text if preserved else text.strip()
        yield Atom("text", element, properties, text=kept)
    elif name == "noBreakHyphen":
        yield Atom("text", element, properties, text="\N{NON-BREAKING HYPHEN}")
    elif name in _BREAKS:
        yield Atom("break", element, properties)
    elif name not in _OF_THE_SOURCE:
        inline = name == "drawing" and any(name_of(child) == "inline" for child in element)
        yield Atom("thing" if inline or name in _THINGS else "mark", element, properties)


def _with_fields(atoms: Sequence[Atom]) -> Iterator[Atom]:
    """Group each field that ends in its own container into one thing, or into link tags.

    Fields over several paragraphs stay marks, and their displayed text is translated.
    """
    ends = _ends_of_fields(atoms)
    place = 0
    while place < len(atoms):
        end = ends.get(place)
        if end is None:
            yield atoms[place]
            place += 1
            continue
        field = tuple(atoms[place : end + 1])
        shown = next((n for n, atom in enumerate(field) if _field_mark(atom) == "separate"), None)
        if shown is not None and _is_link(field[:shown]):
            yield Atom("open", field[0].element, parts=field[: shown + 1])
            yield from _with_fields(field[shown + 1 : -1])
            yield Atom("close", field[0].element, parts=field[-1:])
        else:
            yield Atom("thing", field[0].element, parts=field)
        place = end + 1


def _ends_of_fields(atoms: Sequence[Atom]) -> dict[int, int]:
    ends: dict[int, int] = {}
    begun: list[int] = []
    for place, atom in enumerate(atoms):
        mark = _field_mark(atom)
        if mark == "begin":
            begun.append(place)
        elif mark == "end" and begun:
            ends[begun.pop()] = place
        elif atom.kind in ("open", "close"):
            # A field across a container boundary cannot be moved as a unit.
            begun.clear()
    return ends


def _field_mark(atom: Atom) -> str:
    if atom.parts or name_of(atom.element) != "fldChar":
        return ""
    namespace = etree.QName(atom.element).namespace
    return str(atom.element.get(f"{{{namespace}}}fldCharType", ""))


def _is_link(atoms: Sequence[Atom]) -> bool:
    code = "".join(a.element.text or "" for a in atoms if name_of(a.element) == "instrText")
    return code.split()[:1] == ["HYPERLINK"]
