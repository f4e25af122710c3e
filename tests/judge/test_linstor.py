from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from harness import claims
from harness.facts.drbd import NOTHING, DrbdAbsent, DrbdStatus
from harness.facts.fact import Origin, Unread
from harness.facts.linstor import LinstorNodes, LinstorResources
from harness.facts.linstorlooks import LinstorLook
from harness.judge.linstor import linstor_agrees
from tests.facts.drbd_texts import status9
from tests.facts.linstor_texts import AT, NAMES, kernel, listing, node, nodes, resource, view

HOLDS, BROKEN, UNKNOWN = "holds", "broken", "unknown"
Kernel = DrbdStatus | DrbdAbsent | Unread
UNREAD = Unread(Origin(1.0, "LINSTOR", ""), "/v1/view/resources", "HTTP 500: out of memory")
DEAF = Unread(Origin(1.0, "storage node n3", ""), "the DRBD of n3", "no pod")
ESTABLISHED = dict.fromkeys(NAMES, ("Established", None))
SYNC = {"n1": ("SyncTarget", 43.1), "n3": ("Established", None)}


def kernels(*said: Kernel) -> tuple[Kernel, ...]:
    """All three, with what is given instead."""
    usual: dict[str, Kernel] = {name: kernel(name) for name in NAMES}
    usual |= {getattr(one, "node", "n3"): one for one in said}
    return tuple(usual.values())


def look(
    before: LinstorResources | Unread | None = None,
    *said: Kernel,
    after: LinstorResources | Unread | None = None,
    known: LinstorNodes | Unread | None = None,
) -> LinstorLook:
    """All well, with what is given instead; ``after`` is as ``before`` if not given."""
    first = before or view()
    return LinstorLook(known or nodes(), first, kernels(*said), after or first)


def judge(*looks: LinstorLook, names: tuple[str, ...] = ("pvc-1",)) -> tuple[str, str]:
    verdict = linstor_agrees(looks, "pool p1", resources=names)
    assert (verdict.claim, verdict.subject) == ("linstor-agrees", "pool p1")
    assert verdict.claim in claims.load()
    assert verdict.facts == tuple(fact for one in looks for fact in one.facts)
    return verdict.outcome.value, verdict.because


def other(on: str, **said: Any) -> LinstorResources:
    """LINSTOR's view with one replica said otherwise."""
    return view(resource("pvc-1", on, **{"in_use": on == "n1", **said}))


def test_a_disk_without_drbd_has_no_kernels_word() -> None:
    # the class was another than asked for: LINSTOR keeps the volume, DRBD never heard of it
    bare = {**resource("pvc-2", "n1"), "layer_object": {"type": "STORAGE", "storage": {}}}
    seen = listing(*(resource("pvc-1", one, in_use=one == "n1") for one in NAMES), bare)
    outcome, because = judge(look(seen), names=("pvc-1", "pvc-2"))
    assert outcome == UNKNOWN
    assert because == "pvc-2 is on n1 without DRBD, so no kernel has a word for it"
    # a kernel that has it all the same is compared as ever
    outcome, because = judge(look(view(bare | {"name": "pvc-1"})))
    assert outcome == BROKEN and "LINSTOR's view is stale" in because


def test_the_same_in_every_point_holds() -> None:
    outcome, because = judge(look())
    assert outcome == HOLDS
    assert because == (
        "LINSTOR and the kernels of n1, n2, n3 say the same of pvc-1 in 21 points: disks UpToDate,"
        " in use on n1"
    )


