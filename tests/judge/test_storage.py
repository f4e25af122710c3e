from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import claims
from harness.facts.drbd import NO_MODULE, NO_RESOURCE, DrbdAbsent, DrbdStatus
from harness.facts.drbdlog import read_log
from harness.facts.fact import Origin, Unread
from harness.facts.reply import Output
from harness.judge.storage import storage_ok
from tests.facts.drbd_texts import (
    CAPTURES,
    HEAD8,
    MISSING,
    PROC8_CUT,
    PROC8_OOS,
    PROC8_SPLIT,
    PROC8_SYNC,
    PROC8_UP,
    STATUS8_CUT,
    STATUS8_OOS,
    STATUS8_SPLIT,
    STATUS8_SYNC,
    STATUS8_UP,
    captured_statuses,
    json9,
    peer9,
    status8,
    status9,
)

HOLDS, BROKEN, UNKNOWN = "holds", "broken", "unknown"
Said = DrbdStatus | DrbdAbsent | Unread
AT = Origin(1.0, "guest n2:drbdsetup status", "")
UNREAD = Unread(AT, "drbdsetup status", "no exit status (cut off)")
NO_DRBD = DrbdAbsent(AT, "n2", NO_MODULE, "", "", "cat: /proc/drbd: No such file or directory")
GONE = DrbdAbsent(AT, "n2", NO_RESOURCE, "r0", "8.4.11", "r0: No such resource")

N1 = status8(STATUS8_UP)
N2 = status8(
    STATUS8_UP.replace("role:Primary", "role:X")
    .replace("role:Secondary", "role:Primary")
    .replace("role:X", "role:Secondary"),
    PROC8_UP.replace("ro:Primary/Secondary", "ro:Secondary/Primary"),
    "n2",
)
NINE = [status9(json9(0), "n1"), status9(json9(1), "n2"), status9(json9(2), "n3")]


def judge(
    statuses: Sequence[Said], replicas: int = 2, resources: Sequence[str] = ()
) -> tuple[str, str]:
    verdict = storage_ok(statuses, replicas, "pool p1", resources=resources)
    assert (verdict.claim, verdict.subject) == ("storage-ok", "pool p1")
    assert verdict.claim in claims.load()
    assert verdict.facts == tuple(statuses)
    return str(verdict.outcome), verdict.because


def eight(text: str, seen: str | None = PROC8_UP, node: str = "n1") -> DrbdStatus:
    found = status8(text, seen, node)
    assert isinstance(found, DrbdStatus)
    return found


def nine(node_id: int, *peers: str, **said: object) -> DrbdStatus:
    found = status9(json9(node_id, *peers, **said), f"n{node_id + 1}")
    assert isinstance(found, DrbdStatus)
    return found


def both(text: str, seen: str) -> list[Said]:
    return [eight(text, seen, "n1"), eight(text, seen, "n2")]


def test_a_lower_disk_that_is_busy_is_no_finding() -> None:
    assert judge([eight(STATUS8_UP.replace("blocked:no", "blocked:lower")), N2])[0] == HOLDS


def test_two_replicas_of_8() -> None:
    assert judge([N1, N2]) == (
        HOLDS,
        "r0: UpToDate on n1, n2, 2 replicas expected, connected as each of them says, nothing"
        " suspended or out of sync; DRBD 8.4 knows no quorum",
    )


def test_three_replicas_of_9() -> None:
    outcome, because = judge(NINE, 3)
    assert outcome == HOLDS
    assert "r0: UpToDate on n1, n2, n3, 3 replicas expected" in because
    assert because.endswith("; quorum on n1, n2, n3")


