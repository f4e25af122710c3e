from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.qemulab import image as module
from harness.qemulab.cache import BUILDING, PACKAGES, default_cache
from harness.qemulab.errors import Unfit
from harness.qemulab.image import Image, Recipe, build, load, own_sources

REAL = os.environ.get("HIL_QEMU_TESTS") == "1"
TOLD = {"release": "6.1.0-57-cloud-amd64", "packages": {"dash": "1"}, "host_key": "SHA256:x"}


def nothing(_: str) -> None:
    """Say nothing."""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs that are there and find nothing, as all of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    tools = ("apt-cache", "apt-get", "debugfs", "dpkg-deb", "mke2fs", "qemu-img", "tar")
    for name in (*tools, "gcc", "make", "strip"):
        (folder / name).write_text("#!/bin/sh\nexit 0\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("harness.qemulab.hosttools._ADMIN_PATH", str(folder))
    return folder


def test_an_image_reads_back(tmp_path: Path) -> None:
    (tmp_path / "image.json").write_text(json.dumps(TOLD))
    assert load(tmp_path) == Image(
        tmp_path / "base.qcow2",
        tmp_path / "vmlinuz",
        tmp_path / "initrd",
        "6.1.0-57-cloud-amd64",
        {"dash": "1"},
        "SHA256:x",
    )


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"release": "6"}', "\0"])
def test_what_is_no_image_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "image.json").write_text(text)
    with pytest.raises(Unfit, match=r"image\.json cannot be read"):
        load(tmp_path)


def test_every_file_of_ours_counts() -> None:
    package = Path(module.__file__).parent
    names = set(own_sources())
    ours = {
        str(file.relative_to(package))
        for folder in ("guestfiles", "stubs")
        for file in (package / folder).iterdir()
    }
    assert ours <= names
    assert {"image.py", "tree.py", "kernel.py", "stubs.py", "probe.py"} <= names


def test_without_a_compiler_stubs_are_not_left_out_silently(programs: Path, tmp_path: Path) -> None:
    (programs / "gcc").unlink()
    with pytest.raises(Unfit, match="no `gcc` on this machine: `apt-get install gcc` brings it"):
        build(Recipe(), tmp_path / "cache", nothing)
    assert not (tmp_path / "cache").exists()


def test_without_package_lists_the_user_is_told_to_update(programs: Path, tmp_path: Path) -> None:
    with pytest.raises(Unfit, match=r"no package linux-image-cloud-amd64 .*: `apt-get update`"):
        build(Recipe(), tmp_path / "cache", nothing)


def test_too_little_room_is_seen_before_anything_is_downloaded(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    (programs / "apt-cache").write_text(f"#!/bin/sh\n{SHOW}\n")
    (programs / "apt-get").write_text("#!/bin/sh\necho 'E: not to be asked' >&2; exit 1\n")
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=10, f_frsize=1_000_000))
    with pytest.raises(Unfit, match=r"no room: 10 MB free, \d+ MB needed"):
        build(Recipe(stubs=False), cache, nothing)
    assert not list(cache.glob(f"{BUILDING}*"))


def test_a_package_that_cannot_be_downloaded_ends_it(programs: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (programs / "apt-cache").write_text(f"#!/bin/sh\n{SHOW}\n")
    (programs / "apt-get").write_text("#!/bin/sh\necho 'E: 404 Not Found' >&2; exit 100\n")
    with pytest.raises(Unfit, match="download linux-image-1 1, saw 404 Not Found"):
        build(Recipe(stubs=False), cache, nothing)
    assert not list(cache.glob(f"{BUILDING}*"))


# what apt-cache would say of every package it is asked for
SHOW = """\
case " $* " in *" show "*) ;; *) exit 0 ;; esac
for name; do
    case $name in [a-z]*-* | dash | kmod | podman | crun | conmon) ;; *) continue ;; esac
    needs=libc6
    [ "$name" = linux-image-cloud-amd64 ] && needs=linux-image-1
    printf 'Package: %s\\nVersion: 1\\nArchitecture: amd64\\nSection: net\\n' "$name"
    printf 'Depends: %s\\nSize: 1000\\nSHA256: 0\\n\\n' "$needs"
done"""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """An image built from nothing but the packages that this user has downloaded before."""
    cache = tmp_path_factory.mktemp("cache")
    kept = default_cache() / PACKAGES
    kept.mkdir(parents=True, exist_ok=True)
    (cache / PACKAGES).symlink_to(kept)
    return build(Recipe(), cache, nothing)


needs_real = pytest.mark.skipif(
    not REAL, reason="no image was built: that needs Debian's archive; HIL_QEMU_TESTS=1 does it"
)


def debugfs(image: Image, tmp_path: Path, order: str) -> str:
    raw = tmp_path / "root.raw"
    if not raw.exists():
        convert = ["qemu-img", "convert", "-O", "raw", str(image.base), str(raw)]
        subprocess.run(convert, check=True)
    done = subprocess.run(
        ["debugfs", "-R", order, str(raw)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"},
    )
    return done.stdout


@needs_real
def test_a_real_image_is_whole(real: Image) -> None:
    subprocess.run(["qemu-img", "check", "-q", str(real.base)], check=True)
    told = json.loads(
        subprocess.run(
            ["qemu-img", "info", "--output=json", str(real.base)], capture_output=True, check=True
        ).stdout
    )
    assert told["virtual-size"] == 512 * 1024 * 1024
    assert real.kernel.stat().st_size > 1_000_000
    assert gzip.decompress(real.initrd.read_bytes()).startswith(b"070701")
    assert real.packages["linux-image-cloud-amd64"]
    assert {file.name for file in real.base.parent.iterdir()} == {
        "base.qcow2",
        "vmlinuz",
        "initrd",
        "image.json",
    }
    assert not list(real.base.parent.parent.glob(f"{BUILDING}*"))


@needs_real
def test_a_real_image_holds_what_guests_run_as_roots_own(real: Image, tmp_path: Path) -> None:
    for path, mode in [
        ("/usr/sbin/drbdadm", "0755"),
        ("/root/.ssh", "0700"),
        ("/etc/shadow", "0600"),
    ]:
        said = debugfs(real, tmp_path, f"stat {path}")
        assert f"Mode:  {mode}" in said
        assert "User:     0   Group:     0" in said
    table = debugfs(real, tmp_path, f"cat /lib/modules/{real.release}/modules.dep")
    lines = dict(line.partition(":")[::2] for line in table.splitlines())
    assert lines["updates/nvidia-uvm.ko"].split() == ["updates/nvidia.ko"]
    assert lines["updates/nvidia-drm.ko"].split()[0] == "updates/nvidia-modeset.ko"
    assert lines["updates/nvidia.ko"].split() == []
    assert len(lines["kernel/drivers/block/drbd/drbd.ko"].split()) == 2


@needs_real
def test_a_real_image_is_built_once(real: Image) -> None:
    said: list[str] = []
    assert build(Recipe(), real.base.parent.parent, said.append) == real
    assert said == []
