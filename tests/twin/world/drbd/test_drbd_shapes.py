"""What the model tells, held against what DRBD 9.2.14 told in the same states (lab/captures).

The texts are compared with every number that a state does not fix made equal; so a word, a field,
their order, a line's end or an indent that differs is seen. Without the captures beside this
checkout what they fix is checked on excerpts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.twin.world import drbd_events, drbd_verbs

CAPTURES = Path(__file__).resolve().parents[5] / "shared" / "lab" / "captures"
# what depends on how much was written and how long it took, not on the state
_COUNTS = (
    r"(read|written|al-writes|bm-writes|sent|received|out-of-sync|pending|unacked|done|dbdt1|eta|"
    r"rs-in-flight|lower-pending|upper-pending|congested|ap-in-flight)"
)
_NOISE = re.compile(rf'("?{_COUNTS}"?: ?)(?:[\d.]+|nan|true|false|yes|no)')
_RATES = re.compile(r'("(?:rs-|db|want|estimated|percent)[^"]*": )[\d.]+')


def captured(name: str, node: str, command: str) -> str:
    """What a command printed on a node in a capture; skips where there are no captures."""
    (found,) = list(CAPTURES.glob(f"{name}*")) or [None]
    if found is None:
        pytest.skip("the captures are not beside this checkout")
    text = found.read_text(encoding="utf-8")
    start = text.index(f"{node}# {command}\n") + len(f"{node}# {command}\n")
    return text[start : text.index("[exit", start)]


def plain(text: str) -> str:
    """A text without the counts, and without the line breaks that their widths make."""
    text = _NOISE.sub(r"\1#", text).strip()
    return re.sub(r"\s+(?=\S)", " ", text)


def keys(value: Any) -> Any:
    """A JSON value with every number replaced, in its order."""
    if isinstance(value, dict):
        return [(key, keys(one)) for key, one in value.items()]
    if isinstance(value, list):
        return [keys(one) for one in value]
    counted = isinstance(value, int | float) and not isinstance(value, bool)
    return "number" if counted else value


def test_all_inconsistent(tour: Any) -> None:
    tour.up()
    same_everywhere(tour, "drbd9_01", "n1")


def test_initial_sync(tour: Any) -> None:
    tour.up().verb("primary", tour.n1, "--force")
    tour.run(1.0)
    same_everywhere(tour, "drbd9_02", "n1", "n2", "n3")


def test_up_to_date_everywhere(tour: Any) -> None:
    tour.up().verb("primary", tour.n1, "--force")
    tour.run(60)
    same_everywhere(tour, "drbd9_03", "n1", "n2", "n3")


def test_a_node_is_partitioned(tour: Any) -> None:
    tour.ready().isolate("n3")
    tour.run(20)
    same_everywhere(tour, "drbd9_04", "n1", "n2", "n3")


def test_a_partitioned_node_falls_behind(tour: Any) -> None:
    tour.ready().isolate("n3")
    tour.run(20)
    assert tour.write(tour.n1, 0, bytes(8284 * 1024)) == [""]
    same_everywhere(tour, "drbd9_05", "n1")
    told = json.loads(tour.json(tour.n1))[0]["connections"][1]["peer_devices"][0]
    assert (told["out-of-sync"], told["percent-in-sync"]) == (8284, 87.35)


def test_a_resync(tour: Any) -> None:
    tour.ready().isolate("n3")
    tour.run(20)
    tour.write(tour.n1, 0, bytes(8284 * 1024))
    tour.heal()
    tour.until(lambda: tour.n3.peers[1].replication == "PausedSyncT")
    tour.run(0.2)
    same_everywhere(tour, "drbd9_06", "n2")
    # by the last of their commands the resync was over there
    same_everywhere(tour, "drbd9_06", "n1", "n3", rest=False)


def test_quorum_is_lost(tour: Any) -> None:
    tour.ready().isolate("n1")
    tour.run(20)
    same_everywhere(tour, "drbd9_07", "n1", "n2", "n3")


def test_the_majority_goes_on(tour: Any) -> None:
    tour.ready().isolate("n1")
    tour.run(20)
    tour.verb("primary", tour.n2)
    tour.write(tour.n2, 0, bytes(4096))
    same_everywhere(tour, "drbd9_08", "n1", "n2", "n3")


def test_the_old_primary_is_back(tour: Any) -> None:
    tour.ready().isolate("n1")
    frozen = tour.write(tour.n1, 0, bytes(4096))
    tour.run(20)
    tour.verb("primary", tour.n2)
    tour.write(tour.n2, 0, bytes(4096))
    tour.heal()
    tour.run(20)
    assert frozen == ["Input/output error"]
    same_everywhere(tour, "drbd9_09", "n1", "n2", "n3")


def same_everywhere(tour: Any, name: str, *nodes: str, rest: bool = True) -> None:
    for node in nodes:
        replica = tour.resource.on(node)
        told = tour.text(replica)
        assert plain(told) == plain(captured(name, node, "drbdadm status r0"))
        full = tour.text(replica, full=True)
        asked = "drbdsetup status r0 --verbose --statistics"
        assert plain(full) == plain(captured(name, node, asked))
        assert [len(line) < 80 for line in full.splitlines()].count(False) == 0
        same_json(tour.json(replica), captured(name, node, "drbdsetup status r0 --json"))
        if not rest:
            continue
        same_list(tour, replica, captured(name, node, "drbdsetup events2 --now r0"))
        words = f"{replica.role}\n{drbd_verbs.cstate(replica)}{drbd_verbs.dstate(replica)}"
        asked = "drbdadm role r0; drbdadm cstate r0; drbdadm dstate r0"
        assert words == captured(name, node, asked)


def same_list(tour: Any, replica: Any, expected: str) -> None:
    now = [*drbd_events.listed(tour.resource, replica), drbd_events.LIST_ENDS]
    lines = drbd_events.render(now, 0.0, timestamps=False, statistics=False).decode()
    assert plain(lines) == plain(expected)
    assert lines.count("\n") == expected.count("\n")


def same_json(told: str, expected: str) -> None:
    """The same keys in the same order with the same words; and the same layout, to the byte."""
    assert keys(json.loads(told)) == keys(json.loads(expected))
    blank = [re.sub(r": [\d.]+(?=,?$)", ": #", line) for line in told.rstrip().splitlines()]
    other = [re.sub(r": [\d.]+(?=,?$)", ": #", line) for line in expected.rstrip().splitlines()]
    assert blank == other


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (
            lambda tour: tour.ready(),
            "r0 role:Primary\n  disk:UpToDate\n  n2 role:Secondary\n    peer-disk:UpToDate\n"
            "  n3 role:Secondary\n    peer-disk:UpToDate\n\n",
        ),
    ],
)
def test_an_excerpt_without_the_captures(
    tour: Any, build: Callable[[Any], Any], expected: str
) -> None:
    build(tour)
    assert tour.text(tour.n1) == expected


def test_long_lines_are_broken_where_drbdsetup_breaks_them(tour: Any) -> None:
    tour.ready()
    tour.n1.read, tour.n1.written, tour.n1.al_writes, tour.n1.bm_writes = 133154, 10358, 6, 21
    assert (
        "      size:65496 read:133154 written:10358 al-writes:6 bm-writes:21\n"
        "      upper-pending:0 lower-pending:0 al-suspended:no blocked:no\n"
    ) in tour.text(tour.n1, full=True)


# -- the kernel's log

_STAMP = re.compile(r"^\[ *[\d.]+\] ")
_NUMBERS = re.compile(r"\b[0-9A-F]{16}\b|\d{5,}|\(\d+ms\)|rule=\S+|flags:\w+|bits:\d+")


def test_the_kernel_says_what_it_said_in_the_captures(tour: Any) -> None:
    """Every kind of line that the model prints was printed by the real module."""
    (found,) = list(CAPTURES.glob("dmesg_drbd9_n1.txt")) or [None]
    if found is None:
        pytest.skip("the captures are not beside this checkout")
    real = {shape(line) for line in found.read_text(encoding="utf-8").splitlines()}
    tour.up().verb("primary", tour.n1, "--force")
    tour.run(60)
    tour.isolate("n3")
    tour.run(20)
    tour.write(tour.n1, 0, bytes(8284 * 1024))
    tour.heal()
    tour.run(20)
    tour.isolate("n1")
    tour.run(20)
    ours = {shape(line): line for line in tour.log("n1").splitlines() if "drbd r0" in line}
    known = {one for one in ours if one not in real}
    # said by the real module too, of other states than n1 was in there
    known -= {one for one in known if "marked out-of-sync by on disk bit-map" in one}
    assert not known, "\n".join(ours[one] for one in sorted(known))


def shape(line: str) -> str:
    text = _NUMBERS.sub("#", _STAMP.sub("", line))
    text = re.sub(r"\bn[23]\b", "nX", text)
    text = re.sub(r"->\d|peer \d|peer-node-id \d|\(id: \d\)", "N", text)
    text = re.sub(r"\d+ (sec|KB|K/sec)", r"# \1", text)
    text = re.sub(r"\d+ bits set|total \d+|RLE \d+|compression: [\d.]+%|nodes=\w+", "#", text)
    return re.sub(r"0x\w+", "#", text)