@pytest.mark.parametrize(
    ("statuses", "replicas", "said"),
    [
        # the traps: each reads like health somewhere
        (both(STATUS8_SPLIT, PROC8_SPLIT), 2, "r0 on n1 is StandAlone towards n2"),
        (
            [eight(STATUS8_SPLIT, HEAD8), N2],
            2,
            "r0/0 is UpToDate on 1 of 2 replicas as n1 sees it, which lists no peer",
        ),
        (both(STATUS8_CUT, PROC8_CUT), 2, "r0 on n1 is Connecting towards n2"),
        ([eight(STATUS8_CUT, PROC8_CUT)], 2, "r0 on n1 is Connecting towards peer"),
        (
            both(STATUS8_OOS, PROC8_OOS),
            2,
            "r0/0 on n1 towards n2 is out of sync by 12288 bytes",
        ),
        ([eight(STATUS8_OOS, PROC8_OOS), N2], 2, "n1 towards n2 is out of sync by 12288 bytes"),
        (
            [N1, eight(STATUS8_SPLIT, PROC8_SPLIT, "n2")],
            2,
            "r0: n1 says Connected of n2, n2 says StandAlone of n1",
        ),
        (
            [N1, eight(STATUS8_SPLIT, HEAD8, "n2")],
            2,
            "r0: n1 says Connected of n2, n2 says no such peer of n1",
        ),
        # a resync
        (
            [eight(STATUS8_SYNC, PROC8_SYNC), N2],
            2,
            "r0/0 on n1 towards n2 is in SyncSource (7.04% done)",
        ),
        ([eight(STATUS8_SYNC, PROC8_SYNC), N2], 2, "r0/0 of n2, seen from n1, is Inconsistent"),
        # disks of 8.4
        ([N1, N2], 3, "UpToDate on 2 of 3 replicas"),
        (
            [
                eight(
                    STATUS8_UP.replace("disk:UpToDate", "disk:Diskless", 1),
                    PROC8_UP.replace("ds:UpToDate", "ds:Diskless"),
                ),
                N2,
            ],
            2,
            "r0/0 on n1 is Diskless",
        ),
        (
            [eight(STATUS8_UP.replace("peer-disk:UpToDate", "peer-disk:Failed"), None), N2],
            2,
            "r0/0 of n2, seen from n1, is Failed",
        ),
        (
            [eight(STATUS8_UP.replace("suspended:no", "suspended:no-data", 1)), N2],
            2,
            "I/O of r0 on n1 is suspended (no-data)",
        ),
        # nothing to see
        ([N1, NO_DRBD], 2, "n2 has no module: cat: /proc/drbd: No such file"),
        ([N1, GONE], 2, "n2 has no such resource r0: r0: No such resource"),
        ([GONE], 2, "n2 has no such resource r0"),
        ([UNREAD, GONE], 2, "n2 has no such resource r0"),
        # 9
        ([nine(0, quorum="false"), *NINE[1:]], 3, "r0/0 on n1 has no quorum"),
        ([nine(0, suspended="true"), *NINE[1:]], 3, "I/O of r0 on n1 is suspended (quorum)"),
        ([nine(0, failing="true"), *NINE[1:]], 3, "r0 on n1 fails its I/O (force-io-failures)"),
        ([nine(0, disk="Outdated"), *NINE[1:]], 3, "r0/0 on n1 is Outdated"),
        ([nine(0, disk="Diskless"), *NINE[1:]], 3, "r0/0 on n1 is Diskless"),
        (
            [nine(0, peer9(1), peer9(2, connection="Connecting", replication="Off")), *NINE[1:]],
            3,
            "r0: n1 says Connecting of n3, n3 says Connected of n1",
        ),
        ([nine(0, peer9(1)), *NINE[1:]], 3, "r0: n1 says no such peer of n3, n3 says Connected"),
        ([nine(0, peer9(1)), *NINE[1:]], 3, "UpToDate on 2 of 3 replicas as n1 sees it"),
        (
            [nine(0, peer9(1), peer9(2, disk="Diskless", client="true")), *NINE[1:]],
            3,
            "r0/0 is UpToDate on 2 of 3 replicas as n1 sees it",
        ),
        ([nine(0, peer9(1), peer9(2, replication="Off")), *NINE[1:]], 3, "n1 towards n3 is in Off"),
        ([nine(0, peer9(1), peer9(2, replication="Ahead")), *NINE[1:]], 3, "n3 is in Ahead"),
        ([nine(0, peer9(1), peer9(2, oos=4)), *NINE[1:]], 3, "n3 is out of sync by 4096 bytes"),
        ([nine(0, peer9(1), peer9(2, disk="Diskless")), *NINE[1:]], 3, "from n1, is Diskless"),
        ([nine(0, peer9(1), peer9(2, disk="DUnknown")), *NINE[1:]], 3, "from n1, is DUnknown"),
        ([*NINE, nine(3, *[peer9(n) for n in range(3)], client="true", quorum="false")], 3,
         "r0/0 on n4 has no quorum"),
    ],
)  # fmt: skip
def test_broken(statuses: list[Said], replicas: int, said: str) -> None:
    outcome, because = judge(statuses, replicas)
    assert outcome == BROKEN, because
    assert said in because


