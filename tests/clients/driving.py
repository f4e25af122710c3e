"""Drives real kubectl and the real `hil` command against real twins, each a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from kubernetes import client, config

from harness.inventory.loading import load
from harness.inventory.manifest import kubernetes_nodes

ROOT = Path(__file__).resolve().parents[2]
DRIVERS = Path(__file__).with_name("drivers")
LAB = ROOT / "inventory" / "twin.yaml"
PATIENCE = 60.0  # real seconds: a machine that is busy with other things is slow, not broken
NAMESPACE = "tenant-hil"
TENANT = ("--context", "tenant-lab")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
COMPILED: dict[str, str] = {}  # where children keep compiled modules; conftest.py says
Result = subprocess.CompletedProcess[str]


def kubectls() -> list[str]:
    """The binaries to prove: those of HIL_KUBECTL, else the one on PATH."""
    named = [path for path in os.environ.get("HIL_KUBECTL", "").split(":") if path]
    found = shutil.which("kubectl")
    return named or ([found] if found else [])


def helms() -> list[str]:
    """The helms to prove: those of HIL_HELM, else the one on PATH."""
    named = [path for path in os.environ.get("HIL_HELM", "").split(":") if path]
    found = shutil.which("helm")
    return named or ([found] if found else [])


def environment(**more: str) -> dict[str, str]:
    """What a child gets of this process's surroundings: nothing that could lead it astray."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    return kept | COMPILED | more


def finish(process: subprocess.Popen[str], stdin: str = "") -> Result:
    try:
        out, err = process.communicate(stdin or None, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"{process.args} did not end in {PATIENCE:.0f} s; it said: {out}{err}")
    return Result(process.args, process.returncode, out, err)


def checked(result: Result, code: int) -> Result:
    assert result.returncode == code, f"{result.args} gave {result.returncode}: {result}"
    return result


def eventually(look: Callable[[], bool], what: str) -> None:
    """Ask until it is so. Each look asks another process, which paces the loop."""
    ends = time.monotonic() + PATIENCE
    while not look():
        assert time.monotonic() < ends, f"{what}: not in {PATIENCE:.0f} s"


def lines_until(process: subprocess.Popen[str], last: str) -> list[str]:
    """What a process that goes on has printed, up to a line that is ``last``."""
    assert process.stdout is not None
    pipe, said = process.stdout.fileno(), ""
    while last not in said.splitlines():
        ready, _, _ = select.select([pipe], [], [], PATIENCE)
        part = os.read(pipe, 4096).decode() if ready else ""
        if not part:
            pytest.fail(f"{process.args} printed no line {last!r}, but: {said}")
        said += part
    return said.splitlines()


