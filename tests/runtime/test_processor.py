from __future__ import annotations

import platform
from pathlib import Path

import pytest

from service.runtime import processor


@pytest.mark.parametrize(
    ("flags", "saturates"),
    [
        ("fpu sse avx2 avx512f avx512_vnni", False),
        ("fpu sse avx2 avx_vnni", False),
        ("fpu sse avx2 avx512f", True),
    ],
)
def test_int8_saturates_on_x86_64_without_vnni(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str, saturates: bool
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    cpu = tmp_path / "cpuinfo"
    cpu.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbogomips\t: 5192\n")
    assert processor.int8_saturates(cpu) is saturates


def test_int8_does_not_saturate_on_other_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert not processor.int8_saturates()


def test_timed_returns_the_result_and_its_seconds() -> None:
    result, seconds, others = processor.timed(lambda: "done")
    assert result == "done"
    assert seconds >= 0
    assert others is None or others >= 0
