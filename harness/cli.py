"""The `hil` command: thin, every verb calls one function elsewhere, imported when it is needed.

Exit status: 0 all planned claims hold; 1 some do not; 2 the user's mistake; 3 the lab is unfit or
the disk is; 4 `hil diagnose` could not decide, or a console was lost; 5 nothing was planned; 6
all that fails is a known issue; 70 an error inside the harness; 130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

from harness import fault_options
from harness.cleaning import options as cleaning_options
from harness.commandline import (
    TWIN_INVENTORY,
    Verbs,
    add_attach,
    add_out,
    add_parts,
    add_verb,
    count,
)
from harness.consoles import options as console_options
from harness.diagnose import options as diagnose_options
from harness.doctor import options as doctor_options
from harness.live import options as live_options
from harness.qemulab import options as qemu_options
from harness.report import options as report_options
from harness.report import rebuilding_options, signing_options
from harness.session import durations
from harness.session.attaching import OF_TWIN

USER_MISTAKE = 2
LAB_UNFIT = 3
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit status. A user's mistake gets a sentence, not a traceback."""
    _write_whatever_the_terminal()
    chosen = _chosen(argv)
    # an abort by CI ends a verb as Ctrl-C does
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return int(chosen.verb(chosen))
    except KeyboardInterrupt:
        sys.stderr.write("hil: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        # whoever read us has gone; nothing more can be said to anybody
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class _Parser(argparse.ArgumentParser):
    """One that names the word somebody probably meant."""

    def error(self, message: str) -> NoReturn:
        """End with 2: the mistake, and the nearest verb where it is one."""
        wrong = re.search(r"invalid choice: '([^']*)'", message)
        hint = _meant(wrong[1], _verbs_of(self)) if wrong else ""
        super().error(message + hint)


def _write_whatever_the_terminal() -> None:
    """A terminal that cannot show a letter gets it spelt out; the table must not fail for it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _chosen(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line, read. An option that is none is told by its verb, which knows its own."""
    words = list(sys.argv[1:] if argv is None else argv)
    end = words.index("--") if "--" in words else len(words)
    chosen, extra = parser().parse_known_args(words[:end])
    # argparse would give what follows "--" to whichever positional has room
    chosen.rest = words[end + 1 :]
    if chosen.rest and not getattr(chosen, "takes_rest", False):
        extra += ["--", *chosen.rest]
    if extra:
        own: argparse.ArgumentParser = chosen.own
        hints = [_meant(word.partition("=")[0], own._option_string_actions) for word in extra]
        own.error(f"unrecognized arguments: {' '.join(extra)}{next(filter(None, hints), '')}")
    return chosen


def _verbs_of(parser: argparse.ArgumentParser) -> list[str]:
    parts = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    return [name for part in parts for name in part.choices]


def _meant(word: str, known: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def parser() -> argparse.ArgumentParser:
    """The whole command line, each verb with an example."""
    top: argparse.ArgumentParser = _Parser(
        prog="hil",
        description="Hardware-in-the-loop tests for Cozystack tenant Kubernetes clusters.",
        epilog="example: hil run --lab inventory/twin.yaml --pool gpu-l40s",
    )
    verbs = add_parts(top)
    _add_run(verbs)
    fault_options.add_prove(verbs)
    _add_twin(verbs)
    qemu_options.add(verbs)
    cleaning_options.add(verbs)
    live_options.add(verbs)
    report_options.add(verbs)
    rebuilding_options.add(verbs)
    signing_options.add(verbs)
    diagnose_options.add(verbs)
    console_options.add(verbs)
    doctor_options.add(verbs)
    _add_claims(verbs)
    fault_options.add_faults(verbs)
    _add_inventory(verbs)
    return top


def _add_lab_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--lab",
        type=Path,
        default=TWIN_INVENTORY,
        metavar="FILE",
        help="inventory of the lab (default: the embedded twin)",
    )
    parser.add_argument("--lane", default="", help="kind of run, one of the inventory's lanes")
    parser.add_argument("--pool", action="append", default=[], help="only this pool (repeatable)")
    parser.add_argument(
        "--claim", action="append", default=[], help="only scenarios of this claim (repeatable)"
    )


def _add_run(verbs: Verbs) -> None:
    run = add_verb(
        verbs,
        "run",
        "Run the scenarios against a lab and report what was seen.",
        "hil run --pool gpu-l40s --claim modules-live",
    )
    _add_lab_options(run)
    run.add_argument("--card", default="", metavar="NAME", help="only pools with this card (l40s)")
    run.add_argument(
        "--soak", default="", metavar="TIME", help="window of uptime, instead of the lane's (93m)"
    )
    run.add_argument(
        "--plan",
        action="store_true",
        help="say what would run, what each scenario needs, what the lab lacks; touch nothing",
    )
    add_attach(
        run,
        "use the twin that `hil twin up` left running (default DIR: .hil), or the guests of "
        f"`hil qemu up` ({qemu_options.DIRECTORY})",
    )
    run.add_argument(
        "--fault",
        action="append",
        default=[],
        help="plant a fault in the embedded twin, or in the mini-lab's guests (repeatable; see "
        "`hil faults`)",
    )
    run.add_argument("--seed", type=int, default=1, help="seed of the embedded twin (default 1)")
    run.add_argument(
        "--workers",
        type=count,
        default=2,
        metavar="N",
        help="pools to drive at once, where they may stand at once (see --plan), or sets of the "
        "mini-lab's guests among which scenarios are shared (default 2; 0 or 1: one process)",
    )
    add_out(run)
    run.add_argument("--run-id", default="", help="name of this run (default: made from the time)")
    run.add_argument(
        "--subject",
        default="",
        metavar="TEXT",
        help="what is to be signed, as the sign-off names it: 'Cozystack v1.7.0'",
    )
    run.add_argument(
        "--docs",
        default="",
        metavar="URL",
        help="where the documentation is published, for links in reports",
    )
    run.add_argument(
        "--save-state",
        type=Path,
        metavar="FILE",
        help="record what pools that stand already consist of, for a later run's --against",
    )
    run.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help="ask whether standing pools are what the run that wrote FILE recorded",
    )
    run.add_argument(
        "--wait",
        type=durations.seconds,
        default=0.0,
        metavar="TIME",
        help="how long to wait, on the lab's time, for a run that holds a pool or was promised its "
        "cards: 20m, 2h (default: refuse at once, status 3)",
    )
    run.add_argument(
        "--known",
        type=Path,
        metavar="FILE",
        help="file of known issues (default: reports/known-issues.yaml where it is there)",
    )
    run.add_argument(
        "--evidence",
        type=durations.seconds,
        default=90.0,
        metavar="TIME",
        help="longest time for a failure's evidence: 90s, 5m (default 90s; 0: none is taken)",
    )
    run.add_argument("--quiet", action="store_true", help="print the table of claims only")
    run.set_defaults(verb=_run)


