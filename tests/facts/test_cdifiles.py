from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.cdifiles import CdiFile, CdiFiles, read_names
from harness.facts.fact import Origin, Unread
from harness.facts.reply import Output

AT = Origin(1.0, "guest n1", "")


def names(
    stdout: str = "", exit_code: int | None = 0, stderr: str = ""
) -> tuple[str, ...] | Unread:
    output = Output(("ls", "/run/cdi"), exit_code, stdout, stderr, "")
    return read_names(output, "/run/cdi", at=1.0, source="guest n1:/run/cdi")


def test_the_files_of_a_directory() -> None:
    assert names("nvidia.yaml\r\nother.json\n") == ("/run/cdi/nvidia.yaml", "/run/cdi/other.json")
    assert names("") == ()


@pytest.mark.parametrize(
    "said",
    [
        "ls: cannot access '/run/cdi': No such file or directory\n",
        "ls: /run/cdi: No such file or directory\n",
    ],
)
def test_no_such_directory_has_no_files(said: str) -> None:
    assert names("", 2, said) == ()


@pytest.mark.parametrize(
    ("exit_code", "stderr", "quoted"),
    [
        (2, "ls: cannot open directory '/run/cdi': Permission denied", "Permission denied"),
        (2, "ls: cannot access '/run': No such file or directory", "ended with 2"),
        (None, "ls: /run/cdi: No such file or directory", "no exit status"),
    ],
)
def test_a_directory_that_could_not_be_listed_is_not_empty(
    exit_code: int | None, stderr: str, quoted: str
) -> None:
    found = names("nvidia.yaml\n", exit_code, stderr)
    assert isinstance(found, Unread)
    assert quoted in found.reason


@pytest.mark.parametrize(
    ("engine", "newest"),
    [("podman 4.3.1", "0.5.0"), ("podman 4.3.9", "0.5.0"), ("podman 5.4.2", ""), ("", "")],
)
def test_what_an_engine_takes_is_told_only_where_it_was_tried(engine: str, newest: str) -> None:
    assert CdiFiles(AT, engine, (), ()).newest == newest


def test_where_a_file_lies() -> None:
    assert CdiFile("/run/cdi/a.yaml", Unread(AT, "a", "b")).directory == "/run/cdi"


@given(st.text(), st.sampled_from([0, 1, None]), st.text())
def test_any_reply_is_names_or_unread(stdout: str, exit_code: int | None, stderr: str) -> None:
    found = names(stdout, exit_code, stderr)
    assert isinstance(found, Unread) or all(one.startswith("/run/cdi/") for one in found)
