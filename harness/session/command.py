"""What `hil run` does: check what was asked, then run pytest on the scenarios."""

from __future__ import annotations

import argparse
import os
import sys

import pytest

from harness.commandline import ROOT
from harness.session.apart import turns
from harness.session.attaching import directory
from harness.session.choice import Choice, choose, refuse_misfit
from harness.session.console import Console
from harness.session.mistake import UserMistake

USER_MISTAKE = 2


def run(chosen: argparse.Namespace) -> int:
    """Run the scenarios; returns the run's exit status."""
    try:
        choice = choose(
            chosen.lab,
            chosen.lane,
            chosen.pool,
            chosen.claim,
            chosen.against,
            card=chosen.card,
            soak=chosen.soak,
        )
        chosen.attach = directory(chosen.attach, choice.inventory.kind)
        refuse_misfit(choice, chosen.fault, chosen.attach, chosen.run_id, chosen.save_state)
    except UserMistake as mistake:
        sys.stderr.write(f"hil: {mistake}\n")
        return USER_MISTAKE
    _leave_out_options_of_pytest()
    workers = _at_once(chosen, choice)
    # pytest takes standard error away from its tests: progress is told on a way of its own
    with os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace") as progress:
        console = Console(progress)
        return console.status(int(pytest.main(_arguments(chosen, workers), plugins=[console])))


def _at_once(chosen: argparse.Namespace, choice: Choice) -> int:
    """How many processes drive the lab, at most as many as were wanted.

    Pools stay whole, and those that take turns are one process's; guests are made for each process,
    whatever the scenario, and a set that runs already is one process's.
    """
    attached = chosen.attach is not None
    if choice.inventory.kind == "qemu":
        return 0 if attached else int(chosen.workers)
    return min(int(chosen.workers), len(turns(choice, attached=attached)))


def _leave_out_options_of_pytest() -> None:
    """``PYTEST_ADDOPTS`` could take scenarios out of a run without a word."""
    options = os.environ.pop("PYTEST_ADDOPTS", "")
    if options:
        sys.stderr.write(f"hil: PYTEST_ADDOPTS ({options}) is not for hil run and is left out\n")


def _arguments(chosen: argparse.Namespace, workers: int) -> list[str]:
    argv = [
        str(ROOT / "scenarios"),
        f"--rootdir={ROOT}",
        f"--confcutdir={ROOT}",
        f"--lab={chosen.lab.resolve()}",
        f"--lane={chosen.lane}",
        f"--seed={chosen.seed}",
        f"--out={chosen.out.resolve()}",
        f"--run-id={chosen.run_id}",
        f"--subject={chosen.subject}",
        f"--docs={chosen.docs}",
        f"--evidence={chosen.evidence:g}",
        f"--card={chosen.card}",
        f"--soak={chosen.soak}",
        "-p", "no:cacheprovider",
        "--tb=short",
    ]  # fmt: skip
    argv += [f"--pool={pool}" for pool in chosen.pool]
    argv += [f"--claim={claim}" for claim in chosen.claim]
    argv += [f"--fault={fault}" for fault in chosen.fault]
    argv += [f"--attach={chosen.attach.resolve()}"] if chosen.attach else []
    argv += [f"--save-state={chosen.save_state.resolve()}"] if chosen.save_state else []
    argv += [f"--against={chosen.against.resolve()}"] if chosen.against else []
    argv += [f"--wait={chosen.wait:.0f}s"] if chosen.wait else []
    argv += [f"--known={chosen.known.resolve()}"] if chosen.known else []
    argv += ["--plan", f"--at-once={workers}"] if chosen.plan else []
    argv += [] if chosen.quiet or chosen.plan else ["--progress"]
    if workers > 1 and not chosen.plan:
        # a worker that dies is not replaced: its scenario would be run again, on real hardware
        argv += ["-n", str(workers), "--dist", "loadgroup", "--max-worker-restart=0"]
    return argv
