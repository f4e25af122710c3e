from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.driver import DriverAbsent, DriverVersion, read_driver_version
from harness.facts.fact import Unread
from harness.facts.reply import Output

GCC = "GCC version:  gcc version 14.2.0 (GCC) \n"
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.45.04  Release Build  "
    "(root@build)  Thu Jul  2 10:11:12 UTC 2026\n" + GCC
)
PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  Thu Feb 22 01:44:30 UTC 2024\n"
    + GCC
)


def read(
    stdout: str, exit_code: int | None = 0, stderr: str = ""
) -> DriverVersion | DriverAbsent | Unread:
    output = Output(("cat", "/proc/driver/nvidia/version"), exit_code, stdout, stderr)
    return read_driver_version(output, at=1.0, source="guest w1:/proc/driver/nvidia/version")


def version(stdout: str) -> DriverVersion:
    found = read(stdout)
    assert isinstance(found, DriverVersion), found
    return found


@pytest.mark.parametrize(
    ("text", "release", "flavour"),
    [
        (OPEN, "595.45.04", "open"),
        (PROPRIETARY, "550.54.14", "proprietary"),
        (OPEN.replace("x86_64", "aarch64"), "595.45.04", "open"),
        (PROPRIETARY.replace("x86_64", "aarch64"), "550.54.14", "proprietary"),
        (OPEN.replace(" for x86_64", ""), "595.45.04", "open"),
        (OPEN.replace("595.45.04", "610.57"), "610.57", "open"),
        (OPEN.split("  Release")[0] + "\n", "595.45.04", "open"),
        ("\ufeff\x1b[0m" + OPEN.replace("\n", "\r\n"), "595.45.04", "open"),
        (OPEN.replace("for x86_64  ", "for\nx86_64 "), "595.45.04", "open"),
    ],
)
def test_release_and_flavour(text: str, release: str, flavour: str) -> None:
    found = version(text)
    assert (found.release, found.flavour) == (release, flavour)
    assert found.origin.raw == text


def test_the_banner_is_kept_on_one_line() -> None:
    found = version(OPEN.replace("for x86_64  ", "for\nx86_64 "))
    assert found.banner == "NVIDIA UNIX Open Kernel Module for x86_64 595.45.04"


@pytest.mark.parametrize(
    "said",
    [
        "cat: /proc/driver/nvidia/version: No such file or directory\n",
        "cat: can't open '/proc/driver/nvidia/version': No such file or directory\n",
    ],
)
def test_no_such_file_is_an_absence(said: str) -> None:
    found = read("", 1, said)
    assert isinstance(found, DriverAbsent)
    assert found.said == said.strip()


@pytest.mark.parametrize(
    ("stdout", "exit_code", "stderr", "quoted"),
    [
        ("", 0, "", "0 banners"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  595.45", 0, "", "0 banners"),
        ("NVRM version: NVIDIA Other Kernel Module  595.45.04  \n", 0, "", "0 banners"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64 malformed\n", 0, "", "malformed"),
        (OPEN + PROPRIETARY, 0, "", "2 banners"),
        (OPEN, None, "", "no exit status"),
        ("", None, "cat: /proc/driver/nvidia/version: No such file or directory", "no exit status"),
        ("", 1, "cat: /proc/driver/nvidia/version: Permission denied", "Permission denied"),
        ("", 1, "cat: /proc/driver: No such file or directory", "ended with 1"),
    ],
)
def test_what_is_no_version(stdout: str, exit_code: int | None, stderr: str, quoted: str) -> None:
    found = read(stdout, exit_code, stderr)
    assert isinstance(found, Unread)
    assert quoted in found.reason


@given(st.text(), st.sampled_from([0, 1, None]), st.text())
def test_any_text_is_a_version_absent_or_unread(
    stdout: str, exit_code: int | None, stderr: str
) -> None:
    assert isinstance(read(stdout, exit_code, stderr), DriverVersion | DriverAbsent | Unread)


@given(st.text(max_size=5), st.integers(0, len(OPEN)))
def test_a_cut_or_disturbed_banner_never_names_another_release(noise: str, at: int) -> None:
    found = read(OPEN[:at] + noise)
    assert isinstance(found, Unread) or "595.45.04".startswith(found.release)
