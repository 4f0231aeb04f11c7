"""The archive for executors, and the stand-ins in it beside what they stand for."""

from __future__ import annotations

import random
import subprocess
import sys
import zipfile
from pathlib import Path

import librt.strings
import librt.vecs
import msgspec
import pyspark
import pytest
from crc32c import crc32c
from mypy_extensions import i64

from forebay.spark.setup.archive import NEEDED, ROOTS, build
from forebay.spark.setup.standins import crc32c as checksums
from forebay.spark.setup.standins import msgspec as standin
from forebay.spark.setup.standins.librt import strings, vecs

SEED = 18
IMPORT_ALL = """
import importlib, sys

sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    importlib.import_module(name)
files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
print(*{name.partition(".")[0] for name, file in files.items() if file.startswith(sys.argv[1])})
"""


def test_the_archive_needs_nothing_but_what_every_cluster_has(tmp_path: Path) -> None:
    path = tmp_path / "forebay-spark.zip"
    names = build(path)
    assert not [name for name in names if name.split(".")[1:2] in (["server"], ["admin"], ["broker"], ["cli"])]
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert all(name.endswith(".py") for name in archive.namelist())
    # The packages that every cluster has, and no others.
    there = tmp_path / "packages"
    there.mkdir()
    for package in Path(pyspark.__file__).parent.parent.iterdir():
        if package.name.partition(".")[0] in NEEDED:
            (there / package.name).symlink_to(package)
    loaded = subprocess.run(
        [sys.executable, "-S", "-c", IMPORT_ALL, str(path), *ROOTS],
        env={"PYTHONPATH": str(there)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert loaded.returncode == 0, loaded.stderr
    assert {"crc32c", "forebay", "librt", "msgspec", "mypy_extensions"} <= set(loaded.stdout.split())
    build(tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("octets", [0, 1, 3, 4, 5, 7, 63, 64, 65, 100, 4097, 70_000, 300_001, (1 << 20) + 13])
def test_the_checksum_is_the_same(octets: int) -> None:
    chance = random.Random(SEED + octets)
    data, value = chance.randbytes(octets), chance.getrandbits(32)
    assert checksums.crc32c(data) == crc32c(data)
    assert checksums.crc32c(memoryview(data), value) == crc32c(data, value)


def test_numbers_are_written_and_read_the_same() -> None:
    chance = random.Random(SEED)
    ours, theirs = strings.BytesWriter(), librt.strings.BytesWriter()
    for _ in range(200):
        for bits in (16, 32, 64):
            number = chance.getrandbits(bits) - (1 << (bits - 1))
            for end in ("be", "le"):
                getattr(strings, f"write_i{bits}_{end}")(ours, number)
                getattr(librt.strings, f"write_i{bits}_{end}")(theirs, number)
    ours.append(7)
    theirs.append(7)
    octets = theirs.getvalue()
    assert ours.getvalue() == octets
    assert len(ours) == len(theirs)
    for at in range(0, len(octets) - 8, 5):
        for name in ("i16_be", "i16_le", "i32_be", "i32_le", "i64_be", "i64_le"):
            read = getattr(strings, f"read_{name}")
            assert read(octets, at) == getattr(librt.strings, f"read_{name}")(octets, at)
    for read in (strings.read_i32_le, librt.strings.read_i32_le):
        with pytest.raises(IndexError):
            read(octets, len(octets) - 3)
    ours.truncate(3)
    assert ours.getvalue() == octets[:3]
    assert list(vecs.extend(vecs.append(vecs.vec[i64](), 1), [2, 3])) == [1, 2, 3]
    assert list(librt.vecs.append(librt.vecs.vec[i64](), 1)) == [1]


@pytest.mark.parametrize(
    "octets",
    [
        b'{"a": [1, -2.5, 1e5, true, null, "\\u00fc"], "a": {}}',
        b"18446744073709551616",
        b"1e999",
        b"NaN",
        b"-Infinity",
        b'"\\ud800"',
        b'"\\ud83d\\ude00"',
        b'"\xff"',
        b"[1,]",
        b"\xef\xbb\xbf1",
        b" 1 ",
        b"01",
        b'"\t"',
        b"[" * 5000 + b"]" * 5000,
        b"",
    ],
)
def test_json_is_read_the_same(octets: bytes) -> None:
    try:
        wanted: object = msgspec.json.Decoder().decode(octets)
    except (msgspec.DecodeError, RecursionError, ValueError):
        with pytest.raises(standin.DecodeError):
            standin.json.Decoder().decode(octets)
    else:
        assert standin.json.Decoder().decode(octets) == wanted
