"""Block rules of Markdown dialects: footnote definitions, alert markers and directive lines.

Each rule keeps its markup out of the surrounding paragraphs, so that it keeps its line.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, reference

_FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,100}\]:[ \t]*")
_FOOTNOTE_INDENT = 4
"""Columns by which further paragraphs of a footnote are indented."""


def add_block_rules(parser: MarkdownIt) -> None:
    """Add the rules to a parser; they precede the rule of link definitions."""
    rules = parser.block.ruler
    rules.before(
        "reference", "footnote", _footnote, {"alt": ["paragraph", "reference", "blockquote"]}
    )


def _footnote(state: StateBlock, line: int, end: int, silent: bool) -> bool:
    """A footnote definition, which contains blocks; tokens ``footnote_open`` to ``_close``."""
    if state.is_code_block(line):
        return False
    start = state.bMarks[line] + state.tShift[line]
    label = _FOOTNOTE.match(state.src, start, state.eMarks[line])
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
