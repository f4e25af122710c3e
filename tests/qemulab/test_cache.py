from __future__ import annotations

import errno
import fcntl
import os
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.qemulab import cache as store
from harness.qemulab.errors import Unfit

RECIPE = {"containers": True, "stubs": True}
PACKAGES = {"dash": "0.5.12-2", "kmod": "30"}
FILES = {"guestfiles/hil-start": b"start", "stubs/nvidia.c": b"c"}


def named(**changed: Any) -> str:
    parts = {"recipe": RECIPE, "packages": PACKAGES, "files": FILES, **changed}
    return store.content_hash(parts["recipe"], parts["packages"], parts["files"])


def test_the_same_content_has_the_same_name() -> None:
    assert named() == named(packages=dict(reversed(PACKAGES.items())))


@pytest.mark.parametrize(
    "changed",
    [
        {"recipe": {**RECIPE, "containers": False}},
        {"packages": {**PACKAGES, "kmod": "31"}},
        {"packages": {**PACKAGES, "podman": "4"}},
        {"files": {**FILES, "guestfiles/hil-start": b"other"}},
        {"files": {**FILES, "stubs/nvidia.c": b"c2"}},
        {"files": {**FILES, "stubs/more.c": b""}},
    ],
)
def test_any_change_gives_another_name(changed: dict[str, Any]) -> None:
    assert named(**changed) != named()


def test_the_cache_is_where_the_user_keeps_caches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.default_cache() == tmp_path / "hil/qemu"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/of")
    assert store.default_cache() == Path("/home/of/.cache/hil/qemu")


def test_a_cache_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Unfit, match="name another folder in XDG_CACHE_HOME"):
        store.make_cache(tmp_path / "file" / "hil")


@pytest.mark.parametrize("name", ["a b", "a:b", "a$b", "a#b"])
def test_a_path_that_makefiles_cannot_take_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Unfit, match="which kernel makefiles cannot take"):
        store.make_cache(tmp_path / name)
    assert not (tmp_path / name).exists()


def test_too_little_room_is_said_in_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=1000, f_frsize=4096))
    store.check_room(tmp_path, 4_096_000)
    with pytest.raises(Unfit, match="no room: 4 MB free, 500 MB needed"):
        store.check_room(tmp_path, 500_000_000)


def test_a_build_is_there_complete_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "abc"
    with store.building(place) as work:
        (work / store.IMAGE / "base").write_text("whole")
        assert not place.exists()
    assert (place / "base").read_text() == "whole"
    assert list(tmp_path.iterdir()) == [place]


def test_an_interrupted_build_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), store.building(tmp_path / "abc"):
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_a_new_build_takes_the_place_of_the_old(tmp_path: Path) -> None:
    for text in ("old", "new"):
        with store.building(tmp_path / "abc") as work:
            (work / store.IMAGE / text).touch()
    assert [file.name for file in (tmp_path / "abc").iterdir()] == ["new"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_disk_that_fills_up_is_said_and_cleaned(tmp_path: Path, code: int) -> None:
    with (
        pytest.raises(Unfit, match="no room"),
        store.roomy(tmp_path),
        store.building(tmp_path / "abc") as work,
    ):
        (work / "half").touch()
        raise OSError(code, os.strerror(code))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.EROFS, errno.ENOTDIR])
def test_other_troubles_of_the_disk_are_told_and_a_bug_stays_one(tmp_path: Path, code: int) -> None:
    with pytest.raises(Unfit, match=re.escape(os.strerror(code))), store.roomy(tmp_path):
        raise OSError(code, os.strerror(code))
    with pytest.raises(FileNotFoundError), store.roomy(tmp_path):
        (tmp_path / "none").unlink()


def test_a_second_build_waits_and_says_so(tmp_path: Path) -> None:
    said, waiting, entered = [], threading.Event(), threading.Event()

    def say(text: str) -> None:
        said.append(text)
        waiting.set()

    def second() -> None:
        with store.locked(tmp_path, say):
            entered.set()

    with store.locked(tmp_path, said.append):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(10)
        assert not entered.is_set()
    assert entered.wait(10)
    thread.join(10)
    assert said == [f"another build holds {tmp_path}: waiting for it to end"]


def test_killed_builds_are_leftovers_unless_somebody_builds(tmp_path: Path) -> None:
    left = tmp_path / f"{store.BUILDING}x"
    left.mkdir()
    assert store.leftovers(tmp_path) == [left]
    with store.locked(tmp_path, print):
        assert store.leftovers(tmp_path) == []
    assert store.leftovers(tmp_path) == [left]
    assert store.leftovers(tmp_path / "none") == []


def test_looking_for_leftovers_does_not_hold_the_cache(tmp_path: Path) -> None:
    (tmp_path / f"{store.BUILDING}x").mkdir()
    with store.locked(tmp_path, print):
        pass
    store.leftovers(tmp_path)
    with (tmp_path / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_the_next_build_removes_what_killed_ones_left(tmp_path: Path) -> None:
    (tmp_path / f"{store.BUILDING}x/deep").mkdir(parents=True)
    with store.building(tmp_path / "abc") as work:
        assert [folder.name for folder in tmp_path.iterdir()] == [work.name]
        assert (work / store.PID).read_text() == f"{os.getpid()}\n"