STALE: dict[str, tuple[LinstorLook, str]] = {
    "disk": (
        look(None, kernel("n3", disk="Outdated")),
        "disk 0 of pvc-1 on n3: LINSTOR says UpToDate, the kernel Outdated",
    ),
    "disk, LINSTOR the gloomy one": (
        look(other("n3", disk="Inconsistent")),
        "disk 0 of pvc-1 on n3: LINSTOR says Inconsistent, the kernel UpToDate",
    ),
    "connection": (
        look(None, kernel("n2", connections={"n1": "Connected", "n3": "StandAlone"})),
        "connection to n3 of pvc-1 on n2: LINSTOR says Connected, the kernel StandAlone",
    ),
    "connection of which one half is stale": (
        look(
            view(
                {
                    **resource("pvc-1", "n2"),
                    "layer_object": {
                        "drbd": {
                            "connections": {
                                "n1": {"connected": False, "message": "Connected"},
                                "n3": {"connected": True, "message": "Connected"},
                            }
                        }
                    },
                }
            )
        ),
        "connection to n1 of pvc-1 on n2: LINSTOR says not connected and Connected, the kernel Con",
    ),
    "use": (
        look(None, kernel("n2", role="Primary")),
        "use of pvc-1 on n2: LINSTOR says not in use, the kernel in use",
    ),
    "use that is over": (
        look(None, kernel("n1", role="Secondary")),
        "use of pvc-1 on n1: LINSTOR says in use, the kernel not in use",
    ),
    "replication": (
        look(other("n2", replications={"n1": ("SyncTarget", 99.0)})),
        "replication 0 towards n1 of pvc-1 on n2: LINSTOR says SyncTarget, the kernel Established",
    ),
    "replica that LINSTOR has forgotten": (
        look(listing(resource("pvc-1", "n1", in_use=True), resource("pvc-1", "n2"))),
        "replica of pvc-1 on n3: LINSTOR says missing, the kernel there",
    ),
    "replica that the kernel has not": (
        look(None, kernel("n3", name="pvc-2")),
        "replica of pvc-1 on n3: LINSTOR says there, the kernel missing",
    ),
    "replica on a node without any": (
        look(None, DrbdAbsent(AT, "n3", NOTHING, "", "9.2.14", "[]")),
        "replica of pvc-1 on n3: LINSTOR says there, the kernel missing",
    ),
    "disk that was lost, not left out": (
        look(other("n3", disk="Diskless", flags=("DISKLESS",)), kernel("n3", disk="Diskless")),
        "missing disk 0 of pvc-1 on n3: LINSTOR says on purpose, the kernel not on purpose",
    ),
}


@pytest.mark.parametrize("case", STALE)
def test_linstor_that_says_another_word_is_stale(case: str) -> None:
    seen, because = STALE[case]
    for looks in ((seen,), (seen, seen, seen)):
        outcome, said = judge(*looks)
        assert outcome == BROKEN
        assert said.startswith(f"LINSTOR's view is stale and the kernel right: {because}")


def test_views_that_change_and_never_say_the_kernels_word_are_stale() -> None:
    first = look(other("n3", disk="Inconsistent"), kernel("n3", disk="Failed"))
    second = look(
        other("n3", disk="Outdated"),
        kernel("n3", disk="Failed"),
        after=other("n3", disk="UpToDate"),
    )
    outcome, because = judge(first, second)
    assert outcome == BROKEN
    assert "disk 0 of pvc-1 on n3: LINSTOR says UpToDate, the kernel Failed" in because


MOVED: dict[str, tuple[LinstorLook, ...]] = {
    "kernel as LINSTOR said before it": (look(view(), after=other("n3", disk="Inconsistent")),),
    "kernel as LINSTOR said after it": (look(other("n3", disk="Inconsistent"), after=view()),),
    "LINSTOR caught up at the next look": (
        look(other("n3", disk="Inconsistent")),
        look(),
    ),
    "kernel came back to it": (look(None, kernel("n3", disk="Outdated")), look()),
    "percentages apart": (
        look(
            other("n2", disk="Inconsistent", replications={"n1": ("SyncTarget", 12.0)}),
            kernel("n2", disk="Inconsistent", replications=SYNC),
        ),
    ),
    "voter": (
        look(
            other("n3", disk="TieBreaker", flags=("DISKLESS", "DRBD_DISKLESS", "TIE_BREAKER")),
            kernel("n3", disk="Diskless", client=True),
        ),
    ),
    "client": (
        look(
            other("n3", disk="Diskless", flags=("DISKLESS",)),
            kernel("n3", disk="Diskless", client=True),
        ),
    ),
    "broken, and both say so": (look(other("n3", disk="Failed"), kernel("n3", disk="Failed")),),
    "replica of another pool's disk": (
        look(
            listing(
                resource("pvc-9", "n1", disk="Failed"),
                *(resource("pvc-1", name, in_use=name == "n1") for name in NAMES),
            )
        ),
    ),
    "connection told by one half": (
        look(
            view(
                {
                    **resource("pvc-1", "n2"),
                    "layer_object": {
                        "drbd": {
                            "connections": {
                                "n1": {"message": "Connected"},
                                "n3": {"connected": True},
                            }
                        }
                    },
                }
            )
        ),
    ),
}