@pytest.mark.parametrize(
    ("statuses", "replicas", "said"),
    [
        ([], 2, "no machine was asked"),
        ([N1, N2], 0, "no replica is expected"),
        ([UNREAD], 2, "drbdsetup status of guest n2:drbdsetup status could not be read: no exit"),
        ([N1, UNREAD], 2, "no exit status (cut off)"),
        ([N1], 2, "only n1 of 2 replicas of r0 spoke for itself"),
        ([N1, N1], 2, "only n1 of 2 replicas of r0 spoke for itself"),
        (NINE[:2], 3, "only n1, n2 of 3 replicas of r0 spoke for itself"),
        ([replace(N1, resources=()), replace(N2, resources=())], 2, "no resource is listed"),
        # cut, dirty, contradictory
        ([eight(STATUS8_UP.removesuffix("\n")), N2], 2, "what n1 said was cut short"),
        ([eight(STATUS8_UP.replace("size", "si\nze")), N2], 2, "which is not understood"),
        ([eight(STATUS8_UP, PROC8_CUT), N2], 2, "n1: r0/0: status says connection Connected"),
        ([eight(STATUS8_UP, PROC8_OOS), N2], 2, "n1: r0/0: status says bytes out of sync 0"),
        ([eight(STATUS8_UP, None), N2], 2, "the version of DRBD on n1 is not known"),
        # not said
        (
            [eight(STATUS8_UP.replace(" suspended:no\n", "\n", 1)), N2],
            2,
            "r0 on n1: not said whether I/O is suspended",
        ),
        (
            [eight(STATUS8_UP.replace("out-of-sync:0 ", "")), N2],
            2,
            "r0/0 on n1 towards n2 may be out of sync: no figure is said",
        ),
        (
            [eight(STATUS8_UP.replace("    volume:0", "    volume:1")), N2],
            2,
            "n1 does not say how r0/0 stands towards n2",
        ),
        (
            [eight(STATUS8_UP.replace("replication:Established ", "")), N2],
            2,
            "the replication of r0/0 on n1 towards n2 is not said",
        ),
        (
            [eight(STATUS8_UP.replace("connection:Connected ", "")), N2],
            2,
            "r0 on n1: the connection to n2 is a state that is not said",
        ),
        (
            [eight(STATUS8_UP.replace(" disk:UpToDate", "", 1)), N2],
            2,
            "r0/0 on n1 has a disk of unknown state",
        ),
        ([eight(STATUS8_UP.replace("blocked:no", "blocked:upper")), N2], 2, "above was blocked"),
        ([eight(STATUS8_UP.replace("blocked:no", "blocked:lower,upper")), N2], 2, "was blocked"),
        # a word that is no state
        (
            [eight(STATUS8_UP.replace(" disk:UpToDate", " disk:UpToDat", 1), None), N2],
            2,
            "r0/0 on n1 has UpToDat, which is no state of a disk",
        ),
        (
            [eight(STATUS8_UP.replace("connection:Connected", "connection:Connec"), None), N2],
            2,
            "the connection to n2 is Connec",
        ),
        (
            [eight(STATUS8_UP.replace("replication:Established", "replication:Est"), None), N2],
            2,
            "the replication of r0/0 on n1 towards n2 is Est",
        ),
        (
            [eight(STATUS8_UP.replace("replication:Established", "replication:VerifyS"), None), N2],
            2,
            "r0/0 on n1 towards n2 is being verified: what that finds is open",
        ),
        ([nine(0, quorum="null"), *NINE[1:]], 3, "r0/0 on n1: quorum is not said"),
        (
            [nine(0, disk="Diskless", client="null"), *NINE[1:]],
            3,
            "r0/0 on n1 is Diskless, and it is not said whether on purpose",
        ),
        (
            [nine(0, peer9(1), peer9(2, disk="Diskless", client="null")), *NINE[1:]],
            3,
            "r0/0 of n3, seen from n1, is Diskless, and it is not said whether on purpose",
        ),
    ],
)
def test_unknown(statuses: list[Said], replicas: int, said: str) -> None:
    outcome, because = judge(statuses, replicas)
    assert outcome == UNKNOWN, because
    assert said in because


