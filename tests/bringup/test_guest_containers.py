"""A machine with podman on it, in small: what podman 4.3.1 does with CDI files was tried there."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness import judge
from harness.bringup.guest_containers import GENERATE, IMPORT, SPEC, GuestContainers
from harness.facts.cdi import CdiAbsent, CdiSpec
from harness.facts.cdifiles import CdiFiles
from harness.facts.fact import Unread
from harness.facts.nvidia import SmiCards
from harness.facts.probes import Control, EarlyPod, Injected
from harness.observe import guest
from harness.observe.containers import Podman
from harness.reach.errors import LabError
from harness.reach.nodeshell import Reply

UUID = "GPU-00000000-0000-4000-8000-000000000000"
LISTED = f"GPU 0: Stub (UUID: {UUID})\n"
WRITTEN = (
    "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n"
    "devices: [{name: '0', containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}}]\n"
)
Answer = tuple[int | None, str, str]
HOOKS = "/etc/containers/oci/hooks.d"
NO_TOOL = (
    "Error: crun: executable file `nvidia-smi` not found in $PATH: No such file or directory: OCI "
    "runtime attempted to invoke a command that was not found\n"
)
GONE = 'Error: no container with name or ID "{}" found: no such container\n'


@dataclass(slots=True)
class Box:
    """One container: how it was made, whether it runs, and what it was given."""

    made: list[str]
    number: int
    running: bool = False
    given: bool = False


@dataclass(slots=True)
class Guest:
    """The machine. ``broken`` answers a command before anything else does."""

    files: dict[str, str] = field(default_factory=lambda: {SPEC: WRITTEN})
    boxes: dict[str, Box] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    broken: Callable[[list[str]], Answer | None] = lambda argv: None
    driver: bool = True
    in_image: bool = False
    where: str = "guest n1"
    root: str = ""

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        words = list(argv)
        self.ran.append(" ".join(words))
        code, out, err = self.broken(words) or self._answer(words)
        problem = "" if code is not None else "the connection has ended"
        return Reply(tuple(argv), code, out.encode(), err.encode(), 40.0, 42.0, problem)

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        return self.run(argv, timeout=timeout)

    def _answer(self, words: list[str]) -> Answer:
        name, *rest = words
        if name == "podman":
            return self._podman(rest[1:])
        if name == "cat":
            return self._cat(rest[0])
        if name == "ls":
            return self._ls(rest[0])
        if name == "rm":
            self.files.pop(rest[-1], None)
            return 0, "", ""
        if name == IMPORT:
            return 0, "sha256:a214\n", ""
        if name == GENERATE:
            if not self.driver:
                return 1, "", "hil-cdi-generate: no /dev/nvidia[0-9]: nothing written\n"
            self.files[SPEC] = WRITTEN
            return 0, f"hil-cdi-generate: wrote {SPEC}\n", ""
        if name == guest.SMI:
            return 0, LISTED, ""
        raise AssertionError(words)

    def _cat(self, path: str) -> Answer:
        if path not in self.files:
            return 1, "", f"cat: {path}: No such file or directory\n"
        return 0, self.files[path], ""

    def _ls(self, path: str) -> Answer:
        names = [one.rpartition("/")[2] for one in self.files if one.rpartition("/")[0] == path]
        if not names and path != "/run/cdi":
            return 2, "", f"ls: cannot access '{path}': No such file or directory\n"
        return 0, "".join(f"{name}\n" for name in names), ""

    def _podman(self, words: list[str]) -> Answer:
        verb, *rest = words
        if verb == "--version":
            return 0, "podman version 4.3.1\n", ""
        if verb == "rm":
            label = rest[-1].replace("label=", "--label=")
            self.boxes = {name: box for name, box in self.boxes.items() if label not in box.made}
            return 0, "", ""
        if verb == "create":
            name = rest[rest.index("--name") + 1]
            assert "--replace" in rest or name not in self.boxes
            self.boxes[name] = Box(["podman", *words], len(self.ran))
            return 0, "0d2b\n", ""
        if verb == "inspect":
            there = [name for name in rest[2:] if name in self.boxes]
            found = [self._inspected(name, self.boxes[name]) for name in there]
            return 125 * (len(there) < len(rest[2:])), json.dumps(found), ""
        name = rest[-1] if verb != "exec" else rest[0]
        if name not in self.boxes:
            return 125, "", GONE.format(name)
        box = self.boxes[name]
        if verb == "start":
            return self._start(box)
        if not box.running:
            return 255, "", "Error: can only create exec sessions on running containers\n"
        return (0, LISTED, "") if box.given or self.in_image else (127, "", NO_TOOL)

    def _start(self, box: Box) -> Answer:
        asked = "--device" in box.made
        if asked and not any(path.startswith("/run/cdi") for path in self.files):
            return 125, "", f'Error: unable to start container "{"0" * 64}": {UNRESOLVABLE}\n'
        box.running, box.given = True, asked
        return 0, "", ""

    def _inspected(self, name: str, box: Box) -> dict[str, Any]:
        # once it runs, what it was given is mixed with what it asked for
        env = ["NVIDIA_VISIBLE_DEVICES=void"] if box.given else []
        return {
            "Name": name,
            "Created": f"2026-11-30T15:23:40.{box.number:06d}Z",
            "State": {"Status": "running" if box.running else "created"},
            "ImageName": "localhost/hil-probe:latest",
            "Image": "a214ecbd900720b35e2d",
            "OCIRuntime": "crun",
            "Mounts": [],
            "Config": {"Env": env, "CreateCommand": box.made},
            "HostConfig": {"Privileged": False, "Devices": []},
        }


UNRESOLVABLE = "setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=0"


def on(machine: Guest) -> GuestContainers:
    return GuestContainers(machine, node="n1", run="r.1")


def refusing(verb: str, code: int | None, err: str) -> Guest:
    """A machine where one verb of podman answers with this."""
    machine = Guest()
    machine.broken = lambda argv: (code, "", err) if argv[2:3] == [verb] else None
    return machine


def test_the_claims_hold_on_a_machine_as_on_a_cluster() -> None:
    machine = Guest()
    tried = on(machine)
    early, fresh, control = tried.early_pod(), tried.fresh_pod(), tried.control_pod()
    smi = guest.smi_list(machine)
    injection = judge.cdi_injection(fresh, control, smi, None, None, "guest n1")
    assert injection.outcome == "holds", injection.because
    before = judge.early_pod_unserved(early, fresh, None, "guest n1")
    assert before.outcome == "holds", before.because
    assert "hil-older-r.1, which runs since before, finds no driver" in before.because
    spec = judge.cdi_spec(tried.cdi_spec(), 1, "guest n1")
    assert spec.outcome == "holds", spec.because


def test_the_early_container_asked_as_the_fresh_one_does_and_was_refused() -> None:
    machine = Guest()
    tried = on(machine)
    early, fresh = tried.early_pod(), tried.fresh_pod()
    assert isinstance(early, EarlyPod)
    assert isinstance(fresh, Injected)
    assert early.stored.asked == fresh.stored.asked == ("nvidia.com/gpu=0",)
    assert (early.advertised, early.smi) == (None, None)
    assert (early.stored.phase, early.stored.reason) == ("created", "CDIUnresolved")
    assert early.stored.message == f"Error: {UNRESOLVABLE}"
    assert early.stored.image == fresh.stored.image
    assert isinstance(early.older, Control)
    assert (early.older.found_driver, early.older.stored.requested) == (False, 0)
    assert early.older.said == NO_TOOL.strip()
    assert early.older.stored.phase == "running"


def test_the_older_one_ran_before_the_file_was_written_anew() -> None:
    machine = Guest()
    on(machine).early_pod()
    wrote = machine.ran.index(GENERATE)
    begun = [at for at, one in enumerate(machine.ran) if " start hil-" in one]
    assert len(begun) == 2
    assert max(begun) < wrote
    assert machine.ran.index(f"rm -f {SPEC}") < min(begun)
    looked = [at for at, one in enumerate(machine.ran) if " exec hil-older" in one]
    assert min(looked) > wrote
    assert SPEC in machine.files


def test_a_fresh_container_and_what_it_could_have_been_given() -> None:
    fresh = on(Guest()).fresh_pod()
    assert isinstance(fresh, Injected)
    assert isinstance(fresh.smi, SmiCards)
    assert fresh.stored.aids == (), "what CDI put in is no aid that was asked for"
    assert isinstance(fresh.files, CdiFiles)
    assert [one.path for one in fresh.files.files] == [SPEC]
    assert fresh.origin.source == "guest n1:podman inspect hil-fresh-r.1"


def test_each_is_made_once() -> None:
    machine = Guest()
    tried = on(machine)
    first = [tried.early_pod(), tried.fresh_pod(), tried.control_pod()]
    commands = len(machine.ran)
    assert [tried.early_pod(), tried.fresh_pod(), tried.control_pod()] == first
    assert len(machine.ran) == commands
    made = [one for one in machine.ran if " create " in one]
    assert [one.partition("--name ")[2].partition(" ")[0] for one in made] == [
        "hil-early-r.1",
        "hil-older-r.1",
        "hil-fresh-r.1",
        "hil-control-r.1",
    ]
    assert made[2].endswith(
        " --network=none --device nvidia.com/gpu=0 localhost/hil-probe sleep 2147483647"
    )
    assert made[3].endswith(" --network=none localhost/hil-probe sleep 2147483647")
    for one in made:
        assert "--pull=never" in one
        assert "--label=hil.dev/run=r.1" in one
    assert (machine.ran.count(IMPORT), machine.ran.count(GENERATE)) == (1, 1)


def test_every_container_of_the_run_can_be_cleared_and_no_other() -> None:
    other = Box(["podman", "--label=hil.dev/run=r.10"], 0)
    machine = Guest(boxes={"other": other})
    tried = on(machine)
    tried.fresh_pod()
    tried.control_pod()
    assert len(machine.boxes) == 3
    tried.clear()
    assert machine.boxes == {"other": other}
    removing = "podman --cgroup-manager=cgroupfs rm -f -t 0 --filter label=hil.dev/run=r.1"
    assert machine.ran[-1] == removing


@pytest.mark.parametrize(
    ("code", "err", "saw"),
    [(125, "Error: x\n", "Error: x"), (None, "", "the connection has ended")],
)
def test_containers_that_cannot_be_removed_are_told(code: int | None, err: str, saw: str) -> None:
    with pytest.raises(LabError, match="remove the run's containers on n1") as caught:
        on(refusing("rm", code, err)).clear()
    assert caught.value.saw == saw


def test_what_an_earlier_try_of_the_run_left_is_replaced() -> None:
    machine = Guest(boxes={"hil-control-r.1": Box(["podman", "--device"], 0, True, True)})
    found = on(machine).control_pod()
    assert isinstance(found, Control)
    assert found.found_driver is False


def test_a_file_that_names_the_device_from_elsewhere_makes_it_too_late() -> None:
    machine = Guest(files={"/etc/cdi/old.yaml": WRITTEN, SPEC: WRITTEN})
    early = on(machine).early_pod()
    assert isinstance(early, EarlyPod)
    assert early.advertised == "/etc/cdi/old.yaml"


@pytest.mark.parametrize("text", ["a: [", WRITTEN.replace("nvidia.com", "amd.com")])
def test_a_file_that_names_another_device_or_none_does_not(text: str) -> None:
    early = on(Guest(files={"/etc/cdi/other.yaml": text})).early_pod()
    assert isinstance(early, EarlyPod)
    assert early.advertised is None


def test_podman_may_have_to_be_called_in_another_way() -> None:
    machine = Guest()
    podman = Podman(machine, "n1", ("podman", "--runtime=runc"))
    tried = GuestContainers(machine, "n1", "r.1", podman, options=("--ulimit=nproc=1024:1024",))
    assert isinstance(tried.fresh_pod(), Injected)
    asked = [one for one in machine.ran if one.startswith("podman")]
    assert all(one.startswith("podman --runtime=runc ") for one in asked)
    assert " --ulimit=nproc=1024:1024 --device " in asked[0]


def test_a_refused_one_that_runs_when_it_is_looked_at_shows_nothing() -> None:
    machine = Guest()

    def late(argv: list[str]) -> Answer | None:
        if argv[2:3] != ["start"]:
            return None
        machine.boxes[argv[-1]].running = True
        return 125, "", f"Error: {UNRESOLVABLE}\n"

    machine.broken = late
    fresh = on(machine).fresh_pod()
    assert isinstance(fresh, Injected)
    assert isinstance(fresh.smi, Unread)
    assert (fresh.stored.phase, fresh.stored.reason) == ("running", "")


def test_an_early_container_that_somebody_starts_again_has_its_card() -> None:
    machine = Guest()

    def again(argv: list[str]) -> Answer | None:
        box = machine.boxes.get("hil-early-r.1")
        if argv == [GENERATE] and box is not None:
            box.running = box.given = True
        return None

    machine.broken = again
    tried = on(machine)
    early, fresh = tried.early_pod(), tried.fresh_pod()
    assert isinstance(early, EarlyPod)
    assert isinstance(early.smi, SmiCards)
    assert (early.stored.phase, early.stored.reason) == ("running", "")
    assert judge.early_pod_unserved(early, fresh, None, "guest n1").outcome == "broken"


def test_without_a_driver_the_file_is_not_written_and_that_is_a_finding() -> None:
    machine = Guest(driver=False, files={})
    tried = on(machine)
    spec, early, fresh = tried.cdi_spec(), tried.early_pod(), tried.fresh_pod()
    assert isinstance(spec, CdiAbsent)
    assert isinstance(fresh, Injected)
    assert fresh.stored.reason == "CDIUnresolved"
    assert not any(" exec hil-fresh" in one for one in machine.ran)
    smi = guest.smi_list(machine)
    verdict = judge.cdi_injection(fresh, tried.control_pod(), smi, None, None, "guest n1")
    assert verdict.outcome == "broken"
    assert "no file is in /etc/cdi or /run/cdi" in verdict.because
    assert isinstance(fresh.files, CdiFiles)
    assert fresh.files.engine == "podman 4.3.1"
    assert judge.early_pod_unserved(early, fresh, None, "guest n1").outcome == "unknown"


def test_an_image_that_ships_a_driver_spoils_every_claim() -> None:
    machine = Guest(in_image=True)
    tried = on(machine)
    control = tried.control_pod()
    assert isinstance(control, Control)
    assert (control.found_driver, control.said) == (True, LISTED)
    fresh = tried.fresh_pod()
    for verdict in (
        judge.cdi_injection(fresh, control, guest.smi_list(machine), None, None, "x"),
        judge.early_pod_unserved(tried.early_pod(), fresh, None, "x"),
    ):
        assert verdict.outcome == "unknown", verdict.because
        assert "finds a driver" in verdict.because


def test_a_hook_of_the_machines_engine_is_an_aid() -> None:
    machine = Guest(files={SPEC: WRITTEN, f"{HOOKS}/nvidia.json": "{}"})
    fresh = on(machine).fresh_pod()
    assert isinstance(fresh, Injected)
    assert fresh.stored.aids == (f"hook {HOOKS}/nvidia.json",)


@pytest.mark.parametrize(
    ("machine", "reason"),
    [
        (refusing("create", 125, "Error: creating container storage: x\n"), "creating container"),
        (refusing("create", None, ""), "the connection has ended"),
        (refusing("inspect", 125, "Error: no such container\n"), "no such container"),
        (refusing("inspect", None, ""), "the connection has ended"),
    ],
)
def test_what_could_not_be_made_is_not_known(machine: Guest, reason: str) -> None:
    tried = on(machine)
    for found in (tried.early_pod(), tried.fresh_pod(), tried.control_pod()):
        assert isinstance(found, Unread), found
        assert reason in found.reason


@pytest.mark.parametrize("kind", ["early", "fresh", "control"])
def test_one_that_cannot_be_found_again_is_not_known(kind: str) -> None:
    machine = Guest()
    name = f"hil-{kind}-r.1"

    def gone(argv: list[str]) -> Answer | None:
        started = any(one.endswith(f"start {name}") for one in machine.ran)
        lost = argv[2:3] in (["inspect"], ["exec"]) and started
        return (125, "[]", f"Error: no such container {name}\n") if lost else None

    machine.broken = gone
    tried = on(machine)
    looks = {"early": tried.early_pod, "fresh": tried.fresh_pod, "control": tried.control_pod}
    found = looks[kind]()
    assert isinstance(found, Unread)
    assert (found.asked, "no such container" in found.reason) == (f"container {name}", True)


def test_a_start_without_an_answer_is_no_refusal_for_the_device() -> None:
    machine = refusing("start", None, "")
    tried = on(machine)
    fresh = tried.fresh_pod()
    assert isinstance(fresh, Injected)
    assert isinstance(fresh.smi, Unread)
    assert "NotStarted: the connection has ended" in fresh.smi.reason
    assert isinstance(tried.control_pod(), Unread)
    early = tried.early_pod()
    assert judge.early_pod_unserved(early, fresh, None, "x").outcome == "unknown"


def test_a_container_that_ends_at_once_is_told_for_that() -> None:
    machine = Guest()

    def ends(argv: list[str]) -> Answer | None:
        for box in machine.boxes.values():
            box.running = False
        return None

    machine.broken = ends
    fresh = on(machine).fresh_pod()
    assert isinstance(fresh, Injected)
    assert isinstance(fresh.smi, Unread)
    assert fresh.smi.reason == "container hil-fresh-r.1 is created"


def test_one_that_runs_and_does_not_answer_is_told_for_that() -> None:
    fresh = on(refusing("exec", None, "")).fresh_pod()
    assert isinstance(fresh, Injected)
    assert isinstance(fresh.smi, Unread)
    assert (fresh.stored.phase, "has ended" in fresh.smi.reason) == ("running", True)


def test_as_few_questions_as_can_be() -> None:
    machine = Guest()
    tried = on(machine)
    tried.early_pod()
    early = [one.split()[2] for one in machine.ran if one.startswith("podman")]
    assert early == ["create", "create", "inspect", "start", "start", "inspect", "exec"]
    machine.ran.clear()
    tried.fresh_pod()
    fresh = [one.split()[2] for one in machine.ran if one.startswith("podman")]
    assert fresh == ["create", "inspect", "start", "exec"]


def test_files_that_cannot_be_read_are_told() -> None:
    machine = Guest()
    machine.broken = lambda argv: (2, "", "ls: denied") if argv == ["ls", "/etc/cdi"] else None
    fresh = on(machine).fresh_pod()
    assert isinstance(fresh, Injected)
    assert isinstance(fresh.files, Unread)
    assert isinstance(on(machine).early_pod(), Unread)


def test_with_which_podman_the_files_were_read_is_asked_where_one_was_refused() -> None:
    served, refused = Guest(), Guest(driver=False, files={})
    assert isinstance(on(served).fresh_pod(), Injected)
    assert not any("--version" in one for one in served.ran)
    refused.broken = lambda argv: (None, "", "") if argv[-1] == "--version" else None
    fresh = on(refused).fresh_pod()
    assert isinstance(fresh, Injected)
    assert isinstance(fresh.files, Unread)


def test_hooks_that_cannot_be_listed_leave_all_unread() -> None:
    machine = Guest()
    machine.broken = lambda argv: (1, "", "ls: denied") if argv == ["ls", HOOKS] else None
    assert isinstance(on(machine).control_pod(), Unread)


@pytest.mark.parametrize(
    ("path", "answer", "saw"),
    [
        (IMPORT, (125, "", "Error: x\n"), "Error: x"),
        (IMPORT, (1, "said on stdout\n", ""), "said on stdout"),
        (IMPORT, (None, "", ""), "the connection has ended"),
        (IMPORT, (1, "", ""), "no word"),
        (GENERATE, (127, "", "Error: x\n"), "Error: x"),
        (GENERATE, (126, "", "Error: x\n"), "Error: x"),
        (GENERATE, (None, "", ""), "the connection has ended"),
    ],
)
def test_a_machine_without_the_tools_is_unfit(path: str, answer: Answer, saw: str) -> None:
    machine = Guest()
    machine.broken = lambda argv: answer if argv == [path] else None
    with pytest.raises(LabError, match=f"run {path} on n1") as caught:
        on(machine).fresh_pod()
    assert saw in str(caught.value)


def test_a_file_that_cannot_be_taken_away_is_told() -> None:
    machine = Guest()
    machine.broken = lambda argv: (1, "", "rm: read-only") if argv[0] == "rm" else None
    with pytest.raises(LabError, match="read-only"):
        on(machine).early_pod()


def test_the_spec_is_the_machines_own() -> None:
    machine = Guest(files={})
    found = on(machine).cdi_spec()
    assert isinstance(found, CdiSpec)
    assert found.devices == ("0",)