@pytest.mark.parametrize("case", MOVED)
def test_what_only_moved_on_is_no_disagreement(case: str) -> None:
    assert judge(*MOVED[case])[0] == HOLDS


UNSURE: dict[str, tuple[tuple[LinstorLook, ...], str]] = {
    "no look": ((), "nothing was looked at"),
    "satellite that cannot be asked": (
        (look(None, DEAF),),
        "the DRBD of n3 could not be read: no pod",
    ),
    "satellite that is nowhere": (
        (LinstorLook(nodes(), view(), (kernel("n1"), kernel("n2")), view()),),
        "replica of pvc-1 on n3: LINSTOR says there, its kernel nothing",
    ),
    "no satellite at all": (
        (LinstorLook(nodes(), view(), (), view()),),
        "no kernel that was asked has pvc-1",
    ),
    "LINSTOR unread before": ((look(UNREAD, after=view()),), "HTTP 500: out of memory"),
    "LINSTOR unread after": ((look(view(), after=UNREAD),), "HTTP 500: out of memory"),
    "nodes unread": ((look(known=UNREAD),), "HTTP 500: out of memory"),
    "LINSTOR says no disk state": (
        (look(other("n3", disk=None)),),
        "disk 0 of pvc-1 on n3: the kernel says UpToDate, LINSTOR nothing",
    ),
    "LINSTOR says no use": (
        (look(other("n3", in_use=None)),),
        "use of pvc-1 on n3: the kernel says not in use, LINSTOR nothing",
    ),
    "LINSTOR says no connection": (
        (look(other("n3", connections={"n1": "Connected"})),),
        "connection to n2 of pvc-1 on n3: the kernel says Connected, LINSTOR nothing",
    ),
    "LINSTOR has lost the satellite": (
        (
            look(
                other("n3", disk=None, in_use=None, connections={}, replications={}),
                known=nodes(node("n1"), node("n2"), node("n3", "OFFLINE")),
            ),
        ),
        "LINSTOR calls n3 OFFLINE, whose kernel answered",
    ),
    "node that LINSTOR does not know": (
        (look(known=nodes(node("n1"), node("n2"))),),
        "LINSTOR calls n3 not one of its nodes, whose kernel answered",
    ),
    "node whose connection is not said": (
        (look(known=nodes(node("n1"), node("n2"), {"name": "n3"})),),
        "LINSTOR calls n3 in a state not said, whose kernel answered",
    ),
    "moving in the only look": (
        (
            look(
                other("n3", disk="Inconsistent"),
                kernel("n3", disk="Outdated"),
                after=other("n3", disk="UpToDate"),
            ),
        ),
        "disk 0 of pvc-1 on n3 was moving: the kernel says Outdated, LINSTOR Inconsistent"
        " before it and UpToDate after it",
    ),
    "kernel moves from look to look": (
        (look(None, kernel("n3", disk="Outdated")), look(None, kernel("n3", disk="Inconsistent"))),
        "disk 0 of pvc-1 on n3 was moving: the kernel says Inconsistent, LINSTOR UpToDate, and"
        " it was not so in each of 2 looks",
    ),
    "agreed once, not now": (
        (look(), look(other("n3", disk="Inconsistent"))),
        "disk 0 of pvc-1 on n3 was moving",
    ),
    "kernel silent of what LINSTOR said before": (
        (
            look(
                other("n3", connections={"n1": "Connected", "n2": "StandAlone"}),
                kernel("n3", connections={"n1": "Connected"}),
                after=other("n3", connections={"n1": "Connected"}),
            ),
        ),
        "connection to n2 of pvc-1 on n3: LINSTOR says StandAlone, its kernel nothing",
    ),
    "kernel silent of what LINSTOR says after": (
        (
            look(
                other("n3", connections={"n1": "Connected", "n2": "StandAlone"}),
                kernel("n3", connections={"n1": "Connected"}),
                after=other("n3", connections={"n1": "Connected", "n2": "Connecting"}),
            ),
        ),
        "connection to n2 of pvc-1 on n3: LINSTOR says Connecting, its kernel nothing",
    ),
    "first view silent": (
        (look(other("n3", disk=None), after=other("n3", disk="Inconsistent")),),
        "LINSTOR nothing before it and Inconsistent after it",
    ),
    "went silent": (
        (look(other("n3", disk="Inconsistent"), after=other("n3", disk=None)),),
        "disk 0 of pvc-1 on n3: the kernel says UpToDate, LINSTOR nothing",
    ),
    "replica not understood": (
        (look(view({**resource("pvc-1", "n3"), "volumes": None})),),
        "LINSTOR's list of resources is not understood: pvc-1 on n3",
    ),
    "entry not understood": (
        (look(view({"node_name": "n4", "odd": 1})),),
        "LINSTOR's list of resources is not understood: '{\"node_name\"",
    ),
    "connection of which the kernel says nothing": (
        (
            look(
                None,
                kernel("n3", connections={"n1": "Connected", "n2": ""}, replications=ESTABLISHED),
            ),
        ),
        "connection to n2 of pvc-1 on n3: LINSTOR says Connected, its kernel nothing",
    ),
}


