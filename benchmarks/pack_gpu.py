"""Packs what ``benchmarks.gpu`` needs on a GPU machine without a network, in small parts.

    python -m benchmarks.pack_gpu FOLDER [--python 3.12] [--capability 90] [--part 28]

The wheel of onnxruntime-gpu is 256 MB. Most of it is machine code for other GPUs, which is replaced
by zeros here and so packs to almost nothing, and TensorRT's provider, which is left out. The
library then works on GPUs of that compute capability only. FOLDER gets parts of at most so many
MiB, their digests and ``unpack.sh``, which joins them. The machine must have PyTorch with CUDA,
ONNX, NumPy and SentencePiece. Needs pip and a network.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import lzma
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

PACKAGES = (
    "onnxruntime-gpu",
    "pydantic",
    "pydantic-core",
    "annotated-types",
    "typing-inspection",
    "langcodes",
)
"""What the project imports and a machine with PyTorch, ONNX and SentencePiece may lack."""
PROVIDER = "onnxruntime/capi/libonnxruntime_providers_cuda.so"
_LEFT_OUT = re.compile(r"providers_tensorrt|/tools/|/transformers/|/quantization/|/datasets/")
"""Not needed to run a graph."""
_PLATFORMS = ("_2_28", "_2_27", "_2_17", "_2_12", "_2_5", "2014", "2010", "1")
_FATBIN, _CUBIN = 0xBA55ED50, 2
_ROOT = Path(__file__).parent.parent

_UNPACK = """#!/usr/bin/env bash
# Joins the parts beside this file and unpacks them: bash unpack.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")"
sha256sum --check --quiet sha256
mkdir -p "${1:?a folder}"
cat part.* | xz --decompress | tar --extract --directory "$1"
echo "export PYTHONPATH=$(cd "$1" && pwd)"
echo "import torch before onnxruntime, so that PyTorch's CUDA libraries are loaded"
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pack_gpu", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12", help="of the machine with the GPU")
    parser.add_argument("--capability", type=int, default=90, help="of its GPU, times 10")
    parser.add_argument("--part", type=float, default=28, help="MiB")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        wheels = _download(Path(scratch), options.python)
        packed = pack(wheels, options.capability)
    write_parts(options.folder, packed, int(options.part * 2**20))
    print(f"{len(packed) / 2**20:.1f} MiB in {options.folder}")
    return 0


def write_parts(folder: Path, packed: bytes, size: int) -> None:
    """Replace the parts in a folder by those of ``packed``, with digests and ``unpack.sh``."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("part.*"):
        old.unlink()
    digests = []
    for number, start in enumerate(range(0, len(packed), size)):
        part, name = packed[start : start + size], f"part.{number:02}"
        (folder / name).write_bytes(part)
        digests.append(f"{hashlib.sha256(part).hexdigest()}  {name}\n")
    (folder / "sha256").write_text("".join(digests), encoding="ascii")
    (folder / "unpack.sh").write_text(_UNPACK, encoding="ascii")


def pack(wheels: Sequence[Path], capability: int) -> bytes:
    """The files of all wheels as one compressed archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as files:
                for info in files.infolist():
                    if info.is_dir() or _LEFT_OUT.search(info.filename):
                        continue
                    data = files.read(info)
                    if info.filename == PROVIDER:
                        data = only(data, capability)
                    entry = tarfile.TarInfo(info.filename)
                    entry.size, entry.mode = len(data), 0o755
                    archive.addfile(entry, io.BytesIO(data))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 1 << 26}]
    return lzma.compress(buffer.getvalue(), filters=filters)


def only(library: bytes, capability: int) -> bytes:
    """The library with the machine code for all other compute capabilities replaced by zeros.

    Raises ``ValueError`` if there is none for this one.
    """
    data = bytearray(library)
    place, size = _section(library, b".nv_fatbin")
    end_of_section, kept = place + size, 0
    while place < end_of_section - 16:
        magic, _, header, length = struct.unpack_from("<IHHQ", data, place)
        if magic != _FATBIN:
            place += 8
            continue
        entry, end = place + header, place + header + length
        while entry < end:
            kind, _, head, held = struct.unpack_from("<HHIQ", data, entry)
            (target,) = struct.unpack_from("<I", data, entry + 28)
            if kind == _CUBIN and target == capability:
                kept += held
            else:
                data[entry + head : entry + head + held] = bytes(held)
            entry += head + held
        place = end
    if not kept:
        raise ValueError(f"the library has no machine code for compute capability {capability}")
    return bytes(data)


def _section(library: bytes, name: bytes) -> tuple[int, int]:
    """Offset and size of a section of a 64-bit ELF file."""
    (table,) = struct.unpack_from("<Q", library, 40)
    size, count, names = struct.unpack_from("<HHH", library, 58)
    headers = [struct.unpack_from("<IIQQQQ", library, table + i * size) for i in range(count)]
    strings = headers[names][4]
    for header in headers:
        start = strings + header[0]
        if library[start : library.index(b"\0", start)] == name:
            return header[4], header[5]
    raise ValueError(f"the library has no section {name.decode()}")


def _download(folder: Path, python: str) -> list[Path]:
    """The wheels of ``PACKAGES``, of the versions in ``requirements.lock``."""
    lock = (_ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w-]+)==([\w.]+)", lock, re.MULTILINE))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder)]
    command += ["--only-binary=:all:", f"--python-version={python}", "--implementation=cp"]
    command += [f"--platform=manylinux{each}_x86_64" for each in _PLATFORMS]
    command += [f"{name}=={pinned[name]}" for name in PACKAGES]
    subprocess.run(command, check=True)
    return sorted(folder.glob("*.whl"))


if __name__ == "__main__":
    sys.exit(main())
