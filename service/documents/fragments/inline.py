"""Parser of Markdown inline content into pieces that keep their original source form.

``markdown-it-py`` tokens do not record their source text. Its rules are wrapped to store it in
each token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from service.documents.fragments.block_rules import add_block_rules
from service.documents.fragments.fragment import Piece

_LEFT_ALONE = re.compile(
    r"""
    \[\^[^\]\s]{1,100}\]                        # footnotes
    | \[![A-Z]{1,20}\]                           # GitHub's notes and warnings
    | (?<![^\n])\[[ xX]\](?=\s)                  # boxes to tick
    | \{%[^{}\n]{1,200}%\}                       # tags of templates
    | \{:[^{}\n]{1,200}\}                        # attributes of kramdown
    | (?P<word>\{\{[^{}\n]{1,200}\}\}            # values in templates, formulas
        | \$\$[^$]{1,1000}\$\$ | \$(?![\s$])[^$\n]{1,200}(?<!\s)\$(?!\d))
    | (?<![\w:]):[a-z][a-z0-9_+-]{0,50}:(?![\w:])  # emoji
    """,
    re.VERBOSE,
)
"""Markup passed through unchanged. Repetitions are bounded against quadratic matching time."""
_HTML_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]*)")
_RULES = ("backticks", "autolink", "html_inline", "entity", "newline", "escape")

Rule = Callable[[StateInline, bool], bool]


class Inline:
    """Inline parser of one document; stores the document's link definitions."""

    def __init__(self) -> None:
        self._parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self._parser.disable("inline")
        add_block_rules(self._parser)
        inline = self._parser.inline.ruler
        rules = {rule.name: rule.fn for rule in inline.__rules__}
        for name in _RULES:
            inline.at(name, _remembering(rules[name]))
        inline.at("link", _remembering_ends(rules["link"], "link_close"))
        inline.at("image", _remembering_ends(rules["image"], "image"))
        inline.before("link", "left_alone", _leave_alone)
        self._definitions: dict[str, Any] = {}

    def blocks(self, text: str) -> list[Token]:
        """Block tokens of a whole document; inline content is not parsed."""
        return self._parser.parse(text, self._definitions)

    def read(self, content: str) -> list[Piece]:
        """The pieces of a block's inline content."""
        tokens: list[Token] = []
        self._parser.inline.parse(content, self._parser, self._definitions, tokens)
        return list(self._all(tokens))

    def _all(self, tokens: Sequence[Token]) -> Iterator[Piece]:
        """Pieces in their source form; a soft line break becomes a blank."""
        automatic = False
        for token in tokens:
            if token.markup == "autolink":
                automatic = token.type == "link_open"
                if automatic:
                    yield Piece("word", str(token.meta["written"]))
            elif not automatic:
                yield from self._one(token)

    def _one(self, token: Token) -> Iterator[Piece]:
        match token.type:
            case "text" | "text_special":
                yield Piece("text", token.content)
            case "softbreak":
                yield Piece("text", " ")
            case "hardbreak":
                yield Piece("break", "\\" if token.meta["written"].startswith("\\") else "  ")
            case "code_inline":
                yield Piece("word", str(token.meta["written"]))
            case "html_inline":
                yield _html(token.content)
            case "link_open":
                yield Piece("open", "[", "link")
            case "link_close":
                yield _link_end(token, "link")
            case "image":
                yield Piece("open", "![", "image")
                yield from self._all(token.children or [])
                yield _link_end(token, "image")
            case kind if kind.endswith("_open"):
                yield Piece("open", token.markup, token.markup)
            case kind if kind.endswith("_close"):
                yield Piece("close", token.markup, token.markup)
            case _:
                yield Piece("thing", str(token.meta["written"]))


def _html(written: str) -> Piece:
    tag = _HTML_TAG.match(written)
    if tag is not None and tag[2].lower() == "br":
        return Piece("break", written)
    if tag is None or written.endswith("/>"):
        return Piece("thing", written)
    return Piece("close" if tag[1] else "open", written, f"<{tag[2].lower()}>")


def _link_end(token: Token, name: str) -> Piece:
    """The end of a link or image; of ``[label]`` and ``[label][]`` in the form ``][label]``.

    A translated text is no label of a definition.
    """
    written = str(token.meta["written"])
    if written not in ("]", "][]"):
        return Piece("close", written, name)
    return Piece("close", f"][{' '.join(token.meta['label'].split())}]", name, short=written)


def _remembering(rule: Rule) -> Rule:
    """The rule, wrapped to store the source text in each token that it creates."""

    def remember(state: StateInline, silent: bool) -> bool:
        start, made = state.pos, len(state.tokens)
        found = rule(state, silent)
        if found and not silent:
            _note(state.tokens[made:], state.src[start : state.pos])
        return found

    return remember


def _note(tokens: Iterable[Token], written: str) -> None:
    for token in tokens:
        token.meta = {**token.meta, "written": written}


def _remembering_ends(rule: Rule, last: str) -> Rule:
    """The rule, wrapped to store label and source text from ``]`` on in its last token."""

    def remember(state: StateInline, silent: bool) -> bool:
        start = state.pos
        if silent:
            return rule(state, silent)
        opening = start + (last == "image")
        if not state.src.startswith("[", opening):
            return False
        label_end = state.md.helpers.parseLinkLabel(state, opening, last == "link_close")
        found = rule(state, silent)
        if found:
            assert state.tokens[-1].type == last
            _note(state.tokens[-1:], state.src[label_end : state.pos])
            state.tokens[-1].meta["label"] = state.src[opening + 1 : label_end]
        return found

    return remember


def _leave_alone(state: StateInline, silent: bool) -> bool:
    found = _LEFT_ALONE.match(state.src, state.pos, state.posMax)
    if found is None:
        return False
    if not silent:
        kind = "code_inline" if found["word"] else "left_alone"
        _note([state.push(kind, "", 0)], found[0])
    state.pos = found.end()
    return True
