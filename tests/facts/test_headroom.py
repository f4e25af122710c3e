from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Origin, Unread
from harness.facts.headroom import (
    ClassPlacement,
    PoolDemand,
    Quota,
    Term,
    disks_alone,
    in_the_namespace,
    on_a_node,
    read_placement,
    read_quotas,
)
from tests.facts.headroom_facts import GIB, GIB_KIB, demand

AT = Origin(1.0, "management ResourceQuota tenant-hil", "")


def gib(terms: tuple[Term, ...]) -> float:
    return sum(term.kib for term in terms) / GIB_KIB


PEAKS: dict[str, tuple[PoolDemand, float, float]] = {
    # clone_path section 7: upstream's figure for two workers that are downloaded
    "download": (demand(), 82, 82),
    "download, with a roll": (demand(surge=2), 122, 122),
    # G once for each clone in flight, in the golden's namespace
    "clone": (demand(clone=True, golden=6 * GIB), 52, 40),
    "clone, with a roll": (demand(clone=True, golden=6 * GIB, surge=2), 92, 80),
    "one stands already": (demand(standing=1), 41, 41),
    "all stand, a roll to come": (demand(standing=2, surge=2), 82, 82),
    "all stand, no roll": (demand(standing=2), 0, 0),
    "more stand than are asked for": (demand(standing=5), 0, 0),
    "a roll of more than there are": (demand(workers=1, surge=4), 100 + 84, 100 + 84),
}


@pytest.mark.parametrize("case", PEAKS)
def test_peak(case: str) -> None:
    asked, on_node, in_namespace = PEAKS[case]
    assert gib(on_a_node(asked)) == on_node
    assert gib(in_the_namespace(asked)) == in_namespace