def test_a_count_that_nothing_unknown_can_make_up_for_is_broken() -> None:
    odd = nine(0, peer9(1, disk="X"), peer9(2, disk="Diskless", client="true"))
    outcome, because = judge([odd, *NINE[1:]], 3)
    assert outcome == BROKEN
    assert because == "r0/0 is UpToDate on 1 of 3 replicas as n1 sees it"


def test_what_a_cut_text_does_say_is_wrong_breaks_it() -> None:
    cut = STATUS8_UP.replace(" disk:UpToDate", " disk:Failed", 1).partition("  peer")[0]
    assert judge([eight(cut, None), N2]) == (BROKEN, "r0/0 on n1 is Failed")


def test_a_resource_without_a_volume_says_nothing() -> None:
    said = json.loads(json9(1))
    said[0]["devices"] = []
    outcome, because = judge([NINE[0], status9(json.dumps(said), "n2"), NINE[2]], 3)
    assert outcome == UNKNOWN
    assert because == "r0 on n2 lists no volume; only n1, n3 of 3 replicas of r0 spoke for itself"


def test_a_class_of_one_replica_needs_no_peer() -> None:
    alone = status8(STATUS8_SPLIT, None)
    assert isinstance(alone, DrbdStatus)
    outcome, because = judge([replace(alone, version="8.4.11")], 1)
    assert (outcome, "1 replica expected" in because) == (HOLDS, True)


def test_8_and_9_side_by_side() -> None:
    """The two can be connected to each other."""
    other = nine(1, peer9(0))
    outcome, because = judge([N1, other])
    assert (outcome, because.endswith("; quorum on n2")) == (HOLDS, True)
    cut = nine(1, peer9(0, connection="StandAlone", replication="Off"))
    assert "n1 says Connected of n2, n2 says StandAlone of n1" in judge([N1, cut])[1]
    assert "n2 says StandAlone of n1, n1 says Connected of n2" in judge([cut, N1])[1]


def test_a_missing_line_of_a_cut_text_breaks_nothing() -> None:
    outcome, because = judge([eight(STATUS8_UP.partition("  peer")[0], None), N2])
    assert outcome == UNKNOWN
    assert "UpToDate on 1 of 2 replicas as n1 sees it" not in because.partition(";")[0]


def test_a_client_or_tiebreaker_is_no_replica() -> None:
    client = peer9(3, disk="Diskless", client="true", replication="Established")
    replicas = [nine(node, *[peer9(n) for n in range(3) if n != node], client) for node in range(3)]
    mine = nine(3, *[peer9(n) for n in range(3)], disk="Diskless", client="true")
    assert judge(replicas, 3)[0] == HOLDS
    outcome, because = judge([*replicas, mine], 3)
    assert outcome == HOLDS
    assert "UpToDate on n1, n2, n3, 3 replicas" in because
    assert judge([*replicas[:2], mine], 3)[0] == UNKNOWN
    odd = nine(0, peer9(1), peer9(2, client="true"))
    assert "UpToDate on 2 of 3 replicas as n1 sees it" in judge([odd, *NINE[1:]], 3)[1]
    assert judge(replicas, 4)[0] == BROKEN


