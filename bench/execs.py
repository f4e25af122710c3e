"""What an exec costs, ours beside kubectl's and the official client's: `python -m bench.execs`.

One simulated API server in a process of its own, HTTPS on loopback. Ours runs in this process on
one client; kubectl is a process each time, and its start is part of what it costs; the official
client's `stream` runs in a process that says how long the call alone took. That one's output is
capped at 12 MB: its buffering is quadratic (64 MB did not end in 30 s). Nothing of it runs at the
same time: two execs at once on one of its clients leave that client broken.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from bench.figures import figure
from harness.clock import WallClock
from harness.reach.access import client_from_file
from harness.reach.execs import run_in_pod
from harness.reach.kube import Kube
from harness.twin.apiserver.builtin_kinds import BUILTIN
from harness.twin.apiserver.execresult import ExecResult
from harness.twin.apiserver.kubeconfigs import kubeconfig
from harness.twin.apiserver.requestlog import RequestLog
from harness.twin.apiserver.resources import Obj, Registry
from harness.twin.apiserver.server import ApiServer
from harness.twin.apiserver.store import Identities, Revisions, Store
from harness.twin.apiserver.tls import Authority

MB = 1 << 20
AT_ONCE = 20
CAPPED = (6, 12)  # MB asked of the official client
OFFICIAL = """
import sys, time
from kubernetes import client, config
from kubernetes.stream import stream
config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()
began = time.perf_counter()
answer = stream(api.connect_get_namespaced_pod_exec, "web", "default",
                command=["print", sys.argv[2]], stdout=True, stderr=True, stdin=False, tty=False)
print(time.perf_counter() - began, len(answer))
"""


class _Printer:
    """A cluster whose programs print as many MB as they are asked."""

    def reads_stdin(self, *_: object) -> bool:
        return False

    def exec(self, *asked: object) -> ExecResult:
        argv = asked[3]
        assert isinstance(argv, list)
        return ExecResult((b"x" * 1023 + b"\n") * (1024 * int(argv[1])), b"", 0)


async def _serve(directory: Path) -> None:
    authority = Authority()
    store = Store(
        "bench",
        Registry(BUILTIN),
        now=lambda: 1767225600.0,
        revisions=Revisions(),
        identities=Identities(1),
    )
    store.apply(_named("Namespace", "default"), manager="bench")
    spec = {"nodeName": "n", "containers": [{"name": "main", "image": "example.org/i:1"}]}
    store.apply({**_named("Pod", "web", "default"), "spec": spec}, manager="bench")
    backend = _Printer()
    server = ApiServer(store, backend, authority=authority, request_log=RequestLog())
    await server.start()
    certificate, key = authority.client("bench", ("system:masters",))
    entry = (server.url, authority.ca_pem, certificate, key)
    (directory / "kubeconfig").write_text(yaml.safe_dump(kubeconfig({"bench": entry}, "bench")))
    print("ready", flush=True)
    await asyncio.Event().wait()


def _named(kind: str, name: str, namespace: str = "") -> Obj:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


def _timed(do: Callable[[], None], runs: int) -> list[float]:
    taken = []
    for _ in range(runs):
        began = time.perf_counter()
        do()
        taken.append(time.perf_counter() - began)
    return taken


def _at_once(do: Callable[[], None]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for ended in [pool.submit(do) for _ in range(AT_ONCE)]:
            ended.result()


def _ours(kube: Kube, megabytes: int) -> Callable[[], None]:
    def run() -> None:
        reply = run_in_pod(kube, "default", "web", ["print", str(megabytes)], timeout=120)
        if reply.exit_code != 0 or len(reply.stdout) != megabytes * MB:
            raise SystemExit(f"not the output asked for: {reply.problem}")

    return run


def _kubectl(program: str, config: Path, megabytes: int, lost: list[int]) -> Callable[[], None]:
    """Some kubectls drop what comes before they listen ("Unknown stream id"), and exit with 0."""
    command = [program, "--kubeconfig", str(config), "--cache-dir", str(config.parent / "cache")]

    def run() -> None:
        ended = subprocess.run(
            [*command, "exec", "web", "--", "print", str(megabytes)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=120,
            check=True,
        )
        if len(ended.stdout) != megabytes * MB:
            lost.append(megabytes * MB - len(ended.stdout))

    return run


def _official(config: Path, megabytes: int) -> float:
    ended = subprocess.run(
        [sys.executable, "-c", OFFICIAL, str(config), str(megabytes)],
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
    )
    seconds, size = ended.stdout.split()
    if int(size) != megabytes * MB:
        raise SystemExit(f"the official client gave {int(size)} bytes")
    return float(seconds)


def _measure(config: Path, runs: int) -> None:
    kube = Kube("bench", client_from_file(config), WallClock())
    program = shutil.which("kubectl")

    def show(name: str, values: list[float], target: str = "") -> None:
        print(figure(name, values, "s", target), flush=True)

    show("64 MB, ours", _timed(_ours(kube, 64), runs), "below 1 s")
    for megabytes in CAPPED:
        show(f"{megabytes} MB, ours", _timed(_ours(kube, megabytes), runs))
    small = _ours(kube, 1)
    show(f"{AT_ONCE} of 1 MB at once, ours, one client", _timed(lambda: _at_once(small), runs))
    if program:
        lost: list[int] = []
        show("64 MB, kubectl", _timed(_kubectl(program, config, 64, lost), runs))
        small = _kubectl(program, config, 1, lost)
        show(f"{AT_ONCE} of 1 MB at once, kubectl", _timed(lambda: _at_once(small), runs))
        print(f"kubectl lost output in {len(lost)} of {runs * (AT_ONCE + 1)} execs, exit status 0")
    else:
        print("kubectl is not on PATH: not measured")
    for megabytes in CAPPED:
        taken = [_official(config, megabytes) for _ in range(runs)]
        show(f"{megabytes} MB, the official client's stream", taken)


def main() -> None:
    """Start the server in another process, measure, stop it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(_serve(options.serve))
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.execs", "--serve", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                server.stdout.readline()
                _measure(Path(folder) / "kubeconfig", options.runs)
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
