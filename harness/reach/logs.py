"""A container's log, followed: lines as they are written, and how it ended.

The API's own answer to ``follow`` ends without a word about why: when the container ends, but also
when a kubelet restarts, rotates the log or is cut off. So the pod is looked at once more at the
end, and a stream that ended under a running container is said to be cut. Nothing is resumed here:
the caller may follow again from the time of the last line (``since_time``, whole seconds on the
wire, so lines may come twice), and knows that it did.

On real time a line's time is that of its arrival here. On virtual time the clock's own barrier
concerns watches alone, and a log has no ping as a console has. So before each look of somebody who
waits on it, the log is also read plainly and the pod is looked at: the look comes when everything
that was written up to then has arrived, the end included. Between two looks (somebody waits on
something else, or sleeps) a line may come later than its moment, and then carries the later time.
A real connection that died without a word is not noticed: a log may be silent for ever. ``within``
ends that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import urllib3

from harness.reach.capture import KEEP, Capture, Ending, How
from harness.reach.errors import ApiRefused, LabError

if TYPE_CHECKING:
    from harness.reach.kube import Kube

SETTLE = 10.0
"""Real seconds within which the twin's stream must have caught up with its log before a look."""

_CLOSING = 5.0
_PIECE = 64 * 1024


class FollowedLog:
    """A log that is being followed; made by `follow_logs`. ``capture`` holds what has come.

    ``run`` says which run of the container it is: the pod's UID and the container's ID.
    """

    def __init__(
        self,
        kube: Kube,
        where: _Where,
        response: Any,
        within: float,
        keep: int,
        written: _Written | None,
    ) -> None:
        settle = self._settle if written is not None else lambda: None
        self.capture = Capture(kube.clock, f"log of {where}", keep=keep, settle=settle)
        self.run = where.run
        self._kube = kube
        self._where = where
        self._response = response
        self._deadline = kube.clock.deadline(within)
        self._closed = threading.Event()
        self._written = written
        self._came = threading.Event()  # something came, or it ended
        self._thread = threading.Thread(target=self._read, name=self.capture.name, daemon=True)
        self._thread.start()

    @property
    def ending(self) -> Ending | None:
        """How it ended; None as long as it goes on.

        FINISHED: the container ended. CLOSED: the server ended the stream under a running
        container. BROKE: the connection broke, or what became of the container is not known.
        DEADLINE and OURS say themselves.
        """
        return self.capture.ending

    def lines(self) -> Iterator[bytes]:
        """Each line as it comes, without its line feed, to the end or the deadline.

        The last one may be a part of a line: its line feed had not come when it ended. Raises
        IndexError where lines were dropped before they were taken.
        """
        read, rest = 0, b""
        while self._wait(read):
            data = self.capture.read(read, _PIECE)
            read += len(data)
            *whole, rest = (rest + data).split(b"\n")
            yield from whole
        if rest:
            yield rest

    def close(self) -> None:
        """Stop following; what has come stays. From any thread; closing twice is fine."""
        self._finish(How.OURS, "we closed it")

    def _settle(self) -> None:
        """Wait, on real time, until what is written up to now is here."""
        assert self._written is not None
        due = self._written.due(self._kube)
        until = self._kube.clock.monotonic() + SETTLE
        while True:
            self._came.clear()
            short = due is None or self.capture.size < due
            left = until - self._kube.clock.monotonic()
            if self.capture.ending is not None or not short or left <= 0:
                return
            self._kube.clock.back_off(left, self._came)

    def _wait(self, read: int) -> bool:
        if self.capture.wait_for_more(read, self._deadline.remaining()):
            return True
        if self.capture.ending is None:
            self._finish(How.DEADLINE, f"the {self._deadline.seconds:g} s for it are over")
        return False

    def _finish(self, how: How, told: str) -> None:
        self._closed.set()
        self.capture.end(how, told)
        with suppress(ValueError, RuntimeError, OSError):  # it has ended already
            self._response.shutdown()
        self._thread.join(_CLOSING)

    def _read(self) -> None:
        try:
            broke = self._carry()
            if not self._closed.is_set():
                self.capture.end(*self._judged(broke))
        finally:
            self.capture.end(How.BROKE, "the thread that followed it failed")
            self._came.set()
            self._response.close()

    def _carry(self) -> str:
        """Take in everything until the end; "" for an end in good order, else what broke."""
        try:
            while piece := self._response.read1(_PIECE):
                self.capture.add(piece)
                self._came.set()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return f"the connection broke ({error})"
        return ""

    def _judged(self, broke: str) -> tuple[How, str]:
        told = broke or "the server ended the stream"
        try:
            over = self._where.over(self._kube)
        except LabError as error:
            return How.BROKE, f"{told}; what became of the container is not known: {error.saw}"
        if over and not broke:
            return How.FINISHED, over
        if over:
            return How.BROKE, f"{told}; {over}"
        return (How.BROKE if broke else How.CLOSED), f"{told} while the container runs on"


