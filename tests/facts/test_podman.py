"""Texts are podman's 4.3.1 with runc 1.1.5 and with crun 1.8.1."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Origin, Unread
from harness.facts.podman import (
    NOT_STARTED,
    Container,
    Refusal,
    missing_source,
    read_containers,
    read_version,
    refusal,
    running,
    standing,
    unfit,
)
from harness.facts.reply import Output

AT = Origin(1.0, "x", "")
ID = "0d2bc41d077bae616779b48202d2689dae003bd4a695d6d12646222a66440a6d"
IMAGE_ID = "a214ecbd900720b35e2d5e25c946b888d0861651a6b65d8e3a9d5f575dc3879e"
COMMAND = [
    "podman", "--cgroup-manager=cgroupfs", "create", "--pull=never", "--name", "probe",
    "--network=none", "--device", "nvidia.com/gpu=0", "localhost/hil-probe", "sleep", "1000",
]  # fmt: skip


def inspected(**more: Any) -> dict[str, Any]:
    """What matters of ``podman inspect`` over a container that was created and never started."""
    return {
        "Id": ID,
        "Created": "2026-11-30T15:23:40.909908503Z",
        "State": {"Status": "created", "Running": False, "Error": "", "ExitCode": 0},
        "Image": IMAGE_ID,
        "ImageName": "localhost/hil-probe:latest",
        "OCIRuntime": "runc",
        "Name": "probe",
        "Mounts": [],
        "Config": {
            "Env": ["PATH=/usr/bin:/bin", "TERM=xterm", "container=podman"],
            "Annotations": {"io.podman.annotations.privileged": "FALSE"},
            "CreateCommand": COMMAND,
        },
        "HostConfig": {"Binds": [], "Privileged": False, "Devices": [], "VolumesFrom": None},
        **more,
    }


def config(**more: Any) -> dict[str, Any]:
    return {"Config": {**inspected()["Config"], **more}}


def host(**more: Any) -> dict[str, Any]:
    return {"HostConfig": {**inspected()["HostConfig"], **more}}


def read(
    document: Any, exit_code: int | None = 0, stderr: str = "", hooks: tuple[str, ...] = ()
) -> Container | Unread:
    stdout = document if isinstance(document, str) else json.dumps(document)
    output = Output(("podman", "inspect", "probe"), exit_code, stdout, stderr)
    found = read_containers(output, ["probe"], "n1", hooks=hooks, at=1.0, source="guest n1:podman")
    return found if isinstance(found, Unread) else found[0]


def stored(**more: Any) -> Any:
    found = read([inspected(**more)])
    assert isinstance(found, Container), found
    return found.stored


def test_a_container_as_it_was_made() -> None:
    found = read([inspected()])
    assert isinstance(found, Container)
    assert found.running is False
    made = found.stored
    assert (made.pod, made.node, made.phase, made.reason) == ("probe", "n1", "created", "")
    assert (made.requested, made.asked) == (1, ("nvidia.com/gpu=0",))
    assert made.image == "localhost/hil-probe:latest@a214ecbd9007"
    assert made.created == pytest.approx(1796052220.909908)
    assert (made.aids, made.runtime_class) == ((), "")
    assert found.origin.source == "guest n1:podman"


@pytest.mark.parametrize("runtime", ["runc", "crun", "/usr/bin/crun"])
def test_the_usual_runtimes_are_no_aid(runtime: str) -> None:
    assert stored(OCIRuntime=runtime).aids == ()


@pytest.mark.parametrize(
    ("more", "aid"),
    [
        ({"OCIRuntime": "nvidia"}, "runtime nvidia"),
        ({"OCIRuntime": ""}, "runtime unknown"),
        (host(Privileged=True), "privileged container"),
        ({"HostConfig": {}}, "privileged container"),
        ({"Mounts": [{"Type": "bind", "Source": "/usr"}]}, "host path /usr"),
        ({"Mounts": [{"Type": "volume", "Name": "vol", "Source": "/x"}]}, "volume vol"),
        (host(Devices=[{"PathOnHost": "/dev/nvidia0"}]), "device /dev/nvidia0"),
        (host(VolumesFrom=["other"]), "volumes from another container"),
        (config(Env=["NVIDIA_VISIBLE_DEVICES=all"]), "variable NVIDIA_VISIBLE_DEVICES"),
        (config(Env=["LD_PRELOAD=x"]), "variable LD_PRELOAD"),
        (config(Annotations={"cdi.k8s.io/x": "nvidia.com/gpu=all"}), "annotation cdi.k8s.io/x"),
        (config(CreateCommand=["podman", "--hooks-dir=/h", *COMMAND[1:]]), "--hooks-dir /h"),
        (config(CreateCommand=["podman", "create", "--gpus", "all"]), "--gpus all"),
    ],
)
def test_whatever_could_bring_a_driver_is_told(more: dict[str, Any], aid: str) -> None:
    assert aid in stored(**more).aids


def test_another_runtime_is_its_class_too() -> None:
    assert stored(OCIRuntime="/usr/bin/nvidia-container-runtime").runtime_class == (
        "nvidia-container-runtime"
    )


def test_hooks_of_the_machine_are_told() -> None:
    found = read([inspected()], hooks=("/etc/containers/oci/hooks.d/nvidia.json",))
    assert isinstance(found, Container)
    assert found.stored.aids == ("hook /etc/containers/oci/hooks.d/nvidia.json",)


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["--device=nvidia.com/gpu=all"], ("nvidia.com/gpu=all",)),
        (["--device", "nvidia.com/gpu=0", "--device", "nvidia.com/gpu=1"], None),
        (["--device", "/dev/zero:/dev/nvidia0"], ()),
        (["--name", "nvidia.com/gpu=0"], ()),
        (["--device"], ()),
        ([], ()),
    ],
)
def test_which_devices_it_asked_for(words: list[str], asked: tuple[str, ...] | None) -> None:
    command = ["podman", "create", *words, "localhost/hil-probe", "sleep", "1"]
    wanted = ("nvidia.com/gpu=0", "nvidia.com/gpu=1") if asked is None else asked
    made = stored(**config(CreateCommand=command))
    assert (made.asked, made.requested) == (wanted, len(wanted))


@pytest.mark.parametrize("image", ["localhost/hil-probe", "localhost/hil-probe:latest"])
def test_what_follows_the_image_asks_for_nothing(image: str) -> None:
    command = ["podman", "create", image, "sh", "--device", "nvidia.com/gpu=0", "--gpus", "all"]
    made = stored(**config(CreateCommand=command))
    assert (made.asked, made.aids) == ((), ())


def test_without_an_images_name_every_word_is_looked_at() -> None:
    command = ["podman", "create", "", "--device", "nvidia.com/gpu=0"]
    assert stored(ImageName="", **config(CreateCommand=command)).asked == ("nvidia.com/gpu=0",)


def test_a_container_that_runs() -> None:
    found = read([inspected(State={"Status": "running"})])
    assert isinstance(found, Container)
    assert (found.running, found.stored.phase) == (True, "running")


def both(*documents: Any, exit_code: int = 0, stderr: str = "") -> Any:
    output = Output(("podman", "inspect"), exit_code, json.dumps(documents), stderr)
    return read_containers(output, ["probe", "older"], "n1", at=1.0, source="s")


def test_several_containers_are_read_in_the_order_that_they_were_asked_for() -> None:
    running = inspected(Name="older", State={"Status": "running"})
    found = both(inspected(), running)
    assert [(one.stored.pod, one.running) for one in found] == [("probe", False), ("older", True)]
    assert isinstance(both(running, inspected()), Unread)
    assert isinstance(both(inspected()), Unread)
    stateless = both(inspected(), inspected(Name="older", State={}))
    assert isinstance(stateless, Unread)
    assert (stateless.asked, "no state" in stateless.reason) == ("container older", True)


def test_one_that_is_missing_leaves_all_unread() -> None:
    said = "Error: inspecting object: no such container older\n"
    found = both(inspected(), exit_code=125, stderr=said)
    assert isinstance(found, Unread)
    assert "no such container older" in found.reason
    assert found.asked == "container probe, older"


@pytest.mark.parametrize(
    ("document", "exit_code", "quoted"),
    [
        ([inspected()], None, "no exit status"),
        ([inspected()], 125, "ended with 125"),
        ("[]", 0, "not just the containers asked for"),
        ([inspected(), inspected()], 0, "not just the containers asked for"),
        ([inspected(Name="other")], 0, "not just the containers asked for"),
        (inspected(), 0, "not just the containers asked for"),
        ('[{"Name": "probe"', 0, "no JSON"),
        ("[" * 100_000, 0, "no JSON"),
        ([inspected(State={})], 0, "no state in"),
        ([inspected(HostConfig=None)], 0, "no state in"),
    ],
)
def test_what_is_no_container(document: Any, exit_code: int | None, quoted: str) -> None:
    found = read(document, exit_code)
    assert isinstance(found, Unread)
    assert quoted in found.reason


RUNC_MOUNT = (
    "Error: runc: runc create failed: unable to start container process: error during container "
    'init: error mounting "/opt/stub/nvidia-smi-gone" to rootfs at "/usr/bin/nvidia-smi": stat '
    "/opt/stub/nvidia-smi-gone: no such file or directory: OCI runtime attempted to invoke a "
    "command that was not found\n"
)

CRUN_MOUNT = (
    "Error: crun: error stat'ing file `/usr/local/bin/nvidia-gone`: No such file or directory: OCI "
    "runtime attempted to invoke a command that was not found\n"
)


def ended(exit_code: int | None, stderr: str, stdout: str = "", problem: str = "") -> Output:
    return Output(("podman", "start", "probe"), exit_code, stdout, stderr, problem)


CRUN_NO_PROGRAM = (
    "Error: crun: executable file `nvidia-smi` not found in $PATH: No such file or directory: OCI "
    "runtime attempted to invoke a command that was not found"
)
UNRESOLVABLE = "setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=0"


@pytest.mark.parametrize(
    ("output", "reason", "message"),
    [
        (ended(126, f"Error: {UNRESOLVABLE}\n"), "CDIUnresolved", f"Error: {UNRESOLVABLE}"),
        (
            ended(125, f'Error: unable to start container "{ID}": {UNRESOLVABLE}\n'),
            "CDIUnresolved",
            f"Error: {UNRESOLVABLE}",
        ),
        (
            ended(
                127,
                "Error: setting up CDI devices: failed to inject devices: failed to stat CDI host "
                'device "/dev/nvidia0": no such file or directory\n',
            ),
            "CDINodeMissing",
            "Error: setting up CDI devices: failed to inject devices: failed to stat CDI host "
            'device "/dev/nvidia0": no such file or directory',
        ),
        (ended(127, RUNC_MOUNT), "CDISourceMissing", RUNC_MOUNT.strip()),
        (ended(125, CRUN_MOUNT), "CDISourceMissing", CRUN_MOUNT.strip()),
        (ended(127, CRUN_NO_PROGRAM), NOT_STARTED, CRUN_NO_PROGRAM),
        (
            ended(125, 'Error: no container with name or ID "probe" found: no such container\n'),
            NOT_STARTED,
            'Error: no container with name or ID "probe" found: no such container',
        ),
        (
            ended(125, "time=x level=warning msg=y\nError: one\nsee 'podman --help'\n"),
            NOT_STARTED,
            "Error: one",
        ),
        (ended(1, "last words\n"), NOT_STARTED, "last words"),
        (ended(None, "", problem="60 s passed"), NOT_STARTED, "60 s passed"),
        (ended(3, ""), NOT_STARTED, "exit status 3"),
    ],
)
def test_why_a_container_does_not_start(output: Output, reason: str, message: str) -> None:
    assert refusal(output) == Refusal(reason, message)


def test_one_that_started_was_not_refused() -> None:
    assert refusal(ended(0, f"Error: {UNRESOLVABLE}")) is None


def test_the_source_that_is_missing() -> None:
    assert missing_source(RUNC_MOUNT) == "/opt/stub/nvidia-smi-gone"
    assert missing_source(CRUN_MOUNT) == "/usr/local/bin/nvidia-gone"
    assert missing_source(f"Error: {UNRESOLVABLE}") == ""


@pytest.mark.parametrize(
    ("said", "do"),
    [
        (
            "Error: crun: cannot open sd-bus: No such file or directory: OCI runtime attempted to "
            "invoke a command that was not found",
            "--cgroup-manager=cgroupfs",
        ),
        ("Error: failed to create 2048 locks: no such file or directory", "/dev/shm"),
        ("Error: localhost/hil-probe: image not known", "import the probe's image"),
        ("runc: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI", "--ulimit"),
        ("sh: 1: podman: not found", "install podman"),
        ("bash: podman: command not found", "install podman"),
        ("Error: write /var/lib/x: no space left on device", "more room"),
    ],
)
def test_a_podman_that_runs_nothing_is_unfit(said: str, do: str) -> None:
    assert do in unfit(ended(127, said))
    assert do in unfit(ended(None, "", problem=said))
    assert unfit(ended(0, said)) == ""
    assert unfit(ended(127, "", stdout=said)) == ""


@pytest.mark.parametrize("said", [f"Error: {UNRESOLVABLE}", RUNC_MOUNT, CRUN_MOUNT, ""])
def test_one_that_refuses_a_container_is_not(said: str) -> None:
    assert unfit(ended(126, said)) == ""


def test_a_container_as_it_stands() -> None:
    made = stored()
    why = Refusal("CDIUnresolved", "m")
    created, runs = read([inspected()]), read([inspected(State={"Status": "running"})])
    assert isinstance(created, Container)
    assert isinstance(runs, Container)
    refused = standing(made, created, why)
    assert (refused.stored.phase, refused.stored.reason) == ("created", "CDIUnresolved")
    assert str(refused.stored) == "probe is created (CDIUnresolved: m)"
    assert (refused.running, refused.origin) == (False, created.origin)
    # somebody started it again, and it was given what it had asked for
    injected = read([inspected(State={"Status": "running"}, **config(Env=["NVIDIA_X=void"]))])
    assert isinstance(injected, Container)
    again = standing(made, injected, why)
    assert (again.stored.phase, again.stored.reason, again.running) == ("running", "", True)
    assert again.stored.aids == ()
    begun = running(created)
    assert (begun.running, begun.stored.phase, begun.origin) == (True, "running", created.origin)
    exited = read([inspected(State={"Status": "exited", "Error": "e"})])
    assert isinstance(exited, Container)
    assert standing(made, exited, None).stored.message == "e"


@pytest.mark.parametrize(
    ("stdout", "exit_code", "version"),
    [
        ("podman version 4.3.1\n", 0, "podman 4.3.1"),
        ("podman version 5.0.0-rc1\n", 0, "podman 5.0.0-rc1"),
        ("podman version 4.3.1\n", None, None),
        ("podman\n", 0, None),
        ("", 127, None),
    ],
)
def test_which_podman_it_is(stdout: str, exit_code: int | None, version: str | None) -> None:
    output = Output(("podman", "--version"), exit_code, stdout)
    found = read_version(output, at=1.0, source="s")
    assert found == version if version else isinstance(found, Unread)
    if exit_code is None:
        assert isinstance(found, Unread)
        assert "no exit status" in found.reason


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(json_like, json_like, json_like)
def test_any_document_is_a_container_or_unread(one: Any, two: Any, three: Any) -> None:
    assert isinstance(read(one), Container | Unread)
    found = read([inspected(Config=one, Mounts=two, HostConfig=three)])
    assert isinstance(found, Container | Unread)


@given(st.sampled_from([1, 125, None]), st.text(), st.text())
def test_any_words_are_a_refusal(exit_code: int | None, stderr: str, problem: str) -> None:
    assert refusal(ended(exit_code, stderr, problem=problem)) is not None
