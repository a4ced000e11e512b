"""Tests of ``dragoman models`` against a stand-in of the hub: add, list, verify, search, remove."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.bundle.bundle import Bundle
from models.bundle.manifest import Manifest, Score
from models.fetching.catalogue import best_of, read_catalogue
from service.catalogue.catalogue import Preference
from service.cli import main
from service.commands import models
from service.commands.serve import add_missing
from service.loading.discovery import discover, for_pair
from service.settings import Settings
from service.text.types import LanguagePair
from tests.models.tiny import MANIFEST, tiny_files
from tests.support.ctranslate2_models import package
from tests.support.firefox import SIZES, write_firefox
from tests.support.firefox_index import publish, records_of
from tests.support.hub import COMMIT, Hub, running_hub, use_hub

REPOSITORY = "Helsinki-NLP/opus-mt-de-en"
SPANISH = "Helsinki-NLP/opus-mt-es-en"
"""The catalogue's model of a pair for which it has a better score than Firefox's."""


@pytest.fixture(scope="module")
def argos_package(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return package(tmp_path_factory.mktemp("argos"))


@pytest.fixture(scope="module")
def firefox_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("firefox") / "model"
    return write_firefox(directory, SIZES["small"], lexical=True).model.parent


@pytest.fixture
def hub(
    small_marian: Path,
    argos_package: bytes,
    firefox_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Hub]:
    with running_hub() as hub:
        hub.repositories[REPOSITORY] = small_marian
        hub.files["a.argosmodel"] = argos_package
        entry = {
            "from_code": "fr",
            "to_code": "en",
            "package_version": "1.9",
            "links": [f"{hub.address}/files/a.argosmodel"],
        }
        hub.files["index.json"] = json.dumps([entry]).encode()
        use_hub(monkeypatch, hub.address)
        monkeypatch.setenv("DRAGOMAN_ARGOS_INDEX", f"{hub.address}/files/index.json")
        hub.repositories[SPANISH] = small_marian
        records = [
            record
            for source, target in (("de", "en"), ("fr", "en"))
            for record in records_of(hub, firefox_model, (source, target))
        ]
        monkeypatch.setenv("DRAGOMAN_FIREFOX_RECORDS", publish(hub, *records))
        monkeypatch.setenv("DRAGOMAN_FIREFOX_ATTACHMENTS", f"{hub.address}/files")
        monkeypatch.setenv("DRAGOMAN_BUNDLES", str(tmp_path / "bundles"))
        yield hub


def names(bundles: Path) -> list[str]:
    return [path.name for path in bundles.glob("[!.]*")]


def test_best_model_of_a_pair_is_firefoxs_or_that_of_the_catalogue(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "add", "de-en", "es-en"]) == 0
    assert "firefox:de-en, version 2.0 (tiny), licence: mpl-2.0" in capsys.readouterr().err
    assert sorted(names(tmp_path / "bundles")) == ["firefox-de-en", "opus-mt-es-en"]
    bundle = Bundle.open(tmp_path / "bundles" / "firefox-de-en")
    assert bundle.manifest.provenance.origin == "firefox:de-en, version 2.0 (tiny)"
    assert "`mpl-2.0`" in (bundle.path / "README.md").read_text(encoding="utf-8")
    assert not list((tmp_path / "bundles" / models.DOWNLOADS).iterdir())


def test_interrupted_firefox_model_leaves_no_bundle_and_is_resumed(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = "models/2.0-model.deen.intgemm.alphas.bin.zst"
    hub.cut[packed] = 5000
    assert main(["models", "add", "firefox:de-en"]) == 2
    assert "the same command continues" in capsys.readouterr().err.splitlines()[-1]
    assert names(tmp_path / "bundles") == []
    assert main(["models", "add", "firefox:de-en"]) == 0
    assert names(tmp_path / "bundles") == ["firefox-de-en"]


def test_pair_that_no_table_has_is_added_as_two_through_english(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "add", "--missing", "fr-de"]) == 0
    error = capsys.readouterr().err
    assert "fr-de is added as fr-en and en-de" in error
    # The stand-in has one of them.
    assert "en-de is not added: Firefox has no model en-de" in error
    assert names(tmp_path / "bundles") == ["firefox-fr-en"]


def test_model_is_fetched_imported_listed_verified_and_removed(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "add", f"hf:{REPOSITORY}"]) == 0
    assert f"hf:{REPOSITORY} at {COMMIT[:12]}, licence: cc-by-4.0" in capsys.readouterr().err
    bundle = Bundle.open(tmp_path / "bundles" / "opus-mt-de-en")
    assert bundle.manifest.provenance.origin == f"hf:{REPOSITORY} at {COMMIT[:12]}"
    assert not list((tmp_path / "bundles" / models.DOWNLOADS).iterdir())
    assert "`cc-by-4.0`" in (bundle.path / "README.md").read_text(encoding="utf-8")
    assert main(["models", "list"]) == 0
    assert "opus-mt-de-en: German → English (de-en)" in capsys.readouterr().out
    assert main(["models", "verify"]) == 0
    assert main(["models", "add", str(bundle.path), "--name", "twin"]) == 0
    twin = bundle.manifest.model_copy(update={"name": "twin"})
    assert Bundle.open(tmp_path / "bundles" / "twin").manifest == twin
    for name in ("../out", ".hidden"):
        assert main(["models", "add", str(bundle.path), "--name", name]) == 2
        assert f"a bundle cannot be called {name!r}" in capsys.readouterr().err
    assert main(["models", "add", str(bundle.path), "hf:a/b", "--name", "both"]) == 2
    assert "--name is for one bundle" in capsys.readouterr().err
    assert main(["models", "add", str(bundle.path)]) == 2
    assert "choose another --name" in capsys.readouterr().err
    weights = bundle.path / "weights.int8.bin"
    weights.write_bytes(weights.read_bytes()[::-1])
    assert main(["models", "verify"]) == 2
    assert "opus-mt-de-en: broken" in capsys.readouterr().out
    assert main(["models", "add", str(bundle.path), "--name", "third"]) == 2
    assert "weights.int8.bin" in capsys.readouterr().err
    (tmp_path / "bundles" / "linked").symlink_to(bundle.path)
    assert main(["models", "remove", "linked", "linked"]) == 0
    assert main(["models", "remove", "opus-mt-de-en", "twin"]) == 0
    assert names(tmp_path / "bundles") == []
    assert main(["models", "remove", "../cache"]) == 2
    assert "has no bundle '../cache'" in capsys.readouterr().err
    assert main(["models", "add"]) == 2
    assert "name a model" in capsys.readouterr().err
    hub.wrong.add("model.safetensors")
    assert main(["models", "add", f"hf:{REPOSITORY}"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("dragoman: model.safetensors of") and "another hash" in error
    assert names(tmp_path / "bundles") == []


def test_pair_that_the_catalogue_lacks_is_fetched_from_argos(hub: Hub, tmp_path: Path) -> None:
    hub.cut["a.argosmodel"] = 5000
    assert main(["models", "add", "argos:fr-en"]) == 2
    assert main(["models", "add", "argos:fr-en"]) == 0
    manifest = Bundle.open(tmp_path / "bundles" / "argos-fr-en").manifest
    assert manifest.provenance.origin == "argos:fr-en, version 1.9"
    assert not list((tmp_path / "bundles" / models.DOWNLOADS).iterdir())


def test_missing_pairs_are_added_and_failures_do_not_stop_the_service(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_MODELS", "de-en, xx-yy")
    assert main(["models", "add", "--missing"]) == 0
    assert "xx-yy is not added: Argos has no package xx-yy" in capsys.readouterr().err
    assert names(tmp_path / "bundles") == ["firefox-de-en"]
    hub.requests.clear()
    for upgrade in ([], ["--upgrade"]):
        assert main(["models", "add", "--missing", "de-en", *upgrade]) == 0
    assert hub.requests == []


def test_pair_with_a_worse_bundle_is_named_and_fetched_with_upgrade(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundles = tmp_path / "bundles"
    Bundle.write(bundles / "own", own_manifest(20.5), tiny_files(tmp_path / "files"))
    assert main(["models", "add", "--missing", "de-en"]) == 0
    said = capsys.readouterr().err
    assert "de-en is translated by own, FLORES 20.5; not fetched" in said
    assert "firefox:de-en" in said
    assert names(bundles) == ["own"]
    assert main(["models", "add", "de-en", "--upgrade"]) == 0
    added = Bundle.open(bundles / "firefox-de-en").manifest
    published = best_of("de-en")
    assert published is not None and added.score("de", "en") == published.flores
    assert "not known" in (bundles / "firefox-de-en" / "README.md").read_text("utf-8")
    pair = LanguagePair("de", "en")
    for preferred, first in (((), "firefox-de-en"), (("own",), "own")):
        found = for_pair(discover(bundles), pair, Preference(preferred))
        assert [bundle.name for bundle in found] == [first]


def own_manifest(flores: float) -> Manifest:
    """The manifest of a model from German to English with a score."""
    fields = {"metric": "BLEU", "test_set": "flores/devtest", "precision": "fp32", "beam_size": 4}
    score = Score.model_validate({**fields, "value": flores, "signature": "test"})
    provenance = MANIFEST.provenance.model_copy(update={"scores": (score,)})
    direction = MANIFEST.directions[0].model_copy(update={"source": "de", "target": "en"})
    given = {"name": "own", "provenance": provenance, "directions": (direction,)}
    return MANIFEST.model_copy(update=given)


def test_serve_fetches_in_a_process_of_its_own_and_reports_no_network_in_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_FIREFOX_RECORDS", "http://127.0.0.1:9/records")
    monkeypatch.setenv("DRAGOMAN_MODELS", "de-en")
    (tmp_path / "bundles").mkdir()
    add_missing(Settings(models="de-en", bundles=tmp_path / "bundles"))
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "de-en is not added" in lines[0] and "cannot be read" in lines[0]


def test_search_lists_the_catalogue_and_argos(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "search", "fr", "en"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "en-fr\tfirefox:en-fr\tbase-memory, 32 MB\tmpl-2.0\tFLORES 49.6, COMET 0.8697" in lines
    known = "en-fr\thf:Helsinki-NLP/opus-mt-en-fr\tMarianMT base\tapache-2.0\tFLORES 47.9"
    assert known in lines
    assert "fr-en\targos:fr-en\tversion 1.9" in lines
    assert not any("de" in line.split("\t")[0] for line in lines)
    assert main(["models", "search", "en-FR"]) == 0
    assert capsys.readouterr().out.splitlines() == [x for x in lines if x.startswith("en-fr\t")]
    assert main(["models", "search", "de", "fr"]) == 0
    assert "de-fr is added as de-en and en-fr" in capsys.readouterr().err
    assert main(["models", "search", "de", "xx"]) == 0
    assert "no model of de-xx is known" in capsys.readouterr().err


def test_catalogue_has_one_repository_for_each_pair() -> None:
    entries = read_catalogue()
    assert len({entry.pair for entry in entries}) == len(entries) > 20
    assert all(entry.repository.count("/") == 1 for entry in entries)
    assert all(bool(entry.archive) == bool(entry.flores) for entry in entries)
    assert all(0 < float(entry.flores) < 100 for entry in entries if entry.flores)
    assert {entry.licence for entry in entries} == {"apache-2.0", "cc-by-4.0", ""}