def _add_twin(verbs: Verbs) -> None:
    twin = add_verb(
        verbs, "twin", "Run the simulated lab for people and for kubectl.", "hil twin up --speed 60"
    )
    parts = add_parts(twin)
    up = add_verb(
        parts,
        "up",
        "Start a twin, write its kubeconfig and stay up until Ctrl-C.",
        "hil twin up --speed 60",
    )
    up.add_argument(
        "--speed",
        type=float,
        default=0.0,
        metavar="N",
        help="virtual seconds per real second (default 0: stands still, see advance)",
    )
    up.add_argument("--seed", type=int, default=1)
    up.add_argument("--port", type=int, default=0, help="port of the management API (default: any)")
    up.add_argument("--fault", action="append", default=[], help="plant a fault (repeatable)")
    up.add_argument(
        "--watch-lifetime",
        type=float,
        default=0.0,
        metavar="TIME",
        help="real seconds after which the servers begin to end each watch (default 0: never)",
    )
    _add_twin_directory(up)
    up.set_defaults(verb=_twin_up)
    advance = add_verb(parts, "advance", "Let virtual time pass.", "hil twin advance 93m")
    advance.add_argument("duration", help="how long: 90s, 93m, 30h")
    _add_twin_directory(advance)
    advance.set_defaults(verb=_twin_advance)
    state = add_verb(
        parts,
        "state",
        "Show a running twin's time, clusters and what comes next.",
        "hil twin state",
    )
    _add_twin_directory(state)
    state.set_defaults(verb=_twin_state)
    fault = add_verb(
        parts, "fault", "Plant a fault in a running twin.", "hil twin fault no-modules-block"
    )
    fault.add_argument("name")
    _add_twin_directory(fault)
    fault.set_defaults(verb=_twin_fault)
    _add_chaos(parts)


