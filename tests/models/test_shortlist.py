from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.bundle import shortlist as module
from models.bundle.bundle import SHORTLIST, Bundle
from models.bundle.manifest import InvalidBundle
from models.bundle.shortlist import Shortlist
from tests.models.tiny import MANIFEST, VOCABULARY_SIZE, tiny_files
from tests.support.shortlists import as_lists, ids, shortlists


def a_shortlist() -> Shortlist:
    """Ids 1 and 3 are always allowed; 0 may become 5 or 4, 2 may become 4."""
    return Shortlist(ids(1, 3), ids(0, 2, 2, 3, 3, 3, 3), ids(4, 5, 4))


@given(shortlists(), st.data())
def test_ids_for_unites_always_allowed_and_per_token_ids(
    shortlist: Shortlist, data: st.DataObject
) -> None:
    source_ids = data.draw(st.lists(st.integers(0, shortlist.source_vocabulary_size - 1)))
    always, lists = as_lists(shortlist)
    wanted = set(always).union(*(lists[i] for i in source_ids))
    found = shortlist.ids_for(source_ids)
    assert found.dtype == np.int32
    assert found.tolist() == sorted(wanted)


def test_source_and_target_vocabularies_may_differ() -> None:
    shortlist = Shortlist(ids(1), ids(0, 1, 2), ids(90, 70))
    assert (shortlist.source_vocabulary_size, shortlist.target_bound) == (2, 91)
    assert shortlist.ids_for((0, 1)).tolist() == [1, 70, 90]
    for outside in (-1, 2):
        with pytest.raises(ValueError, match="vocabulary of 2"):
            shortlist.ids_for((0, outside))


@given(shortlists())
def test_saved_shortlist_loads_back(
    tmp_path_factory: pytest.TempPathFactory, shortlist: Shortlist
) -> None:
    path = tmp_path_factory.mktemp("shortlist") / "shortlist.npz"
    shortlist.save(path)
    assert as_lists(Shortlist.load(path)) == as_lists(shortlist)


def test_equal_shortlists_give_equal_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_shortlist().save(tmp_path / "shortlist.npz")
    monkeypatch.setattr("time.time", lambda: 2e9)
    a_shortlist().save(tmp_path / "later.partial")
    assert (tmp_path / "shortlist.npz").read_bytes() == (tmp_path / "later.partial").read_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"always": None},
        {"always": None, "targets": None},
        {"targets": np.array([4, 5, 4], np.int64)},
        {"always": ids(1, 3).reshape(1, 2)},
        {"always": np.array(["a"], object)},
        {"offsets": ids()},
        {"offsets": ids(0)},
        {"offsets": ids(0, 2, 1, 3, 3, 3, 3)},
        {"offsets": ids(1, 2, 2, 3, 3, 3, 3)},
        {"offsets": ids(0, 2, 2, 4, 4, 4, 4)},
        {"targets": ids(4, -1, 4)},
    ],
)
def test_inconsistent_arrays_are_refused(
    tmp_path: Path, changes: dict[str, np.ndarray | None]
) -> None:
    good = a_shortlist()
    arrays = {"always": good.always, "offsets": good.offsets, "targets": good.targets, **changes}
    path = tmp_path / "shortlist.npz"
    kept = {name: array for name, array in arrays.items() if array is not None}
    np.savez_compressed(path, **kept)
    with pytest.raises(InvalidBundle, match=str(path)):
        Shortlist.load(path)


def test_a_file_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shortlist.npz"
    a_shortlist().save(path)
    monkeypatch.setattr(module, "_LARGEST", 300)
    with pytest.raises(InvalidBundle, match="bytes; 300 are allowed"):
        Shortlist.load(path)


@pytest.mark.parametrize("content", [None, b"", b"not an archive", b"\x93NUMPY"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "shortlist.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidBundle, match=str(path)):
        Shortlist.load(path)


@given(st.data())
def test_damaged_file_is_refused_or_loads_unchanged(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("shortlist") / "shortlist.npz"
    a_shortlist().save(path)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content[: data.draw(st.sampled_from((place, len(content))))])
    try:
        loaded = Shortlist.load(path)
    except InvalidBundle:
        return
    assert as_lists(loaded) == as_lists(a_shortlist())


def bundle_with(directory: Path, shortlist: Shortlist | None) -> Bundle:
    files = tiny_files(directory / "files")
    if shortlist is not None:
        files[SHORTLIST] = directory / "files" / SHORTLIST
        shortlist.save(files[SHORTLIST])
    return Bundle.write(directory / "bundle", MANIFEST, files)


def everything_always(vocabulary_size: int) -> Shortlist:
    nothing_more = np.zeros(vocabulary_size + 1, np.int32)
    return Shortlist(np.arange(vocabulary_size, dtype=np.int32), nothing_more, ids())


def test_a_shortlist_that_the_manifest_lists_is_loaded(tmp_path: Path) -> None:
    shortlist = everything_always(VOCABULARY_SIZE)
    loaded = bundle_with(tmp_path / "one", shortlist).shortlist()
    assert loaded is not None
    assert as_lists(loaded) == as_lists(shortlist)
    bundle = bundle_with(tmp_path / "other", None)
    everything_always(VOCABULARY_SIZE).save(bundle.path / SHORTLIST)
    assert bundle.shortlist() is None


_NO_OFFSETS = np.zeros(VOCABULARY_SIZE + 1, np.int32)


@pytest.mark.parametrize(
    ("shortlist", "message"),
    [
        (everything_always(VOCABULARY_SIZE + 1), "is of 15 source ids, the network has 14"),
        (Shortlist(ids(3, 14), _NO_OFFSETS, ids()), "has the target id 14, the network has 14"),
        (Shortlist(ids(1, 4), _NO_OFFSETS, ids()), "would let no translation end"),
    ],
)
def test_a_shortlist_that_does_not_fit_its_bundle_is_refused(
    tmp_path: Path, shortlist: Shortlist, message: str
) -> None:
    with pytest.raises(InvalidBundle, match=message):
        bundle_with(tmp_path, shortlist).shortlist()
