"""What `hil twin` does: up, advance, state, fault."""

from __future__ import annotations

import asyncio
import datetime
import http.client
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.twin.process import Endpoint, TwinFailed

USER_MISTAKE = 2
LAB_UNFIT = 3
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def up(directory: Path, *, seed: int, faults: Sequence[str], speed: float, port: int) -> int:
    """Serve until Ctrl-C."""
    from harness.twin.faults.catalogue import UnknownFault, find
    from harness.twin.lab import Options, serve

    try:
        chosen = tuple(find(name).id for name in faults)
    except UnknownFault as unknown:
        return _mistake(str(unknown))
    options = Options(directory=directory, seed=seed, faults=chosen, speed=speed, port=port)
    kubeconfig = directory / "kubeconfig"
    greeting = [
        f"the twin is up; kubeconfig: {kubeconfig}",
        f"  kubectl --kubeconfig {kubeconfig} get nodes",
        f"  kubectl --kubeconfig {kubeconfig} --context tenant-lab get nodes",
        f"  hil twin advance 93m --dir {directory}     (time stands still until told)"
        if not speed
        else f"  time runs at {speed:g} virtual seconds per second",
        f"  hil run --attach {directory}",
        "Ctrl-C ends it.",
    ]
    try:
        asyncio.run(serve(options, greeting))
    except OSError as taken:
        sys.stderr.write(f"hil: the twin cannot listen ({taken}); choose another --port or --dir\n")
        return LAB_UNFIT
    return 0


def advance(directory: Path, duration: str) -> int:
    """Let virtual time pass and say where it stands."""
    seconds = parse_duration(duration)
    if seconds is None:
        return _mistake(f"{duration!r} is not a duration: write 90s, 93m, 1h30m or 2d")
    told = _ask(directory, "GET", "/state")
    if told is None:
        return LAB_UNFIT
    until = float(told["now"]) + seconds
    moved = _ask(directory, "POST", f"/clock/advance?run=all&until={until!r}")
    if moved is None:
        return LAB_UNFIT
    sys.stdout.write(f"now {_stamp(moved['now'])}, revision {moved['revision']}\n")
    return 0


def state(directory: Path) -> int:
    """Show time, clusters, planted faults and what comes next."""
    told = _ask(directory, "GET", "/state")
    if told is None:
        return LAB_UNFIT
    lines = [f"now       {_stamp(told['now'])}", f"revision  {told['revision']}"]
    lines += [f"cluster   {name} at {url}" for name, url in told["clusters"].items()]
    lines += [f"fault     {name}" for name in told["faults"]]
    lines += [f"in {item['in']:8.1f} s  {item['what']}" for item in told["pending"]]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def fault(directory: Path, name: str) -> int:
    """Plant a fault in a running twin."""
    from harness.twin.faults.catalogue import UnknownFault, find

    try:
        find(name)
    except UnknownFault as unknown:
        return _mistake(str(unknown))
    if _ask(directory, "POST", f"/faults/{name}") is None:
        return LAB_UNFIT
    sys.stdout.write(f"planted {name}\n")
    return 0


def parse_duration(text: str) -> float | None:
    """Seconds of "90s", "93m", "1h30m", "2d" or a bare number; None when it is none of these."""
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def _ask(directory: Path, verb: str, path: str) -> dict[str, Any] | None:
    try:
        parts = urlsplit(Endpoint.load(directory).clock_url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=600)
        connection.request(verb, path)
        answer = connection.getresponse()
        body = answer.read()
    except TwinFailed as missing:
        sys.stderr.write(f"hil: {missing}\n")
        return None
    except OSError as gone:
        sys.stderr.write(
            f"hil: the twin of {directory} does not answer ({gone}); start one with `hil twin up`\n"
        )
        return None
    if answer.status != 200:
        sys.stderr.write(f"hil: the twin answered {answer.status}: {body.decode()[:500]}\n")
        return None
    told: dict[str, Any] = json.loads(body)
    return told


def _stamp(epoch: float) -> str:
    return datetime.datetime.fromtimestamp(epoch, datetime.UTC).isoformat()


def _mistake(sentence: str) -> int:
    sys.stderr.write(f"hil: {sentence}\n")
    return USER_MISTAKE
