from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Unread
from harness.facts.nvidia import (
    NvidiaParams,
    ParamsAbsent,
    SmiCard,
    SmiCards,
    SmiFailed,
    SmiMig,
    read_params,
    read_smi_list,
)
from harness.facts.reply import Output

CAPTURES = Path(__file__).resolve().parents[2] / "../shared/lab/captures"
UUID = "GPU-8d4a765a-6657-43a2-87d4-6ebab7ad40e2"
OTHER = "GPU-99af1802-3de2-4104-81ad-f2f48ce2567d"


def params(stdout: str, exit_code: int | None = 0, stderr: str = "") -> object:
    output = Output(("cat", "/proc/driver/nvidia/params"), exit_code, stdout, stderr)
    return read_params(output, at=1.0, source="guest w1:/proc/driver/nvidia/params")


def smi(stdout: str, exit_code: int | None = 0, stderr: str = "") -> object:
    output = Output(
        ("chroot", "/host", "/usr/local/bin/nvidia-smi", "-L"), exit_code, stdout, stderr
    )
    return read_smi_list(output, at=1.0, source="guest w1:nvidia-smi -L")


def test_parameters_are_read_by_their_own_names() -> None:
    found = params('ResmanDebugLevel: 4294967295\nNvLinkDisable: 1\nRmMsg: ""\nEmpty:\n')
    assert isinstance(found, NvidiaParams)
    assert found.parameters == {
        "ResmanDebugLevel": "4294967295",
        "NvLinkDisable": "1",
        "RmMsg": '""',
        "Empty": "",
    }
    assert found.whole


def test_what_a_terminal_added_to_parameters_is_let_pass() -> None:
    found = params("\ufeffNvLinkDisable: 1\r\n\x1b[0mHidden: 7\r\n")
    assert isinstance(found, NvidiaParams)
    assert found.parameters == {"NvLinkDisable": "1", "Hidden": "7"}


def test_a_value_that_may_have_been_cut_is_left_out() -> None:
    found = params("Hidden: 7\nNvLinkDisable: 1")
    assert isinstance(found, NvidiaParams)
    assert found.parameters == {"Hidden": "7"}
    assert not found.whole


@pytest.mark.parametrize(
    "said",
    [
        "cat: /proc/driver/nvidia/params: No such file or directory\n",
        "cat: can't open '/proc/driver/nvidia/params': No such file or directory\n",
    ],
)
def test_no_such_file_is_an_absence(said: str) -> None:
    found = params("", 1, said)
    assert isinstance(found, ParamsAbsent)
    assert found.said == said.strip()


@pytest.mark.parametrize(
    ("stdout", "exit_code", "stderr", "quoted"),
    [
        ("", 1, "cat: /proc/driver/nvidia/params: Permission denied", "Permission denied"),
        ("", 127, "chroot: /host: No such file or directory", "/host"),
        ("NvLinkDisable: 1\n", None, "", "no exit status"),
        ("", None, "cat: /proc/driver/nvidia/params: No such file or directory", "no exit status"),
        ("", 0, "", "no whole line"),
        ("NvLinkDisable 1\n", 0, "", "NvLinkDisable 1"),
        ("A: 1\nA: 0\n", 0, "", "A is there twice"),
    ],
)
def test_what_is_no_parameter_file(
    stdout: str, exit_code: int | None, stderr: str, quoted: str
) -> None:
    found = params(stdout, exit_code, stderr)
    assert isinstance(found, Unread)
    assert quoted in found.reason


keys = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,12}", fullmatch=True)
values = st.from_regex(r'[0-9a-f"=;]{0,10}', fullmatch=True)


@given(st.dictionaries(keys, values, min_size=1))
def test_rendered_parameters_are_read_back(written: dict[str, str]) -> None:
    found = params("".join(f"{key}: {value}\n" for key, value in written.items()))
    assert isinstance(found, NvidiaParams)
    assert found.parameters == written


@given(st.text(), st.sampled_from([0, 1, None]), st.text())
def test_any_text_is_parameters_absent_or_unread(
    stdout: str, exit_code: int | None, stderr: str
) -> None:
    assert isinstance(params(stdout, exit_code, stderr), NvidiaParams | ParamsAbsent | Unread)


