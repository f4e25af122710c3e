from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.extensions import ASKED, Extensions, read_extensions
from harness.facts.fact import Unread
from harness.facts.reply import Output

ID = "d4eb676021eb6f6473eb2987d6c51dbeb8711bdee31d4b0b4797539dba013896"
LAYERS = f"""layers:
    - image: 000.qemu-guest-agent.sqsh
      metadata:
        name: qemu-guest-agent
        version: 10.0.2
        author: Sidero Labs
    - image: 001.schematic.sqsh
      metadata:
        name: schematic
        version: {ID}
        extraInfo: |
            customization: {{}}
"""


def read(text: str, code: int = 0, stderr: str = "") -> Extensions | Unread:
    output = Output(("cat", ASKED), code, text, stderr)
    return read_extensions("w1", output, at=1.0, source="guest w1")


def test_the_pseudo_extension_is_the_schematic() -> None:
    seen = read(LAYERS)
    assert isinstance(seen, Extensions)
    assert (seen.node, seen.schematic, seen.names) == ("w1", ID, ("qemu-guest-agent",))


def test_an_image_without_any_names_none() -> None:
    assert read("layers: []\n") == read_like("", ())
    absent = read("", 1, f"cat: can't open '{ASKED}': No such file or directory")
    assert isinstance(absent, Extensions)
    assert (absent.schematic, absent.names) == ("", ())


def read_like(schematic: str, names: tuple[str, ...]) -> Extensions:
    seen = read("layers: []\n")
    return Extensions(seen.origin, "w1", schematic, names)


@pytest.mark.parametrize(
    ("text", "code", "stderr"),
    [
        ("", 0, ""),
        (LAYERS[:140], 0, ""),
        ("layers: 3", 0, ""),
        ("- a\n- b", 0, ""),
        ("layers: [", 0, ""),
        ("", 1, "cat: read error: Input/output error"),
        (LAYERS, 137, ""),
    ],
)
def test_what_cannot_be_read_is_no_absence(text: str, code: int, stderr: str) -> None:
    seen = read(text, code, stderr)
    assert isinstance(seen, Unread)
    assert seen.asked == ASKED


@given(st.text(max_size=60))
def test_whatever_comes_is_never_an_exception(text: str) -> None:
    assert isinstance(read(text), Extensions | Unread)
