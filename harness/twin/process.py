"""A twin in a process of its own: start it, read where it is, end it."""

from __future__ import annotations

import http.client
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

TOLD = "twin.json"
"""The file in a running twin's directory that says where it is."""
_PATIENCE = 60.0  # real seconds for an answer of the admin port
# The twin connects to nobody, and reading the system's certificates takes a tenth of a second of
# each start: the HTTP library does it when it is imported.
NO_TRUST_STORE = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}


class TwinFailed(Exception):
    """The twin did not start; the message holds what it said."""


@dataclass(frozen=True, slots=True)
class HostAccess:
    """How to log in to a hypervisor: ``host_key`` a fingerprint, ``key`` a private key's file."""

    address: str
    port: int
    user: str
    host_key: str
    key: Path


@dataclass(frozen=True, slots=True)
class LinstorAccess:
    """Where LINSTOR's REST API is, and the PEM files of who is let in."""

    url: str
    ca: Path
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class PrometheusAccess:
    """Where the tenant's Prometheus is, and the file of the bearer token that it takes."""

    url: str
    token: Path


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a running twin is. ``hosts``: its hypervisors, by the name of their Node."""

    kubeconfig: Path
    clock_url: str
    contexts: tuple[str, ...]
    pid: int
    hosts: Mapping[str, HostAccess] = field(default_factory=dict)
    linstor: LinstorAccess | None = None
    prometheus: PrometheusAccess | None = None

    @staticmethod
    def load(directory: Path) -> Endpoint:
        """Read ``twin.json`` of a running twin's directory. Raises `TwinFailed` when not there."""
        try:
            told = json.loads((directory / TOLD).read_text(encoding="utf-8"))
            kubeconfig, contexts = Path(told["kubeconfig"]), tuple(told["contexts"])
            clock, hosts = str(told["clock"]), _hosts(told["ssh"])
            linstor = _linstor(told.get("linstor"))
            prometheus = _prometheus(told.get("prometheus"))
            pid = int(told["pid"])
            return Endpoint(kubeconfig, clock, contexts, pid, hosts, linstor, prometheus)
        except FileNotFoundError as missing:
            raise TwinFailed(
                f"no running twin in {directory}; start one with `hil twin up`"
            ) from missing
        except OSError as unreadable:
            raise _not_told(directory, str(unreadable.strerror)) from unreadable
        except (ValueError, KeyError, TypeError) as wrong:
            raise _not_told(directory, "it is no twin's") from wrong


def _hosts(told: Mapping[str, Any]) -> dict[str, HostAccess]:
    key = Path(told["key"])
    return {
        name: HostAccess(
            str(one["address"]), int(one["port"]), str(one["user"]), str(one["fingerprint"]), key
        )
        for name, one in told["hosts"].items()
    }


def _linstor(told: Mapping[str, Any] | None) -> LinstorAccess | None:
    if told is None:
        return None
    ca, certificate, key = (Path(told[name]) for name in ("ca", "certificate", "key"))
    return LinstorAccess(str(told["url"]), ca, certificate, key)


def _prometheus(told: Mapping[str, Any] | None) -> PrometheusAccess | None:
    return None if told is None else PrometheusAccess(str(told["url"]), Path(told["token"]))


def _not_told(directory: Path, why: str) -> TwinFailed:
    return TwinFailed(
        f"no running twin in {directory}, {TOLD} cannot be read ({why}); "
        "start one with `hil twin up`"
    )


Refusal = Callable[[str, str, str], Exception]
"""Makes an error of what was tried, what was seen, and what to do."""


def _failed(tried: str, saw: str, do: str) -> Exception:
    return TwinFailed(f"could not {tried}: {saw}; {do}")


