"""Cards, /proc/driver/nvidia and nvidia-smi."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.twin.world import nvidia, nvidia_smi
from harness.twin.world.nvidia import Card, binds, gb202, l40s

ADA = l40s("0000:06:00.0", "GPU-11111111-2222-4333-8444-555555555555")
BLACKWELL = gb202("0000:07:00.0", "GPU-66666666-7777-4888-9999-aaaaaaaaaaaa")


def driver(*cards: Card, loaded: bool = True) -> nvidia_smi.Driver:
    return nvidia_smi.Driver(loaded, cards, True, "Thu Jan  1 00:02:00 2026")


def test_blackwell_is_driven_by_the_open_modules_only() -> None:
    assert binds(ADA, "open") and binds(ADA, "proprietary")
    assert binds(BLACKWELL, "open") and not binds(BLACKWELL, "proprietary")
    assert (ADA.pci_id, BLACKWELL.pci_id) == ("10de:26b9", "10de:2bb5")


def test_the_list_has_a_line_for_each_card() -> None:
    result = nvidia_smi.run(["-L"], driver(ADA, BLACKWELL))
    assert result.stdout.decode().splitlines() == [
        f"GPU 0: NVIDIA L40S (UUID: {ADA.uuid})",
        f"GPU 1: NVIDIA RTX PRO 6000 Blackwell Server Edition (UUID: {BLACKWELL.uuid})",
    ]
    assert (result.exit_code, result.stderr, result.error) == (0, b"", "")


@pytest.mark.parametrize("arguments", [[], ["-L"], ["-q"], ["--query-gpu=uuid", "--format=csv"]])
def test_failures_are_on_standard_output(arguments: list[str]) -> None:
    unloaded = nvidia_smi.run(arguments, driver(loaded=False))
    assert unloaded.exit_code == 9
    assert unloaded.stdout.startswith(b"NVIDIA-SMI has failed because it couldn't communicate")
    empty = nvidia_smi.run(arguments, driver())
    assert (empty.exit_code, empty.stdout, empty.stderr) == (6, b"No devices found\n", b"")


@pytest.mark.parametrize(
    "arguments", [["-Z"], ["--query-gpu=nonsense", "--format=csv"], ["-L", "x"]]
)
def test_arguments_that_are_not_taken(arguments: list[str]) -> None:
    result = nvidia_smi.run(arguments, driver(ADA))
    assert result.exit_code == 2
    assert b"Invalid combination of input arguments" in result.stdout


def test_the_table_keeps_its_edges() -> None:
    text = nvidia_smi.run([], driver(ADA, BLACKWELL)).stdout.decode()
    lines = text.splitlines()[1:]
    assert {len(line) for line in lines if line} == {91}
    assert "NVIDIA L40S" in text and "46068MiB" in text


def test_queries() -> None:
    asked = ["--query-gpu=index,name,uuid,memory.total", "--format=csv,noheader,nounits"]
    result = nvidia_smi.run(asked, driver(ADA))
    assert result.stdout.decode() == f"0, NVIDIA L40S, {ADA.uuid}, 46068\n"
    headed = nvidia_smi.run(["--query-gpu=uuid,memory.total", "--format=csv"], driver(ADA))
    assert headed.stdout.decode() == f"uuid, memory.total [MiB]\n{ADA.uuid}, 46068 MiB\n"


def test_a_pcie_board_has_no_fabric() -> None:
    text = nvidia_smi.run(["-q"], driver(ADA)).stdout.decode()
    assert re.search(r"\n    Fabric\n        State +: N/A\n", text)
    assert f": {ADA.uuid}\n" in text


def test_params_carry_no_prefix_and_quote_text() -> None:
    text = nvidia.params_text({"NVreg_NvLinkDisable": "1", "NVreg_RmMsg": "a;b"})
    assert "NVreg_" not in text
    assert "\nNvLinkDisable: 1\n" in text
    assert '\nRmMsg: "a;b"\n' in text
    assert "\nNvLinkDisable: 0\n" in nvidia.params_text({})
    assert all(re.fullmatch(r'\w+: (\d+|".*")', line) for line in text.splitlines())


def test_the_version_tells_open_from_proprietary() -> None:
    assert "Open Kernel Module for x86_64  595." in nvidia.version_text("open")
    closed = nvidia.version_text("proprietary")
    assert "NVIDIA UNIX x86_64 Kernel Module  595." in closed and "Open" not in closed


def test_registry_parameters_stay_out_of_sysfs() -> None:
    assert all(p.mode == 0 for p in nvidia.PARAMETERS["nvidia"].values())
    assert nvidia.PARAMETERS["nvidia_drm"]["modeset"].mode == 0o400


@given(st.text(max_size=12))
def test_what_a_uint_parameter_accepts_is_read_back_as_a_decimal_number(value: str) -> None:
    parameter = nvidia.Parameter("uint", "0")
    if parameter.accepts(value):
        assert parameter.stored(value).isdecimal()
