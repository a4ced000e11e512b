"""Opens translation files in XML: .xliff, .xlf (1.2 and 2) and .tmx. Missing targets are written.

Existing translations, and units that are marked as not to be translated, stay as they are.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from lxml import etree

from service.documents.containers.xml_document import XmlDocument
from service.documents.fragments.atoms import name_of
from service.documents.fragments.icu import icu_message
from service.documents.fragments.message import Message
from service.documents.fragments.mixed import Mixed
from service.documents.fragments.paragraph import Paragraph
from service.documents.types import UNKNOWN, BrokenDocument, Document, Languages

_XLIFF = "application/xliff+xml"
_TMX = "application/x-tmx+xml"
_XML = "{http://www.w3.org/XML/1998/namespace}"
_LANG = f"{_XML}lang"
_GRAMMAR = Mixed(
    containers=frozenset({"g", "pc", "mrk", "hi"}),
    marks=frozenset({"sm", "em"}),
    ends={"bpt": "ept", "bx": "ex", "sc": "ec"},
)
_WRAPPED = replace(_GRAMMAR, squeezes=True)
_LINE_END = re.compile(r"[ \t]*[\r\n][ \t\r\n]*")
_FORMS = re.compile(r"\{\s*\w+\s*,\s*(?:plural|selectordinal|select)\s*,")
"""Forms of an ICU message. Its parts are no sentences, and elements may be in any of them."""


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
        self,
        source: etree._Element,
        copied: etree._Element,
        empty: etree._Element | None,
        grammar: Mixed = _GRAMMAR,
    ) -> None:
        """``copied`` is the translation to be; ``empty`` the element that it replaces."""
        self._element = source
        self._copied = copied
        self._empty = empty
        text = copied if name_of(copied) != "tuv" else _segment(copied)
        self._paragraph = Paragraph(text, grammar)
        self.source = self._paragraph.source

    def replace(self, translation: str) -> None:
        self._paragraph.replace(translation)
        self.insert()

    def insert(self) -> None:
        """Put the translation into the tree, unless it is there."""
        if self._copied.getparent() is not None:
            return
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


class _PartOfMessage:
    """A text of a source without elements, which is a message of a program."""

    def __init__(
        self, unit: _Unit, target: etree._Element, message: Message, said: list[str], number: int
    ) -> None:
        """``said`` are the translations of all texts of the message, so far those in the source."""
        self._unit, self._target, self._message = unit, target, message
        self._said, self._number = said, number
        self.source = message.texts[number]

    def replace(self, translation: str) -> None:
        self._said[self._number] = translation
        self._target.text = self._message.replaced(self._said)
        self._unit.insert()


def _units(root: etree._Element) -> Iterator[_Unit | _PartOfMessage]:
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
        wrapped = _nearest(unit, f"{_XML}space") != "preserve"
        result = _Unit(source, copied, target, _WRAPPED if wrapped else _GRAMMAR)
        if len(source):
            if not _FORMS.search("".join(source.itertext())):
                yield result
            continue
        text = source.text or ""
        message = icu_message(_LINE_END.sub(" ", text) if wrapped else text)
        said = [each.text for each in message.texts]
        for number in range(len(said)):
            yield _PartOfMessage(result, copied, message, said, number)
        if not said:
            yield result


def _is_kept(unit: etree._Element) -> bool:
    """Whether a unit, or the nearest element around it that says so, is not to be translated."""
    return _nearest(unit, "translate") == "no"


def _nearest(unit: etree._Element, name: str) -> str | None:
    """The value of an attribute of a unit, or of the nearest element around it that has it."""
    return next(
        (value for each in (unit, *unit.iterancestors()) if (value := each.get(name))), None
    )


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
