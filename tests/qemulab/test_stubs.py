from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.facts.driver import DriverVersion, read_driver_version
from harness.facts.reply import Output
from harness.qemulab.errors import Unfit
from harness.qemulab.stubs import NAMES, RELEASE, compile_stubs, kbuild, relocate, sources

HEADERS = "usr/src/linux-headers-6.1.0-57-cloud-amd64"


@pytest.fixture
def headers(tmp_path: Path) -> Path:
    folder = tmp_path / "headers" / HEADERS
    folder.mkdir(parents=True)
    (folder / "Makefile").write_text("include /usr/src/linux-headers-6.1.0-57-common/Makefile\n")
    return tmp_path / "headers"


def test_there_is_a_source_for_each_of_the_four() -> None:
    assert set(sources()) == {f"{name}.c" for name in NAMES}
    for name in NAMES:
        assert f"{name}.o" in kbuild().splitlines()[0].split()


@pytest.mark.parametrize("name", NAMES)
def test_every_stub_says_that_it_is_one(name: str) -> None:
    text = sources()[f"{name}.c"].decode()
    assert 'MODULE_LICENSE("GPL")' in text
    assert 'MODULE_VERSION(HIL_RELEASE "-hil-stub")' in text
    assert re.search(r'MODULE_DESCRIPTION\("hil stub of', text)


def test_the_stubs_version_reads_as_open_modules_that_drive_nothing() -> None:
    text = sources()["nvidia.c"].decode()
    [banner] = re.findall(r'"(NVRM version:.*?)\\n"\);', text, re.S)
    banner = re.sub(r'"\s*HIL_RELEASE\s*"', RELEASE, banner)
    found = read_driver_version(Output(("cat",), 0, f"{banner}\n"), at=0.0, source="n1")
    assert isinstance(found, DriverVersion)
    assert (found.release, found.flavour) == (RELEASE, "open")
    assert "hil stub" in banner


def test_the_drivers_parameters_are_hidden_and_the_stubs_own_is_not() -> None:
    modes = dict(re.findall(r"module_param\((\w+), \w+, (\d+)\)", sources()["nvidia.c"].decode()))
    assert modes.pop("hil_cards") == "0444"
    assert "NVreg_NvLinkDisable" in modes
    assert set(modes.values()) == {"0"}


def test_headers_are_made_to_work_where_they_were_unpacked(headers: Path) -> None:
    folder = relocate(headers, "6.1.0-57-cloud-amd64")
    expected = f"include {headers}/usr/src/linux-headers-6.1.0-57-common/Makefile\n"
    assert (folder / "Makefile").read_text() == expected
    relocate(headers, "6.1.0-57-cloud-amd64")
    assert (folder / "Makefile").read_text() == expected


def test_what_the_compiler_complains_of_is_said(
    headers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = tmp_path / "bin" / "make"
    make.parent.mkdir()
    make.write_text(
        "#!/bin/sh\necho '  CC [M] nvidia.o'\n"
        "echo 'nvidia.c:9:1: error: no such thing' >&2\necho 'make: *** stop' >&2\nexit 2\n"
    )
    make.chmod(0o755)
    monkeypatch.setenv("PATH", str(make.parent))
    with pytest.raises(Unfit, match=r"saw nvidia\.c:9:1: error: no such thing: see that gcc"):
        compile_stubs(headers, "6.1.0-57-cloud-amd64", tmp_path / "work")
