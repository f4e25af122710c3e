"""What `hil twin` does: up, advance, state, fault, chaos."""

from __future__ import annotations

import asyncio
import datetime
import http.client
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.twin.process import NO_TRUST_STORE, Endpoint, TwinFailed

USER_MISTAKE = 2
LAB_UNFIT = 3
_LAST_PORT = 65535
_PATIENCE = 600.0  # real seconds for one answer
_QUOTED = 1000  # characters of what the twin says
_STRIKES_REQUESTS = frozenset({"cluster", "verb", "path", "times", "skip"})
# What may be said with a kind, where that is not everything but seconds.
_CHAOS_OPTIONS = {
    "slow": _STRIKES_REQUESTS | {"seconds"},
    "throttle": _STRIKES_REQUESTS | {"after", "seconds"},
    "skew": frozenset({"cluster", "seconds"}),
    "restart": frozenset({"cluster"}),
    "expired-certificate": frozenset({"cluster"}),
    "list": frozenset[str](),
    "clear": frozenset[str](),
}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def up(
    directory: Path,
    *,
    seed: int,
    faults: Sequence[str],
    speed: float,
    port: int,
    watch_lifetime: float,
) -> int:
    """Serve until Ctrl-C."""
    os.environ.update(NO_TRUST_STORE)  # read by what is imported next
    from harness.twin.faults.catalogue import UnknownFault, find
    from harness.twin.lab import CannotStart, DirectoryUnfit, Options, serve

    if not math.isfinite(speed) or speed < 0:
        return _mistake(f"--speed {speed:g}: give virtual seconds per real second, 0 or more")
    if not math.isfinite(watch_lifetime) or watch_lifetime < 0:
        return _mistake(f"--watch-lifetime {watch_lifetime:g}: give real seconds, 0 or more")
    if not 0 <= port <= _LAST_PORT:
        return _mistake(f"--port {port}: give a port from 0 (any that is free) to {_LAST_PORT}")
    try:
        chosen = tuple(find(name).id for name in faults)
        options = Options(
            directory=directory,
            seed=seed,
            faults=chosen,
            speed=speed,
            port=port,
            watch_lifetime=watch_lifetime,
        )
        asyncio.run(serve(options, _greeting(directory, speed)))
    except UnknownFault as unknown:
        return _mistake(str(unknown))
    except DirectoryUnfit as unfit:
        return _mistake(str(unfit))
    except CannotStart as unfit:
        sys.stderr.write(f"hil: {unfit}\n")
        return LAB_UNFIT
    return 0


def _greeting(directory: Path, speed: float) -> list[str]:
    kubeconfig = directory / "kubeconfig"
    time = (
        f"  time runs at {speed:g} virtual seconds per second"
        if speed
        else f"  hil twin advance 93m --dir {directory}     (time stands still until told)"
    )
    return [
        f"the twin is up; kubeconfig: {kubeconfig}",
        f"  kubectl --kubeconfig {kubeconfig} get nodes",
        f"  kubectl --kubeconfig {kubeconfig} --context tenant-lab get nodes",
        f"  Prometheus: {{prometheus}}, bearer token in {directory / 'prometheus-token'}",
        f"  LINSTOR: {{linstor}}, certificates in {directory}/linstor-*.pem",
        time,
        f"  hil run --attach {directory}",
        "Ctrl-C ends it.",
    ]


def advance(directory: Path, duration: str) -> int:
    """Let virtual time pass and say where it stands."""
    seconds = parse_duration(duration)
    if seconds is None:
        return _mistake(f"{duration!r} is not a duration: write 90s, 93m, 1h30m or 2d")
    try:
        told = _ask(directory, "GET", "/state")
        until = float(told["now"]) + seconds
        moved = _ask(directory, "POST", f"/clock/advance?run=all&until={until!r}")
    except Refused as refused:
        return refused.tell()
    sys.stdout.write(f"now {_stamp(moved['now'])}, revision {moved['revision']}\n")
    return 0


def state(directory: Path) -> int:
    """Show time, clusters, planted faults, who watches, and what comes next."""
    try:
        told = _ask(directory, "GET", "/state")
    except Refused as refused:
        return refused.tell()
    pace = f"  (runs at {told['speed']:g} s per second)" if told["speed"] else ""
    lines = [f"now       {_stamp(told['now'])}{pace}", f"revision  {told['revision']}"]
    lines += [f"failure   {told['failure']}"] if told["failure"] else []
    lines += [f"cluster   {name} at {url}" for name, url in told["clusters"].items()]
    lines += [f"metrics   Prometheus at {told['prometheus']}"]
    lines += [f"fault     {name}" for name in told["faults"]]
    lines += [f"chaos     {_told_rule(rule)}" for rule in told["chaos"]]
    for cluster, kinds in told["watches"].items():
        lines += [f"watching  {cluster}: {kind} ({count})" for kind, count in kinds.items()]
    lines += [f"in {item['in']:8.1f} s  {item['what']}" for item in told["pending"]]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def fault(directory: Path, name: str) -> int:
    """Plant a fault in a running twin."""
    from harness.twin.faults.catalogue import UnknownFault, find

    try:
        find(name)
        _ask(directory, "POST", f"/faults/{name}")
    except UnknownFault as unknown:
        return _mistake(str(unknown))
    except Refused as refused:
        return refused.tell()
    sys.stdout.write(f"planted {name}\n")
    return 0