def test_two_clients_need_no_connection_to_each_other() -> None:
    disks = [peer9(n) for n in range(2)]
    clients = [peer9(n, disk="Diskless", client="true") for n in (2, 3)]
    replicas = [nine(node, disks[1 - node], *clients) for node in range(2)]
    diskless = [nine(node, *disks, disk="Diskless", client="true") for node in (2, 3)]
    assert judge([*replicas, *diskless], 2)[0] == HOLDS
    lonely = nine(2, disks[0], disk="Diskless", client="true")
    outcome, because = judge([*replicas, lonely, diskless[1]], 2)
    assert outcome == BROKEN
    assert "n2 says Connected of n3, n3 says no such peer of n2" in because


def test_nodes_are_told_by_their_ids_whatever_they_are_called() -> None:
    renamed = [
        replace(one, node=f"worker-{one.node}") for one in NINE if isinstance(one, DrbdStatus)
    ]
    assert judge(renamed, 3)[0] == HOLDS


def test_without_ids_names_tell_them() -> None:
    said = json.loads(json9(0))
    del said[0]["node-id"]
    nameless = status9(json.dumps(said), "n1")
    assert judge([nameless, *NINE[1:]], 3)[0] == HOLDS
    cut = nine(1, peer9(0, connection="StandAlone", replication="Off"), peer9(2))
    assert (
        "n1 says Connected of n2, n2 says StandAlone of n1" in judge([nameless, cut, NINE[2]], 3)[1]
    )
    assert judge([replace(nameless, node="other"), *NINE[1:]], 3)[0] == HOLDS


def test_with_three_machines_8_does_not_tell_which_peer_is_which() -> None:
    third = replace(eight(STATUS8_SPLIT, PROC8_SPLIT), node="n3")
    because = judge([N1, N2, third])[1]
    assert because == "r0 on n3 is StandAlone towards peer"


def test_more_than_one_resource() -> None:
    second = STATUS8_UP.replace("r0 ", "r1 ").replace("minor:0", "minor:1")
    seen = PROC8_UP + PROC8_UP.removeprefix(HEAD8).replace(" 0: ", " 1: ")
    one = eight(STATUS8_UP + second, seen)
    other = replace(eight(STATUS8_UP + second, seen), node="n2")
    outcome, because = judge([one, other])
    assert (outcome, because.partition(":")[0]) == (HOLDS, "r0, r1")
    bad = replace(eight(STATUS8_UP + second.replace("sync:0", "sync:4"), None), version="8.4.11")
    assert judge([bad, other])[0] == BROKEN
    third = replace(eight(second, None), node="n3", version="8.4.11")
    outcome, because = judge([bad, other, third], resources=["r0"])
    assert (outcome, because.partition(",")[0]) == (HOLDS, "r0: UpToDate on n1")
    assert "n3" not in because
    assert judge([bad, other], resources=["r1"])[0] == BROKEN


def test_a_resource_that_no_machine_lists() -> None:
    assert judge([N1, N2], resources=["r0", "r9"]) == (BROKEN, "no machine lists r9")
    cut = eight(STATUS8_UP.removesuffix("\n"))
    for doubtful in ([N1, cut], [N1, N2, UNREAD]):
        outcome, because = judge(doubtful, resources=["r9"])
        assert outcome == UNKNOWN
        assert "no machine lists r9" in because
    assert judge([], resources=["r9"])[0] == UNKNOWN
    assert judge([GONE], resources=["r9"])[0] == BROKEN


def test_a_long_list_of_findings_is_cut_with_its_number() -> None:
    split = [nine(node, *[peer9(n, connection="StandAlone") for n in range(4) if n != node])
             for node in range(4)]  # fmt: skip
    because = judge(split, 4)[1]
    assert because.count(";") == 8
    assert because.endswith("; and 4 findings more")
    two = peer9(4, connection="StandAlone"), peer9(5, connection="StandAlone")
    assert judge([*split[:2], nine(6, *two)], 4)[1].count(";") == 7


