"""What speaks for and against a claim about a trial of a volume, and how that becomes a verdict."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.facts.drbdtrials import Act, Course, DrbdTrial, Extent
from harness.facts.fact import Fact
from harness.judge.verdict import Outcome, Verdict

NOT_RUN = (126, 127)
"""Exit statuses of a command that is not there or cannot be run: they say nothing of DRBD."""


@dataclass(slots=True)
class Findings:
    """``unfit``: why the trial shows nothing either way. ``broken``: what contradicts the claim.
    ``doubts``: what was not seen and would have to be. ``seen``: what was, for the sentence.
    """

    unfit: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    stuck: float | None = None  # when a role could not be had: what then failed is no evidence

    def verdict(self, claim: str, subject: str, *facts: Fact) -> Verdict:
        """Unknown where unfit, broken on any evidence, holds where nothing is in doubt."""
        for reasons, came in (
            (self.unfit, Outcome.UNKNOWN),
            (self.broken, Outcome.BROKEN),
            (self.doubts, Outcome.UNKNOWN),
        ):
            if reasons:
                return Verdict(claim, subject, came, "; ".join(dict.fromkeys(reasons)), facts)
        return Verdict(claim, subject, Outcome.HOLDS, "; ".join(self.seen), facts)

    # -- what many claims ask

    def begins_in_sync(self, trial: DrbdTrial) -> None:
        """The volume was in sync, with the one Primary that the trial names."""
        before = trial.course.before
        if not before.in_sync or before.primaries != (trial.primary,):
            self.unfit.append(f"{trial.primary} was not Primary of a volume in sync: {before}")

    def done(self, act: Act) -> bool:
        """A command that has to succeed: its refusal is evidence, its silence is none."""
        if act.refused and act.exit_code not in NOT_RUN and "held open" not in act.said:
            self.broken.append(f"refused: {act}")
        elif not act.done:
            self.doubts.append(f"not carried out: {act}")
        return act.done

    def provoked(self, act: Act) -> None:
        """What the trial itself had to do to its volume."""
        if not act.done:
            self.unfit.append(f"it could not be provoked: {act}")

    def acknowledged(self, *extents: Extent) -> None:
        """Each write succeeded, and its bytes are known."""
        for one in extents:
            if self._carried(one.act) and not one.digest:
                self.doubts.append(f"{_place(one)} written on {one.node} could not be read there")

    def before(self, extent: Extent, event: Act) -> None:
        """The write was acknowledged before the event began."""
        if extent.acknowledged_at > event.at:
            self.doubts.append(f"{_place(extent)} was not written before: {event.what}")

    def roles_exchanged(self, course: Course, *besides: Act) -> None:
        """Every change of roles was carried out, beside those that the caller judges himself.

        Only the first is told: the others, and reading on a replica that is not Primary, fail for
        the same reason.
        """
        changes = ("drbdadm primary", "drbdadm secondary")
        failed = (act for act in course.acts if not act.done and act.what.startswith(changes))
        first = next((act for act in failed if act not in besides), None)
        if first is not None:
            self.stuck = first.at
            self.done(first)

    def holds_data(self, course: Course, node: str, *extents: Extent) -> None:
        """What was read on a node last is what was written."""
        for one in extents:
            read = [r for r in course.read if r.node == node and r.place == one.place]
            if one.known:
                self._same(one, node, read[-1] if read else None)

    def _carried(self, act: Act) -> bool:
        """Reading or writing that has to succeed, where the node could be had as Primary."""
        if act.refused and self.stuck is not None and act.at >= self.stuck:
            self.doubts.append(f"not carried out: {act}")
            return False
        return self.done(act)

    def _same(self, written: Extent, node: str, read: Extent | None) -> None:
        place = _place(written)
        if read is None:
            self.doubts.append(f"{place} was not read on {node}")
        elif self._carried(read.act) and not read.digest:
            self.doubts.append(f"{place} was read on {node} in part only")
        elif read.known and read.digest != written.digest:
            told = f"{read.digest[:12]}, written was {written.digest[:12]}"
            self.broken.append(f"{place} reads on {node} as {told}")

    def resynced(self, course: Course, *, seen: bool = True) -> None:
        """Both sides came to be in sync again, and still are; ``seen``: through a resync that was
        seen to run and to end, for being connected is no proof of one.
        """
        wait = course.resynced
        if wait is None:
            self.doubts.append("nobody waited for a resync")
            return
        if not wait.came:
            self.broken.append(f"not in sync again after {wait.seconds:.0f} s: {wait.last}")
            return
        if not course.after.in_sync:
            self.doubts.append(f"in sync again, but not in the end: {course.after}")
        if seen and not (course.resync_seen and course.resync_done):
            saw = ", ".join(map(str, course.resync_seen)) or "nothing"
            self.doubts.append(f"a resync was not seen from beginning to end, only {saw}")
        by = f", by a resync seen on {_nodes(course)}" if seen else ""
        self.seen.append(f"in sync again after {wait.seconds:.1f} s{by}")

    def rebooted(self, node: str, boots: tuple[str, str]) -> None:
        """The machine was off: its boot id is another than before."""
        before, after = boots
        if not after:
            self.unfit.append(f"{node} did not come back, or its boot id was not read")
        elif not before:
            self.unfit.append(f"the boot id of {node} was not read before it was switched off")
        elif before == after:
            self.unfit.append(f"{node} is on boot {after} still, so it was never off")


def _place(extent: Extent) -> str:
    return f"blocks {extent.first} to {extent.first + extent.count - 1}"


def _nodes(course: Course) -> str:
    return " and ".join(dict.fromkeys(one.node for one in course.resync_seen))