def chaos(directory: Path, what: str, options: Mapping[str, Any]) -> int:
    """Have the API servers of a running twin misbehave; ``list`` and ``clear`` instead of a kind.

    ``options`` are the fields of a rule that somebody gave, and ``cluster``.
    """
    from harness.twin.apiserver.chaos import Rule

    try:
        _check_options(what, options)
        if what == "list":
            return _list_chaos(directory)
        if what == "clear":
            cleared = _ask(directory, "DELETE", "/chaos")["cleared"]
            sys.stdout.write(f"cleared {cleared}\n")
            return 0
        given = {"seconds": 1, **options} if what == "throttle" else dict(options)
        Rule(what, **{name: value for name, value in given.items() if name != "cluster"})
        told = _ask(directory, "POST", "/chaos", {"what": what, **given})
    except ValueError as mistake:
        return _mistake(str(mistake))
    except Refused as refused:
        return refused.tell()
    sys.stdout.write(f"unleashed {what} on {', '.join(told['clusters'])}\n")
    return 0


def _list_chaos(directory: Path) -> int:
    rules = _ask(directory, "GET", "/chaos")["rules"]
    lines = [_told_rule(rule) for rule in rules] or ["no chaos"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _check_options(what: str, options: Mapping[str, Any]) -> None:
    """ValueError for a kind that is none, and for an option that says nothing about the kind."""
    from harness.twin.apiserver.chaos import KINDS, meant

    if what not in (*KINDS, "list", "clear"):
        raise ValueError(f"no chaos {what!r}{meant(what, (*KINDS, 'list', 'clear'))}")
    allowed = _CHAOS_OPTIONS.get(what, _STRIKES_REQUESTS | {"after"})
    idle = [name for name in options if name not in allowed]
    if idle:
        raise ValueError(f"--{idle[0]} says nothing about {what}: leave it out")


def _told_rule(rule: Mapping[str, Any]) -> str:
    """One line about a rule in force."""
    aims = [f"{name} {rule[name]}" for name in ("verb", "path") if rule[name] != "*"]
    counts = [f"{n} {rule[n]:g}" for n in ("times", "skip", "after", "seconds") if rule[n]]
    ended = ", spent" if rule["spent"] else ""
    words = ", ".join([f"{rule['cluster']}: {rule['what']}", *aims, *counts])
    return f"{words} (struck {rule['struck']} of {rule['met']}{ended})"


def parse_duration(text: str) -> float | None:
    """Seconds of "90s", "93m", "1h30m", "2d" or a bare number; None when it is none of these."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


class Refused(Exception):
    """A running twin was not found, or said no. ``status`` is this command's exit status."""

    def __init__(self, sentence: str, status: int = LAB_UNFIT) -> None:
        super().__init__(sentence)
        self.status = status

    def tell(self) -> int:
        """Say it to the user; gives the exit status."""
        sys.stderr.write(f"hil: {self}\n")
        return self.status


def _ask(
    directory: Path, verb: str, path: str, sent: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What the twin of a directory answers. Raises Refused."""
    try:
        parts = urlsplit(Endpoint.load(directory).clock_url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=_PATIENCE)
        connection.request(verb, path, None if sent is None else json.dumps(sent))
        answer = connection.getresponse()
        body = answer.read()
    except TwinFailed as missing:
        raise Refused(str(missing)) from missing
    except (OSError, http.client.HTTPException) as gone:
        reason = str(gone) or type(gone).__name__
        raise Refused(
            f"the twin of {directory} does not answer ({reason}); start one with `hil twin up`"
        ) from gone
    if answer.status != http.HTTPStatus.OK:
        mistaken = answer.status in (http.HTTPStatus.BAD_REQUEST, http.HTTPStatus.NOT_FOUND)
        said = body.decode(errors="replace")[:_QUOTED]
        raise Refused(f"the twin says: {said}", USER_MISTAKE if mistaken else LAB_UNFIT)
    told: dict[str, Any] = json.loads(body)
    return told


def _stamp(epoch: float) -> str:
    return datetime.datetime.fromtimestamp(epoch, datetime.UTC).isoformat()


def _mistake(sentence: str) -> int:
    return Refused(sentence, USER_MISTAKE).tell()