SPLIT_LINE = "[   10.500000] block drbd0: Split-Brain detected but unresolved, dropping connection!"
COMMAND_LINE = "[   10.500000] drbd r0: conn( Connected -> Disconnecting ) "


@pytest.mark.parametrize(
    ("line", "because"),
    [
        (SPLIT_LINE, "r0: it is a split brain: n1 towards n2: split brain: "),
        (COMMAND_LINE, "r0: it is no split brain: n1 towards n2: disconnected on command: "),
        ("[   10.500000] usb 1-1: new device", "r0: whether it is a split brain is not known: "),
    ],
)
def test_why_a_connection_is_standalone_is_for_the_kernel_log_to_say(
    line: str, because: str
) -> None:
    one = nine(0, peer9(1, connection="StandAlone", replication="Off"), peer9(2))
    said = read_log(Output(("dmesg",), 0, f"{line}\n"), at=1.0, source="s", node="n1")
    statuses = [one, *NINE[1:]]
    verdict = storage_ok(statuses, 3, "pool p1", logs=[said])
    assert verdict.outcome == BROKEN
    assert verdict.because.startswith(because)
    assert "r0 on n1 is StandAlone towards n2" in verdict.because
    assert verdict.facts == (*statuses, said)
    bare = storage_ok(statuses, 3, "pool p1")
    assert "split brain" not in bare.because


def test_log_of_a_machine_that_stands_alone_no_more_changes_nothing() -> None:
    said = read_log(Output(("dmesg",), 0, f"{SPLIT_LINE}\n"), at=1.0, source="s", node="n1")
    verdict = storage_ok(NINE, 3, "pool p1", logs=[said])
    assert verdict.outcome == HOLDS
    assert "split brain" not in verdict.because


HEALTHY8 = [STATUS8_UP, STATUS8_SYNC, STATUS8_CUT, STATUS8_SPLIT, STATUS8_OOS]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(HEALTHY8), st.data())
def test_a_part_of_a_text_is_never_healthier_than_the_whole(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text) - 1))
    for seen in (None, PROC8_UP, PROC8_SPLIT):
        found = status8(text[:at], seen)
        assert judge([found, N2])[0] != HOLDS
        if judge([status8(text, seen), N2])[0] != BROKEN:
            assert judge([found, N2])[0] != BROKEN


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(json9(0)) - 5))
def test_a_part_of_json_is_never_health(at: int) -> None:
    assert judge([status9(json9(0)[:at]), *NINE[1:]], 3)[0] == UNKNOWN


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(STATUS8_UP.split()), st.text(max_size=6))
def test_no_word_changed_in_a_sound_text_makes_an_error(word: str, other: str) -> None:
    judge([status8(STATUS8_UP.replace(word, other, 1)), N2])


@settings(deadline=None)
@given(st.permutations(NINE), st.sampled_from([None, "false"]))
def test_the_order_of_the_machines_does_not_matter(order: list[Said], quorum: str | None) -> None:
    if quorum:
        order = [nine(0, quorum=quorum) if one is NINE[0] else one for one in order]
    assert judge(order, 3)[0] == (BROKEN if quorum else HOLDS)


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=MISSING)
def test_the_captured_states() -> None:
    found = {
        path.stem[4:9].replace("_", "-", 1): judge(
            captured_statuses(path.stem), 3 if path.stem.startswith("drbd9") else 2
        )[0]
        for path in sorted(CAPTURES.glob("drbd*_[0-9][0-9]_*.txt"))
    }
    sound = {name for name, outcome in found.items() if outcome == HOLDS}
    assert sound == {"84-04", "84-05", "84-06", "84-11", "84-14", "84-17", "9-03_"}
    assert {outcome for name, outcome in found.items() if name not in sound} == {BROKEN}
    assert len(found) == 32
