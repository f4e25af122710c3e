from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.facts.fabric import CardFabric, FabricStates, read_fabric
from harness.facts.fact import Unread
from harness.facts.nvidia import SmiFailed
from harness.facts.reply import Output

UUID = "GPU-8d4a765a-6657-43a2-87d4-6ebab7ad40e2"
OTHER = "GPU-99af1802-3de2-4104-81ad-f2f48ce2567d"


def section(state: str, status: str = "N/A") -> str:
    return (
        "    Fabric\n"
        f"        State                             : {state}\n"
        f"        Status                            : {status}\n"
        "        CliqueId                          : N/A\n"
        "        ClusterUUID                       : N/A\n"
        "        Health\n"
        "            Bandwidth                     : N/A\n"
    )


def card(bus: str, uuid: str, fabric: str) -> str:
    return (
        f"GPU {bus}\n"
        "    Product Name                          : NVIDIA L40S\n"
        f"    GPU UUID                              : {uuid}\n"
        "    Clocks Event Reasons\n"
        "        State                             : Active\n"
        "    Voltage\n"
        "        Graphics                          : 685.000 mV\n"
        f"{fabric}"
        "    Processes                             : None\n"
        "\n"
    )


def query(*cards: str, count: int | None = None) -> str:
    return (
        "\n==============NVSMI LOG==============\n\n"
        "Timestamp                                 : Mon Nov 30 12:00:00 2026\n"
        "Driver Version                            : 580.95.05\n"
        "CUDA Version                              : 13.0\n\n"
        f"Attached GPUs                             : {len(cards) if count is None else count}\n"
        + "".join(cards)
    )


ONE = query(card("00000000:08:00.0", UUID, section("N/A")))


def read(
    stdout: str, exit_code: int | None = 0, stderr: str = ""
) -> FabricStates | SmiFailed | Unread:
    output = Output(("nvidia-smi", "-q"), exit_code, stdout, stderr)
    return read_fabric(output, at=1.0, source="guest w1:nvidia-smi -q")


def states(text: str) -> FabricStates:
    found = read(text)
    assert isinstance(found, FabricStates), found
    return found


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("N/A", "N/A"),
        ("Not Started", "N/A"),
        ("In Progress", "N/A"),
        ("Completed", "Success"),
        ("Completed", "Insufficient Resources"),
    ],
)
def test_the_section_of_one_card(state: str, status: str) -> None:
    found = states(query(card("00000000:08:00.0", UUID, section(state, status))))
    assert found.cards == (CardFabric("00000000:08:00.0", UUID, state, status),)
    assert found.driver == "580.95.05"


def test_each_card_has_its_own() -> None:
    text = query(
        card("00000000:08:00.0", UUID, section("Completed", "Success")),
        card("00000000:09:00.0", OTHER, section("In Progress")),
    )
    assert [(one.uuid, one.state) for one in states(text).cards] == [
        (UUID, "Completed"),
        (OTHER, "In Progress"),
    ]


def test_a_driver_without_the_section() -> None:
    [one] = states(query(card("00000000:08:00.0", UUID, ""))).cards
    assert (one.state, one.status) == (None, "")


def test_no_card_at_all() -> None:
    assert states(query(count=0)).cards == ()


def test_what_a_terminal_added_is_let_pass() -> None:
    assert states("\ufeff" + ONE.replace("\n", "\r\n")).cards == states(ONE).cards


@pytest.mark.parametrize(
    ("stdout", "exit_code", "quoted"),
    [
        ("", 0, "how many cards"),
        (ONE, None, "no exit status"),
        (ONE, 3, "ended with 3"),
        (query(card("00000000:08:00.0", UUID, section("N/A")), count=2), 0, "2 cards announced"),
        (ONE.split("    Fabric")[0], 0, "the text ends inside GPU 00000000:08:00.0"),
        (ONE.split("        State                             : N/A")[0] + "    Fabr", 0, "ends"),
    ],
)
def test_what_is_not_whole(stdout: str, exit_code: int | None, quoted: str) -> None:
    found = read(stdout, exit_code)
    assert isinstance(found, Unread), found
    assert quoted in found.reason


def test_a_section_cut_after_its_heading_is_not_an_absent_one() -> None:
    cut = ONE.split("    Fabric\n")[0] + "    Fabric\n        Status : N/A\n    Processes : None\n"
    assert isinstance(read(cut), Unread)


@pytest.mark.parametrize("code", [0, 9])
def test_a_driver_that_does_not_answer(code: int) -> None:
    said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    found = read(f"{said}\n", code)
    assert isinstance(found, SmiFailed)
    assert found.reason == said


@given(st.text(), st.sampled_from([0, 9, None]), st.text())
def test_any_text_is_states_failed_or_unread(
    stdout: str, exit_code: int | None, stderr: str
) -> None:
    assert isinstance(read(stdout, exit_code, stderr), FabricStates | SmiFailed | Unread)


@given(st.integers(0, len(ONE)))
@example(at=ONE.index("N/A", ONE.index("Fabric")) + 1)
def test_a_cut_text_never_tells_of_an_absent_section(at: int) -> None:
    found = read(ONE[:at])
    if isinstance(found, FabricStates):
        assert [one.state for one in found.cards] == ["N/A"]
