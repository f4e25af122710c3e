"""`python -m bench.watched_server`: an API server that lists and streams made-up Nodes and Pods.

For `bench.watching` only, which measures the client: everything is encoded beforehand, and it
lives in a process of its own. Commands come a line at a time on stdin, answers go to stdout.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from harness.clock import WallClock

CLOCK = WallClock()
Obj = dict[str, Any]
PLACES = {"Node": "/api/v1/nodes", "Pod": "/api/v1/namespaces/lab/pods"}
DISCOVERY = {
    "kind": "APIResourceList",
    "groupVersion": "v1",
    "resources": [
        {"name": "nodes", "kind": "Node", "namespaced": False},
        {"name": "pods", "kind": "Pod", "namespaced": True},
    ],
}
_CONDITIONS = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready", "NetworkUnavailable")


def node(number: int) -> Obj:
    """A Node of about 14 KB: fifty images, a hundred labels, managedFields, as clusters show it."""
    rng = random.Random(number)
    images = [
        {
            "names": [f"registry.lab/team/image-{i}@sha256:{random.Random(i).randbytes(32).hex()}"],
            "sizeBytes": random.Random(i).randrange(10**9),
        }
        for i in range(50)
    ]
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.{i}": "true" for i in range(60)}
    fields: Obj = {f"f:{name}": {} for name in labels}
    managed = [
        {"manager": who, "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": fields}}}
        for who in ("kubelet", "node-feature-discovery")
    ]
    meta = {
        "name": f"node-{number:04}",
        "uid": rng.randbytes(16).hex(),
        "labels": labels,
        "annotations": {f"lab/annotation-{i}": rng.randbytes(12).hex() for i in range(12)},
        "managedFields": managed,
    }
    status = {
        "phase": "Running",
        "images": images,
        "conditions": [
            {"type": kind, "status": "False", "reason": "Kubelet", "message": "as it should be"}
            for kind in _CONDITIONS
        ],
        "capacity": {"cpu": "96", "memory": "792Gi", "pods": "110"},
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def pod(number: int) -> Obj:
    """A Pod of about 5 KB."""
    rng = random.Random(number)
    container = {
        "name": "main",
        "image": f"registry.lab/app@sha256:{rng.randbytes(32).hex()}",
        "env": [{"name": f"SETTING_{i}", "value": rng.randbytes(16).hex()} for i in range(20)],
        "volumeMounts": [{"name": f"v{i}", "mountPath": f"/mnt/{i}"} for i in range(8)],
    }
    meta = {
        "name": f"pod-{number:05}",
        "namespace": "lab",
        "uid": rng.randbytes(16).hex(),
        "labels": {f"label-{i}": f"value-{i}" for i in range(10)},
        "managedFields": [{"manager": "kubelet", "fieldsV1": {f"f:{i}": {} for i in range(120)}}],
    }
    conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "Initialized")]
    status = {"phase": "Running", "conditions": conditions, "podIP": "10.0.0.1"}
    spec = {"containers": [container], "nodeName": f"node-{number % 100:04}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


MADE = {"Node": node, "Pod": pod}


@dataclass(slots=True, eq=False)
class Server:
    """The state, and who is watching. ``sent`` and ``asked`` are what a figure is made of."""

    kind: str
    objects: list[Obj]
    version: int = 0
    asked: int = 0
    sent: int = 0
    encoded: list[bytes] = field(default_factory=list)
    streams: list[socket.socket] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        for obj in self.objects:
            self.stamp(obj)
            self.encoded.append(_json(obj))

    def stamp(self, obj: Obj) -> None:
        """The next version."""
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)

    def beat(self, number: int) -> None:
        """One object's status is written again, with the moment in it."""
        obj = self.objects[number % len(self.objects)]
        self.stamp(obj)
        at = f"{CLOCK.monotonic():.6f}"
        for condition in obj["status"]["conditions"]:
            condition["lastHeartbeatTime"] = at
        self.encoded[number % len(self.objects)] = text = _json(obj)
        line = b'{"type":"MODIFIED","object":' + text + b"}\n"
        for stream in self.streams:
            stream.sendall(b"%x\r\n%b\r\n" % (len(line), line))
        self.sent += len(line)

    def run(self, rate: float, seconds: float) -> None:
        """So many writes a second, on time however long each takes; 0 is as fast as it goes."""
        began, written, count = CLOCK.monotonic(), 0, int(rate * seconds) or int(seconds)
        while written < count:
            due = count if not rate else int((CLOCK.monotonic() - began) * rate)
            for _ in range(min(due, count) - written):
                self.beat(written)
                written += 1
            if rate:
                CLOCK.sleep(0.002)

    def pages(self, query: dict[str, str]) -> bytes:
        """One page of a list."""
        first, limit = int(query.get("continue", "0")), int(query["limit"])
        chosen = self.encoded[first : first + limit]
        meta: Obj = {"resourceVersion": str(self.version)}
        if first + limit < len(self.objects):
            meta["continue"] = str(first + limit)
        return b'{"kind":"List","metadata":%b,"items":[%b]}' % (_json(meta), b",".join(chosen))

    def serve(self, connection: socket.socket) -> None:
        """Answer one connection's requests."""
        with connection, connection.makefile("rb") as incoming:
            for path, query in _requests(incoming):
                self.asked += 1
                if query.get("watch"):
                    self.follow(connection)
                    return
                found = DISCOVERY if path == "/api/v1" else None
                body = _json(found) if found else self.pages(query)
                self.sent += len(body)
                head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)

    def follow(self, connection: socket.socket) -> None:
        """A watch: what is written from now on, until the client goes."""
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        with self.changed:
            self.streams.append(connection)
            self.changed.notify_all()
        connection.recv(1)
        with self.changed:
            self.streams.remove(connection)


def main() -> None:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(MADE))
    parser.add_argument("count", type=int)
    options = parser.parse_args()
    server = Server(options.kind, [MADE[options.kind](n) for n in range(options.count)])
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(listener, server), daemon=True).start()
    size = len(_json(server.objects[0]))
    print(json.dumps({"port": listener.getsockname()[1], "size": size}), flush=True)
    for line in sys.stdin:
        command, *numbers = line.split()
        if command == "run":
            with server.changed:
                server.changed.wait_for(lambda: server.streams, 30)
            server.run(*map(float, numbers))
        print(json.dumps({"asked": server.asked, "sent": server.sent}), flush=True)


def _accept(listener: socket.socket, server: Server) -> None:
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=server.serve, args=(connection,), daemon=True).start()


def _requests(incoming: Any) -> Iterator[tuple[str, dict[str, str]]]:
    while request := incoming.readline():
        while incoming.readline() not in (b"\r\n", b""):
            pass
        parts = urlsplit(request.decode().split()[1])
        yield parts.path, {name: values[0] for name, values in parse_qs(parts.query).items()}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


if __name__ == "__main__":
    main()
