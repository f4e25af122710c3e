"""What is planned of a set of guests: what machines alone can give, each asked over its own login.

Each scenario but the first starts from a roll-back, so that nothing of an earlier failure is good
for another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from harness.diagnose.case import MANAGEMENT, TENANT, Case, Kind, Text
from harness.evidence.taking import Got, Part
from harness.observe.guest import output_of
from harness.reach.errors import LabError

if TYPE_CHECKING:
    from harness.bringup.guests import GuestPool, GuestWorker

SECONDS = 10.0
"""What one question may take, of the runner's time."""

CONSOLE = 256 * 1024
"""Bytes of a console's end that are kept."""


@dataclass(frozen=True, slots=True)
class _Question:
    kind: Kind
    argv: tuple[str, ...]
    file: str
    absent: bool = False


QUESTIONS = (
    _Question(Kind.DMESG, ("dmesg",), "dmesg.txt"),
    _Question(Kind.MODULES, ("cat", "/proc/modules"), "modules.txt"),
    _Question(Kind.UPTIME, ("cat", "/proc/uptime"), "uptime.txt"),
    _Question(Kind.DRBD, ("drbdsetup", "status", "--json"), "drbdsetup-status.json", absent=True),
    _Question(Kind.PROC_DRBD, ("cat", "/proc/drbd"), "proc-drbd.txt", absent=True),
    _Question(Kind.PARAMS, ("cat", "/proc/driver/nvidia/params"), "params.txt", absent=True),
    _Question(Kind.SMI_LIST, ("nvidia-smi", "-L"), "smi-list.txt", absent=True),
    _Question(Kind.UNKNOWN, ("lsblk", "--json"), "lsblk.json", absent=True),
)


@dataclass(slots=True)
class GuestPlan:
    """The plan of a set of guests. A `harness.evidence.keeping.Plan`."""

    pool: GuestPool

    def parts(self) -> list[Part]:
        """What is planned, machine by machine for each question: what is lost first, of all."""
        return list(self._parts())

    def close(self) -> None:
        """The logins are the pool's."""

    def _parts(self) -> Iterator[Part]:
        for worker in self.pool.workers:
            yield Part(
                f"console of {worker.name}",
                f"machines/{worker.name}/console.log",
                f"console of {worker.name}",
                partial(_printed, self.pool, worker.name),
            )
        for question in QUESTIONS:
            for worker in self.pool.workers:
                yield Part(
                    f"{' '.join(question.argv)} on {worker.name}",
                    f"machines/{worker.name}/{question.file}",
                    f"guest {worker.name}",
                    partial(_ask, worker, question),
                )


def _printed(pool: GuestPool, guest: str) -> Got:
    told = pool.lab.host.printed(guest, CONSOLE).decode("utf-8", "backslashreplace")
    now, source = pool.lab.clock.now(), f"console of {guest}"
    text = Text(Kind.CONSOLE, told, source, guest, now, cut=True, cluster=TENANT)
    return Got(
        told, Case(texts=(text,)), f"its last {CONSOLE} bytes" if len(told) >= CONSOLE else ""
    )


def _ask(worker: GuestWorker, question: _Question) -> Got:
    source = f"{' '.join(question.argv)} on {worker.name}"
    reply = worker.shell.run(list(question.argv), timeout=SECONDS)
    answer = output_of(reply)
    if answer.exit_code != 0 or not answer.stdout.strip():
        said = (answer.stderr or answer.stdout or answer.problem).strip()[:160]
        if question.absent and answer.exit_code is not None:
            return Got("", why=f"ended with {answer.exit_code}: {said}")
        raise LabError(source, f"ended with {answer.exit_code}: {said}", "see the guest's console")
    storage = question.kind in (Kind.DRBD, Kind.PROC_DRBD)
    cluster = MANAGEMENT if storage else TENANT
    text = Text(question.kind, answer.stdout, source, worker.name, reply.ended, cluster=cluster)
    return Got(answer.stdout, Case(texts=() if question.kind is Kind.UNKNOWN else (text,)))
