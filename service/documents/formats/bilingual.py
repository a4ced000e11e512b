"""Opens translation files in XML: .xliff, .xlf (1.2 and 2) and .tmx. Missing targets are written.

Existing translations, and units that are marked as not to be translated, stay as they are.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial

from lxml import etree

from service.documents.containers.xml_document import XmlDocument
from service.documents.fragments.atoms import name_of
from service.documents.fragments.mixed import Mixed
from service.documents.fragments.paragraph import Paragraph
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_XLIFF = "application/xliff+xml"
_TMX = "application/x-tmx+xml"
_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_GRAMMAR = Mixed(
    containers=frozenset({"g", "pc", "mrk", "hi"}),
    marks=frozenset({"sm", "em"}),
    ends={"bpt": "ept", "bx": "ex", "sc": "ec"},
)


def open_xliff(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a file of translation units; raises ``BrokenDocument``."""
    finish = partial(_state_language, languages.target)
    return XmlDocument(content, "the file", _units, _XLIFF, finish)


def open_tmx(content: bytes, languages: Languages = UNKNOWN) -> Document:
    """Open a translation memory. Units with the source language, and without the target, get it.

    Raises ``BrokenDocument``.
    """
    return XmlDocument(content, "the file", partial(_memory, languages), _TMX)


class _Unit:
    """A source element, whose translation is a copy of it with another name beside it."""

    def __init__(
        self, source: etree._Element, copied: etree._Element, empty: etree._Element | None
    ) -> None:
        """``copied`` is the translation to be; ``empty`` the element that it replaces."""
        self._element = source
        self._copied = copied
        self._empty = empty
        text = copied if name_of(copied) != "tuv" else _segment(copied)
        self._paragraph = Paragraph(text, _GRAMMAR)
        self.source = self._paragraph.source

    def replace(self, translation: str) -> None:
        self._paragraph.replace(translation)
        if self._empty is not None:
            for key, value in self._empty.items():
                self._copied.set(key, value)
            self._copied.tail = self._empty.tail
            parent = self._element.getparent()
            assert parent is not None
            parent.replace(self._empty, self._copied)
        else:
            # XLIFF 1.2 demands the segmented source before the target.
            last = next(self._element.itersiblings("{*}seg-source"), self._element)
            self._copied.tail = last.tail
            last.addnext(self._copied)


def _units(root: etree._Element) -> Iterator[_Unit]:
    if name_of(root) != "xliff":
        raise BrokenDocument(f"this is no XLIFF file: its root is {name_of(root)[:80]}")
    for source in root.iter("{*}source"):
        unit = source.getparent()
        assert unit is not None
        if name_of(unit) not in ("trans-unit", "segment") or _is_kept(unit):
            continue
        target = next((each for each in unit if name_of(each) == "target"), None)
        if target is not None and "".join(target.itertext()).strip():
            continue
        copied = copy.deepcopy(source)
        copied.tag = etree.QName(etree.QName(source).namespace, "target")
        copied.attrib.pop(_LANG, None)
        yield _Unit(source, copied, target)


def _is_kept(unit: etree._Element) -> bool:
    """Whether a unit, or the nearest element around it that says so, is not to be translated."""
    around = (unit, *unit.iterancestors())
    return next((each.get("translate") for each in around if each.get("translate")), "yes") == "no"


def _state_language(language: str, root: etree._Element) -> bool:
    """Write the target language into a file that names none."""
    changed = False
    name = "trgLang" if root.get("version", "").startswith("2") else "target-language"
    elements = [root] if name == "trgLang" else root.iter("{*}file")
    for element in elements if language else ():
        if not element.get(name):
            element.set(name, language)
            changed = True
    return changed


def _memory(languages: Languages, root: etree._Element) -> Iterator[_Unit]:
    if name_of(root) != "tmx":
        raise BrokenDocument(f"this is no TMX file: its root is {name_of(root)[:80]}")
    header = next(root.iter("{*}header"), None)
    common = "" if header is None else header.get("srclang", "")
    for unit in root.iter("{*}tu"):
        stated: str = languages.source or unit.get("srclang") or common or ""
        variants = {
            _primary(variant.get(_LANG) or variant.get("lang") or ""): variant
            for variant in reversed(unit.findall("{*}tuv"))
            if variant.find("{*}seg") is not None
        }
        source = variants.get(_primary(stated))
        if stated in ("", "*all*") and source is None:
            source = next(reversed(variants.values()), None)
        target = variants.get(_primary(languages.target))
        translated = target is not None and "".join(_segment(target).itertext()).strip()
        if source is None or not languages.target or translated:
            continue
        copied = copy.deepcopy(source)
        copied.attrib.pop("lang", None)
        copied.set(_LANG, languages.target)
        yield _Unit(source, copied, target)


def _segment(variant: etree._Element) -> etree._Element:
    return next(variant.iter("{*}seg"))


def _primary(tag: str) -> str:
    """The language of a tag such as ``de-AT``."""
    return tag.replace("_", "-").partition("-")[0].lower()
