from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Unread
from harness.facts.lspci import PciDrivers, PciFunction, read_lspci
from harness.facts.reply import Output

L40S = (
    "3b:00.0 3D controller [0302]: NVIDIA Corporation AD102GL [L40S] [10de:26b9] (rev a1)\n"
    "\tSubsystem: NVIDIA Corporation Device [10de:1851]\n"
    "\tKernel driver in use: vfio-pci\n"
    "\tKernel modules: nvidiafb, nouveau\n"
)
GEFORCE = (
    "0000:41:00.0 VGA compatible controller [0300]: NVIDIA Corporation GB202 [GeForce RTX 5090] "
    "[10de:2b85] (rev a1) (prog-if 00 [VGA controller])\n"
    "\tDeviceName: Slot 1\n"
    "\tSubsystem: Device [1043:8a2e]\n"
    "\tKernel driver in use: nvidia\n"
    "\n"
    "0000:41:00.1 Audio device [0403]: NVIDIA Corporation Device [10de:22e8] (rev a1)\n"
)


def read(stdout: str, exit_code: int | None = 0, stderr: str = "") -> PciDrivers | Unread:
    output = Output(("lspci", "-nnk", "-d", "10de:"), exit_code, stdout, stderr)
    return read_lspci(output, at=1.0, source="host a:lspci")


def functions(text: str) -> tuple[PciFunction, ...]:
    found = read(text)
    assert isinstance(found, PciDrivers), found
    return found.functions


def test_a_function_its_driver_and_its_modules() -> None:
    assert functions(L40S) == (
        PciFunction(
            "3b:00.0",
            "3D controller [0302]: NVIDIA Corporation AD102GL [L40S]",
            "10de:26b9",
            "vfio-pci",
            ("nvidiafb", "nouveau"),
        ),
    )


def test_several_functions_and_none_of_them_held() -> None:
    first, second = functions(GEFORCE)
    assert (first.address, first.pci_id, first.driver) == ("0000:41:00.0", "10de:2b85", "nvidia")
    assert (second.pci_id, second.driver, second.modules) == ("10de:22e8", "", ())


def test_nothing_said_is_no_function() -> None:
    assert functions("") == functions("\n") == ()


def test_complaints_of_lspci_itself_are_let_pass() -> None:
    noise = "lspci: Unable to load libkmod resources: error -2\npcilib: Cannot open /x\n"
    assert functions(noise + L40S) == functions(L40S)


@pytest.mark.parametrize("width", [60, 72, 80])
def test_lines_that_a_terminal_wrapped_are_joined(width: int) -> None:
    pieces = [
        line[at : at + width] for line in L40S.splitlines() for at in range(0, len(line), width)
    ]
    assert functions("\n".join(pieces)) == functions(L40S)


def test_what_a_terminal_added_is_let_pass() -> None:
    assert functions("\ufeff" + L40S.replace("\n", "\r\n")) == functions(L40S)


@pytest.mark.parametrize(
    ("stdout", "exit_code", "stderr", "quoted"),
    [
        (L40S, None, "", "no exit status"),
        ("", 127, "lspci: not found", "ended with 127"),
        ("\tKernel driver in use: vfio-pci\n", 0, "", "no function's"),
        ("3b:00.0 3D controller: NVIDIA Corporation\n", 0, "", "no function's"),
        (L40S + L40S, 0, "", "stands twice"),
        (L40S + "  what is this\n", 0, "", "no function's"),
        (L40S + "a warning of somebody\n", 0, "", "no function's"),
    ],
)
def test_what_is_no_listing(stdout: str, exit_code: int | None, stderr: str, quoted: str) -> None:
    found = read(stdout, exit_code, stderr)
    assert isinstance(found, Unread)
    assert quoted in found.reason


@given(st.text(), st.sampled_from([0, 1, None]), st.text())
def test_any_text_is_a_listing_or_unread(stdout: str, exit_code: int | None, stderr: str) -> None:
    assert isinstance(read(stdout, exit_code, stderr), PciDrivers | Unread)


@given(st.integers(0, len(L40S)))
def test_a_cut_listing_never_names_another_driver(at: int) -> None:
    found = read(L40S[:at])
    if isinstance(found, PciDrivers):
        assert all("vfio-pci".startswith(one.driver) for one in found.functions)
