"""Answers are podman's 4.3.1, from a machine of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from harness.facts.cdi import CdiSpec
from harness.facts.cdifiles import CdiFiles
from harness.facts.fact import Unread
from harness.facts.nvidia import SmiCards
from harness.facts.probes import NoTool
from harness.observe.containers import Podman, cdi_files
from harness.reach.errors import LabError
from harness.reach.nodeshell import Reply

UUID = "GPU-00000000-0000-4000-8000-000000000000"
RUN_SPEC = "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: '0'}]\n"
NO_DIRECTORY = "ls: cannot access '{}': No such file or directory\n"
HOOKS = ("/usr/share/containers/oci/hooks.d", "/etc/containers/oci/hooks.d")
INSPECTED = json.dumps(
    [
        {
            "Name": "probe",
            "Created": "2026-11-30T15:23:40.9Z",
            "State": {"Status": "running"},
            "OCIRuntime": "crun",
            "HostConfig": {"Privileged": False},
        }
    ]
)
Answer = tuple[int | None, str, str]
BOTH_DIRECTORIES: dict[str, Answer] = {
    "ls /etc/cdi": (2, "", NO_DIRECTORY.format("/etc/cdi")),
    "ls /run/cdi": (0, "nvidia.yaml\nbad.json\ngone.yaml\n", ""),
    "cat /run/cdi/nvidia.yaml": (0, RUN_SPEC, ""),
    "cat /run/cdi/bad.json": (0, "{", ""),
    "cat /run/cdi/gone.yaml": (1, "", "cat: /run/cdi/gone.yaml: No such file or directory\n"),
}


class Shell:
    """A machine that answers each command as it was told; asked anything else, it fails."""

    where = "guest n1"

    def __init__(self, answers: dict[str, Answer], root: str = "") -> None:
        self.answers = answers
        self.root = root

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        code, out, err = self.answers[" ".join(argv)]
        problem = "" if code is not None else "the connection has ended"
        return Reply(tuple(argv), code, out.encode(), err.encode(), 40.0, 42.0, problem)

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        return self.run(argv, timeout=timeout)


def podman(words: str, code: int | None, out: str = "", err: str = "") -> Podman:
    return Podman(Shell({f"podman --cgroup-manager=cgroupfs {words}": (code, out, err)}), "n1")


def test_which_podman() -> None:
    assert podman("--version", 0, "podman version 4.3.1\n").version() == "podman 4.3.1"


def test_a_container() -> None:
    asked = podman("inspect --type container probe", 0, INSPECTED)
    found = asked.containers(["probe"], hooks=("/etc/containers/oci/hooks.d/a.json",))
    assert isinstance(found, tuple)
    [one] = found
    assert (one.stored.node, one.running) == ("n1", True)
    assert one.stored.aids == ("hook /etc/containers/oci/hooks.d/a.json",)
    assert one.origin.source == "guest n1:podman inspect probe"
    assert (one.origin.at, one.origin.raw) == (42.0, INSPECTED)


def test_a_container_that_is_not_there() -> None:
    said = "Error: inspecting object: no such container older\n"
    found = podman("inspect --type container probe older", 125, "[]\n", said)
    assert isinstance(found.containers(["probe", "older"]), Unread)


@pytest.mark.parametrize(
    ("code", "out", "err", "kind"),
    [
        (0, f"GPU 0: Stub (UUID: {UUID})\n", "", SmiCards),
        (
            127,
            "",
            'Error: runc: exec failed: unable to start container process: exec: "nvidia-smi": '
            "executable file not found in $PATH: OCI runtime attempted to invoke a command that "
            "was not found\n",
            NoTool,
        ),
        (
            255,
            "",
            "Error: can only create exec sessions on running containers: container state improper",
            Unread,
        ),
        (None, "", "", Unread),
    ],
)
def test_what_a_container_sees(code: int | None, out: str, err: str, kind: type) -> None:
    found = podman("exec probe nvidia-smi -L", code, out, err).smi_list("probe")
    assert isinstance(found, kind)
    assert found.origin.source == "guest n1 container probe:nvidia-smi -L"


def test_a_containers_log() -> None:
    assert podman("logs --tail 40 probe", 0, "hello\n", "err\n").logs("probe") == "hello\nerr\n"
    gone = 'Error: no container with name or ID "probe" found: no such container\n'
    lost = podman("logs --tail 40 probe", 125, "", gone).logs("probe")
    assert isinstance(lost, Unread)
    assert "no such container" in lost.reason
    cut = podman("logs --tail 40 probe", None).logs("probe")
    assert isinstance(cut, Unread)
    assert "the connection has ended" in cut.reason


@pytest.mark.parametrize(
    ("code", "err"),
    [
        (127, "Error: crun: cannot open sd-bus: No such file or directory: OCI runtime"),
        (125, "Error: localhost/hil-probe: image not known"),
    ],
)
def test_a_podman_that_runs_nothing_is_the_labs_fault(code: int, err: str) -> None:
    asked = podman("start probe", code, "", err)
    with pytest.raises(LabError, match="run podman start on n1") as caught:
        asked.ask("start", "probe")
    assert err in str(caught.value)


def test_hooks_of_both_directories() -> None:
    first, second = HOOKS
    shell = Shell(
        {f"ls {first}": (0, "a.json\n", ""), f"ls {second}": (2, "", NO_DIRECTORY.format(second))}
    )
    assert Podman(shell, "n1").hooks() == (f"{first}/a.json",)
    shell.answers[f"ls {second}"] = (2, "", "ls: Permission denied")
    assert isinstance(Podman(shell, "n1").hooks(), Unread)


def test_every_cdi_file_of_every_directory() -> None:
    found = cdi_files(Shell(BOTH_DIRECTORIES), "podman 4.3.1")
    assert isinstance(found, CdiFiles)
    assert (found.engine, found.directories) == ("podman 4.3.1", ("/etc/cdi", "/run/cdi"))
    good, bad = found.files
    assert isinstance(good.spec, CdiSpec)
    assert (good.path, good.spec.devices) == ("/run/cdi/nvidia.yaml", ("0",))
    assert isinstance(bad.spec, Unread)
    assert found.origin.source == "guest n1:/etc/cdi,/run/cdi"


def test_files_of_a_host_beneath_the_shell_are_named_as_the_host_does() -> None:
    answers: dict[str, Answer] = {
        "ls /host/run/cdi": (0, "a.yaml\n", ""),
        "cat /host/run/cdi/a.yaml": (0, RUN_SPEC, ""),
    }
    found = cdi_files(Shell(answers, "/host"), "", ("/run/cdi",))
    assert isinstance(found, CdiFiles)
    assert [one.path for one in found.files] == ["/run/cdi/a.yaml"]
    answers["ls /host/run/cdi"] = (1, "", "ls: /host/run/cdi: No such file or directory\n")
    none = cdi_files(Shell(answers, "/host"), "", ("/run/cdi",))
    assert isinstance(none, CdiFiles)
    assert none.files == ()


def test_a_directory_that_could_not_be_read_is_not_empty() -> None:
    answers = {**BOTH_DIRECTORIES, "ls /run/cdi": (None, "", "")}
    found = cdi_files(Shell(answers), "podman 4.3.1")
    assert isinstance(found, Unread)
    assert "the connection has ended" in found.reason
