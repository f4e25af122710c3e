"""What the cases run against: the twin's API server in this process, or a real one beside it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import pytest
import urllib3

from harness.clock import WallClock
from harness.twin.apiserver.builtin_kinds import BUILTIN
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.execresult import ExecResult
from harness.twin.apiserver.requestlog import RequestLog
from harness.twin.apiserver.resources import Registry
from harness.twin.apiserver.server import ApiServer
from harness.twin.apiserver.store import Identities, Revisions, Store
from harness.twin.apiserver.tls import Authority
from harness.twin.world.kinds import MANAGEMENT
from tests.conformance.client import Api, config, named

ASSETS = "KUBEBUILDER_ASSETS"
NO_ASSETS = f"{ASSETS} names no folder with kube-apiserver and etcd: nothing real to compare with"
HISTORY = 512  # changes that the twin under test remembers
T = TypeVar("T")

# The kind that both sides have, with a status and a scale subresource and no field of its own:
# of the twin's own kinds one, for the real server a definition that keeps whatever it is given.
CUSTOM = ("cluster.x-k8s.io", "v1beta1", "MachineDeployment", "machinedeployments")
_KEEPS_ALL = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
# Fields below one that is declared are owned alone; below one that is not, together with it.
_DEEP = {
    "type": "object",
    "properties": {key: {"type": "integer", "nullable": True} for key in ("x", "y")},
}
_SPEC = {**_KEEPS_ALL, "properties": {"deep": _DEEP}}
DEFINITION = named(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    f"{CUSTOM[3]}.{CUSTOM[0]}",
    spec={
        "group": CUSTOM[0],
        "scope": "Namespaced",
        "names": {
            "plural": CUSTOM[3],
            "singular": CUSTOM[2].lower(),
            "kind": CUSTOM[2],
            "shortNames": ["md"],
        },
        "versions": [
            {
                "name": CUSTOM[1],
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": _SPEC, "status": _KEEPS_ALL},
                    }
                },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.replicas",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "additionalPrinterColumns": [
                    {"name": "Cluster", "type": "string", "jsonPath": ".spec.clusterName"},
                    {"name": "Replicas", "type": "integer", "jsonPath": ".status.replicas"},
                    {"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"},
                    {"name": "Updated", "type": "integer", "jsonPath": ".status.updatedReplicas"},
                    {
                        "name": "Unavailable",
                        "type": "integer",
                        "jsonPath": ".status.unavailableReplicas",
                    },
                    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                    {
                        "name": "Age",
                        "type": "date",
                        "jsonPath": ".metadata.creationTimestamp",
                    },
                ],
            }
        ],
    },
)


@dataclass(frozen=True)
class Cluster:
    """What a case is given. ``forget`` makes every revision so far too old to go back to."""

    kind: str  # twin | real
    api: Api
    forget: Callable[[], None]
    close: Callable[[], None]


class _NoContainers:
    """Runs nothing: the cases are about objects."""

    def reads_stdin(self, argv: list[str]) -> bool:
        return False

    def exec(
        self, namespace: str, pod: str, container: str, argv: list[str], stdin: bytes
    ) -> ExecResult:
        raise ApiError(503, "nothing runs here")

    def logs(self, namespace: str, pod: str, container: str, query: Mapping[str, str]) -> bytes:
        raise ApiError(503, "nothing runs here")


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def wait(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(30)

    def run(self, do: Callable[[], T]) -> T:
        async def run() -> T:
            return do()

        return self.wait(run())

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


def twin() -> Cluster:
    """The twin's API server with the kinds of the management cluster, nothing moving behind it."""
    loop, authority = _Loop(), Authority()
    store = loop.run(
        lambda: Store(
            "twin",
            Registry((*BUILTIN, *MANAGEMENT)),
            now=WallClock().now,
            revisions=Revisions(),
            identities=Identities(1),
            history=HISTORY,
        )
    )
    server = loop.run(
        lambda: ApiServer(store, _NoContainers(), authority=authority, request_log=RequestLog())
    )
    loop.wait(server.start())

    def write(obj: dict[str, Any]) -> Callable[[], Any]:
        return lambda: store.apply(obj, manager="cases")

    def forget() -> None:
        for turn in range(HISTORY + 1):
            obj = config("forget", {"turn": str(turn)}, namespace="default")
            loop.run(write(obj))

    def close() -> None:
        api.close()
        loop.wait(server.close())
        loop.close()

    loop.run(write(named("v1", "Namespace", "default")))
    api = Api(server.url, authority.client_context)
    forget()
    return Cluster("twin", api, forget, close)


def assets() -> Path | None:
    """The folder with the real binaries, or None where there is none."""
    folder = Path(os.environ.get(ASSETS) or os.devnull)
    found = all((folder / name).is_file() for name in ("kube-apiserver", "etcd"))
    return folder if found else None


