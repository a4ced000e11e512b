"""Content streams: which operators show text, and the same streams without some of them.

Operators that follow one another without a new position form a group: removing one of them would
move those after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pikepdf

from service.documents.pages.types import Source
from service.documents.types import BrokenDocument

_SHOWS = frozenset({"Tj", "TJ", "'", '"'})
_PLACES = frozenset({"BT", "ET", "Td", "TD", "Tm", "T*", "'", '"'})
_MOST_FORMS = 2_000
_DEEPEST_FORM = 12
"""Limits of a page: forms that draw forms could otherwise be exponentially many."""

Instructions = Sequence[Any]


@dataclass(frozen=True, slots=True)
class _Group:
    index: int
    """Place of the instruction in its stream."""
    number: int


def groups_of(page: pikepdf.Page) -> dict[Source, list[int]]:
    """The group of each operator that shows text, by stream of the page.

    Raises ``BrokenDocument`` for forms that draw too many forms.
    """
    found: dict[Source, list[int]] = {}
    _find_groups(found, (), page.obj, _resources(page.obj))
    return found


def without(pdf: pikepdf.Pdf, page: pikepdf.Page, removed: frozenset[Source]) -> bytes:
    """The page's stream without groups of operators.

    Forms with such groups are copied, because other pages may show them, too. They get a name in
    the resources of the page, which become its own.
    """
    resources = _resources(page.obj)
    content, resources = _filtered(pdf, (), page.obj, resources, removed)
    page.obj.Resources = resources
    return content


def _resources(holder: pikepdf.Object) -> pikepdf.Object:
    """The resources of a page, which its parents may have."""
    for _ in range(64):
        if "/Resources" in holder:
            return holder.Resources
        if "/Parent" not in holder:
            break
        holder = holder.Parent
    return pikepdf.Dictionary()


def _instructions(holder: pikepdf.Object) -> Instructions:
    if isinstance(holder, pikepdf.Dictionary) and "/Contents" not in holder:
        return []
    return pikepdf.parse_content_stream(holder)


def _shown(instructions: Instructions) -> Iterator[_Group]:
    number, joined = -1, False
    for index, each in enumerate(instructions):
        name = str(each.operator)
        if name in _PLACES:
            joined = False
        if name in _SHOWS and _has_text(each.operands):
            number += not joined
            joined = True
            yield _Group(index, number)


def _has_text(operands: Sequence[Any]) -> bool:
    """Whether an operator shows a text that is not empty; PDFium makes objects of no others."""
    if not operands:
        return False
    shown = operands[-1]
    if isinstance(shown, pikepdf.Array):
        return any(isinstance(part, pikepdf.String) and len(bytes(part)) for part in shown)
    return isinstance(shown, pikepdf.String) and len(bytes(shown)) > 0


def _forms(
    instructions: Instructions, resources: pikepdf.Object
) -> Iterator[tuple[int, pikepdf.Object]]:
    """Indices of the operators that draw a form, with the form."""
    known = resources.get("/XObject", pikepdf.Dictionary())
    for index, each in enumerate(instructions):
        if str(each.operator) == "Do" and each.operands:
            drawn = known.get(each.operands[0])
            if isinstance(drawn, pikepdf.Stream) and drawn.get("/Subtype") == "/Form":
                yield index, drawn


def _find_groups(
    found: dict[Source, list[int]], path: Source, holder: pikepdf.Object, resources: pikepdf.Object
) -> None:
    instructions = _instructions(holder)
    found[path] = [group.number for group in _shown(instructions)]
    if len(path) > _DEEPEST_FORM or len(found) > _MOST_FORMS:
        raise BrokenDocument(
            f"a page draws more than {_MOST_FORMS} forms, or forms {_DEEPEST_FORM} deep"
        )
    for number, (_, form) in enumerate(_forms(instructions, resources)):
        _find_groups(found, (*path, number), form, form.get("/Resources", resources))


def _filtered(
    pdf: pikepdf.Pdf,
    path: Source,
    holder: pikepdf.Object,
    resources: pikepdf.Object,
    removed: frozenset[Source],
) -> tuple[bytes, pikepdf.Object]:
    instructions = list(_instructions(holder))
    resources = pikepdf.Dictionary(dict(resources.items()))
    for number, (index, form) in enumerate(list(_forms(instructions, resources))):
        inner = (*path, number)
        if not any(
            source[: len(inner)] == inner and len(source) > len(inner) for source in removed
        ):
            continue
        content, own = _filtered(pdf, inner, form, form.get("/Resources", resources), removed)
        copy = pdf.make_stream(content)
        for key, value in form.items():
            if key not in ("/Length", "/Filter", "/DecodeParms", "/Resources"):
                copy[key] = value
        copy.Resources = own
        resources.XObject = pikepdf.Dictionary(dict(resources.XObject.items()))
        name = pikepdf.Name(f"/Dragoman{'x'.join(map(str, inner))}")
        resources.XObject[name] = copy
        instructions[index] = pikepdf.ContentStreamInstruction([name], pikepdf.Operator("Do"))
    hidden = {group.index for group in _shown(instructions) if (*path, group.number) in removed}
    kept: list[Any] = []
    for index, each in enumerate(instructions):
        kept += _effects(each) if index in hidden else [each]
    # Without them, the state of the page's own graphics would apply to what is drawn after it.
    opened = sum({"q": 1, "Q": -1}.get(str(each.operator), 0) for each in kept)
    return pikepdf.unparse_content_stream(kept) + b"\nQ" * opened, resources


def _effects(instruction: Any) -> Iterator[Any]:
    """Operators with the lasting effects of one that shows text."""
    *spacings, _ = instruction.operands
    for value, name in zip(spacings, ("Tw", "Tc"), strict=False):
        yield pikepdf.ContentStreamInstruction([value], pikepdf.Operator(name))
    if str(instruction.operator) in _PLACES:
        yield pikepdf.ContentStreamInstruction([], pikepdf.Operator("T*"))