class RunningTwin:
    """A `hil twin up` of its own; ``directory`` is what its commands take."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.log = directory.with_name(f"{directory.name}.log")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*HIL, "twin", "up", "--dir", str(directory), *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(HOME=str(directory.parent)),
                cwd=ROOT,
            )
        self.greeting = self._greeting()

    def _greeting(self) -> str:
        assert self.process.stdout is not None
        pipe, said = self.process.stdout.fileno(), ""
        while "Ctrl-C ends it." not in said:
            ready, _, _ = select.select([pipe], [], [], PATIENCE)
            part = os.read(pipe, 4096).decode() if ready else ""
            if not part:
                self.end()
                pytest.fail(f"the twin did not come up: {said}{self.log.read_text()}")
            said += part
        return said

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def told(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self.directory / "twin.json").read_text())
        return told

    def ask(self, verb: str, path: str) -> tuple[int, str]:
        parts = urlsplit(self.told()["clock"])
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=PATIENCE)
        connection.request(verb, path)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def state(self) -> dict[str, Any]:
        status, text = self.ask("GET", "/state")
        assert status == 200, text
        state: dict[str, Any] = json.loads(text)
        return state

    def advance(self, seconds: float) -> None:
        until = self.state()["now"] + seconds
        status, text = self.ask("POST", f"/clock/advance?run=all&until={until!r}")
        assert status == 200, text

    def watches(self, cluster: str, kind: str) -> int:
        return int(self.state()["watches"][cluster].get(kind, 0))

    def requests(self, path: str) -> int:
        """How many of the newest requests were for a path that ends so."""
        newest = json.loads(self.ask("GET", "/requests")[1])["newest"]
        return sum(one["path"].endswith(path) for one in newest)

    def hil(self, *argv: str, code: int = 0) -> Result:
        """Run `hil twin VERB ...` for this twin."""
        return hil("twin", *argv, "--dir", str(self.directory), code=code)

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


HIL = (sys.executable, "-m", "harness.cli")


def hil(*argv: str, code: int = 0) -> Result:
    """Run the `hil` command."""
    return checked(finish(started([*HIL, *argv], environment(HOME="/nonexistent"))), code)


def started(argv: list[str], env: dict[str, str]) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env, cwd=ROOT
    )


@dataclass(frozen=True)
class Binary:
    """One kubectl, with a home of its own: its discovery cache is keyed by host and port."""

    path: str
    home: Path

    def at(self, twin: RunningTwin, *context: str) -> Kubectl:
        return Kubectl(self, twin, context)

    def env(self, **more: str) -> dict[str, str]:
        # 1.29 runs programs over a WebSocket only if told; it is the default since 1.30
        sockets = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "true"}
        return environment(HOME=str(self.home), TERM="dumb", **sockets, **more)


@dataclass(frozen=True)
class Kubectl:
    """A kubectl that talks to one twin. Call it with arguments; it must exit with ``code``."""

    binary: Binary
    twin: RunningTwin
    context: tuple[str, ...] = ()
    kubeconfig: Path | None = None
    _begun: list[subprocess.Popen[str]] = field(default_factory=list)

    def argv(self, *arguments: str) -> list[str]:
        config = self.kubeconfig or self.twin.kubeconfig
        cache = self.binary.home / "cache"
        fixed = [self.binary.path, "--kubeconfig", str(config), "--cache-dir", str(cache)]
        return [*fixed, *self.context, *arguments]

    def __call__(self, *arguments: str, stdin: str = "", code: int = 0, **env: str) -> Result:
        process = started(self.argv(*arguments), self.binary.env(**env))
        return checked(finish(process, stdin), code)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Run beside what follows; `ended` collects it."""
        process = started(self.argv(*arguments), self.binary.env())
        self._begun.append(process)
        return process

    def read(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json").stdout)

    def minor(self) -> int:
        """Which 1.x this kubectl is."""
        told = json.loads(self("version", "--client", "-o", "json").stdout)
        return int(told["clientVersion"]["minor"].rstrip("+"))

    def on(self, *context: str) -> Kubectl:
        """The same kubectl on another cluster."""
        return replace(self, context=context)

    def as_user(self, kubeconfig: Path) -> Kubectl:
        """The same kubectl with other credentials."""
        return replace(self, kubeconfig=kubeconfig)

    def close(self) -> None:
        """End what was started and not collected."""
        for process in self._begun:
            process.kill()
            process.communicate()


def binary_for(path: str, home: Path) -> Binary:
    if not shutil.which(path):
        pytest.fail(f"HIL_KUBECTL names {path}, which is no program")
    return Binary(path, home)


def pool_request(pool: str = "gpu-l40s") -> dict[str, Any]:
    """The CR of a pool of the shipped inventory, without our labels."""
    return kubernetes_nodes(load(LAB), pool)


def api(twin: RunningTwin, context: str = "management") -> Any:
    """A cluster of the twin, by the client that the harness itself has: no kubectl is needed."""
    return config.new_client_from_config(str(twin.kubeconfig), context)


def ask_for_pool(twin: RunningTwin) -> None:
    """Make the pool as `kubectl apply` makes it, with what was applied in an annotation."""
    request = pool_request()
    request["metadata"]["annotations"] = {}
    applied = json.dumps(request, sort_keys=True, separators=(",", ":")) + "\n"
    metadata = {**request["metadata"], "annotations": {LAST_APPLIED: applied}}
    group, version = request["apiVersion"].split("/")
    where = (group, version, NAMESPACE, "kubernetesnodeses")
    pools = client.CustomObjectsApi(api(twin))
    pools.create_namespaced_custom_object(*where, {**request, "metadata": metadata})


def make_namespace(twin: RunningTwin, name: str) -> None:
    """A namespace in both clusters; in the tenant's, privileged pods may be made in it."""
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    for context in ("management", "tenant-lab"):
        body = {"metadata": {"name": name, "labels": labels}}
        client.CoreV1Api(api(twin, context)).create_namespace(body)


def config_map(name: str, namespace: str, **data: str) -> str:
    metadata = {"name": name, "namespace": namespace}
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return json.dumps(obj)
