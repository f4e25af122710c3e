"""Following a worker's boot, and waiting until it is old enough.

The baseline is the first look at a boot that has settled: one reboot right after installation is
normal (S-GPO; uptime_and_diagnosis section 3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from harness.bringup.consoles import AttachedConsole
from harness.clock import Look
from harness.facts.boots import BootSample, WorkerGone, age_at_end
from harness.facts.fact import Origin, Unread
from harness.facts.kernellog import KernelLog
from harness.observe.kernellog import console_log
from harness.reach.capture import Capture
from harness.reach.errors import ApiRefused, LabError, Unreachable

SETTLED = 120.0
"""Seconds of uptime on a Ready node after which a boot is no longer that of the installer."""
UNREADY = 1800.0
"""Seconds of uptime after which a boot is no installer's, on a Node that is not Ready either."""
INSTALLING = 2
"""Boots that an installation takes: its own, and the one into what was installed. A third is a
baseline at once, or a machine that boots again and again and is never Ready would have none."""
EVERY = 1800.0
"""Seconds between two looks while the time passes. A reboot in between is not missed: another boot
id stays, and the Node shows it at once."""

REBOOT_BUDGET = 600.0
"""Seconds after a reboot for the shell on the node to answer again, asked every AGAIN seconds."""
AGAIN = 30.0
PROMPT_LIMIT = 30.0
"""Seconds to wait for a prompt on the console before trying a look all the same."""
CONFIRM = 600.0
"""Seconds of uptime up to which a reboot is waited for a second time: two at the same uptime tell
a timer. Of a longer boot the one reboot is all that is known."""
_MARGIN = 0.1
"""Share of that uptime by which the second may come later."""

Sample = BootSample | WorkerGone | Unread
Log = KernelLog | Unread


@dataclass(frozen=True, slots=True)
class Watching:
    """How one worker's boot is watched; all times in seconds of the lab's time.

    ``ask`` takes one look, or raises LabError; ``wait(look, seconds, what)`` waits until the look
    is true and says whether it was, ``pause(seconds, what)`` lets time pass; ``beside`` is done
    between two looks of a wait. ``told`` is the boot id that the lab shows without asking the
    machine, "" where it shows none, and ``lost`` whether it shows that the machine is no more;
    ``gone`` gets the last sample and names what is no more of the worker, ``taken`` says that its
    whole pool was taken away, "" where not; ``log`` gets a boot id and reads the kernel's log;
    ``listen`` attaches to the console for as long as is waited, and ``prompt`` is what that shows
    when a look is worth trying after a reboot, "" for nothing. ``every`` is the time between two
    looks, ``again`` that between two tries after a reboot, within ``budget``; ``settled`` the
    uptime from which a boot counts.
    """

    node: str
    now: Callable[[], float]
    ask: Callable[[], BootSample | Unread]
    wait: Callable[[Look, float, str], bool]
    pause: Callable[[float, str], object]
    told: Callable[[], str] = str
    lost: Callable[[], bool] = bool
    gone: Callable[[BootSample | None], tuple[str, ...]] = lambda _last: ()
    taken: Callable[[], str] = str
    beside: Callable[[], None] = lambda: None
    log: Callable[[str], Log] | None = None
    listen: Callable[[], AttachedConsole] | None = None
    prompt: bytes = b""
    every: float = EVERY
    again: float = AGAIN
    budget: float = REBOOT_BUDGET
    settled: float = SETTLED