def follow_logs(
    kube: Kube,
    namespace: str,
    pod: str,
    container: str = "",
    *,
    within: float,
    tail: int | None = None,
    since_time: str = "",
    timestamps: bool = False,
    keep: int = KEEP,
) -> FollowedLog:
    """Follow a container's log for at most ``within`` seconds of the lab's time.

    "" is the pod's only container. ``tail`` begins with that many of the lines already written,
    ``since_time`` (RFC 3339) with those from then on; ``timestamps`` has the kubelet's time before
    each. ``keep`` bounds the bytes kept. Raises ApiRefused with the server's sentence where there
    is no such pod or container, or it has not started; Unreachable without an answer.
    """
    where = _Where.of(kube, namespace, pod, container)
    written = _Written(kube, where, tail) if kube.clock.follows and not timestamps else None
    query = {"follow": "true"}
    query |= {"container": container} if container else {}
    query |= {"tailLines": str(tail)} if tail is not None else {}
    query |= {"sinceTime": since_time} if since_time else {}
    query |= {"timestamps": "true"} if timestamps else {}
    # a kubelet sends no headers before a silent container's first byte (getContainerLogs)
    patience = kube.timeouts.read if kube.clock.follows else within
    response = kube.stream(
        f"{where.path}/log", query, read_timeout=None, verb="get", answer_timeout=patience
    )
    return FollowedLog(kube, where, response, within, keep, written)


class _Written:
    """How many bytes a follower is to have by now, from the log as it stands when read plainly."""

    def __init__(self, kube: Kube, where: _Where, tail: int | None) -> None:
        self._where = where
        text = where.log(kube)
        self._before = len(text) - len(text if tail is None else _last_lines(text, tail))

    def due(self, kube: Kube) -> int | None:
        """That many bytes; None where the container is over and the end is what is due."""
        try:
            if self._where.over(kube):
                return None
            return len(self._where.log(kube)) - self._before
        except LabError:
            return 0  # the lab does not say; what came is all that there is to look at


def _last_lines(text: bytes, count: int) -> bytes:
    lines = text.splitlines(keepends=True)
    return b"".join(lines[max(0, len(lines) - count) :])


class _Where:
    """A run of a container: pod, UID, container and container ID as they were at the start."""

    def __init__(self, namespace: str, pod: str, container: str, run: tuple[str, str]) -> None:
        self.namespace = namespace
        self.pod = pod
        self.container = container
        self.run = run

    def __str__(self) -> str:
        inside = f" ({self.container})" if self.container else ""
        return f"{self.namespace}/{self.pod}{inside}"

    @property
    def path(self) -> str:
        return (
            f"/api/v1/namespaces/{quote(self.namespace, safe='')}/pods/{quote(self.pod, safe='')}"
        )

    @classmethod
    def of(cls, kube: Kube, namespace: str, pod: str, container: str) -> _Where:
        found = kube.get("v1", "Pod", namespace, pod)
        if found is None:
            tried = f"follow the log of {namespace}/{pod} at {kube.name}"
            raise ApiRefused(404, "NotFound", f'pods "{pod}" not found', tried=tried)
        name = container or str(found["spec"]["containers"][0]["name"])
        run = (str(found["metadata"]["uid"]), _state(found, name)[1])
        return cls(namespace, pod, container or name, run)

    def log(self, kube: Kube) -> bytes:
        return kube.logs(self.namespace, self.pod, self.container)

    def over(self, kube: Kube) -> str:
        """Why this run of the container is over, or "" while it goes on."""
        found = kube.get("v1", "Pod", self.namespace, self.pod)
        if found is None:
            return "the pod is gone"
        if found["metadata"]["uid"] != self.run[0]:
            return "another pod has its name"
        state, ident = _state(found, self.container)
        if state in ("terminated", "waiting"):  # waiting: to be started anew
            return "the container ended"
        if self.run[1] and ident and ident != self.run[1]:
            return "the container was started anew"
        phase = (found.get("status") or {}).get("phase")
        return f"the pod has {phase.lower()}" if phase in ("Succeeded", "Failed") else ""


def _state(pod: dict[str, Any], container: str) -> tuple[str, str]:
    """A container's state ("running", "terminated", "waiting", "" untold) and its ID."""
    status = pod.get("status") or {}
    for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for found in status.get(kind) or ():
            if found.get("name") == container:
                state = next(iter(found.get("state") or {}), "")
                return state, str(found.get("containerID") or "")
    return "", ""
