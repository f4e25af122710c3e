"""Where the files come from: folders, archives, links, encodings, what is no text."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from harness.diagnose.case import Kind
from harness.diagnose.reading import Limits, NotReadable, describe_unused, read_folder
from tests.diagnose.reading.reading_files import folder, read, whys

CARD = "GPU 0: NVIDIA L40S (UUID: GPU-00000000-0000-4000-8000-000000000000)\n"


def tarred(files: dict[str, bytes], mode: str = "w:gz") -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return data.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return data.getvalue()


def sources(path: Path, limits: Limits | None = None) -> list[str]:
    case = read_folder(path, limits) if limits else read_folder(path)
    return [text.source for text in case.texts if text.kind is Kind.SMI_LIST]


def test_nothing_there_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(NotReadable, match="cannot be read: No such file"):
        read_folder(tmp_path / "no")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotReadable, match="neither a folder nor a file"):
        read_folder(tmp_path / "pipe")


def test_a_folder_in_a_stable_order_without_links_and_pipes(tmp_path: Path) -> None:
    outside = folder(tmp_path / "outside", {"secret.txt": CARD})
    inside = folder(tmp_path / "in", {"b/2.txt": CARD, "a/1.txt": CARD, "0.txt": CARD})
    (inside / "link.txt").symlink_to(outside / "secret.txt")
    (inside / "folder").symlink_to(outside)
    (inside / "loop").symlink_to(inside)
    os.mkfifo(inside / "pipe")
    assert sources(inside) == ["0.txt", "a/1.txt", "b/2.txt"]
    case = read_folder(inside)
    assert "folder: a link, which is not followed" in whys(case)
    assert "pipe: neither a file nor a folder" in whys(case)


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_tar_is_read_where_it_lies(tmp_path: Path, mode: str) -> None:
    data = tarred({"./report/smi.txt": CARD.encode(), "../../etc/x": CARD.encode()}, mode)
    path = folder(tmp_path, {"r.tgz": data}) / "r.tgz"
    assert sources(path) == ["r.tgz:report/smi.txt", "r.tgz:../../etc/x"]
    assert [one.name for one in tmp_path.iterdir()] == ["r.tgz"]


def test_archives_within_archives_and_plain_gzip(tmp_path: Path) -> None:
    inner = zipped({"smi.txt": CARD.encode()})
    files = {"a.tar": tarred({"in.zip": inner}, "w"), "smi.txt.gz": gzip.compress(CARD.encode())}
    assert sources(folder(tmp_path, files)) == ["a.tar:in.zip:smi.txt", "smi.txt"]
    deep = tarred({"1": tarred({"2": tarred({"3": tarred({"4": inner}, "w")}, "w")}, "w")}, "w")
    assert "unpack it first" in whys(read(tmp_path / "deep", {"x": deep}))


@pytest.mark.parametrize("name", ["x.tar.gz", "x.zip", "x.tar"])
def test_a_damaged_archive_is_told_and_what_was_before_is_used(tmp_path: Path, name: str) -> None:
    files = {f"{i}.txt": CARD.encode() + os.urandom(3000).hex().encode() for i in range(9)}
    whole = {"x.zip": zipped(files), "x.tar": tarred(files, "w")}.get(name) or tarred(files)
    for share in (2, 3, 7):
        case = read(tmp_path / str(share), {name: whole[: len(whole) // share * (share - 1)]})
        assert case.unused
        assert case.listings == ()


def test_an_archive_that_bursts_is_given_up(tmp_path: Path) -> None:
    bomb = tarred({"a.txt": bytes(30_000_000), "b.txt": CARD.encode()})
    case = read_folder(folder(tmp_path, {"bomb.tgz": bomb}), Limits(scanned=10_000_000))
    assert case.texts == ()
    assert "10.0 MB" in whys(case)


def test_an_encrypted_or_odd_zip_is_told(tmp_path: Path) -> None:
    data = bytearray(zipped({"a.txt": CARD.encode()}))
    data[data.rindex(b"PK\1\2") + 8] |= 1
    assert "encrypted" in whys(read(tmp_path, {"a.zip": bytes(data)}))


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_encodings(tmp_path: Path, encoding: str) -> None:
    case = read(tmp_path, {"smi.txt": CARD.replace("\n", "\r\n").encode(encoding)})
    assert [(one.kind, one.text) for one in case.texts] == [(Kind.SMI_LIST, CARD)]


def test_colours_nuls_backspaces_and_bytes_of_another_encoding(tmp_path: Path) -> None:
    dirty = "\x1b[32m" + CARD.replace("L40S", "L4x\b0S").replace("\n", "\x1b[0m\0\0\r\n")
    case = read(
        tmp_path,
        {"smi.txt": dirty, "latin.log": "Feb 12 10:11:12 h k: caf\xe9\n".encode("latin-1")},
    )
    assert case.of(Kind.SMI_LIST)[0].text == CARD
    assert "caf\\xe9" in case.of(Kind.LOG)[0].text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "an image: its text cannot be read"),
        (b"\x7fELF\x02\x01\x01" + bytes(50), "ELF"),
        (b"SQLite format 3\0" + bytes(50), "a SQLite database"),
        (b"\xfd7zXZ\0" + bytes(50), "packed by xz: unpack it first"),
        (bytes(range(1, 32)) * 10, "binary"),
        (bytes(4000), "nothing but NUL bytes"),
        (b"", "empty"),
    ],
    ids=["png", "elf", "sqlite", "xz", "controls", "nul", "empty"],
)
def test_what_is_no_text_is_told_whatever_its_name(
    tmp_path: Path, content: bytes, why: str
) -> None:
    case = read(tmp_path, {"dmesg.txt": content})
    assert case.texts == ()
    assert why in whys(case)


def test_names_are_fit_for_a_terminal(tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/a\x1b[31m\xff\n.txt"
    with open(name, "wb") as stream:  # noqa: PTH123  # a name of bytes
        stream.write(b"\x7fELF" + bytes(9))
    (said,) = describe_unused(read_folder(tmp_path))
    assert said.startswith("a\\x1b[31m\\xff\\x0a.txt: ")


def test_too_many_files_are_told(tmp_path: Path) -> None:
    path = folder(tmp_path, {f"{i:02}.txt": CARD for i in range(20)})
    assert len(sources(path, Limits(files=5))) == 5
    assert "05.txt: more than 5 files" in whys(read_folder(path, Limits(files=5)))
