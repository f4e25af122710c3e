from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from harness.qemulab.errors import Unfit
from harness.qemulab.tree import (
    CONTAINER_FILES,
    GUEST_FILES,
    LIBRARIES,
    LOADER,
    applets,
    guest_file,
    merged,
    own_files,
    owned_by_root,
    place,
    prepare,
    set_folder_modes,
    trim,
    unpack,
)
from tests.qemulab.elves import elf

FILES = (*GUEST_FILES, *CONTAINER_FILES)
SCRIPTS = sorted(one.source for one in FILES if guest_file(one.source).startswith(b"#!"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    tree = tmp_path / "root"
    prepare(tree)
    return tree


def package(files: dict[str, str | bytes]) -> io.BytesIO:
    """A package's tar stream; a text is a link's target."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            if isinstance(content, str):
                entry.type, entry.linkname = tarfile.SYMTYPE, content
                archive.addfile(entry)
            else:
                entry.size, entry.mode = len(content), 0o755
                archive.addfile(entry, io.BytesIO(content))
    out.seek(0)
    return out


def library(root: Path, name: str, *needs: str) -> None:
    file = root / LIBRARIES / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(elf(*needs))


def program(root: Path, name: str, *needs: str) -> None:
    (root / name).write_bytes(elf(*needs))


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("./bin/busybox", "usr/bin/busybox"),
        ("./lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libc.so.6"),
        ("./usr/sbin/sshd", "usr/sbin/sshd"),
        ("./etc/drbd.conf", "etc/drbd.conf"),
        ("./", ""),
        ("../etc/passwd", ""),
        ("/etc/passwd", ""),
    ],
)
def test_paths_are_those_of_a_merged_usr(name: str, path: str) -> None:
    assert merged(name) == path


def test_what_runs_is_kept_and_nothing_else(root: Path) -> None:
    stream = package(
        {
            "sbin/drbdadm": b"adm",
            "sbin/drbdmon": b"mon",
            "lib/drbd/drbdsetup-84": b"84",
            "lib/drbd/drbdsetup-83": b"83",
            "usr/share/doc/drbd-utils/copyright": b"text",
            "etc/drbd.conf": b"include",
        }
    )
    place("drbd-utils", stream, root)
    assert (root / "sbin/drbdadm").read_bytes() == b"adm"
    assert stat.S_IMODE((root / "sbin/drbdadm").stat().st_mode) == 0o755
    kept = {file.name for file in root.rglob("*") if "drbd" in file.name and file.is_file()}
    assert kept == {"drbdadm", "drbdsetup-84", "drbd.conf"}


def test_a_librarys_own_folders_are_left_out(root: Path) -> None:
    stream = package(
        {
            "lib/x86_64-linux-gnu/libc.so.6": b"c",
            "usr/lib/x86_64-linux-gnu/gconv/BIG5.so": b"g",
            "usr/lib/x86_64-linux-gnu/libx.so.1": "libx.so.1.2",
            "lib64/ld-linux-x86-64.so.2": "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
        }
    )
    place("libc6", stream, root)
    assert {file.name for file in (root / LIBRARIES).iterdir()} == {"libc.so.6", "libx.so.1"}
    assert (root / LIBRARIES / "libx.so.1").readlink() == Path("libx.so.1.2")
    assert (root / "lib64/ld-linux-x86-64.so.2").is_symlink()


def test_libraries_that_nothing_loads_are_removed(root: Path) -> None:
    program(root, "usr/bin/dash", "libc.so.6")
    program(root, "usr/sbin/sshd", "libz.so.1")
    library(root, "libz.so.1.2", "libc.so.6", "libdeep.so.1")
    (root / LIBRARIES / "libz.so.1").symlink_to("libz.so.1.2")
    for name in ("libc.so.6", "libdeep.so.1", "libunused.so.1", Path(LOADER).name):
        library(root, name)
    trim(root)
    left = {file.name for file in (root / LIBRARIES).iterdir()}
    assert left == {"libc.so.6", "libz.so.1", "libz.so.1.2", "libdeep.so.1", Path(LOADER).name}


def test_a_library_that_is_missing_is_named_with_its_user(root: Path) -> None:
    program(root, "usr/bin/podman", "libc.so.6", "libgpgme.so.11")
    library(root, "libc.so.6")
    with pytest.raises(Unfit, match=r"podman loads libgpgme\.so\.11, which none"):
        trim(root)


def test_busyboxs_applets_do_not_stand_in_for_real_programs(root: Path) -> None:
    (root / "usr/sbin/modprobe").symlink_to("/bin/kmod")
    applets(root, ["bin/ls", "sbin/modprobe", "sbin/insmod", "bin/sh", "sbin/reboot", ""])
    assert (root / "usr/bin/ls").readlink() == Path("/usr/bin/busybox")
    assert (root / "usr/sbin/modprobe").readlink() == Path("/bin/kmod")
    assert not (root / "usr/sbin/insmod").is_symlink()
    assert not (root / "usr/bin/sh").is_symlink()
    assert (root / "usr/sbin/init").readlink() == Path("/usr/bin/busybox")


def test_root_logs_in_on_the_console_without_a_password(root: Path) -> None:
    assert (root / "etc/shadow").read_text().startswith("root::")
    assert stat.S_IMODE((root / "etc/shadow").stat().st_mode) == 0o600


def test_modes_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        tree = tmp_path / "tree"
        prepare(tree)
        place("dash", package({"bin/dash": b"dash"}), tree)
    finally:
        os.umask(before)
    set_folder_modes(tree)
    expected = {"": 0o755, "usr/bin": 0o755, "root/.ssh": 0o700, "tmp": 0o1777, "etc": 0o755}
    expected |= {"etc/passwd": 0o644, "etc/shadow": 0o600, "usr/bin/dash": 0o755}
    assert {name: stat.S_IMODE((tree / name).stat().st_mode) for name in expected} == expected


def test_our_own_files_have_their_modes(root: Path) -> None:
    own_files(root, FILES)
    for file in FILES:
        assert stat.S_IMODE((root / file.target).stat().st_mode) == file.mode
        runs = guest_file(file.source).startswith(b"#!")
        assert file.mode == (0o755 if runs else 0o644)


def test_every_path_of_the_tree_is_given_to_root(root: Path) -> None:
    orders = owned_by_root(root).splitlines()
    assert 'sif "/root/.ssh" uid 0' in orders
    assert 'sif "/root/.ssh" gid 0' in orders
    assert len(orders) == 2 * sum(1 for _ in root.rglob("*"))


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="no dpkg-deb: unpacking was not tried")
def test_what_is_no_package_is_named(root: Path, tmp_path: Path) -> None:
    broken = tmp_path / "dash_1_amd64.deb"
    broken.write_bytes(b"nothing")
    with pytest.raises(Unfit, match=r"unpack dash_1_amd64\.deb"):
        unpack("dash", broken, root)


@pytest.mark.parametrize("name", [*SCRIPTS, "initrd-init"])
def test_scripts_are_sound(name: str, tmp_path: Path) -> None:
    script = tmp_path / name
    script.write_bytes(guest_file(name))
    done = subprocess.run(["sh", "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def run_script(name: str, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a guest's script with its devices and specification under ``tmp_path``."""
    text = guest_file(name).decode()
    text = text.replace("/dev/nvidia", f"{tmp_path}/nvidia").replace("/run/cdi", f"{tmp_path}/cdi")
    script = tmp_path / "script"
    script.write_text(text)
    return subprocess.run(["sh", str(script), *words], capture_output=True, text=True, check=False)


def test_a_specification_names_every_card_and_all_of_them(tmp_path: Path) -> None:
    for index in (0, 1):
        (tmp_path / f"nvidia{index}").touch()
    assert run_script("hil-cdi-generate", tmp_path).returncode == 0
    spec = yaml.safe_load((tmp_path / "cdi/nvidia.yaml").read_text())
    assert (spec["cdiVersion"], spec["kind"]) == ("0.5.0", "nvidia.com/gpu")
    nodes = {
        one["name"]: [node["path"] for node in one["containerEdits"]["deviceNodes"]]
        for one in spec["devices"]
    }
    first, second = (f"{tmp_path}/nvidia{index}" for index in (0, 1))
    assert nodes == {"0": [first], "1": [second], "all": [first, second]}
    [mount] = spec["containerEdits"]["mounts"]
    assert mount["containerPath"] == "/usr/bin/nvidia-smi"


def test_without_a_card_no_specification_is_written(tmp_path: Path) -> None:
    done = run_script("hil-cdi-generate", tmp_path)
    assert done.returncode == 1
    assert "nothing written" in done.stderr
    assert not (tmp_path / "cdi").exists()


def test_the_tool_lists_the_devices_that_are_there(tmp_path: Path) -> None:
    for index in (0, 1):
        (tmp_path / f"nvidia{index}").symlink_to("/dev/null")
    done = run_script("nvidia-smi", tmp_path, "-L")
    uuid = "GPU-00000000-0000-4000-8000-00000000000"
    assert done.stdout == f"GPU 0: Stub (UUID: {uuid}0)\nGPU 1: Stub (UUID: {uuid}1)\n"


def test_the_tool_fails_as_the_real_one_does_without_a_driver(tmp_path: Path) -> None:
    done = run_script("nvidia-smi", tmp_path, "-L")
    assert done.returncode == 9
    assert done.stdout == (
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
        "Make sure that the latest NVIDIA driver is installed and running.\n\n"
    )


@pytest.mark.parametrize("words", [(), ("soon",), ("",)])
def test_a_timer_wants_a_number(words: tuple[str, ...], tmp_path: Path) -> None:
    done = run_script("hil-reboot-timer", tmp_path, *words)
    assert (done.returncode, done.stderr) == (2, "usage: hil-reboot-timer SECONDS\n")
