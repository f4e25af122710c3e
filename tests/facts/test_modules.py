from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.facts.fact import Unread
from harness.facts.modules import Module, ModuleTable, read_modules
from harness.facts.reply import Output

CAPTURES = Path(__file__).resolve().parents[2] / "../shared/lab/captures"

# modules_load_order, case A: nvidia, nvidia_uvm, nvidia_drm, nvidia_modeset asked for in turn
LISTED = """\
nvidia_drm 16384 0 - Live 0xffffffffc0327000 (OE)
nvidia_modeset 16384 1 nvidia_drm, Live 0xffffffffc031e000 (OE)
nvidia_uvm 16384 0 - Live 0xffffffffc0319000 (OE)
nvidia 16384 2 nvidia_modeset,nvidia_uvm, Live 0xffffffffc0314000 (OE)
"""


def read(text: str, exit_code: int | None = 0, stderr: str = "") -> ModuleTable | Unread:
    output = Output(("cat", "/proc/modules"), exit_code, text, stderr, "cut off")
    return read_modules(output, at=12.5, source="guest w1:/proc/modules")


def table(text: str) -> ModuleTable:
    found = read(text)
    assert isinstance(found, ModuleTable), found
    return found


def reason(text: str, exit_code: int | None = 0, stderr: str = "") -> str:
    found = read(text, exit_code, stderr)
    assert isinstance(found, Unread), found
    return found.reason


def test_a_captured_table() -> None:
    found = table(LISTED)
    assert [one.name for one in found.modules] == [
        "nvidia_drm",
        "nvidia_modeset",
        "nvidia_uvm",
        "nvidia",
    ]
    assert found.modules[-1] == Module(
        "nvidia", 16384, 2, ("nvidia_modeset", "nvidia_uvm"), "Live", "0xffffffffc0314000", "OE"
    )
    assert found.whole
    assert found.origin.raw == LISTED
    assert (found.origin.at, found.origin.source) == (12.5, "guest w1:/proc/modules")


def test_a_name_is_found_however_it_spells_its_dash() -> None:
    found = table(LISTED)
    assert found.find("nvidia-uvm") is found.find("nvidia_uvm") is not None
    assert found.position("nvidia-uvm") == 2
    assert found.position("drbd") is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("drbd 671744 0 - Live 0x00", Module("drbd", 671744, 0, (), "Live", "0x00")),
        ("xfs 1 - - Loading 0x0 (+)", Module("xfs", 1, None, (), "Loading", "0x0", "+")),
        (
            "ipv6 9 64 [permanent], Live 0x0",
            Module("ipv6", 9, 64, (), "Live", "0x0", permanent=True),
        ),
        ("a 1 2 b,c Unloading 0x0", Module("a", 1, 2, ("b", "c"), "Unloading", "0x0")),
        ("a 1 0 - Live 0x0 (OE) extra=1 2", Module("a", 1, 0, (), "Live", "0x0", "OE")),
    ],
)
def test_one_line(line: str, expected: Module) -> None:
    assert table(line + "\n").modules == (expected,)


def test_crlf_and_blank_lines_are_let_pass() -> None:
    assert table("\r\n" + LISTED.replace("\n", "\r\n")).modules == table(LISTED).modules


@pytest.mark.parametrize("width", [40, 49, 50, 63])
def test_lines_that_a_terminal_wrapped_are_joined(width: int) -> None:
    pieces = [
        line[start : start + width]
        for line in LISTED.splitlines()
        for start in range(0, len(line), width)
    ]
    assert table("\n".join(pieces) + "\n").modules == table(LISTED).modules


def test_what_a_terminal_added_is_let_pass() -> None:
    coloured = "\ufeff" + LISTED.replace("nvidia_uvm 16384", "\x1b[31mnvidia_uvm\x1b[0m 16384")
    assert table(coloured).modules == table(LISTED).modules


def test_a_table_of_many_modules_is_read_whole() -> None:
    lines = [f"m{n} {4096 * (n + 1)} {n} - Live 0x{n:016x} (OE)\n" for n in range(400)]
    found = table("".join(lines))
    assert (len(found.modules), found.whole) == (400, True)
    assert found.position("m399") == 399


def test_a_kernel_that_counts_no_uses_is_read() -> None:
    assert table("nvidia 16384 - - Live 0x0\n").modules[0].refcount is None


def test_a_last_line_cut_short_is_left_out_and_told() -> None:
    found = table(LISTED + "i2c_core 9830")
    assert found.modules == table(LISTED).modules
    assert not found.whole


