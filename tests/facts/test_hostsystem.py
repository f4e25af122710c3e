from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Unread
from harness.facts.hostsystem import (
    VGIF,
    CpuThrottle,
    CpuTimes,
    KvmVgif,
    KvmVgifAbsent,
    Virtual,
    read_cpu_times,
    read_throttle,
    read_vgif,
    read_virtual,
)
from harness.facts.reply import Output

STAT = (
    "cpu  4705 150 1120 16250 520 0 30 75 900 12\n"
    "cpu0 1393280 32966 572056 13343292 6130 0 17875 0 23933 0\n"
    "intr 114930548 113199788\nctxt 22848\nbtime 1062191376\n"
)
V2 = (
    "usage_usec 900\nuser_usec 500\nsystem_usec 400\nnr_periods 200\nnr_throttled 50\n"
    "throttled_usec 2500000\n"
)
CPUINFO = "processor\t: 0\nvendor_id\t: AuthenticAMD\nflags\t\t: fpu svm{}\n\nprocessor\t: 1\n"


def said(text: str, code: int | None = 0, stderr: str = "") -> Output:
    return Output(("cat",), code, text, stderr, "closed" if code is None else "")


def vgif(output: Output) -> object:
    return read_vgif(output, at=1.0, source="host hv-1")


@pytest.mark.parametrize(
    ("text", "on"),
    [("1\n", True), ("0\n", False), ("Y\n", True), ("N\n", False), ("\ufeff0\r\n", False)],
)
def test_vgif_as_kernels_write_it(text: str, on: bool) -> None:  # noqa: FBT001
    found = vgif(said(text))
    assert isinstance(found, KvmVgif)
    assert found.on is on


def test_a_host_without_kvm_amd_is_told_from_one_that_did_not_answer() -> None:
    missing = said("", 1, f"cat: {VGIF}: No such file or directory\n")
    assert isinstance(vgif(missing), KvmVgifAbsent)
    assert isinstance(vgif(said("", 1, f"cat: {VGIF}: Permission denied\n")), Unread)
    assert isinstance(vgif(said("", None)), Unread)
    other = said("", 1, "cat: /sys/module/kvm_intel/parameters/x: No such file or directory\n")
    assert isinstance(vgif(other), Unread)


@pytest.mark.parametrize("text", ["", "2\n", "01\n", "-1\n", "1 1\n", "on\n", "\x00"])
def test_what_is_neither_on_nor_off_is_unknown(text: str) -> None:
    assert isinstance(vgif(said(text)), Unread)


def virtual(text: str) -> object:
    return read_virtual(said(text), at=1.0, source="host hv-1")


def test_a_machine_itself_has_the_flag() -> None:
    nested, metal = virtual(CPUINFO.format(" hypervisor")), virtual(CPUINFO.format(""))
    assert isinstance(nested, Virtual)
    assert isinstance(metal, Virtual)
    assert (nested.virtual, metal.virtual) == (True, False)


def test_flags_that_are_cut_tell_nothing() -> None:
    whole = CPUINFO.format(" hypervisor")
    cut = whole[: whole.index("hypervisor") + 4]
    assert isinstance(virtual(cut), Unread)
    assert isinstance(virtual("processor : 0\n\n"), Unread)


def times(text: str) -> CpuTimes | Unread:
    return read_cpu_times(said(text), at=1.0, source="host hv-1")


def test_stolen_time_and_its_share() -> None:
    found = times(STAT)
    assert isinstance(found, CpuTimes)
    # guests are in user and nice already
    assert (found.busy, found.idle, found.steal) == (4705 + 150 + 1120 + 30, 16770, 75)
    assert found.steal_share() == pytest.approx(75 / 22850)


def test_the_share_between_two_looks() -> None:
    before, after = times(STAT), times(STAT.replace("16250 520 0 30 75", "16300 520 0 30 125"))
    assert isinstance(before, CpuTimes)
    assert isinstance(after, CpuTimes)
    assert after.steal_share(before) == pytest.approx(0.5)
    assert before.steal_share(before) is None
    assert before.steal_share(after) is None


def test_a_line_that_a_terminal_wrapped_is_joined() -> None:
    wrapped = STAT.replace("16250 520", "162\r\n50 520")
    assert times(wrapped) == times(STAT) or isinstance(times(wrapped), CpuTimes)
    found = times(wrapped)
    assert isinstance(found, CpuTimes)
    assert found.idle == 16770


@given(st.integers(0, len("cpu  4705 150 1120 16250 520 0 30 75 900 12")))
def test_no_cut_of_the_first_line_gives_a_number(end: int) -> None:
    assert isinstance(times(STAT[:end]), Unread)


@pytest.mark.parametrize("text", ["cpu  1 2 3 4\n", "cpu0 1 2 3 4 5 6 7 8 9 10\n", "garbage", ""])
def test_other_texts_are_unknown(text: str) -> None:
    assert isinstance(times(f"{text}intr 1\n"), Unread)


def throttle(text: str) -> object:
    return read_throttle(said(text), at=1.0, source="host hv-1")


@pytest.mark.parametrize(
    "text",
    [
        V2,
        V2.replace("\n", "\r\n"),
        "nr_periods 200\nnr_throttled 50\nthrottled_time 2500000000\n",  # version 1, nanoseconds
        f"{V2}nr_bursts 0\nsomething new\n",
    ],
)
def test_throttling_of_either_version(text: str) -> None:
    found = throttle(text)
    assert isinstance(found, CpuThrottle)
    assert (found.periods, found.throttled, found.seconds) == (200, 50, 2.5)
    assert found.share == 0.25


def test_a_group_without_a_quota_is_not_throttled() -> None:
    found = throttle("usage_usec 9\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n")
    assert isinstance(found, CpuThrottle)
    assert found.share == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "usage_usec 900\nuser_usec 500\nsystem_usec 400\n",  # its controller is off
        V2.removesuffix("\n"),  # the last line may be cut
        "nr_periods 1\nnr_throttled 2\nthrottled_usec 0\n",
        "nr_periods x\nnr_throttled 2\nthrottled_usec 0\n",
        "",
    ],
)
def test_what_does_not_tell_is_unknown(text: str) -> None:
    assert isinstance(throttle(text), Unread)


@given(st.text(max_size=80))
def test_no_text_breaks_a_parser(text: str) -> None:
    for read in (vgif, virtual, times, throttle):
        read(said(text) if read is vgif else text)  # type: ignore[operator]
