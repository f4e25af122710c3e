"""Clients for Python, each in its own environment, through a working day on the standing twin.

A driver (`drivers/`) goes through its topics and prints what it saw; what stops it is in the
message of every test whose topic it did not reach. `make peers` makes the environments.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bench import peers
from tests.clients.driving import (
    DRIVERS,
    RunningTwin,
    environment,
    finish,
    make_namespace,
    started,
)

OFFICIAL = {"kubernetes-36": "36.", "kubernetes-37": "37."}
DRIVER = {
    **dict.fromkeys(OFFICIAL, "official.py"),
    "kr8s": "kr8s_client.py",
    "lightkube": "lightkube_client.py",
    "openshift-python-wrapper": "openshift_wrapper.py",
}
HOSTS = ["hv-1", "hv-2", "hv-3"]
MODULES = ["nvidia_uvm", "nvidia_drm", "nvidia_modeset"]
NO_FILE = "cat: can't open '/none': No such file or directory\n"
OVERTAKEN = "the object has been modified; please apply your changes to the latest version"
CHANGES = [["ADDED", "1"], ["MODIFIED", "2"], ["DELETED", "2"]]


@dataclass(frozen=True)
class Day:
    """What one driver saw, by topic."""

    client: str
    saw: dict[str, Any] = field(default_factory=dict)
    stopped: str = ""

    def topic(self, name: str) -> Any:
        if name not in self.saw:
            pytest.fail(f"{self.client} did not get through {name!r}: {self.stopped}")
        return self.saw[name]


@pytest.fixture(scope="module")
def days(standing: RunningTwin, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Day]:
    """The day of a client, lived once."""
    lived: dict[str, Day] = {}

    def day(client: str) -> Day:
        if client not in lived:
            python = peers.python_of(client)
            if python is None:
                pytest.skip(f"no environment {client!r}: `make peers` makes it")
            lived[client] = live(client, python, standing, tmp_path_factory.mktemp(client))
        return lived[client]

    return day


def live(client: str, python: Path, twin: RunningTwin, home: Path) -> Day:
    namespace = f"day-{client}"
    make_namespace(twin, namespace)
    given = (str(twin.kubeconfig), namespace, twin.told()["clock"], str(home))
    # its modules are compiled beside them, once for all runs
    env = environment(HOME=str(home), TMPDIR=str(home))
    env.pop("PYTHONPYCACHEPREFIX", None)
    ended = finish(started([str(python), str(DRIVERS / DRIVER[client]), *given], env))
    lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    stopped = ended.stderr if ended.returncode else ""
    return Day(client, {line["topic"]: line["saw"] for line in lines}, stopped)


def modules(text: str) -> list[str]:
    """The names in a /proc/modules."""
    return [line.split()[0] for line in text.splitlines()]


def refused(answer: dict[str, Any], status: int, reason: str, words: str = "") -> None:
    assert (answer["status"], answer["reason"]) == (status, reason)
    assert words in answer["message"]


@pytest.fixture(params=OFFICIAL)
def official(request: pytest.FixtureRequest, days: Callable[[str], Day]) -> Day:
    return days(request.param)


def test_official_reads_every_kind_that_it_has_a_model_for(official: Day) -> None:
    version = official.topic("version")
    assert version["client"].startswith(OFFICIAL[official.client])
    assert {"kubevirt.io", "apps.cozystack.io"} <= set(version["groups"])
    read = official.topic("typed")
    for kind in ("node", "event_for_all_namespaces", "lease_for_all_namespaces", "storage_class"):
        assert read["management"][kind] > 0, kind
        assert read["tenant-lab"][kind] > 0, kind
    for kind in ("pod", "secret", "deployment", "persistent_volume_claim", "service"):
        assert read["management"][f"{kind}_for_all_namespaces"] > 0, kind


def test_official_reads_typed_lists(official: Day) -> None:
    saw = official.topic("reading")
    assert saw["nodes"] == HOSTS
    assert saw["ready"] == ["True"] * 3
    assert all(int(memory) > 2**38 for memory in saw["memory"])
    assert saw["launcher"] == ["Running"]
    assert saw["born"] == "2026-01-01T00:00:00+00:00"
    assert (saw["pages"], saw["left"]) == ([2, 1], 1)


def test_official_patches_in_three_ways_and_is_refused(official: Day) -> None:
    saw = official.topic("writing")
    assert saw["patched"] == {"a": "3", "c": "4"}
    refused(saw["stale"], 409, "Conflict", OVERTAKEN)
    assert saw["replaced"] == {"replaced": "1"}
    assert saw["deleted"] == "Success"
    refused(saw["absent"], 404, "NotFound", 'configmaps "patched" not found')
    refused(saw["again"], 409, "AlreadyExists", "already exists")
    refused(saw["forbidden"], 403, "Forbidden", ':bot" cannot list resource "pods"')


def test_official_applies_on_the_server(official: Day) -> None:
    saw = official.topic("applying")
    assert saw["managers"] == ["me"]
    refused(saw["conflict"], 409, "Conflict", 'conflict with "me": .data.a')
    assert saw["forced"] == {"a": "2"}


def test_official_works_on_kinds_without_a_model(official: Day) -> None:
    saw = official.topic("custom")
    assert "lab-gpu-l40s" in saw["listed"]
    assert saw["everywhere"] == len(saw["listed"])
    assert (saw["cluster"], saw["patched"], saw["scale"]) == ("lab", "seen", 1)
    refused(saw["operations"], 400, "BadRequest", "must be an object, not a list")
    dynamic = official.topic("dynamically")
    assert dynamic["data"] == {"a": "1", "b": "2"}
    assert dynamic["phases"] == ["Running"]
    refused(dynamic["strategic"], 415, "UnsupportedMediaType")
    refused(dynamic["missing"], 404, "NotFound")


def test_official_watches(official: Day) -> None:
    assert official.topic("watching")["events"] == CHANGES


def test_official_runs_a_pod_and_programs_in_it(official: Day) -> None:
    saw = official.topic("running")
    assert saw["phases"][0] == "Pending"  # from the first event on, before anybody has seen it
    assert saw["phases"][-1] == "Running"
    assert saw["modules"]["code"] == 0
    assert modules(saw["modules"]["out"])[:3] == MODULES
    assert saw["failed"] == {"out": "", "err": NO_FILE, "code": 1}
    assert saw["log"] == ""
    assert saw["deleted"]
    refused(saw["absent"], 404, "NotFound")


def test_official_is_handed_back_what_went(official: Day) -> None:
    assert official.topic("handed_back") == {"pod": "forced", "account": "gone"}


@pytest.fixture
def kr8s(days: Callable[[str], Day]) -> Day:
    return days("kr8s")


def test_kr8s_reads(kr8s: Day) -> None:
    version, saw = kr8s.topic("version"), kr8s.topic("reading")
    assert (version["client"], version["who"]) == ("0.20.15", "hil-admin")
    assert version["kinds"] > 50
    assert (saw["nodes"], saw["one"]) == (HOSTS, "hv-2")
    assert (saw["launcher"], saw["ready"], saw["short"]) == (["Running"], [True], ["Running"])
    assert saw["kubelet"] == version["server"]
    assert saw["everywhere"] > 1
    assert saw["missing"]["raised"] == "NotFoundError"


def test_kr8s_writes(kr8s: Day) -> None:
    saw = kr8s.topic("writing")
    assert (saw["data"], saw["labels"]) == ({"a": "3"}, {"colour": "red"})
    assert saw["annotations"] == {"note": "seen"}
    assert (saw["found"], saw["left"], saw["exists"]) == (["written"], {}, False)
    refused(saw["again"], 409, "AlreadyExists")
    custom = kr8s.topic("custom")
    assert (custom["cluster"], custom["noted"], custom["replicas"]) == ("lab", "seen", 1)
    assert "lab-gpu-l40s" in custom["discovered"]


def test_kr8s_watches_waits_and_runs_programs(kr8s: Day) -> None:
    assert kr8s.topic("watching")["events"] == CHANGES
    saw = kr8s.topic("running")
    assert (saw["phase"], saw["code"], saw["exists"]) == ("Running", 0, False)
    assert modules(saw["modules"])[:3] == MODULES
    assert saw["failed"] == [1, NO_FILE]
    assert saw["log"] == []


@pytest.fixture
def lightkube(days: Callable[[str], Day]) -> Day:
    return days("lightkube")


def test_lightkube_reads(lightkube: Day) -> None:
    saw = lightkube.topic("reading")
    assert (saw["client"], saw["nodes"], saw["pages"]) == ("1.0.1", HOSTS, 3)
    assert saw["kubelet"].startswith("v1.")
    assert saw["launcher"] == ["Running"]
    assert saw["everywhere"] > 1
    refused(saw["missing"], 404, "NotFound")


def test_lightkube_applies_and_patches(lightkube: Day) -> None:
    saw = lightkube.topic("writing")
    refused(saw["conflict"], 409, "Conflict", 'conflict with "driver": .data.a')
    assert saw["forced"] == {"a": "2", "b": "2"}
    assert (saw["data"], saw["labels"]) == ({"a": "2", "c": "3"}, {"colour": "red"})
    refused(saw["stale"], 409, "Conflict", OVERTAKEN)
    refused(saw["created"], 409, "AlreadyExists")
    assert saw["dry"] == saw["data"]
    refused(saw["gone"], 404, "NotFound")
    custom = lightkube.topic("custom")
    assert (custom["cluster"], custom["noted"], custom["replicas"]) == ("lab", "seen", 1)
    assert custom["ready"] == ["True"]


def test_lightkube_watches_waits_and_runs_programs(lightkube: Day) -> None:
    assert lightkube.topic("watching")["events"] == CHANGES
    saw = lightkube.topic("running")
    assert (saw["phase"], saw["namespace"], saw["code"]) == ("Running", "Active", 0)
    assert modules(saw["modules"])[:3] == MODULES
    assert saw["failed"] == [1, NO_FILE]
    assert saw["log"] == []
    refused(saw["gone"], 404, "NotFound")


@pytest.fixture
def wrapper(days: Callable[[str], Day]) -> Day:
    return days("openshift-python-wrapper")


def test_the_wrapper_reads(wrapper: Day) -> None:
    saw = wrapper.topic("reading")
    assert (saw["client"], saw["nodes"]) == ("11.0.143", HOSTS)
    assert (saw["ready"], saw["addresses"]) == ([True] * 3, 3)
    assert (saw["instances"], saw["launcher"]) == (["Running"], ["Running"])
    assert set(saw["on"]) <= set(HOSTS)
    assert saw["absent"]


def test_the_wrapper_writes_and_puts_back(wrapper: Day) -> None:
    assert wrapper.topic("spaces") == {"phase": "Active", "left": False}
    saw = wrapper.topic("writing")
    assert (saw["again"], saw["merged"]) == (409, {"a": "1", "b": "2"})
    assert (saw["edited"], saw["restored"]) == ({"a": "edited", "b": "2"}, {"a": "1", "b": "2"})
    assert saw["gone"] == [True, False]


def test_the_wrapper_samples_until_a_pod_runs(wrapper: Day) -> None:
    saw = wrapper.topic("running")
    assert saw["phase"] == "Running"
    assert saw["node"].startswith("kubernetes-lab-gpu-l40s-")
    assert modules(saw["modules"])[:3] == MODULES
    assert saw["failed"] == ""
    assert saw["gave_up"].startswith("Timed Out: 1\n")
    assert saw["gone"] == [True, False]
