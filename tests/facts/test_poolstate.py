from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.facts.fact import Unread
from harness.facts.poolstate import (
    KIND,
    RELEASE_LABEL,
    SCHEMA,
    PoolState,
    digest,
    pool_state,
    read_state,
    regime,
    release_state,
    to_json,
)


def obj(kind: str, name: str, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", **more.pop("metadata", {})}
    return {"kind": kind, "metadata": metadata, **more}


RELEASE = obj(
    "HelmRelease",
    "kubernetes-nodes-lab-gpu",
    spec={"values": {"gpus": []}},
    status={
        "conditions": [
            {"type": "Ready", "status": "True", "reason": "UpgradeSucceeded", "message": "m"}
        ],
        "history": [{"version": 3}, {"version": 2}],
        "lastHandledReconcileAt": "r1",
        "lastHandledForceAt": "f1",
    },
)


def state(**more: Any) -> PoolState:
    given: dict[str, Any] = {
        "release": RELEASE,
        "bootstrap": obj("TalosConfigTemplate", "kubernetes-lab-gpu-0a1b2c", spec={"a": 1}),
        "machine": obj("KubevirtMachineTemplate", "kubernetes-lab-gpu-3d4e5f", spec={"b": 2}),
        "jobs": [
            obj("Job", "old", metadata={"creationTimestamp": "2026-11-30T12:00:00Z"}),
            obj("Job", "aaa", metadata={"creationTimestamp": "2026-11-30T13:00:00Z"}),
        ],
        "machines": [obj("Machine", "m1")],
        "vmis": [obj("VirtualMachineInstance", "v1")],
        "data_volumes": [obj("DataVolume", "d1")],
        "nodes": [obj("Node", "w1", status={"nodeInfo": {"bootID": "boot-1"}})],
        **more,
    }
    return pool_state("gpu", **given, cluster="lab", at=9.0, where="management")


def test_a_pool_by_names_uids_and_contents() -> None:
    found = state()
    assert (found.pool, found.cluster, found.regime) == ("gpu", "lab", "content")
    assert (found.bootstrap.name, found.bootstrap.uid) == (
        "kubernetes-lab-gpu-0a1b2c",
        "uid-kubernetes-lab-gpu-0a1b2c",
    )
    assert found.bootstrap.digest == digest({"a": 1}) != found.machine.digest
    assert (found.machines, found.vmis) == ({"m1": "uid-m1"}, {"v1": "uid-v1"})
    assert (found.data_volumes, found.boots) == ({"d1": "uid-d1"}, {"w1": "boot-1"})
    assert found.origin.source == "management objects of pool gpu of lab"
    assert len(found.origin.raw.splitlines()) == 9


def test_the_newest_job_is_the_pools() -> None:
    assert state().job == "aaa"
    assert state(jobs=[]).job == ""


def test_a_release() -> None:
    found = release_state(RELEASE)
    assert (found.name, found.ready, found.reason) == (
        "kubernetes-nodes-lab-gpu",
        "True",
        "UpgradeSucceeded",
    )
    assert (found.revision, found.handled, found.forced) == (3, "r1", "f1")
    assert found.values == digest({"gpus": []})
    assert release_state({}).revision == 0


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("kubernetes-lab-gpu", {}, "fixed"),
        ("kubernetes-lab-gpu-0a1b2c", {}, "content"),
        ("kubernetes-lab-gpu-0a1b2", {}, "fixed"),
        ("kubernetes-lab-gpu-0a1b2c3", {}, "fixed"),
        ("kubernetes-lab-gpu", {RELEASE_LABEL: "x"}, "content"),
        ("other-0a1b2c", {}, "fixed"),
    ],
)
def test_how_templates_are_named(name: str, labels: dict[str, str], expected: str) -> None:
    template = obj("TalosConfigTemplate", name, metadata={"labels": labels})
    assert regime(template, "kubernetes-lab-gpu") == expected


def test_a_pool_whose_own_name_ends_in_hex_is_not_taken_for_content_named() -> None:
    template = obj("TalosConfigTemplate", "kubernetes-lab-c0ffee")
    assert regime(template, "kubernetes-lab-c0ffee") == "fixed"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": "1"}, {"a": 1}, False),
        (None, {}, False),
    ],
)
def test_a_digest_is_of_the_content(one: Any, other: Any, *, same: bool) -> None:
    assert (digest(one) == digest(other)) is same


def test_a_state_is_read_back_as_it_was() -> None:
    written = state()
    found = read_state(to_json(written), at=50.0, source="state.json")
    assert isinstance(found, PoolState)
    assert dataclasses.replace(found, origin=written.origin) == written
    assert found.boots == written.boots
    assert (found.origin.at, found.origin.source) == (9.0, "state.json")


def damaged(change: Any) -> str:
    found = json.loads(to_json(state()))
    change(found)
    return json.dumps(found)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", f"no {KIND}"),
        ('{"kind": "else", "schema": 1}', f"no {KIND}"),
        (damaged(lambda found: found.update(schema=SCHEMA + 1)), "reads 1: record the state anew"),
        (damaged(lambda found: found.update(schema="1")), "has schema \"'1'\""),
        (damaged(lambda found: found.pop("schema")), "has schema 'None'"),
        (damaged(lambda found: found.pop("state")), "state is 'None', no mapping"),
        (damaged(lambda found: found.update(at="now")), "at is"),
        (damaged(lambda found: found.update(at=True)), "at is"),
        (damaged(lambda found: found.update(at=10**400)), "damaged"),
        (damaged(lambda found: found["state"].pop("job")), "job is"),
        (damaged(lambda found: found["state"].update(regime="odd")), "none of fixed, content"),
        (damaged(lambda found: found["state"]["bootstrap"].pop("uid")), "uid is"),
        (damaged(lambda found: found["state"]["release"].update(revision="3")), "revision is"),
        (damaged(lambda found: found["state"]["release"].update(revision=True)), "revision is"),
        (damaged(lambda found: found["state"]["machines"].update(m1=1)), "more than texts"),
        (damaged(lambda found: found["state"].update(vmis=[])), "vmis is"),
    ],
)
def test_what_is_no_state(text: str, quoted: str) -> None:
    found = read_state(text, at=50.0, source="state.json")
    assert isinstance(found, Unread)
    assert quoted in found.reason
    assert (found.origin.at, found.origin.raw) == (50.0, text)


@given(st.text())
def test_any_text_is_a_state_or_unread(text: str) -> None:
    assert isinstance(read_state(text, at=1.0, source="x"), Unread)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(sorted(state().values())), json_like))
def test_any_part_in_the_place_of_another_is_read_or_unread(parts: dict[str, Any]) -> None:
    found = json.loads(to_json(state()))
    found["state"].update(parts)
    assert isinstance(read_state(json.dumps(found), at=1.0, source="x"), PoolState | Unread)


def test_an_empty_pool_has_a_state_too() -> None:
    found = state(machines=[], vmis=[], data_volumes=[], nodes=[], jobs=[], bootstrap={})
    assert (found.machines, found.boots, found.regime) == ({}, {}, "fixed")
    assert isinstance(read_state(to_json(found), at=1.0, source="x"), PoolState)
