"""Stands in for QEMU: takes its arguments, speaks QMP, holds its sockets; runs no machine.

What it is told is kept beside its root disk (``root.qcow2.told``), a line a command. A few files
beside that make it misbehave, see `obey`.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
from pathlib import Path
from typing import Any


def option(pattern: str) -> str:
    found = re.search(pattern, "\n".join(sys.argv))
    return found[1] if found else ""


class Machine:
    def __init__(self) -> None:
        self.root = Path(option(r"id=root,.*file=(.+)"))
        self.running = "-S" not in sys.argv
        self.monitor = socket.socket(fileno=int(option(r"id=qmp,fd=(\d+)")))
        self.client: socket.socket | None = None
        self.told("argv " + " ".join(sys.argv[1:]))

    def told(self, line: str) -> None:
        with Path(f"{self.root}.told").open("a") as file:
            file.write(f"{line}\n")

    def forward(self) -> None:
        port = int(option(r"hostfwd=tcp:127\.0\.0\.1:(\d+)-"))
        self.ssh = socket.socket()
        self.ssh.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.ssh.bind(("127.0.0.1", port))
            self.ssh.listen()
        except OSError:
            sys.exit(f"Could not set up host forwarding rule 'tcp:127.0.0.1:{port}-:22'")

    def wire(self) -> None:
        path = Path(option(r"local\.path=([^,\n]+)"))
        path.unlink(missing_ok=True)
        self.frames = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.frames.bind(str(path))

        def swallow() -> None:
            while self.frames.recv(70000):
                continue

        threading.Thread(target=swallow, daemon=True).start()

    def console(self) -> None:
        path = Path(option(r"id=con,path=([^,\n]+)"))
        path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            while True:
                self.client, _ = listening.accept()
                self.client.sendall(b"n1 login: ")
                while self.client.recv(1000):
                    continue
                self.client = None

        threading.Thread(target=serve, daemon=True).start()

    def say(self, message: dict[str, Any]) -> None:
        self.monitor.sendall(json.dumps(message).encode() + b"\r\n")

    def serve(self) -> None:
        self.say({"QMP": {"version": {}, "capabilities": []}})
        for line in self.monitor.makefile("rb"):
            asked = json.loads(line)
            command, given = asked["execute"], asked.get("arguments", {})
            self.told(" ".join([command, *(f"{k}={v}" for k, v in given.items())]))
            try:
                returned = self.obey(command, given)
            except ValueError as refused:
                self.say(
                    {"error": {"class": "GenericError", "desc": str(refused)}, "id": asked["id"]}
                )
            else:
                self.say({"return": returned, "id": asked["id"]})

    def obey(self, command: str, given: dict[str, Any]) -> Any:
        if command in ("cont", "stop"):
            self.running = command == "cont"
            self.say({"event": "RESUME" if self.running else "STOP", "timestamp": {}})
        elif command == "query-status":
            return {"running": self.running}
        elif command == "query-chardev":
            prefix = "" if self.client else "disconnected:"
            return [{"label": "con", "filename": f"{prefix}unix:somewhere,server=on"}]
        elif command == "human-monitor-command":
            full = Path(f"{self.root}.full").exists()
            return "Error: no room\r\n" if full else ""
        elif command == "inject-nmi":  # used as: the guest switches itself off
            event = {"event": "SHUTDOWN", "data": {"guest": True, "reason": "guest-shutdown"}}
            self.say({**event, "timestamp": {"seconds": 1, "microseconds": 500000}})
            self.say({"return": {}, "id": 0})
            sys.exit(0)
        elif command == "system_reset" and Path(f"{self.root}.crash").exists():
            sys.exit("qemu: it crashed")
        return {}


machine = Machine()
if machine.root.with_name("broken").exists():
    sys.exit("qemu-system-x86_64: no such thing")
machine.forward()
machine.wire()
machine.console()
machine.serve()
