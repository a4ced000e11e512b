"""Block rules of Markdown dialects: footnotes, definitions, alerts, directives, admonitions and
lines of attributes.

Each rule keeps its markup out of the surrounding paragraphs, so that it keeps its line.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock, reference

_FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,100}\]:[ \t]*")
_DEFINITION = re.compile(r":[ \t]+(?=\S)")
_INDENT = 4
"""Columns by which further blocks of a footnote, a definition or an admonition are indented."""
_ADMONITION = re.compile(
    r"(?:(?:!!!|\?\?\?\+?)[ \t]+[a-z][\w-]*(?:[ \t]+inline(?:[ \t]+end)?)?|===[!+]?(?=[ \t]+\"))"
    r"(?:[ \t]+\"(?P<title>[^\"]*)\")?[ \t]*$"
)
_ATTRIBUTE_LINE = re.compile(r"\{(?::|[ \t]*[.#])[^{}]*\}[ \t]*$")
_ALERT = re.compile(r"\[![A-Za-z][\w-]*\][+-]?(?:[ \t]+|$)")
_DIRECTIVE = re.compile(r":{3,}(?P<keyword>[ \t]*[A-Za-z][\w-]*(?:(?P<bracket>\[)|[ \t]+))?")
_ATTRIBUTES = re.compile(r"\{[^{}]*\}$")


def add_block_rules(parser: MarkdownIt) -> None:
    """Add the rules to a parser; they precede the rule of link definitions."""
    rules = parser.block.ruler
    interrupting: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote"]}
    for name, rule in (
        ("footnote", _footnote),
        ("definition", _definition),
        ("directive", _directive),
        ("admonition", _admonition),
        ("attributes", _attributes),
    ):
        rules.before("reference", name, rule, interrupting)
    rules.before("reference", "alert", _alert)


def _footnote(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """A footnote definition, which contains blocks; tokens ``footnote_open`` to ``_close``."""
    label = _match(_FOOTNOTE, state, line)
    if silent:
        return label is not None or _is_link_after_footnote(state, line, end)
    if label is None:
        return False
    _read_blocks("footnote", state, line, end, label.end())
    return True


def _definition(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """A definition, whose first line begins with ``: ``, below the line of its term."""
    marker = _match(_DEFINITION, state, line)
    if silent:
        # Of a paragraph with several lines, only one in a definition is followed by a definition.
        follows = line == state.line + 1 or state.sCount[line] < state.blkIndent
        return marker is not None and follows
    before = state.tokens[-1].type if state.tokens else ""
    if marker is None or before not in ("paragraph_close", "definition_close"):
        return False
    _read_blocks("definition", state, line, end, marker.end())
    return True


def _admonition(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """A line such as ``!!! note "Title"`` of MkDocs, with indented blocks below it."""
    marker = _match(_ADMONITION, state, line)
    first = state.skipEmptyLines(line + 1)
    has_blocks = first < end and state.sCount[first] - state.blkIndent >= _INDENT
    if marker is None or not (has_blocks or marker["title"]):
        return False
    if silent:
        return True
    state.line = line + 1
    if marker["title"]:
        _push_title(state, line, marker.start("title"), end='"')
    if has_blocks:
        _read_blocks("admonition", state, first, end)
    return True


def _attributes(state: StateBlock, line: int, _: int, silent: bool) -> bool:
    """A line such as ``{: .class }`` of kramdown, for the block beside it."""
    found = _match(_ATTRIBUTE_LINE, state, line) is not None
    if found and not silent:
        state.line = line + 1
    return found


def _read_blocks(
    name: str, state: StateBlock, line: int, end: int, start: int | None = None
) -> None:
    """Read indented blocks; ``start`` is where the first line begins behind a marker."""
    saved = state.bMarks[line], state.tShift[line], state.sCount[line], state.blkIndent
    # The parser bounds the levels of these tokens.
    state.push(f"{name}_open", "", 1)
    state.blkIndent += _INDENT
    if start is not None:
        state.bMarks[line], state.tShift[line], state.sCount[line] = start, 0, state.blkIndent
    state.md.block.tokenize(state, line, end)
    state.push(f"{name}_close", "", -1)
    state.bMarks[line], state.tShift[line], state.sCount[line], state.blkIndent = saved


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
        _push_title(state, line, marker.end(), end="]" if marker["bracket"] else "")
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


def _push_title(state: StateBlock, line: int, start: int, *, end: str = "") -> None:
    """An inline token of the title that begins at ``start``, with its column in ``meta``."""
    title = _ATTRIBUTES.sub("", state.src[start : state.eMarks[line]].rstrip())
    state.push("title_open", "", 1)
    token = state.push("inline", "", 0)
    token.content = title.rstrip().removesuffix(end)
    token.map = [line, line + 1]
    token.meta = {"column": start - state.src.rfind("\n", 0, start) - 1}
    state.push("title_close", "", -1)
