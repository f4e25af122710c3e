"""What nodes keep of a trial by themselves: the stream of ``drbdsetup events2``, the kernel log.

A command gives its answer when it ends, and a stream is wanted while other things are done. So it
is started in the background of the node and writes to a file there, which is read at the end: the
one place where a shell is needed, for the ampersand and the redirection.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from harness.bringup.drbd.attempt import Attempt
from harness.facts.drbd import DrbdAbsent, DrbdHistory, DrbdLog
from harness.facts.drbdevents import read_events
from harness.facts.drbdtrials import NodeRecord
from harness.facts.fact import Origin, Unread
from harness.observe.drbd import drbd_log
from harness.observe.guest import output_of
from harness.reach.errors import LabError

STREAM = 600
"""Seconds after which a stream ends that nobody ended: no trial is longer."""
_START = (
    'rm -f "$3"; '
    'timeout "$1" drbdsetup events2 --timestamps "$2" </dev/null >"$3" 2>&1 &'
)  # fmt: skip


@dataclass(slots=True)
class Records:
    """The records of one trial: begun on every node, and anew on one that was switched off."""

    attempt: Attempt
    _files: dict[str, str] = field(default_factory=dict)
    _last: dict[str, str | Unread] = field(default_factory=dict)  # of the log, when it began

    def begin(self, node: str) -> None:
        """Start the stream on a node, and note where its kernel log ends.

        That stays where it was on one that was off since: its log begins anew, with whatever went
        on before anybody could look, as the resync from a third replica often is.
        """
        resource = self.attempt.volume.resource
        # a file of its own each time: a stream of an earlier trial may still write to the other
        file = f"/tmp/hil-events2-{resource}-{self.attempt.now:.3f}"
        argv = ["sh", "-c", _START, "sh", str(STREAM), resource, file]
        self._files[node] = file
        self.attempt.run(node, argv)
        if not isinstance(self._last.get(node), str):
            log = self._log(node)
            self._last[node] = log if isinstance(log, Unread) else _last_line(log)

    def collect(self, node: str) -> NodeRecord:
        """What the node kept since then. Its text is in the trial's own, once."""
        return NodeRecord(node, self._history(node), self._news(node))

    def _history(self, node: str) -> DrbdHistory | DrbdAbsent | Unread:
        resource = self.attempt.volume.resource
        reply = self.attempt.run(node, ["cat", self._files[node]])
        source = f"{node}: drbdsetup events2 {resource}"
        found = read_events(output_of(reply), node=node, at=reply.ended, source=source)
        return replace(found, origin=replace(found.origin, raw=""))

    def _news(self, node: str) -> DrbdLog | Unread:
        """The log without what was there before; all of it where the machine booted since."""
        last, log = self._last[node], self._log(node)
        if isinstance(last, Unread) or isinstance(log, Unread):
            return last if isinstance(last, Unread) else log
        lines = [one.line for one in log.entries]
        old = len(lines) - lines[::-1].index(last) if last in lines else 0
        self.attempt.said.append("\n".join((f"{node}# dmesg (of DRBD, new)", *lines[old:], "")))
        origin = replace(log.origin, raw="")
        return replace(log, origin=origin, entries=log.entries[old:])

    def _log(self, node: str) -> DrbdLog | Unread:
        shell = self.attempt.volume.replica(node).shell
        try:
            return drbd_log(shell, node=node)
        except LabError as error:
            return Unread(Origin(self.attempt.now, node, ""), "the kernel log", str(error))


def _last_line(log: DrbdLog) -> str:
    return log.entries[-1].line if log.entries else ""
