"""What `hil qemu` and `hil clean` do. Exit status: 0, 2 the user's mistake, 3 the lab is unfit."""

from __future__ import annotations

import datetime
import json
import math
import os
import re
import select
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.clock import WallClock
from harness.qemulab.client import ask, find
from harness.qemulab.errors import Misnamed, Unfit
from harness.qemulab.lab import MOST_GUESTS, MiB, MiniLab, Wants
from harness.qemulab.rundir import DirectoryUnfit
from harness.reach.errors import LabError

USER_MISTAKE = 2
LAB_UNFIT = 3

_LEAST_MEMORY = 96  # MiB: what the guests' image was measured to run in
_LEAST_DISK = 8  # MiB: DRBD's own records, and some room
_FIRST_PORT, _LAST_PORT = 1024, 65535
_MODULE = re.compile(r"[^,:\s]+(:[^,:\s]+)*")


class _Mistake(Exception):
    """The command line asks for something that cannot be."""


def up(
    directory: Path,
    *,
    guests: int,
    memory: int,
    disk: int,
    modules: Sequence[str],
    append: str,
    port: int,
    image: Path | None = None,
    sha256: str = "",
) -> int:
    """Boot a lab and keep it until Ctrl-C, or until `down`. ``memory`` and ``disk`` in MiB; a
    module is ``NAME[:PARAMETER=VALUE]...``; ``image`` is a disk image of ``sha256`` to boot."""
    mistake = _no_lab(guests, memory, disk, modules, port) or _no_image(image, sha256)
    if mistake:
        return _mistake(mistake)
    parts = [module.split(":") for module in modules]
    named = tuple((name, tuple(parameters)) for name, *parameters in parts)
    own = (image, sha256) if image is not None else None
    wants = Wants(guests, memory * MiB, disk * MiB, named, append, port, image=own)
    return _telling(lambda: _up(directory, wants))


def _no_lab(guests: int, memory: int, disk: int, modules: Sequence[str], port: int) -> str:
    """Why there is no such lab, or ""."""
    if not 1 <= guests <= MOST_GUESTS:
        return f"--guests {guests}: give 1 to {MOST_GUESTS}"
    if memory < _LEAST_MEMORY:
        return f"--memory {memory}: give {_LEAST_MEMORY} MiB or more"
    if disk < _LEAST_DISK:
        return f"--disk {disk}: give {_LEAST_DISK} MiB or more"
    if port and not _FIRST_PORT <= port <= _LAST_PORT - guests:
        return f"--port {port}: give one from {_FIRST_PORT} to {_LAST_PORT - guests}, or 0 for any"
    for module in modules:
        if not _MODULE.fullmatch(module):
            return (
                f"--module {module}: write NAME or NAME:PARAMETER=VALUE, with neither ',' nor ' '"
            )
    return ""


def _no_image(image: Path | None, sha256: str) -> str:
    """Why that is no image to boot, or ""."""
    if image is None:
        return "--sha256 is of an image: name it with --image" if sha256 else ""
    if not re.fullmatch(r"[0-9a-f]{64}", sha256):
        return f"--image {image}: give its checksum, --sha256 with 64 hexadecimal digits"
    return ""


def _up(directory: Path, wants: Wants) -> int:
    lab = MiniLab.start(directory, wants, say=_say)
    try:
        _say("\n".join(_greeting(lab)))
        assert lab.keeper is not None
        select.select([lab.keeper], [], [])
    except KeyboardInterrupt:
        return 0
    finally:
        lab.close()
    if lab.keeper.status == 0:
        _say("ended by `hil qemu down`")
        return 0
    sys.stderr.write(f"hil: the keeper of the guests ended ({lab.keeper.status}); so did they\n")
    return LAB_UNFIT


def _greeting(lab: MiniLab) -> list[str]:
    usual = lab.directory.absolute() == Path(".hil/qemu").absolute()
    where = "" if usual else f" --dir {lab.directory}"
    first = lab.names[0]
    return [
        f"the lab is up: {', '.join(lab.names)}",
        f"  hil qemu status{where}",
        f"  hil qemu ssh {first}{where} -- drbdadm status",
        f"  hil qemu console {first}{where}",
        f"  hil qemu rollback{where}",
        "Ctrl-C ends it.",
    ]


def down(directory: Path) -> int:
    """End the lab that is up in a directory."""

    def do() -> int:
        ask(Path(find(directory)["control"]), "end")
        return 0

    return _telling(do)


