from __future__ import annotations

import gzip
import hashlib
import lzma
from pathlib import Path

import pytest

from harness.qemulab.diskimage import format_of, prepare
from harness.qemulab.errors import Unfit

CONTENT = b"\x55\xaa" * 5000


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def quiet(text: str) -> None:
    assert text


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "image.raw"
    path.write_bytes(CONTENT)
    return path


def test_a_raw_image_is_used_where_it_lies(raw: Path, tmp_path: Path) -> None:
    assert prepare(raw, digest(raw), tmp_path / "cache", quiet) == raw
    assert not (tmp_path / "cache").exists()
    assert format_of(raw) == "raw"


@pytest.mark.parametrize("ending", ["xz", "gz"])
def test_a_packed_image_is_unpacked_once(tmp_path: Path, ending: str) -> None:
    path, cache, said = tmp_path / f"image.raw.{ending}", tmp_path / "cache", list[str]()
    path.write_bytes({"xz": lzma, "gz": gzip}[ending].compress(CONTENT))
    name = digest(path)
    found = prepare(path, name, cache, said.append)
    assert found.read_bytes() == CONTENT
    assert [line.split()[0] for line in said] == ["checking", "unpacking"]
    path.unlink()
    assert prepare(path, name, cache, said.append) == found
    assert len(said) == 2


def test_another_file_than_the_inventory_names_is_refused(raw: Path, tmp_path: Path) -> None:
    with pytest.raises(Unfit, match=f"SHA-256 {digest(raw)}, and {'0' * 64} was named"):
        prepare(raw, "0" * 64, tmp_path / "cache", quiet)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(Unfit, match="no readable file"):
        prepare(tmp_path / "none.raw", "0" * 64, tmp_path, quiet)
    with pytest.raises(Unfit, match="no readable file"):
        format_of(tmp_path / "none.raw")


@pytest.mark.parametrize(
    "cut", [lzma.compress(CONTENT)[:-40], b"no xz at all"], ids=["cut short", "something else"]
)
def test_an_image_cut_short_leaves_nothing_behind(tmp_path: Path, cut: bytes) -> None:
    path, cache = tmp_path / "image.raw.xz", tmp_path / "cache"
    path.write_bytes(cut)
    with pytest.raises(Unfit, match="unpack"):
        prepare(path, digest(path), cache, quiet)
    assert list(cache.iterdir()) == []


def test_a_qcow2_is_told_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"QFI\xfb\0\0\0\3")
    assert format_of(path) == "qcow2"
