"""Prose names requests, sentences, rows and callers instead of using pronouns for them."""

from __future__ import annotations

import re
import shutil

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


def test_prose_has_no_pronoun_that_stands_for_a_part_of_the_system() -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so the files of the project are unknown")
    listed = output_of("git", "ls-files", "-z", *PROSE)
    paths = [name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    found = {
        f"{name}:{number}: {line.strip()}"
        for name in paths
        if name != OWN and not name.startswith("bundles/")
        for number, line in enumerate((ROOT / name).read_text("utf-8").splitlines(), start=1)
        if RIDDLES.search(line)
    }
    assert not found, "\n".join(sorted(found))
