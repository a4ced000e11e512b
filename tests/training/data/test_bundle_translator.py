from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.support.networks import random_network, write_bundle
from training.data.bundle_translator import TranslationFailed, translate_file


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of two bundles in a directory; the other translates differently."""
    directory = tmp_path_factory.mktemp("bundles")
    write_bundle(random_network(seed=2), directory / "another", ("int8",), name="another")
    return write_bundle(random_network(), directory / "random", ("int8",)).path


def test_file_is_translated_line_by_line_with_the_given_bundle(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, output = tmp_path / "in.tsv.gz", tmp_path / "out.txt"
    source.write_bytes(gzip.compress(b"w1 w2\n\nw3 w4 w5\n"))
    translate_file(bundle, "de", "en", source, output, beam_size=2, threads=1)
    first, empty, last = output.read_text(encoding="utf-8").splitlines()
    assert first and last and not empty
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.tsv.gz", "out.txt"]
    source.write_bytes(b"damaged")
    with pytest.raises(TranslationFailed) as failed:
        translate_file(bundle, "de", "en", source, tmp_path / "other.txt", threads=1)
    sentence = str(failed.value)
    assert f"{bundle} did not translate {source} from de to en: " in sentence
    assert "in.tsv.gz is not gzip, or is damaged" in sentence
    assert "is not gzip" in capsys.readouterr().err


def test_missing_bundle_is_named(tmp_path: Path) -> None:
    with pytest.raises(TranslationFailed, match="missing is not a bundle"):
        translate_file(tmp_path / "missing", "de", "en", tmp_path / "in", tmp_path / "out")