@pytest.mark.parametrize("case", UNSURE)
def test_what_is_not_known_does_not_hold(case: str) -> None:
    looks, because = UNSURE[case]
    outcome, said = judge(*looks)
    assert outcome == UNKNOWN
    assert because in said


def test_replica_of_an_answer_that_was_not_understood_is_not_taken_for_missing() -> None:
    partial = listing(resource("pvc-1", "n1", in_use=True), resource("pvc-1", "n2"), {"odd": 1})
    outcome, because = judge(look(partial))
    assert outcome == UNKNOWN
    assert "replica of pvc-1 on n3: the kernel says there, LINSTOR nothing" in because
    assert because.count("LINSTOR nothing") == 1


def test_kernel_that_was_cut_short_makes_it_unknown() -> None:
    whole = kernel("n3")
    assert isinstance(whole, DrbdStatus)
    cut = replace(whole, resources=(replace(whole.resources[0], whole=False),), whole=False)
    outcome, because = judge(look(None, cut))
    assert outcome == UNKNOWN
    assert "what the kernel of n3 says is not whole: pvc-1 is cut short" in because
    strange = replace(whole, resources=(), whole=False, strange=("'x'",))
    outcome, because = judge(look(None, strange))
    assert outcome == UNKNOWN
    assert "what the kernel of n3 says is not whole: 'x'" in because
    assert "replica of pvc-1 on n3: LINSTOR says there, its kernel nothing" in because


def test_what_is_not_whole_of_other_disks_does_not_matter() -> None:
    said = json.loads(look().kernels[2].origin.raw)
    both = status9(json.dumps([*said, {"name": "pvc-9", "devices": 7}]), "n3")
    assert isinstance(both, DrbdStatus)
    assert not both.whole
    names = (resource("pvc-1", name, in_use=name == "n1") for name in NAMES)
    partly = listing(*names, {**resource("pvc-9", "n1"), "volumes": None})
    assert not partly.whole
    assert judge(look(partly, both))[0] == HOLDS


def test_of_a_lost_node_silence_is_told_once_and_a_word_still_counts() -> None:
    lost = nodes(node("n1"), node("n2"), node("n3", "OFFLINE"))
    nothing = other("n3", disk=None, in_use=None, connections={}, replications={})
    assert judge(look(nothing, known=lost)) == (
        UNKNOWN,
        "LINSTOR calls n3 OFFLINE, whose kernel answered",
    )
    outcome, because = judge(look(other("n3", disk="Outdated"), known=lost))
    assert outcome == BROKEN
    assert "disk 0 of pvc-1 on n3: LINSTOR says Outdated, the kernel UpToDate" in because


def test_findings_up_to_eight_are_all_told() -> None:
    silent = view(
        resource("pvc-1", "n1", disk=None, in_use=None, connections={}),
        resource("pvc-1", "n2", disk=None, in_use=None, connections={}),
    )
    outcome, because = judge(look(silent))
    assert outcome == UNKNOWN
    assert because.count("LINSTOR nothing") == 8
    assert "more" not in because
    one_more = replace(look(silent), before=UNREAD)
    assert judge(one_more)[1].endswith("; and 1 more")


def test_what_is_stale_counts_though_a_satellite_is_deaf() -> None:
    outcome, because = judge(look(other("n2", disk="Outdated"), DEAF))
    assert outcome == BROKEN
    assert because.endswith(" disk 0 of pvc-1 on n2: LINSTOR says Outdated, the kernel UpToDate")