def status(directory: Path, *, as_json: bool) -> int:
    """Show the lab that is up in a directory."""

    def do() -> int:
        told = MiniLab.attach(directory).status()
        text = json.dumps(told, indent=2) if as_json else "\n".join(_shown(directory, told))
        _say(text)
        return 0

    return _telling(do)


def _shown(directory: Path, told: Mapping[str, Any]) -> list[str]:
    about, times = told["about"], told["notes"].get("times", {})
    lines = [
        f"lab         {directory}, up for {_length(told['up'])}, kept by process {told['keeper']}",
        f"accelerator {about['accelerator']}: {about['why']}",
        f"kernel      {about['release']}",
    ]
    if not told["tethered"]:
        lines.append("beware      no setpriv (util-linux): guests outlive a keeper that is killed")
    for guest in told["guests"]:
        lines += _shown_guest(guest)
    lines += [_shown_link(link) for link in told["links"]]
    taken = [f"{name} ({_stamp(at)})" for name, at in told["snapshots"].items()]
    lines.append(f"snapshots   {', '.join(taken) or 'none'}")
    if not times:
        lines.append("coming up   the replicas and the first snapshot are not there yet")
    else:
        reached = ", ".join(f"{name} {seconds:.1f}" for name, seconds in times.items())
        lines.append(f"reached     {reached} (seconds)")
    return lines


def _shown_guest(guest: Mapping[str, Any]) -> list[str]:
    if guest["power"] == "off":
        line = f"guest       {guest['name']}: off, {guest['why']}"
    else:
        carrier = "" if guest["carrier"] else ", no carrier"
        console = ", console attached" if guest["console_taken"] else ""
        line = (
            f"guest       {guest['name']}: {guest['power']}, SSH on port {guest['port']}, "
            f"process {guest['pid']}{carrier}{console}"
        )
    return [line, *(f"            {note}" for note in guest["notes"])]


def _shown_link(link: Mapping[str, Any]) -> str:
    done = ["cut"] * link["cut"]
    done += [f"loses {link['lose']:.0%}"] * bool(link["lose"])
    done += [f"late by {link['delay']:g} s"] * bool(link["delay"])
    counts = {name: count for name, count in link["frames"].items() if count}
    counted = ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"
    state = ", ".join(done) or "whole"
    return f"link        {link['from']} to {link['to']}: {state}; frames: {counted}"


def ssh(directory: Path, guest: str, argv: Sequence[str], *, timeout: float) -> int:
    """Run a command in a guest, or, without one, become an OpenSSH client logged in to it."""
    if not math.isfinite(timeout) or timeout <= 0:
        return _mistake(f"--timeout {timeout:g}: give seconds, more than 0")
    return _telling(
        lambda: _command(directory, guest, argv, timeout) if argv else _login(directory, guest)
    )


def _command(directory: Path, guest: str, argv: Sequence[str], timeout: float) -> int:
    shell = _running(directory, guest).shell(guest, WallClock())
    try:
        reply = shell.run(argv, timeout=timeout)
    finally:
        shell.close()
    sys.stdout.buffer.write(reply.stdout)
    sys.stdout.flush()
    sys.stderr.buffer.write(reply.stderr)
    if reply.exit_code is None:
        sys.stderr.write(f"hil: {reply.problem}\n")
        return LAB_UNFIT
    return reply.exit_code


def _running(directory: Path, guest: str) -> MiniLab:
    """The lab, whose guest can answer: one that stands still would have us wait for nothing."""
    lab = MiniLab.attach(directory)
    lab.check_login(guest)
    power, why = lab.power_of(guest)
    if power == "off":
        raise Unfit(f"log in to {guest}", f"that it is off ({why})", "switch it on first")
    if power == "paused":
        raise Unfit(f"log in to {guest}", "that it is paused", "resume it first")
    return lab


def _login(directory: Path, guest: str) -> int:
    argv = ssh_command(_running(directory, guest), guest)
    if shutil.which(argv[0]) is None:
        raise LabError(
            f"log in to {guest}",
            "no ssh on the PATH",
            f"install Debian's openssh-client, or use `hil qemu console {guest}`",
        )
    os.execvp(argv[0], argv)


def ssh_command(lab: MiniLab, guest: str) -> list[str]:
    """How OpenSSH's client logs in to a guest: this lab's key, and no other host key than its."""
    machine = lab.guest(guest).machine
    options = {
        "IdentitiesOnly": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": str(lab.directory.absolute() / "known_hosts"),
        "GlobalKnownHostsFile": os.devnull,
    }
    told = [word for name, value in options.items() for word in ("-o", f'{name}="{value}"')]
    key = str(Path(str(machine.key_file)).absolute())
    return ["ssh", "-F", "none", *told, "-i", key, "-p", str(machine.port), f"root@{machine.host}"]


