"""Prose names its subject: no pronouns for parts of the system, no bare prepositional phrases."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator

import pytest

from tests.support.programs import ROOT, output_of

RIDDLES = re.compile(
    # An underscore ends a word, too.
    r"(?<![^\W_])(whoever|nobody|somebody|everybody|told|newcomers?|company)(?![^\W_])",
    re.IGNORECASE,
)
OWN = "tests/test_language.py"
"""Has the words themselves."""

PROSE = ("*.py", "*.md", "*.yml", "*.yaml", "*.toml", "*.js", "*.html", "*.css", "Makefile")

PHRASE = re.compile(
    r"(About|Above|After|Among|Around|As|At|Because|Before|Behind|Below|Beside|Between|Beyond|By"
    r"|During|For|From|If|In|Inside|Instead|Into|Like|Of|On|Over|Per|Since|Than|That|Those|Through|To"
    r"|Under|Until|Up|Via|What|When|Where|Which|While|Whose|With|Within|Without)\b(?!-)"
)
QUANTITY = re.compile(r"(At least|At most|Up to)\b")
MAIN_CLAUSE = re.compile(
    r"[^.;:]*?, (?!(and|as|because|but|not|or|since|so|that|when|where|which)\b)"
)
COMMENT = re.compile(r"^[ \t]*(?:(?:#|//)[^\n]*(?:\n[ \t]*(?:#|//)[^\n]*)*|/\*.*?\*/)", re.M | re.S)


def files(*patterns: str) -> dict[str, str]:
    """The tracked text files of the project, by path."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so the files of the project are unknown")
    listed = output_of("git", "ls-files", "-z", *patterns).split("\0")
    paths = [name for name in listed if name not in ("", OWN) and not name.startswith("bundles/")]
    return {name: (ROOT / name).read_text("utf-8") for name in paths if (ROOT / name).is_file()}


def names_its_subject(text: str, *, comment: bool = False) -> bool:
    """Whether the first words of a text are its subject, not a preposition or relative pronoun.

    A comment may begin with a phrase that a comma separates from the main clause.
    """
    text = " ".join(text.split())
    begins = PHRASE.match(text) is None or QUANTITY.match(text) is not None
    return begins or (comment and MAIN_CLAUSE.match(text) is not None)


def docstrings_of(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring of a module, class, function or attribute."""
    blocks: list[ast.AST] = [ast.parse(source)]
    while blocks:
        for each in ast.iter_child_nodes(blocks.pop()):
            match each:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield each.lineno, text
                case ast.stmt() | ast.ExceptHandler() | ast.match_case():
                    blocks.append(each)


def comments_of(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each block of comments that stands on lines of its own."""
    for found in COMMENT.finditer(source):
        text = re.sub(r"^[ \t]*[#/*]+", "", found[0], flags=re.MULTILINE)
        yield source.count("\n", 0, found.start()) + 1, text


@pytest.mark.parametrize(
    ("fragment", "sentence"),
    [
        (
            "Of a body. Reading a longer one takes milliseconds, beside which routing is nothing.",
            "Largest body in bytes that takes the short path.",
        ),
        (
            "Of a request's head, and of what is neither head nor content of a body.",
            "Maximum bytes of a request head, and of chunk framing and trailers.",
        ),
        (
            "Of others'. What would tie a package to something that it is not to know of.",
            "Third-party distributions that each package must not import.",
        ),
        ("Of all their beams.", "Rows of all beams of these sentences."),
        ("What a hop printed.", "At most one line."),
        ("In source tokens.", "In-memory disk with simulated power cuts."),
    ],
)
def test_a_docstring_that_begins_with_a_phrase_is_found(fragment: str, sentence: str) -> None:
    assert not names_its_subject(fragment)
    assert names_its_subject(sentence)


def test_a_comment_may_begin_with_a_phrase_only_before_a_main_clause() -> None:
    for text in ("On the event loop.", "In a thread, as a dictionary may have many entries."):
        assert not names_its_subject(text, comment=True)
    for text in ("In Python, a boolean is an integer, too.", "A thread checks the entries."):
        assert names_its_subject(text, comment=True)


def test_docstrings_and_comments_name_their_subject() -> None:
    fragments = []
    for name, source in files("*.py", "*.js", "*.css", "*.yml", "*.yaml").items():
        read = [(number, text, True) for number, text in comments_of(source)]
        if name.endswith(".py"):
            read += [(number, text, False) for number, text in docstrings_of(source)]
        for number, text, comment in read:
            if not names_its_subject(text, comment=comment):
                fragments.append(f"{name}:{number}: {text.strip()[:80]}")
    assert not fragments, "\n".join(fragments)


def test_prose_has_no_pronoun_that_stands_for_a_part_of_the_system() -> None:
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in files(*PROSE).items()
        for number, line in enumerate(text.splitlines(), start=1)
        if RIDDLES.search(line)
    ]
    assert not found, "\n".join(found)