def test_cards_with_model_and_uuid() -> None:
    found = smi(f"GPU 0: NVIDIA L40S (UUID: {UUID})\nGPU 1: NVIDIA L40S (UUID: {OTHER})\n")
    assert isinstance(found, SmiCards)
    assert found.cards == (
        SmiCard(0, "NVIDIA L40S", UUID),
        SmiCard(1, "NVIDIA L40S", OTHER),
    )


def test_mig_devices_belong_to_the_card_above() -> None:
    mig = UUID.replace("GPU", "MIG")
    found = smi(f"GPU 0: A (UUID: {UUID})\n  MIG 1g.12gb     Device  0: (UUID: {mig})\n")
    assert isinstance(found, SmiCards)
    assert found.cards == (SmiCard(0, "A", UUID, (SmiMig("1g.12gb", 0, mig),)),)


def test_mig_devices_of_older_drivers_are_named_after_their_card() -> None:
    found = smi(f"GPU 0: A (UUID: {UUID})\n  MIG 1g.5gb Device 0: (UUID: MIG-{UUID}/7/0)\n")
    assert isinstance(found, SmiCards)
    assert found.cards[0].mig == (SmiMig("1g.5gb", 0, f"MIG-{UUID}/7/0"),)


def test_a_driver_that_fails_behind_a_card_has_failed() -> None:
    lost = "Unable to determine the device handle for GPU 0000:09:00.0: Unknown Error"
    found = smi(f"GPU 0: NVIDIA L40S (UUID: {UUID})\n{lost}\n")
    assert isinstance(found, SmiFailed)
    assert found.reason == lost


@pytest.mark.parametrize(
    "model",
    [
        "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "NVIDIA L40S-48Q",
        "GRID P40-24Q",
        "Graphics Device (engineering sample)",
    ],
)
@pytest.mark.parametrize("width", [40, 60, 79, 80, 81, 120])
def test_lines_that_a_terminal_wrapped_are_joined(model: str, width: int) -> None:
    lines = [f"GPU 0: {model} (UUID: {UUID})", f"GPU 1: {model} (UUID: {OTHER})"]
    pieces = [line[at : at + width] for line in lines for at in range(0, len(line), width)]
    found = smi("\n".join(pieces) + "\n")
    assert isinstance(found, SmiCards), found
    assert [card.uuid for card in found.cards] == [UUID, OTHER]
    if not any(piece.endswith(" ") for piece in pieces):  # a space at the edge is lost
        assert {card.model for card in found.cards} == {model}


def test_what_a_terminal_added_is_let_pass() -> None:
    found = smi(f"\ufeff\x1b[1;32mGPU 0: NVIDIA L40S\x1b[0m (UUID: {UUID})\r\n")
    assert isinstance(found, SmiCards)
    assert found.cards == (SmiCard(0, "NVIDIA L40S", UUID),)


def test_two_halves_of_different_lines_are_not_joined() -> None:
    found = smi(f"GPU 0: NVIDIA L40S (UUID: GPU-8d4a\nGPU 1: NVIDIA L40S (UUID: {OTHER})\n")
    assert isinstance(found, Unread)


@given(st.integers(0, 200), st.text(max_size=3))
def test_a_cut_or_disturbed_list_never_names_another_card(at: int, noise: str) -> None:
    text = f"GPU 0: NVIDIA L40S (UUID: {UUID})\nGPU 1: NVIDIA L40S (UUID: {OTHER})\n"
    found = smi(text[:at] + noise)
    if isinstance(found, SmiCards):
        assert {card.uuid for card in found.cards} <= {UUID, OTHER}


def test_a_warning_is_a_note() -> None:
    found = smi(f"GPU 0: A (UUID: {UUID})\nWARNING: infoROM is corrupted at gpu 0000:08:00.0\n")
    assert isinstance(found, SmiCards)
    assert (len(found.cards), found.note[:8]) == (1, "WARNING:")