def _add_chaos(parts: Verbs) -> None:
    chaos = add_verb(
        parts,
        "chaos",
        "Have the API servers of a running twin misbehave: cut, drop, silent, half-open, slow, "
        "garbled, gone, throttle, leader-changed, unavailable, timeout, unauthorized, forbidden; "
        "restart, skew, expired-certificate. `list` shows what is in force, `clear` ends it.",
        "hil twin chaos gone --verb watch --path '*/pods' --times 1",
    )
    chaos.add_argument("what", metavar="KIND", help="what goes wrong, or list, or clear")
    chaos.add_argument("--verb", dest="api_verb", metavar="V", help="get, list, watch, create, ...")
    chaos.add_argument("--path", metavar="GLOB", help="paths it strikes (default: all)")
    chaos.add_argument("--times", type=count, metavar="N", help="requests it strikes (0: all)")
    chaos.add_argument("--skip", type=count, metavar="N", help="requests left unharmed first")
    chaos.add_argument("--after", type=count, metavar="N", help="events sent before it strikes")
    chaos.add_argument(
        "--seconds", type=float, metavar="S", help="real seconds: of slow, throttle, skew"
    )
    chaos.add_argument("--cluster", metavar="NAME", help="management or tenant-lab (default: all)")
    _add_twin_directory(chaos)
    chaos.set_defaults(verb=_twin_chaos)


def _add_twin_directory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir",
        type=Path,
        default=OF_TWIN,
        metavar="DIR",
        help="where the twin keeps its kubeconfig (default: .hil)",
    )


def _add_claims(verbs: Verbs) -> None:
    claims = add_verb(
        verbs,
        "claims",
        "List the claims a run can establish, or explain one.",
        "hil claims modules-live",
    )
    claims.add_argument("claim", nargs="?", default="")
    claims.set_defaults(verb=_claims)


def _add_inventory(verbs: Verbs) -> None:
    inventory = add_verb(
        verbs,
        "inventory",
        "Check inventory files, or print their JSON Schema.",
        "hil inventory check inventory/lab-l40s.yaml",
    )
    parts = add_parts(inventory)
    check = add_verb(
        parts,
        "check",
        "Check inventory files; every mistake at once.",
        "hil inventory check inventory/*.yaml",
    )
    check.add_argument("files", nargs="+", type=Path, metavar="FILE")
    check.set_defaults(verb=_inventory_check)
    schema = add_verb(
        parts,
        "schema",
        "Print the JSON Schema of an inventory file.",
        "hil inventory schema > schema.json",
    )
    schema.set_defaults(verb=_inventory_schema)


def _run(chosen: argparse.Namespace) -> int:
    from harness.session.command import run

    return run(chosen)


def _twin_up(chosen: argparse.Namespace) -> int:
    from harness.twin.command import up

    return up(
        chosen.dir,
        seed=chosen.seed,
        faults=chosen.fault,
        speed=chosen.speed,
        port=chosen.port,
        watch_lifetime=chosen.watch_lifetime,
    )


def _twin_advance(chosen: argparse.Namespace) -> int:
    from harness.twin.command import advance

    return advance(chosen.dir, chosen.duration)


def _twin_state(chosen: argparse.Namespace) -> int:
    from harness.twin.command import state

    return state(chosen.dir)


def _twin_fault(chosen: argparse.Namespace) -> int:
    from harness.twin.command import fault

    return fault(chosen.dir, chosen.name)


def _twin_chaos(chosen: argparse.Namespace) -> int:
    from harness.twin.command import chaos

    names = {"api_verb": "verb"} | {
        name: name for name in ("path", "times", "skip", "after", "seconds", "cluster")
    }
    said = {names[key]: value for key, value in vars(chosen).items() if key in names}
    options = {name: value for name, value in said.items() if value is not None}
    return chaos(chosen.dir, chosen.what, options)


def _claims(chosen: argparse.Namespace) -> int:
    from harness.claims.listing import show

    return show(chosen.claim)


def _inventory_check(chosen: argparse.Namespace) -> int:
    from harness.claims.catalogue import load as load_claims
    from harness.inventory.command import check_files

    return check_files(chosen.files, load_claims())


def _inventory_schema(_: argparse.Namespace) -> int:
    from harness.inventory.command import print_schema

    return print_schema()


if __name__ == "__main__":
    sys.exit(main())