def test_every_disk_has_to_be_there() -> None:
    outcome, because = judge(look(), names=("pvc-1", "pvc-2"))
    assert outcome == UNKNOWN
    assert because == "no kernel that was asked has pvc-2"
    assert judge(look(), names=()) == (UNKNOWN, "the pool has no disk to compare")


def test_resync_is_told_with_its_percentage() -> None:
    said = {"n2": ("SyncSource", 43.1), "n3": ("Established", None)}
    seen = look(
        view(
            resource("pvc-1", "n1", in_use=True, replications={"n2": ("SyncSource", 41.0)}),
            resource("pvc-1", "n2", disk="Inconsistent", replications={"n1": ("SyncTarget", 41.0)}),
        ),
        kernel("n1", replications=said),
        kernel("n2", disk="Inconsistent", replications=SYNC),
    )
    outcome, because = judge(seen)
    assert outcome == HOLDS
    assert because.endswith("; pvc-1 on n2 is in SyncTarget with n1, 43.1% done (LINSTOR: 41%)")
    assert "SyncSource with" not in because


def test_percentage_is_that_of_the_same_peer() -> None:
    towards = {"n1": ("Established", 7.0), "n3": ("SyncTarget", 41.0)}
    seen = look(
        other("n2", replications=towards),
        kernel("n2", replications={"n3": ("SyncTarget", 43.0), "n1": ("Established", None)}),
    )
    assert judge(seen)[1].endswith(
        "; pvc-1 on n2 is in SyncTarget with n3, 43% done (LINSTOR: 41%)"
    )
    outcome, because = judge(replace(seen, after=UNREAD))
    assert outcome == UNKNOWN
    assert because.endswith("43% done (LINSTOR: an untold part)")


def test_what_linstor_has_forgotten_is_told_once() -> None:
    outcome, because = judge(look(listing(*(resource("pvc-1", n) for n in ("n2", "n3")))))
    assert outcome == BROKEN
    assert because.endswith(": replica of pvc-1 on n1: LINSTOR says missing, the kernel there")


def test_kernel_that_says_no_role_or_not_why_a_disk_is_missing() -> None:
    whole = kernel("n3", disk="Diskless")
    assert isinstance(whole, DrbdStatus)
    (found,) = whole.resources
    no_role = replace(whole, resources=(replace(found, role=""),))
    view_of_it = other("n3", disk="Diskless")
    outcome, because = judge(look(view_of_it, no_role))
    assert outcome == UNKNOWN
    assert because == "use of pvc-1 on n3: LINSTOR says not in use, its kernel nothing"
    device = replace(found.devices[0], client=None)
    no_reason = replace(whole, resources=(replace(found, devices=(device,)),))
    assert judge(look(view_of_it, no_reason)) == (
        UNKNOWN,
        "missing disk 0 of pvc-1 on n3: LINSTOR says not on purpose, its kernel nothing",
    )


def test_part_of_a_kernels_answer_makes_nobody_stale() -> None:
    whole = kernel("n3", disk="Outdated")
    assert isinstance(whole, DrbdStatus)
    cut = replace(whole, resources=(replace(whole.resources[0], whole=False),), whole=False)
    assert judge(look(None, cut))[0] == UNKNOWN


def test_resync_of_which_only_the_source_can_be_asked_is_told() -> None:
    said = {"n2": ("SyncSource", None), "n3": ("Established", None)}
    _, because = judge(look(None, kernel("n1", replications=said)))
    assert "; pvc-1 on n1 is in SyncSource with n2, an untold part done" in because


def test_older_linstor_without_replication_states() -> None:
    silent = view(
        *(resource("pvc-1", name, in_use=name == "n1", replications={}) for name in NAMES)
    )
    outcome, because = judge(look(silent))
    assert outcome == HOLDS
    assert because.endswith(
        "in 15 points: disks UpToDate, in use on n1; this LINSTOR says nothing of replication"
    )


def test_findings_beyond_eight_are_counted() -> None:
    outcome, because = judge(
        look(
            view(*(resource("pvc-1", name, in_use=None, disk="Failed") for name in NAMES)),
            *(
                kernel(name, connections=dict.fromkeys(set(NAMES) - {name}, "StandAlone"))
                for name in NAMES
            ),
        )
    )
    assert outcome == BROKEN
    assert because.count("; ") == 8
    assert because.endswith("and 7 more")
