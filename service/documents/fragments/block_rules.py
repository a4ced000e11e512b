"""Block rules of Markdown dialects: footnote definitions, alert markers and directive lines.

Each rule keeps its markup out of the surrounding paragraphs, so that it keeps its line.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock, reference

_FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,100}\]:[ \t]*")
_FOOTNOTE_INDENT = 4
"""Columns by which further paragraphs of a footnote are indented."""
_ALERT = re.compile(r"\[![A-Za-z][\w-]*\][+-]?(?:[ \t]+|$)")
_DIRECTIVE = re.compile(r":{3,}(?P<keyword>[ \t]*[A-Za-z][\w-]*(?:(?P<bracket>\[)|[ \t]+))?")
_ATTRIBUTES = re.compile(r"\{[^{}]*\}$")


def add_block_rules(parser: MarkdownIt) -> None:
    """Add the rules to a parser; they precede the rule of link definitions."""
    rules = parser.block.ruler
    interrupting: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote"]}
    rules.before("reference", "footnote", _footnote, interrupting)
    rules.before("reference", "directive", _directive, interrupting)
    rules.before("reference", "alert", _alert)


def _footnote(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """A footnote definition, which contains blocks; tokens ``footnote_open`` to ``_close``."""
    label = _match(_FOOTNOTE, state, line)
    if silent:
        return label is not None or _is_link_after_footnote(state, line, end)
    if label is None:
        return False
    saved = state.bMarks[line], state.tShift[line], state.sCount[line], state.blkIndent
    state.blkIndent += _FOOTNOTE_INDENT
    state.bMarks[line], state.tShift[line], state.sCount[line] = label.end(), 0, state.blkIndent
    state.push("footnote_open", "", 1)
    state.md.block.tokenize(state, line, end)
    state.push("footnote_close", "", -1)
    state.bMarks[line], state.tShift[line], state.sCount[line], state.blkIndent = saved
    return True


def _is_link_after_footnote(state: StateBlock, line: int, end: int) -> bool:
    """Whether a link definition follows the first paragraph of a footnote.

    CommonMark continues the paragraph, but other renderers find the definition by its line.
    """
    in_footnote = bool(state.tokens) and state.tokens[-1].type == "footnote_open"
    return in_footnote and reference(state, line, end, True)


def _directive(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """A line such as ``:::tip Title``, ``:::tip[Title]{attribute}`` or ``:::``.

    Docusaurus and VitePress have such lines before and after the blocks of a directive.
    """
    marker = _match(_DIRECTIVE, state, line)
    if marker is None or silent:
        return marker is not None
    state.line = line + 1
    if marker["keyword"]:
        _push_title(state, line, marker.end(), bracket="]" if marker["bracket"] else "")
    return True


def _alert(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """A line such as ``[!NOTE]`` that begins a quote; Obsidian allows a title after it."""
    if not state.tokens or state.tokens[-1].type != "blockquote_open":
        return False
    marker = _match(_ALERT, state, line)
    if marker is None:
        return False
    state.line = line + 1
    _push_title(state, line, marker.end())
    return True


def _match(pattern: re.Pattern[str], state: StateBlock, line: int) -> re.Match[str] | None:
    """The pattern at the start of a line that is not indented code."""
    if state.is_code_block(line):
        return None
    return pattern.match(state.src, state.bMarks[line] + state.tShift[line], state.eMarks[line])


def _push_title(state: StateBlock, line: int, start: int, *, bracket: str = "") -> None:
    """An inline token of the title that begins at ``start``, with its column in ``meta``."""
    title = _ATTRIBUTES.sub("", state.src[start : state.eMarks[line]].rstrip())
    state.push("title_open", "", 1)
    token = state.push("inline", "", 0)
    token.content = title.rstrip().removesuffix(bracket)
    token.map = [line, line + 1]
    token.meta = {"column": start - state.src.rfind("\n", 0, start) - 1}
    state.push("title_close", "", -1)