def test_a_last_line_without_its_end_is_kept_where_it_is_a_record() -> None:
    found = table(LISTED.rstrip("\n"))
    assert found.modules == table(LISTED).modules
    assert not found.whole


def test_an_empty_table_read_to_its_end_is_a_table() -> None:
    assert table("").modules == ()


@pytest.mark.parametrize(
    "line",
    [
        "nvidia 16384 2 nvidia_uvm, Alive 0x0",
        "cat: /proc/modules: Permission denied",
        "nvidia big 0 - Live 0x0",
        "nvidia 16384 0 - Live",
        "nvidia 1 0 - Live 0x0 b 1 0 - Live 0x0",
        "nvidia 1 0 - Live 0x" + "0" * 17,
        "nvidia 1 0 - Live 0x0 (OE)b 1 0 - Live 0x0",
        f"nvidia {'9' * 5000} 0 - Live 0x0",
    ],
)
def test_a_line_that_is_no_record_spoils_the_table_and_is_quoted(line: str) -> None:
    assert line[:100] in reason(LISTED + line + "\n" + "short 1 0 - Live 0x0\n")


def test_a_module_listed_twice_is_no_table() -> None:
    assert "nvidia_drm is listed twice" in reason(LISTED + LISTED)


def test_no_exit_status_is_no_answer() -> None:
    assert reason(LISTED, exit_code=None).startswith("no exit status (cut off)")


def test_another_exit_status_quotes_what_was_said() -> None:
    said = reason("", exit_code=1, stderr="cat: /proc/modules: I/O error\n")
    assert said == "cat /proc/modules ended with 1: 'cat: /proc/modules: I/O error'"


names = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)


@st.composite
def tables(draw: st.DrawFn) -> list[Module]:
    chosen = draw(st.lists(names, unique=True, max_size=8))
    return [
        Module(
            name,
            draw(st.integers(0, 2**40)),
            draw(st.none() | st.integers(0, 999)),
            tuple(draw(st.lists(names, max_size=3))),
            draw(st.sampled_from(["Live", "Loading", "Unloading"])),
            f"0x{draw(st.integers(0, 2**64 - 1)):016x}",
            draw(st.sampled_from(["", "O", "OE", "E+"])),
        )
        for name in chosen
    ]


def line_of(module: Module) -> str:
    users = "".join(f"{user}," for user in module.used_by) or "-"
    count = "-" if module.refcount is None else module.refcount
    taint = f" ({module.taint})" if module.taint else ""
    return f"{module.name} {module.size} {count} {users} {module.state} {module.address}{taint}\n"


@given(tables())
def test_what_is_rendered_is_read_back(modules: list[Module]) -> None:
    assert table("".join(map(line_of, modules))).modules == tuple(modules)


@given(tables(), st.data())
def test_a_cut_table_is_never_longer_and_says_that_it_was_cut(
    modules: list[Module], data: st.DataObject
) -> None:
    text = "".join(map(line_of, modules))
    cut = text[: data.draw(st.integers(0, len(text)))]
    found = read(cut)
    if isinstance(found, Unread):
        return
    assert [m.name for m in found.modules] == [m.name for m in modules[: len(found.modules)]]
    assert found.whole == (not cut or cut.endswith("\n"))
    assert len(found.modules) >= cut.count("\n")


@given(
    st.text() | st.text(alphabet="nvidia_ 0123456789-,Livex\n\r()"), st.sampled_from([0, 1, None])
)
@example("0 0 0 0 Live 0x0", 0)
def test_any_text_is_read_or_unread(text: str, exit_code: int | None) -> None:
    found = read(text, exit_code)
    assert isinstance(found, ModuleTable | Unread)
    assert found.origin.raw == text
    if isinstance(found, Unread):
        assert found.reason


@given(tables(), st.text(min_size=1).filter(lambda text: not text.isspace()), st.data())
def test_foreign_lines_are_never_dropped(
    modules: list[Module], foreign: str, data: st.DataObject
) -> None:
    lines = [*map(line_of, modules)]
    lines.insert(data.draw(st.integers(0, len(lines))), foreign + "\n")
    found = read("".join(lines))
    if isinstance(found, ModuleTable):
        assert [m for m in modules if m not in found.modules] == []


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="the lab's captures are not beside this checkout")
def test_every_captured_table_is_read() -> None:
    text = (CAPTURES / "modules_load_order.txt").read_text()
    blocks = re.findall(r"# (?:grep nvidia|cat) /proc/modules\n((?:\w+ \d+ .*\n)+)", text)
    assert len(blocks) > 5
    for block in blocks:
        assert len(table(block).modules) == block.count("\n")
