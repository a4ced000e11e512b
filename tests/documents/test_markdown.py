from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from service.documents.formats.markdown import open_markdown
from service.documents.types import BrokenDocument, MarkupLost
from tests.documents.translations import shouted, translated, unchanged

GUIDE = """---
title: untouched here
---

# heading with `code` #

some *prose* with **bold _and_ nested** words and a [link text](http://a.example/b_c "title"),
an ![alt text](pic.png), <http://auto.example>, ~~gone~~, <kbd>key</kbd> and a footnote[^one].
escaped \\*stars\\* &amp; entities.

setext *title*
===

> quoted words
> go on  
> after a break

1. first item
   continues
2. second
   - [ ] task to do
   - [x] done

| head one | head `two` |
| :--- | ---: |
| a \\| b | *cell* |
|  | last |

```python
print("untouched")
```

    indented code

<div class="untouched">
raw html
</div>

[reference text][ref] and [ref] and {{ template }} and $x_1$ and :smile:.

[ref]: http://c.example "untouched title"
[^one]: the note
"""

KEPT = re.compile(
    r"(---\n[^-]*\n---|```.*?\n```|<div.*?</div>|    indented code|`\w+`|<[^>]*>|\{\{.*?\}\}"
    r"|\]\([^)]*\)|\]\[ref\]|\[ref\]:[^\n]*|\[\^one\]|\$x_1\$|:smile:|\[x\])",
    re.DOTALL,
)
"""Front matter, code, tags, templates, addresses, and names of references and footnotes."""

SHOUTED = "".join(
    part if number % 2 else part.replace("&amp;", "&").upper()
    for number, part in enumerate(KEPT.split(GUIDE))
)


def last_said(text: str) -> str:
    """The rendered text of the last block of a document."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    (*_, block) = [
        token for token in parser.parse(text) if token.type == "inline" and token.content
    ]
    return "".join(
        " " if token.type == "softbreak" else token.content for token in block.children or []
    )


BITS = st.lists(
    st.sampled_from(
        [
            *("word", "more", "é", " ", " ", "\n", "\n", "\n\n", "\r\n", "  \n", "\t", "    "),
            *(
                "*",
                "**",
                "_",
                "~~",
                "`",
                "``",
                "\\",
                "&amp;",
                "<b>",
                "</b>",
                "<!-- c -->",
                "<div>\n",
            ),
            *("[a]", "](b)", "![", "[", "]", "(x)", "<http://a.b>", "[a]: /u\n", "[^1]", "$x$"),
            *("# ", "> ", "- ", "1. ", "---\n", "===\n", "```\n", "|", "| --- |\n", "{{ y }}"),
            *("<div>\n", "\xa0", "\x0b", "\u2028", "<br>", '!!! a "b"\n', ": ", "{: .c }\n"),
        ]
    ),
    max_size=30,
).map("".join)


def structure(text: str) -> list[str]:
    """Blocks and tags of a document, without its text and line breaks."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    found = []
    for block in parser.parse(text):
        found.append(f"{block.type} {block.tag} {block.level}")
        found += [
            f"  {token.type} {token.tag} {token.attrs}"
            for token in block.children or []
            if token.type not in ("text", "softbreak")
        ]
    return found


@settings(max_examples=200, deadline=None)
@given(BITS)
@example("> a\nb\n\n1. 1 | 2\n   - | -\n   2 | 1\n")
def test_untranslated_documents_stay_byte_for_byte(text: str) -> None:
    assert unchanged(open_markdown(text.encode())) == text.encode()


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_only_prose_is_translated_and_line_ends_are_kept(newline: str) -> None:
    shouting = shouted(open_markdown(GUIDE.replace("\n", newline).encode())).decode()
    assert shouting == SHOUTED.replace("\n", newline)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(BITS)
@example("word  \n\t<!-- c --> more")
@example("word \t  \nmore")
@example("\\<!-- c -->\n- ")
def test_the_blocks_of_a_translated_document_are_those_of_its_source(text: str) -> None:
    swapped = translated(open_markdown(text.encode()), lambda said: re.sub(r"\w", "x", said))
    assert [line for line in structure(swapped.decode()) if not line.startswith("  ")] == [
        line for line in structure(text) if not line.startswith("  ")
    ]


@pytest.mark.parametrize(
    "said",
    [
        "1. no list",
        "- no list",
        "# no heading",
        "> no quote",
        "*no emphasis* and `no code`",
        "[no link](a)",
        "<b>no tag</b> &amp; <!-- no comment",
        "---",
        "===",
        "```",
        "~~~ no fence",
        "a \\* b \\\\",
        "two\n\nparagraphs",
        "{{ no template }} $x$ :smile: [^1] [x] a",
        "| a | b |",
        ":::tip no directive",
    ],
)
@pytest.mark.parametrize(
    "source", ["text", "> text", "- text\n  text", "# text", "a | b\n- | -\ntext |"]
)
def test_markup_characters_of_a_translation_are_escaped(said: str, source: str) -> None:
    document = open_markdown(source.encode())
    translations = [said if "text" in s.text else s.text for s in document.texts]
    written = document.replaced(translations).decode()
    assert structure(written) == structure(source)
    assert last_said(written).split() == said.split()


