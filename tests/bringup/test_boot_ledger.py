"""What watches show of boots, from histories that are written by hand, and on the twin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.bringup import boot_ledger
from harness.bringup.boot_ledger import MOST, TIMES, BootBooks
from harness.bringup.connect import ConnectedLab, Reachable, connect
from harness.bringup.keeper import hold
from harness.bringup.terms import Terms
from harness.facts.bootledger import BootLedger, Entry, Restart
from harness.facts.fact import Fact
from harness.inventory.loading import load
from harness.judge import uptime
from harness.reach.errors import ApiRefused
from harness.reach.history import History
from harness.twin.process import TwinProcess

ROOT = Path(__file__).resolve().parents[2]
T = 10_000.0
MANAGEMENT, TENANT = ("machines", "vmis", "pods", "events"), ("nodes", "pods", "events")


class Watched:
    """The histories of a pool of one worker, m1 in VM w1, whose Node is w1."""

    def __init__(self, limit: int = 10**7) -> None:
        self.management = {name: History(limit) for name in MANAGEMENT}
        self.tenant = {name: History(limit) for name in TENANT}
        self.machines: dict[str, str] = {"w1": "m1"}
        self.versions = 0
        self.books = BootBooks(lambda: self.machines, self.management, self.tenant)

    def says(self, where: str, name: str, at: float, change: str = "MODIFIED", **obj: Any) -> None:
        """One revision; ``where`` is "tenant pods" or the like."""
        cluster, kind = where.split()
        self.versions += 1
        meta = {"name": name, "uid": f"uid of {name}", "resourceVersion": str(self.versions)}
        meta |= obj.pop("meta", {})
        source = obj.pop("source", "event")
        history = getattr(self, cluster)[kind]
        history.take(change, {"metadata": meta, **obj}, at, source)

    def node(self, boot: str, at: float, name: str = "w1", **more: Any) -> None:
        self.says("tenant nodes", name, at, status={"nodeInfo": {"bootID": boot}}, **more)

    def pod(self, name: str, count: int | None, at: float, node: str = "w1", **more: Any) -> None:
        found = [] if count is None else [{"name": "main", "restartCount": count}]
        status = {"phase": more.pop("phase", "Running"), "containerStatuses": found}
        spec = {"nodeName": node, **more.pop("spec", {})}
        meta = {"namespace": "kube-system", **more.pop("meta", {})}
        self.says("tenant pods", name, at, spec=spec, status=status, meta=meta, **more)

    def event(
        self, about: Mapping[str, str], at: float, where: str = "tenant", **more: Any
    ) -> None:
        told = {"type": "Normal", "reason": "Started", "message": "m", **more}
        name = told.pop("name", f"event-{self.versions}")
        self.says(f"{where} events", name, at, involvedObject=dict(about), **told)

    def entries(self, *kinds: str) -> list[Entry]:
        self.books.take()
        return [one for one in self.books.seen("w1").others if one.what in kinds or not kinds]

    def texts(self, *kinds: str) -> list[str]:
        return [one.text for one in self.entries(*kinds)]


def test_each_boot_of_its_node_is_seen_once_and_a_heart_beat_is_none() -> None:
    watched = Watched()
    for boot, at in (("", T - 5), ("b1", T), ("b1", T + 10), ("b2", T + 20), ("b2", T + 30)):
        watched.node(boot, at)
    watched.node("x1", T + 40, name="other")
    watched.books.take()
    assert [(one.boot_id, one.at) for one in watched.books.seen("w1").boots] == [
        ("b1", T),
        ("b2", T + 20),
    ]
    assert watched.books.seen("other").boots == ()


def test_what_a_list_shows_dates_from_before_it() -> None:
    watched = Watched()
    made = {"creationTimestamp": "1970-01-01T02:46:30Z"}
    watched.node("b1", T, meta=made, source="list")
    late = {"creationTimestamp": "1970-01-01T02:47:30Z"}
    watched.says("management machines", "m1", T, meta=late, source="list")
    (machine,) = watched.entries("machine")
    assert machine.at == T, "a clock that goes ahead dates nothing into the future"
    assert watched.books.seen("w1").boots[0].at == 9990.0


def test_a_boot_that_a_list_shows_of_a_node_that_was_known_dates_from_the_list() -> None:
    """Five minutes without an API, and a reboot in them: it is not as old as its Node."""
    watched = Watched()
    made = {"creationTimestamp": "1970-01-01T02:46:30Z"}
    watched.node("b1", T, meta=made, source="list")
    watched.tenant["nodes"].gap(T, T + 300, "nobody answered")
    watched.node("b2", T + 300, meta=made, source="list")
    watched.books.take()
    assert [(one.boot_id, one.at) for one in watched.books.seen("w1").boots] == [
        ("b1", 9990.0),
        ("b2", T + 300),
    ]
    remade = {"creationTimestamp": "1970-01-01T02:51:45Z", "uid": "u2"}
    watched.node("b3", T + 400, meta=remade, source="list")
    watched.books.take()
    assert watched.books.seen("w1").boots[-1].at == 10_305.0


def test_a_launcher_that_was_seen_before_its_machine_is_known_all_the_same() -> None:
    watched = Watched()
    labels = {"labels": {"vm.kubevirt.io/name": "w2"}}
    watched.says("management pods", "virt-launcher-y", T, "ADDED", meta=labels)
    watched.books.take()
    watched.machines["w2"] = "m2"
    watched.says("management pods", "virt-launcher-y", T + 1, meta=labels)
    watched.books.take()
    (told,) = (one for one in watched.books.seen("w2").others if one.what == "launcher")
    assert told.at == T + 1


@pytest.mark.parametrize(
    ("kind", "what", "name"),
    [
        ("management machines", "machine", "m1"),
        ("management vmis", "vmi", "w1"),
        ("management pods", "launcher", "virt-launcher-x"),
        ("tenant nodes", "node", "w1"),
    ],
)
def test_an_identity_is_told_when_it_comes_when_it_is_another_and_when_it_goes(
    kind: str, what: str, name: str
) -> None:
    watched = Watched()
    labels = {"labels": {"vm.kubevirt.io/name": "w1"}}
    for uid, at, change in (
        ("u1", T, "ADDED"),
        ("u1", T + 1, "MODIFIED"),
        ("u2", T + 2, "ADDED"),
        ("u2", T + 3, "DELETED"),
    ):
        watched.says(kind, name, at, change, meta={"uid": uid, **labels})
    watched.says(kind, "another", T + 4, meta={"labels": {}})
    told = watched.entries(what)
    assert [one.at for one in told] == [T, T + 2, T + 3]
    first, second, gone = (one.text for one in told)
    assert first.endswith(f"{name} has UID u1")
    assert second.endswith(f"{name} has UID u2, it was u1")
    assert gone.endswith(f"{name} (UID u2) is gone")


def test_a_pods_restarts_count_from_when_it_was_first_seen() -> None:
    watched = Watched()
    watched.pod("a", 3, T)
    watched.pod("a", 3, T + 1)
    watched.pod("a", 4, T + 2)
    watched.pod("a", 6, T + 3)
    watched.pod("elsewhere", 0, T, node="other")
    watched.pod("elsewhere", 5, T + 3, node="other")
    watched.books.take()
    found = watched.books.restarts("w1", T + 9)
    assert found.origin.at == T + 9
    assert found.restarts == (
        Restart(T + 2, "kube-system/a", "main", 4, 1),
        Restart(T + 3, "kube-system/a", "main", 6, 2),
    )
    assert [(one.pod, one.since, one.until) for one in found.pods] == [("kube-system/a", T, None)]


def test_a_pod_of_the_same_name_is_another_pod() -> None:
    watched = Watched()
    watched.pod("a", 4, T, meta={"uid": "u1"})
    watched.pod("a", 4, T + 1, change="DELETED", meta={"uid": "u1"})
    watched.pod("a", 5, T + 2, meta={"uid": "u2"})
    watched.books.take()
    found = watched.books.restarts("w1", T)
    assert found.restarts == ()
    assert [(one.since, one.until) for one in found.pods] == [(T, T + 1), (T + 2, None)]


@pytest.mark.parametrize(
    "more",
    [{"phase": "Succeeded"}, {"phase": "Failed"}, {"spec": {"restartPolicy": "Never"}},
     {"spec": {"restartPolicy": "OnFailure"}}],
)  # fmt: skip
def test_a_pod_that_is_not_to_run_for_good_is_left_out(more: dict[str, Any]) -> None:
    watched = Watched()
    watched.pod("a", 0, T, **more)
    watched.pod("a", 1, T + 1, **more)
    watched.books.take()
    found = watched.books.restarts("w1", T)
    assert (found.pods, found.restarts) == ((), ())


def test_a_count_that_is_none_is_passed_over() -> None:
    watched = Watched()
    watched.pod("a", None, T)
    watched.pod("b", "x", T)  # type: ignore[arg-type]
    watched.pod("b", 1, T + 1)
    watched.books.take()
    assert watched.books.restarts("w1", T).restarts == ()


@pytest.mark.parametrize(
    ("where", "about", "told"),
    [
        ("tenant", {"kind": "Node", "name": "w1"}, "Node w1: Normal Started: m"),
        (
            "tenant",
            {"kind": "Pod", "name": "a", "namespace": "kube-system"},
            "Pod a: Normal Started: m",
        ),
        ("tenant", {"kind": "Pod", "name": "a", "namespace": "default"}, ""),
        ("tenant", {"kind": "Node", "name": "other"}, ""),
        ("tenant", {"kind": "DaemonSet", "name": "w1"}, ""),
        ("management", {"kind": "Machine", "name": "m1"}, "management Machine m1: Normal"),
        (
            "management",
            {"kind": "VirtualMachineInstance", "name": "w1"},
            "management VirtualMachineInstance w1: Normal Started: m",
        ),
        (
            "management",
            {"kind": "Pod", "name": "virt-launcher-x"},
            "management Pod virt-launcher-x",
        ),
        ("management", {"kind": "Machine", "name": "m2"}, ""),
    ],
)
def test_events_of_a_worker_are_those_of_its_objects(
    where: str, about: dict[str, str], told: str
) -> None:
    watched = Watched()
    watched.pod("a", 0, T)
    labels = {"labels": {"vm.kubevirt.io/name": "w1"}}
    watched.says("management pods", "virt-launcher-x", T, "ADDED", meta=labels)
    watched.event(about, T + 1, where)
    found = watched.texts("event")
    assert len(found) == bool(told)
    assert all(one.startswith(told) for one in found)


def test_an_event_that_has_expired_is_kept() -> None:
    watched = Watched()
    watched.event({"kind": "Node", "name": "w1"}, T, name="e", reason="Rebooted")
    watched.event({"kind": "Node", "name": "w1"}, T + 3600, name="e", change="DELETED")
    (kept,) = watched.entries("event")
    assert (kept.at, kept.text) == (T, "Node w1: Normal Rebooted: m")


def test_an_event_that_counts_up_is_kept_each_time_and_then_the_last() -> None:
    watched = Watched()
    for times in range(1, 2 * TIMES + 1):
        about = {"kind": "Node", "name": "w1"}
        watched.event(about, T + times, name="e", count=times, message="back-off\n  again")
        watched.books.take()
    found = watched.entries("event")
    assert len(found) == TIMES
    assert found[0].text == "Node w1: Normal Started: back-off again"
    assert (found[-1].at, found[-1].text) == (
        T + 2 * TIMES,
        f"Node w1: Normal Started ({2 * TIMES} times): back-off again",
    )


def test_no_more_events_are_kept_than_a_person_reads_and_that_is_told() -> None:
    watched = Watched()
    for number in range(MOST + 5):
        watched.event({"kind": "Node", "name": "w1"}, T + number, name=f"e{number}")
    assert len(watched.texts("event")) == MOST
    assert watched.texts("gap") == [f"{MOST} Events are kept; those that came later are left out"]


def test_what_is_new_is_taken_once() -> None:
    watched = Watched()
    watched.node("b1", T)
    watched.pod("a", 0, T)
    assert watched.books.take() == 2
    assert watched.books.take() == 0
    watched.pod("a", 1, T + 1)
    assert watched.books.take() == 1
    assert len(watched.books.restarts("w1", T).restarts) == 1


def test_nothing_is_taken_before_there_is_a_worker_and_then_all_of_it() -> None:
    watched = Watched()
    watched.machines.clear()
    watched.node("b1", T)
    assert watched.books.take() == 0
    watched.machines["w1"] = ""
    assert watched.books.take() == 1
    assert watched.books.seen("w1").boots[0].boot_id == "b1"


def test_what_a_watch_may_have_missed_is_told() -> None:
    watched = Watched()
    watched.node("b1", T)
    watched.tenant["nodes"].gap(T, T + 40, "410: the server no longer keeps that version")
    watched.node("b2", T + 50)
    (told,) = watched.entries("gap")
    assert told.at == T + 40
    assert told.text.startswith("what tenant nodes did in 40 s may have been missed: 410")


def test_what_was_forgotten_before_it_was_taken_is_told_and_what_was_taken_is_kept() -> None:
    watched = Watched(limit=20_000)
    for number in range(5):
        watched.event({"kind": "Node", "name": "w1"}, T + number, name="e", message=str(number))
    watched.books.take()
    for number in range(5, 500):
        watched.event({"kind": "Node", "name": "w1"}, T + number, name="e", message=str(number))
    assert watched.tenant["events"].compacted is not None
    texts = watched.texts("event")
    assert texts[:2] == ["Node w1: Normal Started: 0", "Node w1: Normal Started: 1"]
    (told,) = watched.texts("gap")
    assert told.endswith("revisions of tenant events were forgotten before they were taken")


def test_what_the_tenant_does_not_let_us_watch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()
    started: list[str] = []
    ended: list[str] = []

    class Feed:
        def __init__(self, cluster: Any, clock: Any, target: Any) -> None:
            del cluster, clock
            self.kind = target.kind
            self.history = watched.tenant["events"]

        def start(self) -> None:
            if self.kind == "Pod":
                raise ApiRefused(403, "Forbidden", "pods is forbidden")
            started.append(self.kind)

        def stop(self) -> None:
            ended.append(f"stop {self.kind}")

        def close(self) -> None:
            ended.append(f"close {self.kind}")

    monkeypatch.setattr(boot_ledger, "Feed", Feed)
    monkeypatch.setattr(boot_ledger, "_Machines", lambda _: lambda: watched.machines)
    pool = SimpleNamespace(
        lab=SimpleNamespace(tenant=object(), clock=SimpleNamespace(now=lambda: T)),
        nodes=SimpleNamespace(history=watched.tenant["nodes"]),
        feeds={name: SimpleNamespace(history=one) for name, one in watched.management.items()},
    )
    books = boot_ledger.watch_boots(pool)  # type: ignore[arg-type]
    assert started == ["Event"]
    watched.event({"kind": "Node", "name": "w1"}, T)
    books.close()
    assert ended == ["stop Event", "close Event"]
    books.take()
    gap, event = sorted(books.seen("w1").others, key=lambda one: one.what, reverse=True)
    assert gap.text.startswith("pods of the tenant could not be watched: ")
    assert "forbidden" in gap.text
    assert event.what == "event", "what came before the watches ended is taken all the same"


# -- on the twin


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Any]:
    """A pool of two workers with a window, on a twin of its own."""
    process = TwinProcess(tmp_path / "twin", seed=1)
    way = Reachable(process.endpoint.kubeconfig, "management", process.endpoint.clock_url)
    lab: ConnectedLab = connect(load(ROOT / "inventory" / "twin.yaml"), way, "mine")
    terms = Terms(soak=5580.0)
    with lab.clock.actor("test"), hold(lab, "plain", lambda kind, text: None, terms) as pool:
        yield pool
    lab.close()
    process.close()


def test_the_ledger_of_a_pool_from_its_bring_up_to_its_soak_and_its_end(held: Any) -> None:
    kept: list[Fact] = []
    held.at_end.append(lambda: kept.extend(held.books.ledgers()))
    first, second = held.workers
    waited = held.lab.clock.now()
    assert uptime(first.boots(), 5580.0, "n").outcome == "holds"
    took = held.lab.clock.now() - waited
    uptime_of_second = second.boots()
    verdict = uptime(uptime_of_second, 5580.0, "n", restarts=second.pod_restarts())
    assert verdict.outcome == "holds"
    assert held.lab.clock.now() - waited - took < 60.0, (
        "what the first waited for is not waited twice"
    )
    looks = [one for one in first.boot_ledger().entries if one.what == "look"]
    assert {one.what for one in second.boot_ledger().entries} >= {"boot", "look", "event", "vmi"}
    assert len(looks) > 3
    # somebody deletes the pool: the next look says so, and is neither a reboot nor an error
    held.lab.management.delete(
        "apps.cozystack.io/v1alpha1", "KubernetesNodes", "tenant-hil", "lab-plain"
    )
    held.pause(600.0, "the pool to be gone")
    taken = uptime(first.boots(), 9000.0, "n", ledger=first.boot_ledger())
    assert taken.outcome == "unknown"
    assert taken.because.startswith("the soak was cut short, the pool was deleted: ")
    held.end()
    assert [type(one) for one in kept] == [BootLedger, BootLedger]
