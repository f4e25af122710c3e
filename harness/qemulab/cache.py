"""Where built images are kept: by content, complete or absent, one build at a time.

<cache>/<hash>/            a complete image, with image.json
<cache>/packages/          package files as downloaded, and apt's own caches
<cache>/.building-<…>/     an unfinished build; its ``pid`` file names the builder
<cache>/.lock              held by whoever builds
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from harness.qemulab.errors import NO_ROOM, Unfit, told_by_disk

Say = Callable[[str], None]

PACKAGES = "packages"
BUILDING = ".building-"
PID = "pid"
IMAGE = "image"
_LOCK = ".lock"
_NO_MAKE = frozenset(" \t\n:#$%")
_ELSEWHERE = "name a folder on another disk in XDG_CACHE_HOME"
_DIGITS = 16  # of the hash in a folder's name


def default_cache() -> Path:
    """``$XDG_CACHE_HOME/hil/qemu``, by default ``~/.cache/hil/qemu``."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "hil" / "qemu"


def content_hash(
    recipe: Mapping[str, object], packages: Mapping[str, str], files: Mapping[str, bytes]
) -> str:
    """The name of an image: changes with its recipe, a package's version or a file of ours."""
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    told = json.dumps([recipe, dict(packages), digests], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:_DIGITS]


def wrong_path(cache: Path) -> str:
    """Why nothing can be built under this path, or ""."""
    if any(character in _NO_MAKE for character in str(cache)):
        return (
            "a space, a colon or a sign of make's in that path, which kernel makefiles cannot take"
        )
    return ""


def make_cache(cache: Path) -> None:
    """Make the cache's folder. Raises `Unfit` where it cannot be written or worked in."""
    wrong = wrong_path(cache)
    if wrong:
        tried = f"keep the guests' image in {str(cache)!r}"
        raise Unfit(tried, wrong, "name another folder in XDG_CACHE_HOME")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=cache):
            pass
    except OSError as refused:
        if refused.errno in NO_ROOM:
            raise no_room(cache, str(refused.strerror)) from refused
        raise Unfit(
            f"keep the guests' image in {cache}",
            str(refused.strerror),
            "make it writable, or name another folder in XDG_CACHE_HOME",
        ) from refused


def check_room(cache: Path, need: int) -> None:
    """Raise `Unfit` where the cache's file system has fewer than ``need`` bytes for this user."""
    found = os.statvfs(cache)
    free = found.f_bavail * found.f_frsize
    if free < need:
        raise no_room(cache, f"{_mb(free)} free, {_mb(need)} needed")


def no_room(cache: Path, saw: str) -> Unfit:
    """The error of a disk that is too full to build on."""
    return Unfit(
        f"build the guests' image in {cache}",
        f"no room: {saw}",
        f"free some (`hil clean`), or {_ELSEWHERE}",
    )


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


@contextmanager
def locked(cache: Path, say: Say) -> Iterator[None]:
    """Hold the cache: one build at a time. Says so when it has to wait for another."""
    with (cache / _LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another build holds {cache}: waiting for it to end")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def roomy(cache: Path) -> Iterator[None]:
    """Turn what the disk refuses while something is written into the cache into `Unfit`."""
    with told_by_disk(f"build the guests' image in {cache}", _ELSEWHERE):
        yield


@contextmanager
def building(place: Path) -> Iterator[Path]:
    """A folder to build an image in, by whoever holds the cache (`locked`).

    What is in its folder `IMAGE` becomes ``place`` at the end; whatever happens, the rest is
    removed, and so is what builds that were killed have left.
    """
    for left in place.parent.glob(f"{BUILDING}*"):
        shutil.rmtree(left, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=BUILDING, dir=place.parent))
    try:
        (work / PID).write_text(f"{os.getpid()}\n", encoding="ascii")
        (work / IMAGE).mkdir()
        yield work
        _put(work / IMAGE, place)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _put(made: Path, place: Path) -> None:
    if place.exists():
        shutil.rmtree(place)
    made.rename(place)


def leftovers(cache: Path) -> list[Path]:
    """Folders of builds that did not end; none while somebody builds, who removes them himself."""
    left = sorted(cache.glob(f"{BUILDING}*"))
    lock = cache / _LOCK
    if not left or not lock.exists():
        return left
    with lock.open() as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return []
    return left