def test_terms_say_what_they_are_for() -> None:
    assert [(one.count, one.each // GIB, one.what) for one in on_a_node(demand(surge=1))] == [
        (2, 20, "disks"),
        (1, 20, "disks more during a roll"),
        (2, 21, "scratch spaces"),
    ]
    clone = on_a_node(demand(clone=True, golden=6 * GIB))
    assert [one.what for one in clone] == ["disks", "temporary clones"]
    assert [one.what for one in disks_alone(demand(surge=1))] == [
        "disks",
        "disks more during a roll",
    ]


def test_bytes_become_kib_rounded_up_for_each_volume() -> None:
    assert Term(3, 1025, "disks").kib == 6
    assert Term(3, 1024, "disks").kib == 3
    assert gib(on_a_node(demand(workers=1, disk=20 * 10**9, clone=True, golden=1))) == (
        (-(-20 * 10**9 // 1024) + 1) / GIB_KIB
    )


def test_golden_of_unknown_size_is_not_known() -> None:
    assert not demand(clone=True).known
    assert demand(clone=True, golden=1).known
    assert demand().known
    assert demand(clone=True, standing=2).known


@given(
    workers=st.integers(0, 9),
    standing=st.integers(0, 9),
    surge=st.integers(0, 9),
    disk=st.integers(1, 2**45),
    golden=st.integers(0, 2**40),
    clone=st.booleans(),
)
def test_peak_is_never_less_than_the_disks_to_come(**said: Any) -> None:
    asked = demand(**said)
    peak = sum(term.kib for term in on_a_node(asked))
    to_come = asked.fresh + asked.surge
    assert peak * 1024 >= to_come * asked.disk
    assert peak >= sum(term.kib for term in disks_alone(asked))
    more = demand(**{**said, "disk": said["disk"] + 1024})
    assert sum(term.kib for term in on_a_node(more)) >= peak


def klass(parameters: Any, provisioner: str = "linstor.csi.linbit.com") -> dict[str, Any]:
    return {
        "kind": "StorageClass",
        "metadata": {"name": "replicated"},
        "provisioner": provisioner,
        "parameters": parameters,
    }


PREFIX = "linstor.csi.linbit.com"


@pytest.mark.parametrize(
    ("parameters", "pool", "copies", "nodes"),
    [
        ({f"{PREFIX}/storagePool": "data", f"{PREFIX}/autoPlace": "3"}, "data", 3, ()),
        ({"storagePool": "ssd", "autoPlace": "2"}, "ssd", 2, ()),
        ({"placementCount": "2", "storagePool": "data"}, "data", 2, ()),
        ({"storagePool": "data", "nodeList": "n1 n2"}, "data", 1, ("n1", "n2")),
        ({"storagePool": "data ssd", "autoPlace": "3"}, "", 3, ()),
        ({"autoPlace": "three"}, "", None, ()),
        ({"autoPlace": 3, "csi.storage.k8s.io/fstype": "ext4"}, "", 1, ()),
        (None, "", 1, ()),
    ],
)
def test_class_says_where_its_volumes_go(
    parameters: Any, pool: str, copies: int | None, nodes: tuple[str, ...]
) -> None:
    found = read_placement(klass(parameters), at=1.0, cluster="management")
    assert isinstance(found, ClassPlacement)
    assert (found.name, found.pool, found.copies, found.nodes) == (
        "replicated",
        pool,
        copies,
        nodes,
    )


def test_class_of_another_provisioner_says_nothing_of_linstor() -> None:
    found = read_placement(klass({}, "rancher.io/local-path"), at=1.0, cluster="management")
    assert isinstance(found, Unread)
    assert "rancher.io/local-path" in found.reason


def limits(name: str, hard: Any, used: Any = None) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"hard": hard}, "status": {"used": used or {}}}


def test_quotas_that_count_claims() -> None:
    of_class = "replicated.storageclass.storage.k8s.io/persistentvolumeclaims"
    hard = {"persistentvolumeclaims": "10", "count/persistentvolumeclaims": "5", of_class: "1k"}
    used = {"persistentvolumeclaims": "3", "count/secrets": "7"}
    found = read_quotas([limits("q", {**hard, "count/secrets": "9"}, used)], "tenant-hil", AT)
    assert found.quotas == (
        Quota("q", "", 5, None, number=True),
        Quota("q", "", 10, 3, number=True),
        Quota("q", "replicated", 1000, None, number=True),
    )


def test_quotas_that_count_the_sizes_of_claims() -> None:
    of_class = "replicated.storageclass.storage.k8s.io/requests.storage"
    found = read_quotas(
        [
            limits(
                "all",
                {"requests.storage": "200Gi", "pods": "50", of_class: "100Gi"},
                {"requests.storage": "20G", "pods": "3"},
            ),
            limits("bare", {"requests.storage": 1024}),
            {"metadata": {"name": "new"}, "spec": {"hard": {"requests.storage": "1Ti"}}},
            {"metadata": {"name": "empty"}},
        ],
        "tenant-hil",
        AT,
    )
    assert found.quotas == (
        Quota("all", "replicated", 100 * GIB, None),
        Quota("all", "", 200 * GIB, 20 * 10**9),
        Quota("bare", "", 1024, None),
        Quota("new", "", 1024 * GIB, None),
    )
    assert found.strange == ()


@pytest.mark.parametrize("value", ["many", None, [], -5, True])
def test_limit_that_is_no_amount_is_quoted(value: Any) -> None:
    found = read_quotas([limits("all", {"requests.storage": value})], "tenant-hil", AT)
    assert found.quotas == ()
    assert found.strange == (f"all: requests.storage is {value!r}",)


@given(
    st.lists(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=5),
            lambda inner: st.dictionaries(
                st.sampled_from(["metadata", "spec", "status", "hard", "used", "requests.storage"]),
                inner,
                max_size=3,
            ),
            max_leaves=6,
        ),
        max_size=3,
    )
)
def test_any_quota_is_met(said: list[Any]) -> None:
    read_quotas(said, "tenant-hil", AT)