@dataclass(frozen=True, slots=True)
class TwinPower:
    """The power of one of a running twin's hypervisors, by its admin port.

    Methods and what is true when they return: as of a machine's power in `harness.reach`. An order
    that the twin refuses, or does not hear, raises what ``refusal`` makes of it.
    """

    clock_url: str
    host: str
    refusal: Refusal = _failed

    def reset(self) -> None:
        """Press the reset button; refused where the machine is off."""
        self._order("reset")

    def off(self) -> None:
        """Pull the plug."""
        self._order("off")

    def on(self) -> None:
        """Switch on: a cold start, which takes the lab's time."""
        self._order("on")

    def pause(self) -> None:
        """Have the machine stand still; refused where it runs virtual machines."""
        self._order("pause")

    def resume(self) -> None:
        """Let a paused machine go on."""
        self._order("resume")

    def nmi(self) -> None:
        """Refused: these machines take no interrupt from outside."""
        tried = f"inject an NMI into {self.host}"
        raise self.refusal(tried, "the twin's hypervisors do not model it", "reset it instead")

    def _order(self, order: str) -> None:
        path, tried = f"/power/{quote(self.host)}", f"have {self.host} {order}"
        _post(self.clock_url, path, {"do": order}, tried, self.refusal)


@dataclass(frozen=True, slots=True)
class TwinLink:
    """The wires on which a running twin's hypervisors replicate, by its admin port.

    Methods as of a link in `harness.reach`; refusals as of `TwinPower`.
    """

    clock_url: str
    refusal: Refusal = _failed

    def cut(self, a: str, b: str, *, carrier: bool = False) -> None:
        """Cut the wire between two hosts, both ways."""
        self._do(f"cut the link between {a} and {b}", do="cut", a=a, b=b, carrier=carrier)

    def lose(self, a: str, b: str, share: float) -> None:
        """Lose a share of the frames from ``a`` to ``b``."""
        self._do(f"lose frames from {a} to {b}", do="lose", a=a, b=b, share=share)

    def delay(self, a: str, b: str, seconds: float) -> None:
        """Deliver each frame from ``a`` to ``b`` so much later."""
        self._do(f"delay frames from {a} to {b}", do="delay", a=a, b=b, seconds=seconds)

    def heal(self) -> None:
        """Everything as it was, on every wire."""
        self._do("heal the links", do="heal")

    def _do(self, tried: str, **asked: Any) -> None:
        _post(self.clock_url, "/links", asked, tried, self.refusal)


def _post(url: str, path: str, sent: Mapping[str, Any], tried: str, refusal: Refusal) -> None:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=_PATIENCE)
    try:
        connection.request("POST", path, json.dumps(sent))
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as gone:
        why = str(gone) or type(gone).__name__
        raise refusal(tried, f"the twin does not answer ({why})", "start it anew") from gone
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise refusal(tried, f"the twin says: {body[:1000]}", "see `hil twin state`")


class TwinProcess:
    """A twin that lives as long as this object; it also ends when its parent dies."""

    def __init__(self, directory: Path, *, seed: int, faults: Sequence[str] = ()) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-m", "harness.twin", "--dir", str(directory), "--seed", str(seed)]
        for fault in faults:
            argv += ["--fault", fault]
        self._log = (directory / "twin.log").open("wb")
        # the twin ends at the end of its standard input: a killed parent leaves no orphan
        self._child = subprocess.Popen(
            [*argv, "--until-stdin-closes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **NO_TRUST_STORE},
            start_new_session=True,  # Ctrl-C is for the run; the twin outlives it until take-down
        )
        self.endpoint = self._read_endpoint(directory)

    def _read_endpoint(self, directory: Path, patience: float = 30.0) -> Endpoint:
        out = self._child.stdout
        assert out is not None
        ready, _, _ = select.select([out], [], [], patience)
        line = out.readline() if ready else b""
        if not line.startswith(b"ready"):
            self.close()
            said = (directory / "twin.log").read_text(encoding="utf-8", errors="replace")[-2000:]
            raise TwinFailed(f"the twin did not start: {said.strip() or 'it said nothing'}")
        return Endpoint.load(directory)

    def close(self) -> None:
        """End it; it has ten seconds to go by itself."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(10)
        if self._child.stdout is not None:
            self._child.stdout.close()
        self._log.close()
