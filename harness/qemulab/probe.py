"""The containers' image in the guests: busybox and nothing of a driver's."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import PurePosixPath

PLACE = "usr/local/lib/hil/probe.tar"
"""Where it is in the guest, for `podman import`."""


def probe_image(busybox: bytes, names: Iterable[str]) -> bytes:
    """An image's root as a tar: ``names`` are the paths of busybox's applets, as it lists them."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for folder in ("bin", "dev", "etc", "proc", "sys", "tmp", "usr", "usr/bin"):
            archive.addfile(_entry(folder, tarfile.DIRTYPE, 0o755))
        file = _entry("bin/busybox", tarfile.REGTYPE, 0o755)
        file.size = len(busybox)
        archive.addfile(file, io.BytesIO(busybox))
        for name in sorted({PurePosixPath(name.strip()).name for name in names} - {"", "busybox"}):
            link = _entry(f"bin/{name}", tarfile.SYMTYPE, 0o777)
            link.linkname = "busybox"
            archive.addfile(link)
    return out.getvalue()


def _entry(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.mode = mode
    return entry
