"""Test of Ray Data: a corpus of several file formats, two actors, and a resumed run."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import ROOT
from tests.support.ray_server import ray_environment

pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")
pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
data = pytest.importorskip("service.ray.data")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]

SUBJECTS = ("Hund", "Katze", "Mann", "Frau", "Kind", "Pferd", "Vogel", "Junge", "Koch", "Kuh")
WHAT = ("Ball", "Haus", "Baum", "Auto", "Fahrrad", "Tisch", "Boot", "Buch", "Hut", "Bild")
HOW = ("sieht", "hat", "holt", "malt")
TEXTS = [f"Ein {subject} {how} ein {what}." for how in HOW for subject in SUBJECTS for what in WHAT]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 lines, and a few more in every other format."""
    directory = tmp_path_factory.mktemp("corpus") / "in"
    directory.mkdir()
    (directory / "lines.txt").write_text("".join(f"{each}\n" for each in TEXTS))
    rows = "".join(f"{n}\t{each}\n" for n, each in enumerate(TEXTS[:20]))
    (directory / "columns.tsv").write_text("id\ttext\n" + rows)
    objects = [json.dumps({"id": n, "text": each}) for n, each in enumerate(TEXTS[:20])]
    with gzip.open(directory / "objects.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join([*objects, '{"id": 20}']) + "\n")
    table = pyarrow.table({"id": range(20), "text": TEXTS[:20]})
    parquet.write_table(table, directory / "table.parquet", row_group_size=5)
    return directory


@pytest.mark.parametrize(
    "option", ["--actors=0", "--shard-bytes=0", "--cpus=-1", "--cpus=nan", "--gpus=inf"]
)
def test_invalid_numbers_are_refused_before_anything_is_written(
    tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        data.main([__file__, str(tmp_path / "out"), "--from=de", "--to=en", option])
    assert refused.value.code == 2
    assert option.partition("=")[0] in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_reason_of_an_actor_is_its_exception_and_not_the_advice_behind_it() -> None:
    error = pytest.importorskip("ray.exceptions").RayError
    message = "Traceback:\n  File x\nOSError: the disk is full\n\nTo retry, set: more\n"
    assert data._reason(error(message)) == "OSError: the disk is full"
    assert data._reason(error("it died")) == "it died"


def test_corpus_is_translated_in_order_by_two_actors_and_not_again_on_resumption(
    corpus: Path,
) -> None:
    output = corpus.parent / "out"
    codes, (first, second, _) = translate_twice(corpus, output)
    # Exit code 1 means that not every row could be translated.
    assert codes == [1, 1], first + second
    assert "461 rows translated" in first
    assert "by 2 actors" in first
    assert "1 left empty; the first is" in first
    assert "part-00000.jsonl, line 21" in first
    assert "0 rows translated" in second and "by 0 actors" in second
    assert first.partition("1 left empty")[2] == second.partition("1 left empty")[2]

    lines = parts(output / "lines.txt")
    assert len(lines) == 400
    # Rows are matched by position, since equal texts have equal translations.
    columns = [line.split("\t") for line in parts(output / "columns.tsv")]
    assert columns[0] == ["id", "text", "translation"]
    assert [(int(n), text) for n, text, _ in columns[1:]] == list(enumerate(TEXTS[:20]))
    assert [translation for *_, translation in columns[1:]] == lines[:20]
    objects = [json.loads(line) for line in parts(output / "objects.jsonl.gz")]
    assert [each["translation"] for each in objects] == [*lines[:20], ""]
    table = parquet.read_table(output / "table.parquet").to_pydict()
    assert table == {"id": [*range(20)], "text": TEXTS[:20], "translation": lines[:20]}
    assert len(list((output / "table.parquet").iterdir())) > 1


def translate_twice(source: Path, output: Path) -> tuple[list[int], list[str]]:
    """Exit codes of two runs of the same command, and stderr of each run and of the end."""
    command = [sys.executable, "-m", "tests.support.ray_corpus", str(source), str(output)]
    command += ["--from", "de", "--to", "en", "--actors", "2", "--cpus", "1"]
    command += ["--shard-bytes", "2000"]
    with ray_environment(bundles=ROOT / "bundles") as environment:
        done = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=150
        )
    assert done.returncode == 0, done.stderr
    return list(map(int, done.stdout.split())), done.stderr.split("---\n")


def parts(directory: Path) -> list[str]:
    return "".join(path.read_text() for path in sorted(directory.glob("part-*"))).splitlines()
