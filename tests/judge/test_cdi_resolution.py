"""Each case was tried with podman 4.3.1, which refused or took the device as it says here."""

from __future__ import annotations

import dataclasses

import pytest

from harness.facts.cdi import CdiSpec
from harness.facts.cdifiles import CdiFile, CdiFiles
from harness.facts.fact import Origin, Unread
from harness.judge.cdi_resolution import source_of, taken_from, unresolved

AT = Origin(1.0, "guest n1", "")
RUN, ETC = "/run/cdi/nvidia.yaml", "/etc/cdi/nvidia.yaml"
ZERO = "nvidia.com/gpu=0"


def spec(path: str = RUN, version: str = "0.5.0", kind: str = "nvidia.com/gpu",
         devices: tuple[str, ...] = ("0", "all"), flaw: str = "") -> CdiFile:  # fmt: skip
    return CdiFile(path, CdiSpec(AT, path, version, kind, devices, flaw=flaw))


def files(*found: CdiFile, engine: str = "podman 4.3.1") -> CdiFiles:
    return CdiFiles(AT, engine, ("/etc/cdi", "/run/cdi"), found)


MALFORMED = CdiFile(RUN, Unread(AT, RUN, "neither YAML nor JSON: 'a: ['"))


@pytest.mark.parametrize(
    ("asked", "found", "said"),
    [
        ("nvidia.com/gpu=7", files(spec()), f"{RUN} names 0, all, and no 7"),
        (
            "amd.com/gpu=all",
            files(spec()),
            f"no file of kind amd.com/gpu counts ({RUN} of kind nvidia.com/gpu)",
        ),
        (ZERO, files(), "no file is in /etc/cdi or /run/cdi"),
        (
            ZERO,
            files(MALFORMED),
            f"counts ({RUN}: it is no CDI file (neither YAML nor JSON: 'a: ['))",
        ),
        (
            ZERO,
            files(spec(version="0.6.0")),
            f"{RUN} names it, but podman 4.3.1 takes cdiVersion 0.5.0 at most, not 0.6.0",
        ),
        (ZERO, files(spec(version="1.0.0")), "at most, not 1.0.0"),
        (ZERO, files(spec(version="v0.5.0")), "at most, not v0.5.0"),
        (ZERO, files(spec(version="0.\u0665.0")), "at most, not 0.\u0665.0"),
        (ZERO, files(spec(version="0.5." + "0" * 5000)), "at most, not 0.5.0"),
        (
            ZERO,
            files(spec(), spec("/run/cdi/other.yaml")),
            f"{RUN} and /run/cdi/other.yaml name it in one directory, so that neither counts",
        ),
        # a third file elsewhere does not help
        (ZERO, files(spec(ETC), spec("/etc/cdi/b.yaml"), spec()), f"{ETC} and /etc/cdi/b.yaml na"),
        (
            ZERO,
            files(spec(ETC), spec("/etc/cdi/b.yaml"), spec(), spec("/run/cdi/b.yaml")),
            f"{ETC} and /etc/cdi/b.yaml name it in one directory",
        ),
        (
            ZERO,
            files(spec(ETC), spec(), spec("/run/cdi/b.json")),
            f"{RUN} and /run/cdi/b.json name",
        ),
        (
            ZERO,
            files(spec("/run/cdi/nvidia.yml")),
            "/run/cdi/nvidia.yml names it, but its name does not end in .json or .yaml",
        ),
        (ZERO, files(spec(flaw="it has the unknown key x")), "names it, but it has the unknown"),
        (
            ZERO,
            files(spec(devices=(), flaw="it names no device")),
            f"counts ({RUN}: it names no device)",
        ),
        (
            "nvidia.com/gpu=99",
            files(spec(devices=tuple(map(str, range(9))))),
            "names 0, 1, 2, 3, 4, 5, 6, 7 and 1 more, and no 99",
        ),
        (
            "nvidia.com/gpu=99",
            files(spec(devices=tuple(map(str, range(8))))),
            "names 0, 1, 2, 3, 4, 5, 6, 7, and no 99",
        ),
        # podman's own version 5.4.2 was not tried: which versions it takes is not claimed
        (ZERO, files(spec(version="9.0.0"), engine="podman 5.4.2"), f"by its files {ZERO} is"),
    ],
)
def test_why_a_device_is_not_resolvable(asked: str, found: CdiFiles, said: str) -> None:
    told = unresolved([asked], found)
    assert said in told
    assert told.startswith((f"{asked}: ", "by its files "))
    if told.startswith(asked):
        assert source_of(asked, found) is None


def test_of_many_devices_each_that_is_not_resolvable_is_told() -> None:
    # podman lists all that were asked for, also those that it could have resolved
    asked = ["nvidia.com/gpu=8", ZERO, "amd.com/gpu=0"]
    told = unresolved(asked, files(spec()))
    assert f"nvidia.com/gpu=8: {RUN} names 0, all, and no 8; amd.com/gpu=0: no file" in told
    assert ZERO not in told


def test_without_the_files_nobody_knows_why() -> None:
    lost = Unread(AT, "/run/cdi", "the reason")
    assert unresolved([ZERO], lost) == "the CDI files could not be read: the reason"
    assert taken_from([ZERO], lost) == ""


@pytest.mark.parametrize(
    ("found", "path"),
    [
        (files(spec()), RUN),
        (files(spec(), MALFORMED, spec("/run/cdi/nvidia.yml")), RUN),
        (files(spec(ETC), spec()), RUN),
        (files(spec(), spec(ETC)), RUN),
        (files(spec(ETC)), ETC),
        (files(spec(ETC), spec(version="0.6.0")), ETC),
        (files(spec(version="0.2.0")), RUN),
        (files(spec(), spec("/run/cdi/amd.yaml", kind="amd.com/gpu")), RUN),
        (files(spec(), spec("/run/cdi/b.yaml", devices=("1",))), RUN),
    ],
)
def test_where_a_device_comes_from(found: CdiFiles, path: str) -> None:
    taken = source_of(ZERO, found)
    assert taken is not None
    assert taken.path == path


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (files(spec(ETC), spec()), f"{ZERO} is taken from {RUN}, which passes over {ETC}"),
        (files(spec(ETC)), f"{ZERO} is taken from {ETC}, which no boot writes anew"),
        (files(spec()), f"{ZERO} is taken from {RUN}"),
        (files(), ""),
    ],
)
def test_a_stale_file_is_told_from_the_one_that_counts(found: CdiFiles, said: str) -> None:
    assert taken_from([ZERO], found) == said


def test_each_of_three_directories_may_name_it_once() -> None:
    found = dataclasses.replace(
        files(spec("/a/x.yaml"), spec(ETC), spec()), directories=("/a", "/etc/cdi", "/run/cdi")
    )
    taken = source_of(ZERO, found)
    assert taken is not None
    assert taken.path == RUN


def test_where_only_one_directory_is_read_a_file_elsewhere_does_not_count() -> None:
    talos = dataclasses.replace(files(spec()), directories=("/run/cdi",))
    assert taken_from([ZERO], talos) == f"{ZERO} is taken from {RUN}"
