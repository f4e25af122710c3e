"""Logging in to the hypervisor hosts that the inventory names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.clock import Clock
from harness.inventory.models import Host
from harness.inventory.secrets import SecretUnavailableError
from harness.reach.errors import KeyUnusable
from harness.reach.hostkeys import SSH_PORT, Pins
from harness.reach.ssh import SshShell
from harness.reach.sshlogin import Machine

KNOWN_HOSTS = Path("~/.ssh/known_hosts")


def log_in(host: Host, clock: Clock) -> SshShell:
    """A shell on a host. Raises LabError of the sort that says what is wrong with it."""
    with _key(host) as key:
        machine = Machine(
            host=str(host.address or host.name),
            user=str(host.user or "root"),
            port=host.port or SSH_PORT,
            pins=_pins(host),
            key_file=key,
            where=f"host {host.name}",
        )
        return SshShell.open(machine, clock)


def _pins(host: Host) -> Pins:
    if host.host_key:
        return Pins(fingerprint=host.host_key)
    known = KNOWN_HOSTS.expanduser()
    text = known.read_text(encoding="utf-8", errors="replace") if known.is_file() else ""
    return Pins(known_hosts=text, source=str(KNOWN_HOSTS))


@contextmanager
def _key(host: Host) -> Iterator[Path]:
    """The private key as a file: its own, or one of this user's alone while logging in."""
    assert host.ssh is not None, "asked only of a host that the inventory gives a key"
    if host.ssh.file is not None:
        yield Path(host.ssh.file).expanduser()
        return
    try:
        text = host.ssh.document()
    except SecretUnavailableError as missing:
        saw, _, do = str(missing).rpartition(": ")
        raise KeyUnusable(f"log in to host {host.name}", saw, do) from missing
    descriptor, name = tempfile.mkstemp(prefix="hil-key-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text if text.endswith("\n") else f"{text}\n")
        yield Path(name)
    finally:
        Path(name).unlink()