@pytest.mark.parametrize("exit_code", [0, 6])
@pytest.mark.parametrize("said", ["No devices found", "No devices were found", "No devices found."])
def test_no_devices_is_read_whatever_the_exit_status(said: str, exit_code: int) -> None:
    found = smi(said + "\n", exit_code)
    assert isinstance(found, SmiCards)
    assert (found.cards, found.note) == ((), said)


@pytest.mark.parametrize(
    ("said", "exit_code"),
    [
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make "
            "sure that the latest NVIDIA driver is installed and running.",
            9,
        ),
        ("Failed to initialize NVML: Driver/library version mismatch", 18),
        ("Unable to determine the device handle for GPU0: 0000:08:00.0: Unknown Error", 15),
        ("Unable to determine the device handle for GPU 0000:08:00.0: GPU is lost.", 0),
        ("Failed to initialize NVML: Insufficient Permissions", 4),
        ("Insufficient Permissions", 4),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", 12),
    ],
)
def test_a_driver_that_does_not_answer(said: str, exit_code: int) -> None:
    found = smi(f"{said}\n", exit_code)
    assert isinstance(found, SmiFailed)
    assert found.reason == said


@pytest.mark.parametrize(
    ("stdout", "exit_code", "stderr", "quoted"),
    [
        ("", 127, "chroot: failed to run command '/usr/local/bin/nvidia-smi': No such file", "127"),
        ("", 0, "", "neither a card"),
        ("GPU 0: NVIDIA L40S (UUID: GPU-8d4a\n", 0, "", "GPU-8d4a"),
        (f"GPU 0: NVIDIA L40S (UUID: {UUID})\n", None, "", "no exit status"),
        ("No devices found", None, "", "no exit status"),
        (f"GPU 0: NVIDIA L40S (UUID: {UUID})\n", 3, "", "ended with 3"),
        (f"GPU 1: NVIDIA L40S (UUID: {UUID})\n", 0, "", "missing from the list"),
        (f"GPU 0: A (UUID: {UUID})\nGPU 1: A (UUID: {UUID})\n", 0, "", "share a UUID"),
        (f"GPU 0: (UUID: {UUID})\n", 0, "", "no card's"),
        (f"  MIG 1g.12gb Device  0: (UUID: {UUID.replace('GPU', 'MIG')})\n", 0, "", "no card's"),
        ("/bin/sh: nvidia-smi: not found\n", 0, "", "not found"),
        ("No devices found\nsegmentation fault\n", 0, "", "no card's"),
    ],
)
def test_what_is_no_list(stdout: str, exit_code: int | None, stderr: str, quoted: str) -> None:
    found = smi(stdout, exit_code, stderr)
    assert isinstance(found, Unread)
    assert quoted in found.reason


models = st.from_regex(r"[A-Z][A-Za-z0-9 ]{0,20}[A-Z]", fullmatch=True)


@given(st.lists(st.tuples(models, st.uuids()), min_size=1, unique_by=lambda pair: pair[1]))
def test_rendered_cards_are_read_back(cards: list[tuple[str, object]]) -> None:
    lines = [f"GPU {i}: {model} (UUID: GPU-{uuid})\n" for i, (model, uuid) in enumerate(cards)]
    found = smi("".join(lines))
    assert isinstance(found, SmiCards)
    assert [(card.model, card.uuid) for card in found.cards] == [
        (model, f"GPU-{uuid}") for model, uuid in cards
    ]


@given(st.text(), st.sampled_from([0, 6, None]), st.text())
def test_any_text_is_cards_failed_or_unread(
    stdout: str, exit_code: int | None, stderr: str
) -> None:
    assert isinstance(smi(stdout, exit_code, stderr), SmiCards | SmiFailed | Unread)


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="the lab's captures are not beside this checkout")
def test_captured_replies_are_read() -> None:
    text = (CAPTURES / "guest_fastinit_cdi.txt").read_text()
    listed = re.findall(r"^GPU \d+: .*\n", text, re.M)
    assert listed
    assert all(isinstance(smi(line), SmiCards) for line in listed)
    shown = re.findall(r"^NvLinkDisable: \d\nHidden: 7\n", text, re.M)
    assert shown
    for block in shown:
        found = params(block)
        assert isinstance(found, NvidiaParams)
        assert found.parameters["NvLinkDisable"] == "1"