def console(directory: Path, guest: str, *, tail: int) -> int:
    """Attach this terminal to a guest's console, or show the last lines of its log."""
    from harness.qemulab.console_tail import tail as last_lines
    from harness.qemulab.terminal import attach

    def do() -> int:
        lab = MiniLab.attach(directory)
        if tail:
            _say("\n".join(last_lines(lab.guest(guest).log, tail)))
            return 0
        if not sys.stdin.isatty():
            raise _Mistake(f"no terminal to type on: use `hil qemu console {guest} --tail 20`")
        clock = WallClock()
        return attach(lab.console(guest, clock), clock)

    return _telling(do)


def snapshot(directory: Path, name: str, *, replace: bool = False) -> int:
    """Keep the state of all guests under a name."""
    return _asked(directory, lambda lab: lab.snapshot(name, replace=replace))


def rollback(directory: Path, name: str) -> int:
    """Put all guests back to a snapshot."""
    return _asked(directory, lambda lab: lab.rollback(name))


def power(directory: Path, guest: str, what: str) -> int:
    """Press one of a guest's buttons."""
    return _asked(directory, lambda lab: getattr(lab.power(guest), what)())


def link(
    directory: Path, what: str, ends: Sequence[str], amount: float | None, *, carrier: bool
) -> int:
    """Cut, heal, lose or delay; ``amount`` a share of frames, or seconds."""

    def do(lab: MiniLab) -> None:
        a, b = ends if ends else _both(lab)
        wire = lab.link()
        if what == "heal":
            wire.heal()
        elif what == "cut":
            wire.cut(a, b, carrier=carrier)
        elif what == "lose":
            wire.lose(a, b, amount or 0.0)
        else:
            wire.delay(a, b, amount or 0.0)

    mistake = _link_mistake(what, ends, amount, carrier=carrier)
    return _mistake(mistake) if mistake else _asked(directory, do)


def _link_mistake(what: str, ends: Sequence[str], amount: float | None, *, carrier: bool) -> str:
    if len(ends) not in (0, 2):
        return f"link {what} {' '.join(ends)}: name two guests, or none where there are two"
    if carrier and what != "cut":
        return f"--carrier says nothing about {what}: leave it out"
    if what in ("cut", "heal"):
        return f"link {what} takes no amount: leave {amount:g} out" if amount is not None else ""
    if amount is None or not math.isfinite(amount) or amount < 0 or (what == "lose" and amount > 1):
        kind = "a share of the frames from 0 to 1" if what == "lose" else "seconds, 0 or more"
        return f"link {what} wants --by: {kind}"
    return ""


def _both(lab: MiniLab) -> tuple[str, str]:
    if len(lab.names) != 2:
        raise _Mistake(f"which two of {', '.join(lab.names)}? name them")
    return lab.names[0], lab.names[1]


def clean(directory: Path, *, dry_run: bool, everything: bool) -> int:
    """Remove what crashed runs left; say each."""
    from harness.qemulab import clean as cleaning
    from harness.qemulab.cache import default_cache

    found = list(cleaning.find(directory, default_cache()))
    refused = False
    for one in found:
        if one.alive and not everything:
            _say(f"left: {one.what}: {one.alive}")
        elif dry_run:
            _say(f"would remove: {one.what}")
        else:
            try:
                one.remove()
                _say(f"removed: {one.what}")
            except OSError as error:
                refused = True
                sys.stderr.write(f"hil: cannot remove {one.what}: {error.strerror}\n")
    if not found:
        _say("nothing was left behind")
    return LAB_UNFIT if refused else 0


def _asked(directory: Path, do: Callable[[MiniLab], None]) -> int:
    def doing() -> int:
        do(MiniLab.attach(directory))
        return 0

    return _telling(doing)


def _telling(do: Callable[[], int]) -> int:
    """Do it; an error becomes a sentence and an exit status."""
    try:
        return do()
    except (DirectoryUnfit, Misnamed, _Mistake) as error:
        return _mistake(str(error))
    except LabError as error:
        sys.stderr.write(f"hil: {error}\n")
        return LAB_UNFIT


def _mistake(sentence: str) -> int:
    sys.stderr.write(f"hil: {sentence}\n")
    return USER_MISTAKE


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _length(seconds: float) -> str:
    return str(datetime.timedelta(seconds=int(seconds)))


def _stamp(epoch: float) -> str:
    return datetime.datetime.fromtimestamp(epoch).astimezone().strftime("%H:%M:%S")
