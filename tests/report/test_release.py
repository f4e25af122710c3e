"""What several runs establish under a policy: by hand, and by property."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from harness.report.merged import Run
from harness.report.release import Answer, Decision, Result
from harness.report.release_document import document
from tests.report.releases import (
    ADDONS,
    CARDS,
    CLAIMS,
    SUBJECT,
    A,
    B,
    C,
    judged,
    need,
    platform,
    policy,
    run,
)

HOLDS, BROKEN, UNKNOWN = "holds", "broken", "unknown"
GB202 = {"kind": "PciCards", "cards": [{"vendor": "10de", "device": "2bb5"}]}
NODES = "management HelmRelease tenant-hil/kubernetes-nodes-lab-gpu"


def answers(decision: Decision) -> dict[str, Answer]:
    return {one.need.claim: one.answer for one in decision.answered}


def why(decision: Decision) -> str:
    return decision.answered[0].because


def test_two_runs_together_meet_what_neither_does_alone() -> None:
    wanted = policy(need(A), need(B, "GB202"))
    one = run("r1", {A: HOLDS})
    other = run("r2", {B: HOLDS}, hardware="GB202", facts=(ADDONS, GB202))
    assert judged(wanted, one, other).result is Result.SIGNABLE
    alone = judged(wanted, one)
    assert alone.result is Result.NOT_SIGNABLE
    assert answers(alone) == {A: Answer.ESTABLISHED, B: Answer.OPEN}
    assert alone.answered[1].because == "no run asked it on GB202"


def test_one_card_says_nothing_of_another() -> None:
    decision = judged(policy(need(A, "GB202")), run("r", {A: HOLDS}, hardware="L40S"))
    assert answers(decision) == {A: Answer.OPEN}


def test_no_run_at_all_establishes_nothing() -> None:
    decision = judged(policy(need(A)))
    assert (decision.result, why(decision)) == (Result.NOT_SIGNABLE, "there is no run")


@pytest.mark.parametrize("kind", ["twin", "qemu", ""])
def test_no_lab_but_a_real_one_counts(kind: str) -> None:
    decision = judged(policy(need(A)), run("r", {A: HOLDS}, kind=kind))
    assert answers(decision) == {A: Answer.OPEN}
    assert "which does not count: its substrate is" in why(decision)


def test_a_policy_for_practice_signs_nothing_though_it_is_met() -> None:
    decision = judged(policy(need(A), release=False), run("r", {A: HOLDS}))
    assert decision.result is Result.PRACTICE
    assert document(decision, CLAIMS)["signable"] is False


def test_unknown_and_not_run_are_not_established() -> None:
    decision = judged(policy(need(A)), run("r", {A: UNKNOWN}))
    assert answers(decision) == {A: Answer.OPEN}
    assert why(decision) == f"r: unknown: {A} was seen to be unknown"


def test_what_a_lab_lacks_is_said() -> None:
    decision = judged(policy(need(A)), run("r", {A: "not-established", B: HOLDS}))
    assert why(decision) == "r: the lab lacks: the lab lacks it"


def test_a_contradiction_is_broken_and_shown() -> None:
    decision = judged(policy(need(A)), run("r1", {A: HOLDS}), run("r2", {A: BROKEN}))
    assert answers(decision) == {A: Answer.BROKEN}
    (found,) = decision.contradictions
    assert (found.claim, found.holds, found.broken) == (A, ("r1",), ("r2",))
    assert "contradiction: passthrough on L40S holds in r1 and is broken in r2" in (
        decision.obstacles
    )


@pytest.mark.parametrize(
    "more", [{"days_ago": 30.0}, {"kind": "twin"}, {"exit": 130}, {"lane": "other"}]
)
def test_what_is_broken_counts_where_what_holds_would_not(more: dict[str, Any]) -> None:
    wanted = policy(need(A, lanes=("hardware",)))
    decision = judged(wanted, run("r1", {A: HOLDS}), run("r2", {A: BROKEN}, **more))
    assert answers(decision) == {A: Answer.BROKEN}


def test_a_stale_run_is_no_evidence_and_stands_in_the_way() -> None:
    old = run("old", {A: HOLDS}, days_ago=15)
    assert "it is stale: 15 days old, and 14 days are allowed" in why(judged(policy(need(A)), old))
    beside = judged(policy(need(A)), old, run("new", {A: HOLDS}))
    assert answers(beside) == {A: Answer.ESTABLISHED}
    assert beside.result is Result.NOT_SIGNABLE
    assert beside.obstacles == ("old: it is stale: 15 days old, and 14 days are allowed",)


def test_a_run_from_the_future_is_not_believed() -> None:
    decision = judged(policy(need(A)), run("r", {A: HOLDS}, days_ago=-1))
    assert decision.obstacles == ("r: it ends in the future",)
    assert judged(policy(need(A)), run("r", {A: HOLDS}, days_ago=-0.01)).result is Result.SIGNABLE


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"fault": "no-modules-block"}, "a fault was planted in it: no-modules-block"),
        ({"merged": False}, "it ended before its ledger was joined"),
        ({"ended": None}, "no end of it is recorded"),
        ({"exit": 130}, "it ended with exit status 130"),
        ({"exit": 70}, "it ended with exit status 70"),
        ({"exit": 1}, "it ended with exit status 1"),
        ({"exit": 3}, "it ended with exit status 3"),
        ({"subject": "Cozystack v1.6.0"}, "it tested 'Cozystack v1.6.0'"),
        ({"subject": ""}, "it tested no release by name"),
        ({"signed_sha256": "0" * 64}, "its ledger is not the one that its own sign-off"),
    ],
)
def test_runs_that_cannot_count_stand_in_the_way(more: dict[str, Any], says: str) -> None:
    decision = judged(policy(need(A)), run("r", {A: HOLDS}, **more), subject=SUBJECT)
    assert decision.result is Result.NOT_SIGNABLE
    assert answers(decision) == {A: Answer.OPEN}
    assert any(says in one for one in decision.obstacles)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ({"kind": "deselected", "text": "-k x"}, "options of pytest's took scenarios out of it"),
        ({"kind": "killed", "text": "x"}, "it was killed, and its ledger made whole afterwards"),
    ],
)
def test_a_run_that_was_narrowed_or_mended_does_not_count(
    record: dict[str, str], says: str
) -> None:
    note = {"record": "note", "at": "2026-01-01T00:00:00Z"} | record
    decision = judged(policy(need(A)), run("r", {A: HOLDS}, more=[note]))
    assert answers(decision) == {A: Answer.OPEN}
    assert decision.obstacles == (f"r: {says}",)


def test_a_run_whose_pool_would_not_go_does_not_count() -> None:
    end = {"record": "end", "scenario": "s", "pool": "gpu", "outcome": "error in teardown"}
    made = run("r", {A: HOLDS, B: "unknown"}, more=[end], exit=1)
    decision = judged(policy(need(A)), made)
    assert answers(decision) == {A: Answer.OPEN}
    assert decision.obstacles == ("r: s on gpu ended as error in teardown",)


def test_what_fails_beyond_the_policy_explains_the_exit_status() -> None:
    decision = judged(policy(need(A)), run("r", {A: HOLDS, B: "unknown"}, exit=1))
    assert decision.result is Result.SIGNABLE


def test_two_runs_of_one_name_are_not_told_apart() -> None:
    two = run("r", {A: HOLDS}), run("r", {B: HOLDS}, pool="other")
    decision = judged(policy(need(A), need(B)), *two)
    assert decision.result is Result.NOT_SIGNABLE
    assert any("2 different runs have this name" in one for one in decision.obstacles)


def test_runs_of_two_releases_are_no_evidence_for_either() -> None:
    decision = judged(
        policy(need(A)), run("r1", {A: HOLDS}), run("r2", {A: HOLDS}, subject="Cozystack v1.8.0")
    )
    assert answers(decision) == {A: Answer.OPEN}
    assert decision.obstacles[0] == (
        "the runs name several releases: Cozystack v1.7.0, Cozystack v1.8.0"
    )


def test_versions_of_charts_must_agree_and_drivers_need_not() -> None:
    def fact(version: str) -> dict[str, str]:
        raw = f'"chartName": "kubernetes-nodes",\n "chartVersion": "{version}"'
        return {"kind": "PoolRequest", "source": NODES, "raw": raw}

    def driver(release: str) -> dict[str, str]:
        return {"kind": "DriverVersion", "release": release, "flavour": "open"}

    wanted = policy(need(A))
    one, same, other = (
        run(name, {A: HOLDS}, facts=(ADDONS, fact(version), driver(name)))
        for name, version in (("r1", "1.7.0"), ("r2", "1.7.0"), ("r3", "1.7.1"))
    )
    assert judged(wanted, one, same).result is Result.SIGNABLE
    apart = judged(wanted, one, other)
    assert apart.obstacles == (
        "the runs had different versions: kubernetes-nodes 1.7.0 in r1, 1.7.1 in r3",
    )


OVERRIDE = {"kind": "Addons", "override": ["devicePlugin.env"], "hami": None}
ELSEWHERE = {"kind": "OperatorValues", "values_from": ["Secret x"]}
LISTED = {"kind": "PoolRequest", "kernel_modules": {"listed": [{"name": "nvidia"}]}, "gpus": ["x"]}


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ((OVERRIDE,), "not the default: valuesOverride set devicePlugin.env"),
        ((ADDONS, OVERRIDE), "not the default: valuesOverride set devicePlugin.env"),
        ((ADDONS, ELSEWHERE), "not the default: values came from Secret x as well"),
        ((ADDONS, LISTED), "not the default: kernelModules were listed by hand"),
        ((), "whether values were overridden is not recorded of gpu"),
    ],
)
@pytest.mark.parametrize("claim", ["operator-default", "operator-live", "cdi-injection", A])
def test_values_from_an_override_are_never_the_default(
    facts: tuple[dict[str, Any], ...], says: str, claim: str
) -> None:
    given = run("r", {claim: HOLDS}, facts=facts)
    decision = judged(policy(need(claim, defaults=True)), given)
    assert answers(decision) == {claim: Answer.OPEN}
    assert says in why(decision)
    assert judged(policy(need(claim)), given).result is Result.SIGNABLE


def test_the_default_counts_beside_a_pool_with_values_of_its_own() -> None:
    wanted = policy(need(A, defaults=True))
    own = run("r1", {A: HOLDS}, facts=(OVERRIDE,))
    assert judged(wanted, own, run("r2", {A: HOLDS})).result is Result.SIGNABLE


def test_a_card_is_what_the_guest_shows_and_not_what_a_pool_is_called() -> None:
    wanted = policy(need(A, pci=("10de:26b9",)))
    assert judged(wanted, run("r", {A: HOLDS})).result is Result.SIGNABLE
    other = judged(wanted, run("r", {A: HOLDS}, facts=(ADDONS, GB202)))
    assert "the cards of gpu are 10de:2bb5, not 10de:26b9" in why(other)
    bare = judged(wanted, run("r", {A: HOLDS}, facts=(ADDONS,)))
    assert "no PCI id is recorded of the cards of gpu" in why(bare)


def test_what_must_be_recorded_and_is_not_stands_in_the_way() -> None:
    wanted = policy(need(A), identity=(("p", "pci"), ("p", "driver")))
    assert judged(wanted, run("r", {A: HOLDS})).obstacles == (
        "NVIDIA driver: not recorded by r; policy p wants it",
    )


WANTS_PLATFORM = policy(need(A), identity=(("p", "platform"),))


def with_platforms(name: str, *facts: Any, **more: Any) -> Run:
    return run(name, {A: HOLDS}, facts=(ADDONS, *facts), **more)


def test_a_release_is_signed_with_runs_against_what_is_installed() -> None:
    good = with_platforms("r", platform("v1.7.0"))
    assert judged(WANTS_PLATFORM, good).result is Result.SIGNABLE
    two = judged(WANTS_PLATFORM, good, with_platforms("s", platform("v1.7.0")))
    assert two.result is Result.SIGNABLE


@pytest.mark.parametrize("wanted", [WANTS_PLATFORM, policy(need(A))])
@pytest.mark.parametrize("version", ["v1.6.0", "v1.7.1", "v1.7.0-rc.1", "v1.7.0-3-gabc"])
def test_another_platform_than_the_one_signed_is_no_evidence(wanted: Any, version: str) -> None:
    decision = judged(wanted, with_platforms("r", platform(version)))
    says = f"the platform installed is 'Cozystack {version}', and not 'Cozystack v1.7.0'"
    assert answers(decision) == {A: Answer.OPEN}
    assert f"which does not count: {says}" in why(decision)
    assert f"r: {says}" in decision.obstacles


def test_a_subject_without_a_version_proves_nothing_of_what_is_installed() -> None:
    given = with_platforms("r", platform("v1.7.0"), subject="the December release")
    decision = judged(WANTS_PLATFORM, given)
    assert decision.obstacles == (
        "r: 'the December release' names no single version to hold against the installed "
        "'Cozystack v1.7.0'",
    )


def test_a_platform_that_could_not_be_read_is_shown_and_is_in_the_way_where_wanted() -> None:
    given = with_platforms("r", platform("", "it may not be read: 403 Forbidden"))
    decision = judged(WANTS_PLATFORM, given)
    assert answers(decision) == {A: Answer.ESTABLISHED}
    assert decision.obstacles == (
        "Platform installed: unknown: it may not be read: 403 Forbidden (r); policy p wants it",
    )
    (row,) = (one for one in document(decision, CLAIMS)["identity"] if one["item"] == "platform")
    assert [one["value"] for one in row["values"]] == ["unknown: it may not be read: 403 Forbidden"]
    assert judged(policy(need(A)), given).result is Result.SIGNABLE


def test_one_look_that_could_not_be_read_is_in_the_way_though_another_was() -> None:
    told = (platform("v1.7.0"), platform("", "it differs"), platform("", "it vanished"))
    given = with_platforms("r", *told)
    assert judged(WANTS_PLATFORM, given).obstacles == (
        "Platform installed: unknown: it differs (r); policy p wants it",
        "Platform installed: unknown: it vanished (r); policy p wants it",
    )


def test_what_is_typed_is_not_a_record_of_the_platform() -> None:
    given = with_platforms("r", versions={"cozystack": "v1.7.0"})
    assert judged(WANTS_PLATFORM, given).obstacles == (
        "Platform installed: not recorded by r; policy p wants it",
    )


def test_a_platform_that_changed_under_a_run_is_in_the_way() -> None:
    given = with_platforms("r", platform("v1.7.0"), platform("v1.8.0"))
    assert judged(WANTS_PLATFORM, given).obstacles == (
        "r: the platform installed is 'Cozystack v1.8.0', and not 'Cozystack v1.7.0'",
        "the runs had different versions: Cozystack v1.7.0 in r, v1.8.0 in r",
    )


def test_a_known_issue_is_no_excuse() -> None:
    issue = {"record": "known-issue", "claim": A, "pool": "gpu", "owner": "Ada", "link": "l/1"}
    issue |= {"expires": "2027-01-01", "signature": "s", "state": "matched"}
    decision = judged(policy(need(A)), run("r", {A: BROKEN}, more=[issue]))
    assert answers(decision) == {A: Answer.BROKEN}
    assert decision.obstacles == (
        "r: known issue with passthrough on gpu (matched): Ada, l/1, until 2027-01-01",
    )
    assert document(decision, CLAIMS)["known_issues"][0]["owner"] == "Ada"


def test_what_is_waived_is_not_established_and_lets_sign() -> None:
    wanted = policy(need(A), need(B))
    decision = judged(wanted, run("r", {A: HOLDS}), waived={(B, "L40S"): "no time"})
    assert decision.result is Result.SIGNABLE
    assert answers(decision) == {A: Answer.ESTABLISHED, B: Answer.WAIVED}
    assert decision.answered[1].because == "no time (it is open: no run asked it on L40S)"


def test_what_is_broken_cannot_be_waived() -> None:
    decision = judged(policy(need(A)), run("r", {A: BROKEN}), waived={(A, "L40S"): "no time"})
    assert answers(decision) == {A: Answer.BROKEN}


def test_what_is_broken_beyond_the_policy_stands_in_the_way() -> None:
    decision = judged(policy(need(A)), run("r", {A: HOLDS, B: BROKEN, C: UNKNOWN}))
    assert decision.obstacles == (
        "cuda-runs on L40S, which the policy does not ask for, is broken in r",
    )
    assert [one.claim for one in decision.beyond] == [B, C]


def test_two_generations_in_two_runs_are_two() -> None:
    wanted = policy(need(A), need(A, "GB202"))
    one = run("r1", {A: HOLDS})
    other = run("r2", {A: HOLDS}, hardware="GB202", facts=(ADDONS, GB202))
    said = "Another generation of cards"
    alone, both = (document(judged(wanted, *runs), CLAIMS) for runs in ([one], [one, other]))
    assert any(said in text for text in alone["not_shown"]["runs"])
    assert not any(said in text for text in both["not_shown"]["runs"])
    assert any("(L40S, GB202)" in text for text in both["not_shown"]["runs"])


NEEDS = (need(A), need(B), need(A, "GB202", defaults=True), need(C, ""))
WANTED = policy(*NEEDS)
OUTCOMES = some.sampled_from([HOLDS, BROKEN, UNKNOWN, "not-established"])


@some.composite
def runs_of(draw: some.DrawFn, *, name: str = "r", good: bool = False) -> Run:
    says = draw(some.dictionaries(some.sampled_from([A, B, C]), OUTCOMES, min_size=1))
    more: dict[str, Any] = {}
    if not good:
        more = {
            "kind": draw(some.sampled_from(["cluster"] * 4 + ["twin", ""])),
            "subject": draw(some.sampled_from([SUBJECT] * 4 + ["another", ""])),
            "fault": draw(some.sampled_from([""] * 4 + ["planted"])),
            "exit": draw(some.sampled_from([0, 1, 3, 130])),
        }
    number = draw(some.integers(0, 10**6))
    return run(
        f"{name}{number}",
        says,
        hardware=draw(some.sampled_from(["L40S", "GB202", ""])),
        facts=draw(some.sampled_from([(ADDONS, CARDS), (OVERRIDE,), (ADDONS, GB202)])),
        days_ago=draw(some.sampled_from([1.0, 2.0, 20.0])),
        **more,
    )


SEVERAL = some.lists(runs_of(), max_size=5, unique_by=lambda one: one.id)


def good_for(one: Run, wanted: Any) -> bool:
    """An oracle of its own: whether this run alone can establish something."""
    rows = [row for row in one.summary.rows if row.claim == wanted.claim and row.pool]
    return (
        any(row.outcome.value == HOLDS and row.hardware == wanted.hardware for row in rows)
        and one.info.kind == "cluster"
        and one.info.subject == SUBJECT
        and not one.info.fault
        and one.info.exit != 130
        and one.info.ended is not None
        and one.info.ended > 86.0 * 86400
        and not (wanted.defaults and one.own_values)
    )


@settings(max_examples=40, deadline=None)
@given(SEVERAL, some.randoms(use_true_random=False))
def test_the_order_of_runs_does_not_matter(runs: list[Run], shuffle: Any) -> None:
    mixed = list(runs)
    shuffle.shuffle(mixed)
    one, other = (
        document(judged(WANTED, *given_, subject=SUBJECT), CLAIMS) for given_ in (runs, mixed)
    )
    assert one == other


@settings(max_examples=60, deadline=None)
@given(SEVERAL)
def test_nothing_is_established_but_by_a_run_that_can(runs: list[Run]) -> None:
    decision = judged(WANTED, *runs, subject=SUBJECT)
    for one in decision.answered:
        able = [given_ for given_ in runs if good_for(given_, one.need)]
        if one.answer is Answer.ESTABLISHED:
            assert set(one.runs) and set(one.runs) <= {given_.id for given_ in able}
        if not able:
            assert one.answer in (Answer.OPEN, Answer.BROKEN)


@settings(max_examples=40, deadline=None)
@given(SEVERAL)
def test_a_run_that_is_missing_never_counts(runs: list[Run]) -> None:
    decision = judged(WANTED, *runs, subject=SUBJECT)
    for one in decision.of(Answer.ESTABLISHED):
        rest = [given_ for given_ in runs if given_.id not in one.runs]
        (again,) = (
            a for a in judged(WANTED, *rest, subject=SUBJECT).answered if a.need == one.need
        )
        assert again.answer is not Answer.ESTABLISHED


@settings(max_examples=60, deadline=None)
@given(SEVERAL, runs_of(name="more"))
def test_another_run_turns_nothing_green_that_it_does_not_establish(
    runs: list[Run], more: Run
) -> None:
    before = judged(WANTED, *runs, subject=SUBJECT)
    after = judged(WANTED, *runs, more, subject=SUBJECT)
    for one, other in zip(before.answered, after.answered, strict=True):
        if one.answer is not Answer.ESTABLISHED and other.answer is Answer.ESTABLISHED:
            assert one.answer is Answer.OPEN and good_for(more, other.need)
    if before.result is Result.NOT_SIGNABLE and after.result is Result.SIGNABLE:
        assert any(good_for(more, wanted) for wanted in NEEDS)
    assert not before.obstacles or after.obstacles


@settings(max_examples=40, deadline=None)
@given(SEVERAL)
def test_a_verdict_is_signable_only_with_everything(runs: list[Run]) -> None:
    decision = judged(WANTED, *runs, subject=SUBJECT)
    whole = all(one.answer is Answer.ESTABLISHED for one in decision.answered)
    assert (decision.result is Result.SIGNABLE) == (whole and not decision.obstacles)


def test_a_cluster_of_containers_is_no_cluster_of_machines() -> None:
    decision = judged(policy(need(A)), run("r", {A: HOLDS}, kind="containers"))
    assert answers(decision) == {A: Answer.OPEN}
    (one,) = decision.answered
    assert "its substrate is containers, and cluster is needed" in one.because