@pytest.mark.parametrize(
    ("source", "translation", "written"),
    [
        *(
            ("text", said, said)
            for said in ("2 * 3 * 4", "snake_case_name", "Tom & Jerry", "a < b", "[sic]", "C#")
        ),
        # A paragraph is wrapped at the width of its source, and one on one line is not.
        (
            "- one two three fours\n  five six seven\n  eight",
            "eins zwei drei vier - fünf 7. sechs",
            "- eins zwei drei vier -\n  fünf 7. sechs",
        ),
        ("a", "word " * 100 + "end", "word " * 100 + "end"),
        # Tags move with their words.
        (
            "the *red* [house](/h) `x`",
            '<w id="3">XY-3</w> <g id="2">maison</g> <g id="1">rouge</g>',
            "`x` [maison](/h) *rouge*",
        ),
        # Emphasis of nothing is not written; an empty link keeps its address.
        ("runs **fast** to me", 'runs <g id="1"></g>to me', "runs to me"),
        ("runs ~~fast~~ to me", 'runs <g id="1"> </g>to me', "runs  to me"),
        ("runs *very **fast*** to", 'runs <g id="1"><g id="2"></g></g>to', "runs to"),
        ("runs *very **fast*** to", 'runs <g id="1">x<g id="2"></g></g> to', "runs *x* to"),
        ("runs [fast](/f) to", 'runs <g id="1"></g>to', "runs [](/f)to"),
        # The beginning of the translation would define a footnote.
        ("Text[^1]: more", '<x id="1"/>: text', "[^1]\\: text"),
    ],
)
def test_a_translation_is_written_as_markdown(source: str, translation: str, written: str) -> None:
    assert open_markdown(source.encode()).replaced([translation]).decode() == written


@pytest.mark.parametrize(
    ("translation", "written"),
    [
        ('Set <w id="1">XY-1</w> to <w id="2">XY-2</w>.', "Set `a` to `b c`."),
        # Aligned with other words: the stand-ins decide.
        ('<w id="2">Set</w> XY-1 to XY-2<w id="1">.</w>', "Set `a` to `b c`."),
        ('<w id="1">XY-2</w>-Set to <w id="2">XY-1</w>', "`b c`-Set to `a`"),
        # Not copied, or changed: word alignment decides.
        ('Set <w id="1"></w> to <w id="2">XY 2</w>.', "Set `a` to `b c`."),
        # Copied twice.
        ('Set XY-1 <w id="1">XY-1</w> to XY-2 XY-2<w id="2"/>.', None),
        ('Set XY-1 <w id="1">XY-1</w> to XY-2 XY-2<w id="2"></w>.', "Set `a` to `b c`."),
        # Another number.
        ('XY-12 <w id="1">XY-1</w> <w id="2">XY-2</w>', "XY-12 `a` `b c`"),
        ('Set <w id="1">XY-1</w> to XY-2.', None),
    ],
)
def test_code_takes_the_place_of_its_stand_in(translation: str, written: str | None) -> None:
    document = open_markdown(b"`a` is `b c` now")
    assert document.texts[0].text == '<w id="1">XY-1</w> is <w id="2">XY-2</w> now'
    assert document.texts[0].characters == len(" is  now")
    if written is None:
        with pytest.raises(MarkupLost):
            document.replaced([translation])
    else:
        assert document.replaced([translation]).decode() == written


def test_yaml_and_toml_front_matter_is_not_translated() -> None:
    for fence in ("---", "+++"):
        matter = f"{fence}\ntitle: one\n\n# two\n{fence}\n"
        assert shouted(open_markdown(f"{matter}three".encode())).decode() == f"{matter}THREE"


