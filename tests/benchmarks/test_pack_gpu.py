from __future__ import annotations

import struct
import subprocess
import zipfile
from pathlib import Path

import pytest

from benchmarks.pack_gpu import PACKAGES, PROVIDER, only, pack, write_parts
from tests.support.programs import ROOT

CODE = {75: b"turing" * 8, 90: b"hopper" * 8}


def library() -> bytes:
    """A 64-bit ELF file with machine code for two compute capabilities."""
    entries = b""
    for capability, code in CODE.items():
        head = struct.pack("<HHIQ12xI", 2, 0, 32, len(code), capability)
        entries += head + code
    fatbin = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries + bytes(16)
    names = b"\0.nv_fatbin\0.shstrtab\0"
    start = 64
    table = start + len(fatbin) + len(names)
    header = bytearray(64)
    struct.pack_into("<Q", header, 40, table)
    struct.pack_into("<HHH", header, 58, 64, 3, 2)

    def section(name: int, offset: int, size: int) -> bytes:
        return struct.pack("<IIQQQQ", name, 1, 0, 0, offset, size).ljust(64, b"\0")

    sections = section(0, 0, 0) + section(1, start, len(fatbin))
    sections += section(12, start + len(fatbin), len(names))
    return bytes(header) + fatbin + names + sections


def test_machine_code_of_other_capabilities_is_zeroed() -> None:
    kept = only(library(), 90)
    assert len(kept) == len(library())
    assert CODE[90] in kept
    assert CODE[75] not in kept


def test_capability_without_machine_code_is_refused() -> None:
    with pytest.raises(ValueError, match="no machine code for compute capability 100"):
        only(library(), 100)


def test_parts_unpack_to_the_files_of_the_wheels(tmp_path: Path) -> None:
    wheel = tmp_path / "one.whl"
    with zipfile.ZipFile(wheel, "w") as files:
        files.writestr(PROVIDER, library())
        files.writestr("onnxruntime/capi/libonnxruntime_providers_tensorrt.so", b"left out")
        files.writestr("one/module.py", "answer = 42\n")
    folder, site = tmp_path / "parts", tmp_path / "site"
    write_parts(folder, pack([wheel], 90), 100)
    assert len(list(folder.glob("part.*"))) > 1
    subprocess.run(["bash", folder / "unpack.sh", site], check=True, capture_output=True)
    found = {str(path.relative_to(site)) for path in site.rglob("*") if path.is_file()}
    assert found == {PROVIDER, "one/module.py"}
    assert (site / PROVIDER).read_bytes() == only(library(), 90)


def test_packages_are_pinned() -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for name in PACKAGES:
        assert f"\n{name}==" in lock
