"""The command line of `hil qemu` and `hil clean`; what does the work is imported when needed."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.commandline import Verbs, add_parts, add_verb

DIRECTORY = Path(".hil/qemu")


def add(verbs: Verbs) -> None:
    """Add `hil qemu` with its parts."""
    qemu = add_verb(
        verbs,
        "qemu",
        "Run the mini-lab: real guests under QEMU, with DRBD between them.",
        "hil qemu up",
    )
    parts = add_parts(qemu)
    _add_up(parts)
    _add_plain(parts)
    _add_ssh(parts)
    _add_console(parts)
    _add_snapshots(parts)
    _add_power(parts)
    _add_link(parts)


def _add_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir",
        type=Path,
        default=DIRECTORY,
        metavar="DIR",
        help=f"where the lab keeps its disks and logs (default: {DIRECTORY})",
    )


def _add_up(parts: Verbs) -> None:
    up = add_verb(
        parts,
        "up",
        "Build the image, boot the guests, sync DRBD between them, take the snapshot 'pristine' "
        "and stay up until Ctrl-C.",
        "hil qemu up --guests 2 --module nvidia:NVreg_NvLinkDisable=1 --module nvidia_uvm",
    )
    up.add_argument("--guests", type=int, default=2, metavar="N", help="1 to 3 (default 2)")
    up.add_argument(
        "--memory", type=int, default=192, metavar="MIB", help="of each guest (default 192)"
    )
    up.add_argument(
        "--disk", type=int, default=64, metavar="MIB", help="replicated disk of each (default 64)"
    )
    up.add_argument(
        "--module",
        action="append",
        default=[],
        metavar="NAME[:PARAMETER=VALUE]",
        help="kernel module to load at boot, in the order given (repeatable)",
    )
    up.add_argument("--append", default="", metavar="TEXT", help="more kernel command line")
    up.add_argument(
        "--image",
        type=Path,
        metavar="FILE",
        help="boot this disk image (raw, qcow2, .xz, .gz) instead of our own; needs --sha256",
    )
    up.add_argument("--sha256", default="", metavar="SUM", help="checksum of that file")
    up.add_argument(
        "--port",
        type=int,
        default=0,
        metavar="N",
        help="port of the first guest's SSH on 127.0.0.1, the others' follow (default: any)",
    )
    _add_directory(up)
    up.set_defaults(verb=_up)


def _add_plain(parts: Verbs) -> None:
    down = add_verb(parts, "down", "End the lab that is up.", "hil qemu down")
    _add_directory(down)
    down.set_defaults(verb=_down)
    status = add_verb(
        parts,
        "status",
        "Show a lab's guests, links, snapshots, ports, processes and accelerator.",
        "hil qemu status --json",
    )
    status.add_argument("--json", action="store_true", help="all of it, for programs")
    _add_directory(status)
    status.set_defaults(verb=_status)


def _add_ssh(parts: Verbs) -> None:
    ssh = add_verb(
        parts,
        "ssh",
        "Run a command in a guest, exiting as it does; without one, log in with OpenSSH's client.",
        "hil qemu ssh n1 -- drbdadm status",
    )
    ssh.add_argument("guest", metavar="GUEST")
    ssh.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="of the command"
    )
    _add_directory(ssh)
    ssh.usage = "hil qemu ssh [-h] [--timeout SECONDS] [--dir DIR] GUEST [-- CMD ...]"
    ssh.set_defaults(verb=_ssh, takes_rest=True)


def _add_console(parts: Verbs) -> None:
    console = add_verb(
        parts,
        "console",
        "Attach this terminal to a guest's serial console; Ctrl-] lets go.",
        "hil qemu console n1 --tail 20",
    )
    console.add_argument("guest", metavar="GUEST")
    console.add_argument(
        "--tail", type=int, default=0, metavar="N", help="print the last N lines instead"
    )
    _add_directory(console)
    console.set_defaults(verb=_console)


def _add_snapshots(parts: Verbs) -> None:
    snapshot = add_verb(
        parts,
        "snapshot",
        "Keep the state of all guests and the wire under a name.",
        "hil qemu snapshot before-the-cut",
    )
    snapshot.add_argument("name", metavar="NAME")
    snapshot.add_argument("--replace", action="store_true", help="in the place of one of that name")
    _add_directory(snapshot)
    snapshot.set_defaults(verb=_snapshot)
    rollback = add_verb(
        parts,
        "rollback",
        "Put all guests and the wire back to a snapshot; those that are off come back on.",
        "hil qemu rollback pristine",
    )
    rollback.add_argument("name", nargs="?", default="pristine", metavar="NAME")
    _add_directory(rollback)
    rollback.set_defaults(verb=_rollback)


def _add_power(parts: Verbs) -> None:
    power = add_verb(
        parts,
        "power",
        "Press a guest's buttons: off pulls the plug, on starts it from its disks as they are, "
        "pause has it stand still.",
        "hil qemu power n2 off",
    )
    power.add_argument("guest", metavar="GUEST")
    power.add_argument("what", choices=("off", "on", "reset", "pause", "resume", "nmi"))
    _add_directory(power)
    power.set_defaults(verb=_power)


def _add_link(parts: Verbs) -> None:
    link = add_verb(
        parts,
        "link",
        "Cut the wire between two guests, lose or delay frames from the first to the second, "
        "or heal all of it.",
        "hil qemu link lose n1 n2 --by 0.1",
    )
    link.add_argument("what", choices=("cut", "lose", "delay", "heal"))
    link.add_argument("ends", nargs="*", metavar="GUEST", help="two; may be left out with two")
    link.add_argument(
        "--by", type=float, metavar="N", help="share of the frames (lose), seconds (delay)"
    )
    link.add_argument(
        "--carrier", action="store_true", help="cut so that both ends see their carrier go"
    )
    _add_directory(link)
    link.set_defaults(verb=_link)


def _up(chosen: argparse.Namespace) -> int:
    from harness.qemulab.verbs import up

    return up(
        chosen.dir,
        guests=chosen.guests,
        memory=chosen.memory,
        disk=chosen.disk,
        modules=chosen.module,
        append=chosen.append,
        image=chosen.image,
        sha256=chosen.sha256,
        port=chosen.port,
    )


def _down(chosen: argparse.Namespace) -> int:
    from harness.qemulab.verbs import down

    return down(chosen.dir)


def _status(chosen: argparse.Namespace) -> int:
    from harness.qemulab.verbs import status

    return status(chosen.dir, as_json=chosen.json)


def _ssh(chosen: argparse.Namespace) -> int:
    from harness.qemulab.verbs import ssh

    return ssh(chosen.dir, chosen.guest, chosen.rest, timeout=chosen.timeout)


def _console(chosen: argparse.Namespace) -> int:
    from harness.qemulab.verbs import console

    return console(chosen.dir, chosen.guest, tail=chosen.tail)


def _snapshot(chosen: argparse.Namespace) -> int:
    from harness.qemulab.verbs import snapshot

    return snapshot(chosen.dir, chosen.name, replace=chosen.replace)


def _rollback(chosen: argparse.Namespace) -> int:
    from harness.qemulab.verbs import rollback

    return rollback(chosen.dir, chosen.name)


def _power(chosen: argparse.Namespace) -> int:
    from harness.qemulab.verbs import power

    return power(chosen.dir, chosen.guest, chosen.what)


def _link(chosen: argparse.Namespace) -> int:
    from harness.qemulab.verbs import link

    return link(chosen.dir, chosen.what, chosen.ends, chosen.by, carrier=chosen.carrier)
