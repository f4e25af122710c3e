from __future__ import annotations

from typing import Any

import pytest

from harness.facts.refusals import (
    RefusalTrial,
    changes,
    chart_text,
    refusal_trial,
    refused_by_api,
    standing,
)

TEXT = 'nodeGroup "x": set only one of osImage.builtin or osImage.factory'
FAILED = (
    "Helm install failed for release tenant-test/kubernetes-nodes-lab-x with chart k@1: "
    f"execution error at (kubernetes-nodes/templates/nodegroup.yaml:1:2): {TEXT}"
)


def release(**more: Any) -> dict[str, Any]:
    said = {"status": "False", "reason": "InstallFailed", "message": FAILED}
    conditions = [{"type": "Ready", **said}, {"type": "Released", **said}]
    return {
        "kind": "HelmRelease",
        "metadata": {"name": "kubernetes-nodes-lab-x", "namespace": "t", "uid": "u1"},
        "status": {"conditions": conditions},
        **more,
    }


def event(message: str, uid: str = "u1", kind: str = "Warning", at: str = "1") -> dict[str, Any]:
    return {
        "type": kind,
        "message": message,
        "lastTimestamp": at,
        "involvedObject": {"uid": uid, "name": "kubernetes-nodes-lab-x"},
    }


def trial(events: list[dict[str, Any]] | None = None, **more: Any) -> RefusalTrial:
    given: dict[str, Any] = {"before": {}, "after": {}, "written": {}, **more}
    return refusal_trial(
        release(), row="R1", name="x", asked="{}", wrong=("a",), events=events or [],
        at=1.0, cluster="management", **given,
    )  # fmt: skip


def test_a_trial_is_read_off_its_release() -> None:
    found = trial()
    assert (found.row, found.name, found.wrong, found.api) == ("R1", "x", ("a",), "")
    assert (found.ready, found.released, found.reason) == ("False", "False", "InstallFailed")
    assert found.message == FAILED
    assert found.settled
    assert found.origin.source == "management HelmRelease t/kubernetes-nodes-lab-x"


def test_only_warnings_about_this_very_release_count_in_their_order() -> None:
    events = [
        event("second", at="2"),
        event("first", at="1"),
        event("of an earlier one of that name", uid="u0"),
        event("all is well", kind="Normal"),
        {"type": "Warning", "message": "about nobody", "involvedObject": {}},
    ]
    assert trial(events).warnings == ("first", "second")


def test_a_release_without_uid_claims_nobodys_events() -> None:
    found = refusal_trial(
        {"kind": "HelmRelease"}, row="R1", name="x", asked="", wrong=(), events=[event("x")],
        written={}, before={}, after={}, at=1.0, cluster="m",
    )  # fmt: skip
    assert found.warnings == ()
    assert not found.settled


def test_what_the_release_was_told_otherwise_is_named() -> None:
    written = {"talos": {"version": "v1.13"}, "diskSize": "30Gi", "osImage": {"factory": {}}}
    told = {"talos": {"version": "v1.13", "schematicID": "x"}, "diskSize": "20Gi"}

    def read(values: Any) -> tuple[str, ...]:
        found = refusal_trial(
            release(spec={"values": values}), row="R1", name="x", asked="", wrong=(),
            written=written, events=[], before={}, after={}, at=1.0, cluster="m",
        )  # fmt: skip
        return found.altered

    assert read(told) == ("diskSize", "osImage")
    assert read(written) == ()
    assert read(None) == ("talos", "diskSize", "osImage")


def test_what_was_made_changed_or_taken_is_told_by_kind_and_name() -> None:
    def obj(name: str, uid: str, spec: Any) -> dict[str, Any]:
        return {"kind": "Machine", "metadata": {"name": name, "uid": uid}, "spec": spec}

    before = standing([obj("a", "1", {}), obj("b", "2", {}), obj("c", "3", {}), obj("d", "4", {})])
    after = standing(
        [obj("a", "1", {}), obj("b", "2", {"x": 1}), obj("c", "9", {}), obj("e", "5", {})]
    )
    assert changes(before, after) == (
        "Machine b has another content",
        "Machine c was made anew",
        "Machine d is gone",
        "Machine e was made",
    )
    assert changes(before, before) == ()
    assert changes({"Job j": "u d"}, {}) == (), "it goes by itself"
    assert changes({}, {"Job j": "u d"}) == ("Job j was made",)
    assert trial(before=before, after=after).changes == changes(before, after)


def test_what_the_api_refuses_has_no_release() -> None:
    found = refused_by_api(
        "422 Invalid", row="R10", name="x", asked="{}", wrong=("v1.30",), at=1.0, cluster="m"
    )
    assert (found.api, found.row, found.wrong) == ("422 Invalid", "R10", ("v1.30",))
    assert not found.settled
    assert found.changes == ()
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (FAILED, (TEXT, True, False)),
        (FAILED.replace(" ", "\n    "), (TEXT, True, False)),
        (f"{FAILED}\n\nLast Helm logs:\n\nprevious: other", (TEXT, True, False)),
        (f"{FAILED} (more...", (f"{TEXT} (more...", True, True)),
        (f"{FAILED}…", (f"{TEXT}…", True, True)),
        ("context deadline exceeded", ("context deadline exceeded", False, False)),
        ("", ("", False, False)),
    ],
)
def test_the_charts_own_text(message: str, expected: tuple[str, bool, bool]) -> None:
    found = chart_text(message)
    assert (found.text, found.of_chart, found.cut) == expected


def test_a_tail_of_a_log_is_no_cut() -> None:
    assert not chart_text(f"{FAILED}\nLast Helm logs:\nfetching ...").cut