def real(folder: Path) -> Cluster:
    """A kube-apiserver on an etcd, without controllers, that keeps its data under ``folder``."""
    binaries = assets()
    if binaries is None:
        pytest.skip(NO_ASSETS)
    return _Real(binaries, folder).started()


class _Real:
    def __init__(self, binaries: Path, folder: Path) -> None:
        self.binaries = binaries
        self.folder = folder
        self.authority = Authority()
        self.clock = WallClock()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.etcd_url = f"http://127.0.0.1:{_free_port()}"
        self.port = _free_port()
        self.http = urllib3.PoolManager(retries=False, timeout=5)

    def started(self) -> Cluster:
        api = Api(f"https://127.0.0.1:{self.port}", self.authority.client_context)
        try:
            self._start_etcd()
            self._start_apiserver()
            self._until(lambda: api.get("/readyz").status == 200, "/readyz")
            definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            assert api.post(definitions, DEFINITION).status == 201
            kinds = f"/apis/{CUSTOM[0]}/{CUSTOM[1]}/{CUSTOM[3]}"
            self._until(lambda: api.get(kinds).status == 200, kinds)
            # the document of discovery that lists every group follows a moment later
            accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            self._until(
                lambda: CUSTOM[0].encode() in api.get("/apis", accept=accept).body, "discovery"
            )
        except BaseException:
            self.stop()
            raise
        return Cluster("real", api, lambda: self.forget(api), lambda: self.stop(api))

    def _run(self, name: str, **flags: str) -> None:
        argv = [str(self.binaries / name)]
        argv += [f"--{key.replace('_', '-')}={value}" for key, value in flags.items()]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder)
            )

    def _start_etcd(self) -> None:
        peers = f"http://127.0.0.1:{_free_port()}"
        self._run(
            "etcd",
            data_dir=str(self.folder / "etcd"),
            listen_client_urls=self.etcd_url,
            advertise_client_urls=self.etcd_url,
            listen_peer_urls=peers,
            initial_advertise_peer_urls=peers,
            initial_cluster=f"default={peers}",
        )
        self._until(lambda: self._etcd("maintenance/status", {}) is not None, "etcd")

    def _start_apiserver(self) -> None:
        certificate, key = self.authority.server()
        files = {
            "ca.pem": self.authority.ca_pem,
            "server.pem": certificate,
            "server.key": key,
        }
        for name, content in files.items():
            (self.folder / name).write_bytes(content)
            (self.folder / name).chmod(0o600)
        self._run(
            "kube-apiserver",
            etcd_servers=self.etcd_url,
            bind_address="127.0.0.1",
            advertise_address="127.0.0.1",
            endpoint_reconciler_type="none",
            secure_port=str(self.port),
            tls_cert_file=str(self.folder / "server.pem"),
            tls_private_key_file=str(self.folder / "server.key"),
            client_ca_file=str(self.folder / "ca.pem"),
            service_account_issuer="https://cases",
            service_account_key_file=str(self.folder / "server.pem"),
            service_account_signing_key_file=str(self.folder / "server.key"),
            service_cluster_ip_range="10.0.0.0/24",
            authorization_mode="RBAC",
            # nobody makes the accounts that pods would have to have
            disable_admission_plugins="ServiceAccount",
            # on by default from 1.34 on
            feature_gates="WatchList=true",
        )

    def _etcd(self, call: str, body: dict[str, Any]) -> Any:
        answer = self.http.request("POST", f"{self.etcd_url}/v3/{call}", body=json.dumps(body))
        return json.loads(answer.data) if answer.status == 200 else None

    def _until(self, look: Callable[[], bool], what: str) -> None:
        deadline = self.clock.deadline(120)
        while not _answers(look):
            for process in self.processes:
                if process.poll() is not None:
                    raise AssertionError(f"{process.args[0]} ended; its log is in {self.folder}")
            if deadline.expired:
                raise AssertionError(f"no {what} after {deadline.seconds:.0f} s: {self.folder}")
            self.clock.sleep(0.1)

    def forget(self, api: Api) -> None:
        made = api.merge("/api/v1/namespaces/default", {"metadata": {"labels": {"forget": "yes"}}})
        api.merge("/api/v1/namespaces/default", {"metadata": {"labels": {"forget": None}}})
        revision = made.json["metadata"]["resourceVersion"]
        assert self._etcd("kv/compaction", {"revision": revision, "physical": True}) is not None

    def stop(self, api: Api | None = None) -> None:
        if api is not None:
            api.close()
        for process in reversed(self.processes):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)


def _answers(look: Callable[[], bool]) -> bool:
    try:
        return look()
    except urllib3.exceptions.HTTPError:
        return False


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def path(group_version: str, plural: str, namespace: str = "", name: str = "") -> str:
    """The path of a kind, or of an object."""
    root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    space = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{space}/{plural}" + (f"/{quote(name)}" if name else "")
