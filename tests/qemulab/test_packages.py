from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.qemulab.errors import Unfit
from harness.qemulab.packages import (
    CONTAINERS,
    KERNEL,
    PROGRAMS,
    Archive,
    read_candidates,
    read_packages,
)

IMAGE = "linux-image-6.1.0-57-cloud-amd64"
HEADERS = "linux-headers-6.1.0-57-cloud-amd64"
DASH = """\
Package: dash
Source: dash
Version: 0.5.12-2
Installed-Size: 191
Architecture: amd64
Pre-Depends: libc6 (>= 2.34)
Depends: debianutils (>= 5.6-0.1), dpkg (>= 1.19.1) | other:any,
 third [amd64]
Description-en: POSIX-compliant shell
 The Debian Almquist Shell.
 .
 Depends: is not a field here
Section: shells
Size: 91848
SHA256: 33ea40061da2f1a861ec46212b2b6a34f0776a049b1a3f0abce2fb8cb994258f
"""


class Apt:
    """An archive: stanzas by name, and what a download leaves."""

    def __init__(self) -> None:
        self.fields: dict[str, dict[str, str]] = {}
        self.asked: list[list[str]] = []
        self.refuses: dict[str, str] = {}
        for name in (*PROGRAMS, *CONTAINERS):
            self.add(name, depends="libc6, debconf")
        self.add("libc6", section="libs", depends="libgcc-s1")
        self.add("libgcc-s1", section="libs")
        self.add("debconf", section="admin", depends="perl")
        self.add("perl", section="perl")
        self.add(KERNEL, section="kernel", depends=IMAGE)
        self.add(IMAGE, section="kernel", depends="kmod, initramfs-tools")
        self.add("initramfs-tools", section="utils")
        self.add(
            HEADERS, section="kernel", depends=f"{COMMON}, {KBUILD}, linux-compiler-gcc-12-x86"
        )
        self.add(COMMON, section="kernel")
        self.add(KBUILD, section="kernel", depends="libc6, libelf1")
        self.add("linux-compiler-gcc-12-x86", section="kernel")

    def add(
        self, name: str, *, section: str = "net", depends: str = "", version: str = "1"
    ) -> None:
        content = self.content(name, version)
        self.fields[name] = {
            "Package": name,
            "Version": version,
            "Architecture": "amd64",
            "Section": section,
            "Depends": depends,
            "Size": str(len(content)),
            "SHA256": hashlib.sha256(content).hexdigest(),
        }

    @staticmethod
    def content(name: str, version: str) -> bytes:
        return f"{name} {version}".encode()

    def __call__(self, argv: Sequence[str], cwd: Path | None) -> subprocess.CompletedProcess[str]:
        self.asked.append(list(argv))
        words = [word for word in argv[1:] if "=" not in word or "Dir::" not in word]
        names = [word for word in words if word[0] != "-" and "::" not in word][1:]
        answer = {"show": self.show, "policy": self.policy}
        if "download" in argv:
            assert cwd is not None
            return self.download(names, cwd)
        out = "\n\n".join(answer[next(word for word in words if word in answer)](names))
        return subprocess.CompletedProcess(argv, 0, out, "")

    def show(self, names: Sequence[str]) -> list[str]:
        known = [self.fields[name] for name in names if name in self.fields]
        return ["\n".join(f"{key}: {value}" for key, value in one.items()) for one in known]

    def policy(self, names: Sequence[str]) -> list[str]:
        known = [self.fields[name] for name in names if name in self.fields]
        return [
            f"{one['Package']}:\n  Installed: (none)\n  Candidate: {one['Version']}"
            for one in known
        ]

    def download(self, asked: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        for one in asked:
            name, _, version = one.partition("=")
            if name in self.refuses:
                return subprocess.CompletedProcess(asked, 100, "", self.refuses[name])
            file = cwd / f"{name}_{version.replace(':', '%3a')}_amd64.deb"
            assert not file.exists()  # apt may take what is there for what it was asked for
            file.write_bytes(self.content(name, version))
        return subprocess.CompletedProcess(asked, 0, "", "")


COMMON = "linux-headers-6.1.0-57-common"
KBUILD = "linux-kbuild-6.1"


@pytest.fixture
def apt() -> Apt:
    return Apt()


@pytest.fixture
def archive(apt: Apt, tmp_path: Path) -> Archive:
    return Archive(tmp_path, run=apt)


def test_a_stanza_is_read() -> None:
    [dash] = read_packages(DASH)
    assert (dash.name, dash.version, dash.section, dash.size) == (
        "dash",
        "0.5.12-2",
        "shells",
        91848,
    )
    assert dash.depends == ("libc6", "debianutils", "dpkg", "other", "third")


def test_stanzas_are_parted_by_empty_lines_and_what_no_archive_has_is_left_out() -> None:
    installed = "Package: mine\nStatus: install ok installed\nVersion: 1\nArchitecture: amd64\n"
    found = read_packages(f"{DASH}\n{installed}\n\n{DASH.replace('dash', 'hash')}")
    assert [package.name for package in found] == ["dash", "hash"]


def test_an_epoch_is_written_as_apt_writes_it() -> None:
    [package] = read_packages(DASH.replace("0.5.12-2", "1:9.2p1-2"))
    assert package.file == "dash_1%3a9.2p1-2_amd64.deb"


def test_candidates_are_read() -> None:
    text = (
        "kmod:\n  Installed: 29\n  Candidate: 30+20221128-1\n  Version table:\n     30 500\n"
        "gone:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n"
        "dash:\n  Installed: (none)\n  Candidate: 0.5.12-2\n"
    )
    assert read_candidates(text) == {"kmod": "30+20221128-1", "dash": "0.5.12-2"}


def test_the_kernel_is_the_one_that_the_metapackage_stands_for(archive: Archive) -> None:
    chosen = archive.choose(containers=True, stubs=True)
    assert chosen.kernel.name == IMAGE
    assert chosen.release == "6.1.0-57-cloud-amd64"
    assert chosen.versions[KERNEL] == "1"


def test_libraries_are_followed_and_nothing_else(archive: Archive) -> None:
    names = {one.name for one in archive.choose(containers=True, stubs=True).userland}
    assert names == {*PROGRAMS, *CONTAINERS, "libc6", "libgcc-s1"}


def test_headers_are_those_of_the_kernel_without_the_compiler(archive: Archive) -> None:
    names = {one.name for one in archive.choose(containers=True, stubs=True).headers}
    assert names == {HEADERS, COMMON, KBUILD}


def test_what_a_recipe_leaves_out_is_not_asked_for(apt: Apt, archive: Archive) -> None:
    chosen = archive.choose(containers=False, stubs=False)
    assert chosen.headers == ()
    assert not {one.name for one in chosen.all} & set(CONTAINERS)
    assert not any(HEADERS in argv for argv in apt.asked)


@pytest.mark.parametrize("name", ["drbd-utils", KERNEL, IMAGE, HEADERS])
def test_a_package_that_is_in_no_list_is_named(apt: Apt, archive: Archive, name: str) -> None:
    del apt.fields[name]
    with pytest.raises(Unfit, match=rf"no package {name} in .*: `apt-get update`"):
        archive.choose(containers=True, stubs=True)


def test_a_metapackage_that_stands_for_nothing_is_named(apt: Apt, archive: Archive) -> None:
    apt.add(KERNEL, depends="kmod")
    with pytest.raises(Unfit, match=f"the kernel that {KERNEL} 1 stands for"):
        archive.choose(containers=True, stubs=True)


def test_what_was_chosen_last_is_taken_again_by_asking_once(apt: Apt, tmp_path: Path) -> None:
    first = Archive(tmp_path, run=apt).choose(containers=True, stubs=True)
    apt.asked.clear()
    assert Archive(tmp_path, run=apt).choose(containers=True, stubs=True) == first
    assert [("policy" in argv) for argv in apt.asked] == [True]


@pytest.mark.parametrize("name", ["libgcc-s1", KERNEL, COMMON])
def test_a_new_version_is_chosen_anew(apt: Apt, tmp_path: Path, name: str) -> None:
    first = Archive(tmp_path, run=apt).choose(containers=True, stubs=True)
    apt.fields[name]["Version"] = "2"
    second = Archive(tmp_path, run=apt).choose(containers=True, stubs=True)
    assert second.versions == {**first.versions, name: "2"}


def test_a_choice_that_cannot_be_read_is_made_anew(apt: Apt, tmp_path: Path) -> None:
    first = Archive(tmp_path, run=apt).choose(containers=True, stubs=True)
    for kept in tmp_path.glob("chosen*"):
        kept.write_text('{"kernel": 1}')
    assert Archive(tmp_path, run=apt).choose(containers=True, stubs=True) == first


def test_recipes_do_not_take_each_others_choice(apt: Apt, tmp_path: Path) -> None:
    Archive(tmp_path, run=apt).choose(containers=True, stubs=True)
    assert Archive(tmp_path, run=apt).choose(containers=False, stubs=True).headers
    assert not Archive(tmp_path, run=apt).choose(containers=False, stubs=False).headers


def test_packages_are_downloaded_once(apt: Apt, archive: Archive) -> None:
    chosen = archive.choose(containers=False, stubs=False)
    said: list[str] = []
    assert archive.missing(chosen.all) == sum(one.size for one in chosen.all)
    files = archive.fetch(chosen.all, said.append)
    assert files["dash"].read_bytes() == b"dash 1"
    assert said == [f"downloading {len(chosen.all)} packages, 0 MB"]
    apt.asked.clear()
    assert archive.missing(chosen.all) == 0
    assert archive.fetch(chosen.all, said.append) == files
    assert apt.asked == []
    assert len(said) == 1


def test_a_damaged_file_is_downloaded_again(archive: Archive) -> None:
    chosen = archive.choose(containers=False, stubs=False)
    files = archive.fetch(chosen.all, lambda _: None)
    files["dash"].write_bytes(b"dash 0")
    assert archive.fetch(chosen.all, lambda _: None)["dash"].read_bytes() == b"dash 1"


def test_a_package_that_cannot_be_downloaded_is_named(apt: Apt, archive: Archive) -> None:
    chosen = archive.choose(containers=False, stubs=False)
    apt.refuses["drbd-utils"] = (
        "Err:1 an archive\n  404  Not Found\n"
        "E: Failed to fetch …/drbd-utils.deb  404  Not Found\nE: Unable to fetch some archives\n"
    )
    with pytest.raises(Unfit) as refused:
        archive.fetch(chosen.all, lambda _: None)
    assert refused.value.saw == "Failed to fetch …/drbd-utils.deb  404  Not Found"
    assert "`apt-get update`" in refused.value.do
    assert "\n" not in str(refused.value)


def test_a_full_disk_is_said_to_be_one(apt: Apt, archive: Archive) -> None:
    chosen = archive.choose(containers=False, stubs=False)
    apt.refuses["dash"] = "E: Write error - write (28: No space left on device)\n"
    with pytest.raises(Unfit, match="no room left on the disk"):
        archive.fetch(chosen.all, lambda _: None)


def test_nothing_of_the_systems_is_written(apt: Apt, archive: Archive, tmp_path: Path) -> None:
    archive.fetch(archive.choose(containers=False, stubs=False).all, lambda _: None)
    assert apt.asked
    for argv in apt.asked:
        assert f"Dir::Cache={tmp_path / 'apt'}" in argv
