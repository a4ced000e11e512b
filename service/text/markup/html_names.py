"""Sets of HTML element names by behaviour: void, raw text, block, optional end tag."""

from __future__ import annotations


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


VOID = _names("area base br col embed hr img input link meta param source track wbr")
"""Elements without contents and end tag."""

RAW_TEXT = frozenset({"script", "style", "xmp", "iframe", "noembed", "noframes"})
"""Elements whose contents are neither markup nor visible text."""

TEXT_ONLY = frozenset({"title", "textarea"})
"""Elements whose contents are text, even if they look like markup."""

UNTOUCHED = frozenset({"code", "kbd", "samp", "var", "math", "svg", "template"})
"""Elements whose contents are not translated."""

BREAKING = _names(
    """
    html head title base link meta body header footer main nav section article aside address
    hgroup h1 h2 h3 h4 h5 h6 p div blockquote pre center figure figcaption hr br details summary
    dialog search menu ul ol li dl dt dd dir
    table caption colgroup col thead tbody tfoot tr th td
    form fieldset legend button select optgroup option datalist textarea input progress meter
    iframe object param embed audio video source track canvas map area frameset frame noframes
    noscript
    """
)
"""Elements whose tags end a sentence."""

_BLOCKS = _names(
    """
    address article aside blockquote center details dialog dir div dl fieldset figcaption figure
    footer form h1 h2 h3 h4 h5 h6 header hgroup hr main menu nav ol p pre section table ul
    """
)
_ROWS = frozenset({"tr", "tbody", "thead", "tfoot"})

CLOSED_BY: dict[str, frozenset[str]] = {
    "p": _BLOCKS,
    "li": frozenset({"li"}),
    "dt": frozenset({"dt", "dd"}),
    "dd": frozenset({"dt", "dd"}),
    "option": frozenset({"option", "optgroup"}),
    "optgroup": frozenset({"optgroup"}),
    "td": frozenset({"td", "th"}) | _ROWS,
    "th": frozenset({"td", "th"}) | _ROWS,
    "tr": _ROWS,
    "thead": frozenset({"tbody", "tfoot"}),
    "tbody": frozenset({"tbody", "tfoot"}),
}
"""Elements with an optional end tag, and the start tags that end them."""
