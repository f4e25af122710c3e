"""The boots of guests and of a cluster's workers: how each is asked, and come back to."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from harness.bringup.boots import EVERY
from harness.bringup.machine_boots import GUEST_LIMIT, INSIDE, PROMPT, guest_boots
from harness.bringup.node_boots import node_boots
from harness.clock import WallClock
from harness.facts.boots import BootSample, WorkerGone
from harness.facts.fact import Unread
from harness.facts.reboots import Reboots
from harness.reach.errors import ApiRefused, LabError, LeaseLost, Unreachable
from harness.reach.nodeshell import Reply

BOOT = "9c6cd353-d611-4b30-910f-c90ec5268979"
LOOKED = f"{BOOT}\n1083.25 300.10\n".encode()


class Shell:
    """A login whose connection ends when told to, and is made good again by `reconnect`."""

    where, root = "machine n1", ""

    def __init__(self) -> None:
        self.broken = False
        self.unreachable = False
        self.asked: list[tuple[tuple[str, ...], float]] = []
        self.logins: list[float] = []

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        self.asked.append((tuple(argv), timeout))
        if self.broken:
            return Reply(tuple(argv), None, b"", b"", 1.0, 2.0, "the SSH connection has ended")
        said = LOOKED if argv[0] == "cat" else b"[    0.000000] Linux version 6.1 x\n"
        return Reply(tuple(argv), 0, said, b"", 1.0, 2.0)

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        raise AssertionError

    def reconnect(self, *, timeout: float = 30.0) -> None:
        if self.unreachable:
            raise Unreachable("log in", "nothing", "wait")
        self.logins.append(timeout)
        self.broken = False


def guest(shell: Shell, **more: Any) -> Any:
    def no_console() -> Any:
        raise Unreachable("attach", "nobody", "see")

    given: dict[str, Any] = {"console": no_console, "power": object, **more}
    return guest_boots("n1", WallClock(), login=lambda: shell, **given)  # type: ignore[arg-type]


def test_a_guest_is_asked_within_a_limit_and_counts_from_its_first_second() -> None:
    shell = Shell()
    boots = guest(shell)
    boots.follow()
    (sample,) = boots.log.samples
    assert (sample.node, sample.boot_id, sample.node_uid) == ("n1", BOOT, "")
    assert [timeout for _, timeout in shell.asked] == [GUEST_LIMIT]


def test_a_connection_that_ended_is_made_good_once() -> None:
    shell = Shell()
    shell.broken = True
    boots = guest(shell)
    boots.follow()
    assert isinstance(boots.log.samples[-1], BootSample)
    assert shell.logins == [GUEST_LIMIT]


def test_a_guest_that_does_not_answer_is_unreachable() -> None:
    shell = Shell()
    shell.broken = shell.unreachable = True
    boots = guest(shell)
    boots.follow()
    assert [type(one) for one in boots.log.all_looks] == [Unread], "following costs no scenario"
    with pytest.raises(Unreachable):
        boots.stay_up(1080.0)


def test_a_guest_that_is_old_enough_is_not_waited_for_and_its_log_is_read() -> None:
    shell = Shell()
    boots = guest(shell)
    assert len(boots.stay_up(1080.0)) == 1
    no_console, log = boots.kernel_logs()
    assert isinstance(no_console, Unread)
    assert (log.boot_id, log.whole) == (BOOT, True)


def test_what_a_trial_of_a_guests_reboots_has_to_work_with() -> None:
    shell, power = Shell(), object()
    bench = guest(shell, power=lambda: power).bench()
    assert (bench.where, bench.power, bench.inside, bench.prompt) == (
        "guest n1",
        power,
        INSIDE,
        PROMPT,
    )
    assert bench.login() is shell
    assert bench.come_back(7.0) is shell
    assert shell.logins == [7.0]


def test_reboots_are_tried_once_and_the_looks_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    found = Reboots(Unread(None, "x", "y"), ())  # type: ignore[arg-type]

    def try_them(bench: object) -> Reboots:
        tried.append(bench)
        return found

    monkeypatch.setattr("harness.bringup.machine_boots.try_reboots", try_them)
    boots = guest(Shell())
    boots.follow()
    assert boots.reboots() is found
    assert boots.log.samples == []
    boots.follow()
    assert boots.reboots() is found
    assert (len(tried), len(boots.log.samples)) == (1, 1)


# -- a cluster's worker


class Feed:
    def __init__(self, **objects: Any) -> None:
        self.objects = objects

    def object(self, name: str) -> Any:
        return self.objects.get(name)


class Management:
    """``pool`` is the one request for workers that it holds."""

    def __init__(self) -> None:
        self.pool: Any = {"metadata": {"name": "lab-plain"}}
        self.asked: list[tuple[str, ...]] = []

    def get(self, *what: str) -> Any:
        self.asked.append(what)
        return self.pool


class Tenant:
    name = "tenant lab"

    def get(self, *_: str) -> Any:
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        return {"metadata": {"name": "w1", "uid": "node-uid"}, "status": ready}


def worker(**more: Any) -> Any:
    """A worker of a pool that stands; ``shell`` answers until it is taken away."""
    node = {
        "metadata": {"name": "w1", "uid": "node-uid"},
        "status": {"nodeInfo": {"bootID": BOOT}},
    }
    machine = {"metadata": {"name": "m1"}, "spec": {"infrastructureRef": {"name": "vm1"}}}
    given: dict[str, Any] = {"node": node, "machine": machine, "vmi": "vmi-uid", **more}
    clock = WallClock()
    place = SimpleNamespace(namespace="tenant-hil", cluster="lab")
    pool = SimpleNamespace(
        name="plain",
        lab=SimpleNamespace(
            clock=clock,
            tenant=Tenant(),
            management=Management(),
            inventory=SimpleNamespace(tenant=place),
        ),
        lease=SimpleNamespace(renew=lambda _: None),
        books=None,
        watched=SimpleNamespace(
            nodes=Feed(w1=given["node"]), feeds={"machines": Feed(m1=given["machine"])}
        ),
        wait=None,
        pause=None,
        renew=lambda: None,
        vmi_uid=lambda machine: given["vmi"],
    )
    return SimpleNamespace(name="w1", machine="m1", pool=pool, shell=Shell())


def refuse(*_: Any, **__: Any) -> Any:
    raise ApiRefused(404, "NotFound", "pods hil-shell-x not found")


def looked_at_and_gone(change: Any) -> Any:
    """What is logged of a worker that was well, after a change and with its shell away."""
    there = worker()
    boots = node_boots(there)
    boots.follow()
    change(there)
    there.shell.run = refuse
    return boots.log.look()


def test_a_worker_is_watched_with_what_its_node_and_vmi_show() -> None:
    boots = node_boots(worker())
    sample = boots.log.look()
    assert isinstance(sample, BootSample)
    assert (sample.vmi_uid, sample.node_uid, sample.node_ready) == ("vmi-uid", "node-uid", True)
    assert not boots.log._is_on_another_boot()


def replaced_machine(there: Any) -> None:
    there.pool.watched.feeds["machines"].objects.clear()


def leaving_machine(there: Any) -> None:
    there.pool.watched.feeds["machines"].objects["m1"]["metadata"]["deletionTimestamp"] = "2026"


def no_node(there: Any) -> None:
    there.pool.watched.nodes.objects.clear()


def other_node(there: Any) -> None:
    there.pool.watched.nodes.objects["w1"] = {"metadata": {"name": "w1", "uid": "another"}}


def other_vmi(there: Any) -> None:
    there.pool.vmi_uid = lambda machine: "another"


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        (replaced_machine, ("Machine",)),
        (leaving_machine, ("Machine",)),
        (no_node, ("Node",)),
        (other_node, ("Node",)),
        (other_vmi, ("VMI",)),
    ],
)
def test_a_worker_whose_shell_is_away_was_replaced_where_the_cluster_shows_it(
    change: Any, gone: tuple[str, ...]
) -> None:
    found = looked_at_and_gone(change)
    assert isinstance(found, WorkerGone)
    assert found.gone == gone


@pytest.mark.parametrize(
    ("pool", "taken"),
    [
        ({"metadata": {"name": "lab-plain"}}, ""),
        (None, "the pool was deleted: there is no KubernetesNodes lab-plain any more"),
        (
            {"metadata": {"name": "lab-plain", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
            "the pool is being deleted: KubernetesNodes lab-plain",
        ),
    ],
)
def test_a_worker_that_went_with_its_pool_was_not_replaced(pool: Any, taken: str) -> None:
    def change(there: Any) -> None:
        replaced_machine(there)
        there.pool.lab.management.pool = pool

    found = looked_at_and_gone(change)
    assert (found.gone, found.taken) == (("Machine",), taken)


def test_a_pool_that_another_run_has_taken_over_is_no_loss_of_the_worker() -> None:
    def change(there: Any) -> None:
        def lost(_: Any) -> None:
            raise LeaseLost("renew", "it held by another", "treat it as unknown")

        replaced_machine(there)
        there.pool.lease.renew = lost

    with pytest.raises(LeaseLost, match="held by another"):
        looked_at_and_gone(change)


def test_where_time_passes_by_itself_looks_are_30_seconds_apart() -> None:
    there = worker()
    assert node_boots(there).log.every == 30.0
    there.pool.lab.clock.follows = True
    assert node_boots(there).log.every == EVERY


def test_a_worker_whose_shell_alone_is_away_is_no_other() -> None:
    with pytest.raises(ApiRefused):
        looked_at_and_gone(lambda there: None)


def test_a_worker_that_was_never_seen_is_gone_with_its_machine_or_node_alone() -> None:
    there = worker(vmi="", machine=None)
    there.shell.run = refuse
    found = node_boots(there).log.look()
    assert isinstance(found, WorkerGone)
    assert found.gone == ("Machine",)
    there = worker(vmi="")
    there.shell.run = refuse
    with pytest.raises(ApiRefused):
        node_boots(there).log.look()


def test_talos_is_made_to_boot_by_its_kernel_alone() -> None:
    bench = node_boots(worker()).bench()
    assert (bench.power, bench.inside, bench.prompt) == (None, (), b"")


def test_a_machine_that_is_gone_has_no_console() -> None:
    bench = node_boots(worker(machine=None)).bench()
    with pytest.raises(LabError, match="there is no Machine m1 any more"):
        bench.attach()