class BootLog:
    """The looks at one worker's boot, from the baseline on."""

    def __init__(self, watching: Watching) -> None:
        self.samples: list[Sample] = []
        self.logs: list[Log] = []
        """What kernels said: consoles that were listened to, and the running one's log."""
        self.all_looks: list[Sample] = []
        """Each look that was ever made, of boots before the baseline too."""
        self.heard: list[Log] = []
        """What consoles showed, whichever wait listened."""
        self._way = watching
        self._console: AttachedConsole | None = None
        self._heard_to = 0
        self._unsettled: set[str] = set()  # boots that were looked at before the baseline

    @property
    def every(self) -> float:
        """Seconds between two looks."""
        return self._way.every

    def look(self) -> Sample:
        """One more look. Before the baseline, one at a boot that has not settled is not kept.

        Raises ApiRefused or Unreachable where the worker cannot be asked and is there all the same.
        """
        sample = self._asked()
        self._note(sample)
        if self._console is not None and isinstance(sample, BootSample):
            self._heard_to = self._console.capture.size
        if isinstance(sample, BootSample) and not self.samples:
            if self._has_settled(sample):
                self.samples.append(sample)
        elif self.samples and isinstance(sample, Unread) and isinstance(self.samples[-1], Unread):
            self.samples[-1] = sample
        elif self.samples or isinstance(sample, WorkerGone):
            self.samples.append(sample)
        return sample

    def _has_settled(self, sample: BootSample) -> bool:
        self._unsettled.add(sample.boot_id)
        if len(self._unsettled) > INSTALLING:
            return True
        return sample.uptime > (self._way.settled if sample.node_ready else UNREADY)

    def follow(self) -> None:
        """Look, unless the last look that was kept is of a short while ago, or found it gone.

        A boot that the lab shows by itself is looked at however long ago that was. Following costs
        no scenario: a look that fails is kept as that, and whoever needs the machine finds out.
        """
        last = self.samples[-1] if self.samples else None
        if isinstance(last, WorkerGone):
            return
        due = last is None or self._way.now() - last.origin.at >= self._way.every
        if not due and not self._is_on_another_boot():
            return
        try:
            self.look()
        except (ApiRefused, Unreachable) as error:
            self._note(self._unread("its boot", str(error)))

    def _note(self, sample: Sample) -> None:
        last = self.all_looks[-1] if self.all_looks else None
        if isinstance(sample, Unread) and isinstance(last, Unread):
            self.all_looks[-1] = sample
        else:
            self.all_looks.append(sample)

    def begin_anew(self) -> None:
        """Forget the looks so far: the harness itself made the worker boot anew."""
        self.samples.clear()
        self.logs.clear()
        self._unsettled.clear()

    def stay_up(self, soak: float) -> tuple[Sample, ...]:
        """Wait for what is missing of ``soak`` seconds of uptime; every look, the last one now.

        Ends early where the node is on another boot, which no waiting can mend. Where that came
        within `CONFIRM` seconds of uptime, it is first seen whether it comes again.
        """
        self.logs.clear()
        console = self._attached()
        if console is None:
            self._stay_up(soak)
        else:
            self._listen(console, soak)
        self._read_log()
        return tuple(self.samples)

    def _attached(self) -> AttachedConsole | None:
        """The console, where there is one to be had: it names causes and decides nothing."""
        if self._way.listen is None:
            return None
        try:
            return self._way.listen()
        except LabError as error:
            self._not_read("its console", str(error))
            return None

    def _listen(self, console: AttachedConsole, soak: float) -> None:
        heard_from = self._way.now()
        self._console = console
        try:
            self._stay_up(soak)
        finally:
            self._console = None
            now, ending = self._way.now(), console.ending
            self.logs.append(console_log(console.capture, at=now, heard_from=heard_from))
            self.heard.append(self.logs[-1])
            if ending is not None:
                self._not_read("its console to the end", ending.told)
            console.close()

    def _stay_up(self, soak: float) -> None:
        sample = self._baseline()
        while (missing := self._missing(sample, soak)) > 0:
            what = f"{soak:.0f} s of uptime on node {self._way.node}"
            step = min(missing + 1, self._way.every)
            if self._way.wait(self._is_another, step, what) and not self._way.lost():
                sample = self._look_after_reboot()
            else:
                sample = self._look_again()
            self._way.beside()
        if not self.samples:
            self.samples.append(sample)

    def _missing(self, sample: Sample, soak: float) -> float:
        """Seconds that are still to wait, none where enough has been seen."""
        if not isinstance(sample, BootSample):
            return 0.0
        ages = self._ages()
        if not ages:
            return soak - sample.uptime
        if len(ages) > 1 or ages[0] > CONFIRM:
            return 0.0
        return ages[0] * (1 + _MARGIN) + self._way.again - sample.uptime

    def _ages(self) -> list[float]:
        """The uptime at which each boot ended that was seen to end."""
        read = [one for one in self.samples if isinstance(one, BootSample)]
        return [age_at_end(a, b) for a, b in pairwise(read) if a.boot_id != b.boot_id]

    def _asked(self) -> Sample:
        if self._way.lost() and (gone := self._gone()) is not None:
            return gone
        try:
            sample: Sample = self._way.ask()
        except (ApiRefused, Unreachable):
            gone = self._gone()
            if gone is None:
                raise
            return gone
        if isinstance(sample, Unread):
            return self._gone() or sample
        return sample

    def _gone(self) -> WorkerGone | None:
        found = self._way.gone(self._last())
        if not found:
            return None
        origin = Origin(self._way.now(), f"what the cluster shows of node {self._way.node}", "")
        return WorkerGone(origin, self._way.node, found, self._way.taken())

    def _look_again(self) -> Sample:
        """A look in the midst of waiting, when the machine may just be going down."""
        try:
            sample = self.look()
        except (ApiRefused, Unreachable):
            return self._look_after_reboot()
        return self._look_after_reboot() if isinstance(sample, Unread) else sample

    def _look_after_reboot(self) -> Sample:
        """The first look at the new boot: the shell on the node comes back in its own time."""
        if self._console is not None and self._way.prompt:
            self._await_prompt(self._console.capture)
        for _ in range(int(self._way.budget / self._way.again)):
            self._way.pause(self._way.again, f"the shell on {self._way.node} to be back")
            try:
                sample = self.look()
            except (ApiRefused, Unreachable):
                continue
            if not isinstance(sample, Unread):
                return sample
        return self._last_try()

    def _last_try(self) -> Sample:
        """Another boot that the lab shows is a reboot, whether or not the machine answers."""
        try:
            return self.look()
        except (ApiRefused, Unreachable) as error:
            if not self._is_on_another_boot():
                raise
            unread = self._unread("its boot", str(error))
            self._note(unread)
            self.samples.append(unread)
            return unread

    def _await_prompt(self, capture: Capture) -> None:
        """A hint, without which it is tried as well: see `harness.bringup.reboots`."""
        since = self._heard_to

        def prompted() -> bool:
            capture.settle()
            return self._way.prompt in capture.text(since)

        what = f"a prompt on the console of {self._way.node}"
        self._way.wait(prompted, PROMPT_LIMIT, what)

    def _baseline(self) -> Sample:
        """The latest look; where there is none, the first after the boot has settled."""
        sample = self.look()
        if not self.samples and isinstance(sample, BootSample):
            left = self._way.settled - min(sample.uptime, self._way.settled)
            self._way.pause(left + 1, f"{self._way.node} to settle")
            sample = self.look()
        return sample

    def _read_log(self) -> None:
        """The kernel's log of the boot that it is on now, where there is one to ask."""
        last = self.samples[-1]
        if self._way.log is None or not isinstance(last, BootSample):
            return
        try:
            self.logs.append(self._way.log(last.boot_id))
        except LabError as error:
            self._not_read("the kernel's log", str(error))

    def _not_read(self, what: str, why: str) -> None:
        self.logs.append(self._unread(what, why))

    def _unread(self, what: str, why: str) -> Unread:
        return Unread(Origin(self._way.now(), f"guest {self._way.node}", ""), what, why)

    def _is_another(self) -> bool:
        """Whether the lab shows by itself that there is something to look at."""
        if self._console is not None:
            self._console.capture.settle()
        return self._way.lost() or self._is_on_another_boot()

    def _is_on_another_boot(self) -> bool:
        last, seen = self._last(), self._way.told()
        return last is not None and bool(seen) and seen != last.boot_id

    def _last(self) -> BootSample | None:
        return next((one for one in reversed(self.samples) if isinstance(one, BootSample)), None)