def test_a_too_long_paragraph_is_refused_with_its_line() -> None:
    with pytest.raises(BrokenDocument, match="line 4 begins a paragraph of 60000 characters"):
        open_markdown(b"---\na: b\n---\n" + b"[" * 60_000)


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("[^1]: one two\n[^2]: three four\n", ["one two", "three four"]),
        ("[^1]: one two\n[a]: http://a.b\n", ["one two"]),
        ("[^1]: word\n", ["word"]),
        ("text\n[^1]: one two\n", ["text", "one two"]),
        ("> quote\n[^1]: one two\n", ["quote", "one two"]),
        ("- item\n\n  [^1]: one two\n  three\n", ["item", "one two three"]),
        ("[^1]: one two\n    three\n", ["one two three"]),
        ("[^1]: one\n\n    two\n\n    - three\n\n          code\n", ["one", "two", "three"]),
        ("[^1]: one\n\n    ```\n    code\n    ```\n", ["one"]),
        ("[^1]:\n    one\n", ["one"]),
        ("> [!WARNING]\n> one two\n", ["one two"]),
        ("> [!NOTE]  \n> - one\n>\n> # two\n", ["one", "two"]),
        ("> > [!tip]\n> > one\n", ["one"]),
        ("> [!note]- a *title*\n> one two\n", ['a <g id="1">title</g>', "one two"]),
        (":::tip\none\n:::\n", ["one"]),
        (":::tip a title\none\n:::\n", ["a title", "one"]),
        ("- one\n  :::tip[a [sic] title]{#x}\n  two\n  :::\n", ["one", "a [sic] title", "two"]),
        ("::: details a title {open}\none\n:::\n", ["a title", "one"]),
        ("::::{note} kept\n::: {.kept}\none\n:::\n::::\n", ["one"]),
        ("> one\n:::\n", ["one"]),
        (
            '!!! kept "a title"\n    one\n\n    two\n\n        code\n\nthree\n',
            ["a title", "one", "two", "three"],
        ),
        ("- one\n\n    ??? kept\n\n        two\n\n    three\n", ["one", "two", "three"]),
        ('=== "one"\n\n    - two\n', ["one", "two"]),
        ("!!! one\n\ntwo\n", ["!!! one", "two"]),
        ("one\n:   two\n    three\n: four\n", ["one", "two three", "four"]),
        ("one\n{: .kept }\n\n## two\n{: #kept }\n", ["one", "two"]),
        ("see [one](1){: .kept }\n", ['see <g id="1">one</g><x id="2"/>']),
    ],
)
def test_footnotes_and_markers_of_alerts_and_directives_keep_their_lines(
    source: str, texts: list[str]
) -> None:
    for newline in ("\n", "\r\n"):
        content = source.replace("\n", newline)
        document = open_markdown(content.encode())
        assert [s.text for s in document.texts] == texts
        kept = re.split(r"(:::+ ?\w+|\{.*|\[!\w+\]|code|kept|http\S*|\[a\])", content)
        assert shouted(document).decode() == "".join(
            part if number % 2 else part.upper() for number, part in enumerate(kept)
        )


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("the *red* [house](/h)", ['the <g id="1">red</g> <g id="2">house</g>']),
        # A text without tags is plain.
        ("**All of it** \n\n# AT&amp;T", ["All of it", "AT&T"]),
        # Code beside text that looks like a stand-in is no word.
        ("XY-1 is `a` and {{ b }}", ['XY-1 is <x id="1"/> and <x id="2"/>']),
        # A marker within a sentence is part of it.
        (
            "Write [!NOTE] or\n`:::tip` here",
            ['Write <x id="1"/> or <w id="2">XY-2</w> here'],
        ),
    ],
)
def test_texts_have_tags_only_within(source: str, texts: list[str]) -> None:
    document = open_markdown(source.encode())
    assert [each.text for each in document.texts] == texts
    assert all((each.markup.kind == "text") == ("<" not in each.text) for each in document.texts)


DEFINITIONS = "\n\n[cat]: /c\n[A *big* dog]: /d\n[1.2]: /v"


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("see [cat], [Cat][] and [it][cat]", "see [gato][cat], [Gato][Cat] and [it][cat]"),
        ("see ![cat] and [![cat][]](/u)", "see ![gato][cat] and [![gato][cat]](/u)"),
        ("see [a *big*\ndog]", "see [a *big*\nperro][a *big* dog]"),
        ("> see [a *big*\n> dog]", "> see [a *big*\n> perro][a *big* dog]"),
        ("# [cat]", "# [gato][cat]"),
        ("[cat] | [1.2]\n-|-", "[gato][cat] | [1.2]\n-|-"),
        # A text that is still the label needs no second one.
        ("cat [1.2] and [1.2][]", "gato [1.2] and [1.2][]"),
        ("cat [1.2](no address) and [1.2]", "gato [1.2][1.2](no address) and [1.2]"),
        ("cat [none] and [none][]", "gato [none] and [none][]"),
    ],
)
def test_translated_short_reference_links_keep_their_labels(source: str, written: str) -> None:
    document = open_markdown((source + DEFINITIONS).encode())
    spanish = translated(
        document,
        lambda said: re.sub("cat", "gato", said).replace("Cat", "Gato").replace("dog", "perro"),
    ).decode()
    assert spanish == written + DEFINITIONS
    assert [line for line in structure(spanish) if "href" in line or "src" in line] == [
        line for line in structure(source + DEFINITIONS) if "href" in line or "src" in line
    ]
