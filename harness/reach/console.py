"""A VMI's serial console, through KubeVirt's subresource: bytes as they come, with their times.

WebSocket with subprotocol ``plain.kubevirt.io``, raw bytes both ways; one reader, and a second one
that attaches closes the first without a word (uptime_and_diagnosis.md section 4; KubeVirt
pkg/virt-handler/rest/console.go). There is no history: a capture begins where it attached.

What a capture guarantees:

* Whatever the guest prints while it is attached is taken in at once by a thread of its own, so
  that an unread console never holds up a guest (a connected client that does not read freezes the
  guest: lab/qemu_drbd.md, Console). The capture is bounded; what was dropped is counted.
* It ends once, and says how. A reboot of the guest does not end it; a VMI that is deleted,
  replaced or migrated does, and attaching anew is the caller's decision.
* On real time a byte's time is that of its arrival here.
* On virtual time, against the twin: `Capture.wait` looks only after everything printed up to the
  moment reached is in, and what it finds has the time of that moment. This is done by a ping that
  the twin answers behind the output. The clock's own barrier concerns watches alone: between two
  looks of somebody who waits on something else (or sleeps), bytes may come later than their
  moment and then carry the later time. A real server answers a ping at once, and the pong only
  shows that the way there is open.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from harness.reach.capture import KEEP, Capture, Ending, How
from harness.reach.errors import LabError, Unreachable
from harness.reach.kinds import Kind
from harness.reach.sockets import Bounded, open_socket

if TYPE_CHECKING:
    from pexpect.spawnbase import SpawnBase
    from websocket import WebSocket

    from harness.reach.kube import Kube

PROTOCOL = "plain.kubevirt.io"
KEEPALIVE = 20.0
"""Real seconds of silence after which the server is pinged (proxies cut idle WebSockets; a
newline would reach the guest as a keystroke), and after which an unanswered ping ends it."""

SETTLE = 10.0
"""Real seconds within which the twin must answer the ping before a look."""

_CLOSING = 5.0
_API, _KIND = "kubevirt.io/v1", "VirtualMachineInstance"
_VMIS = Kind(
    "subresources.kubevirt.io/v1",
    _KIND,
    "virtualmachineinstances",
    namespaced=True,
    base="/apis/subresources.kubevirt.io/v1",
)


class Console:
    """An attached console. ``capture`` holds what it has printed; made by `attach`.

    The VMI is asked about before attaching and once more at the end, so this needs ``get`` on
    ``virtualmachineinstances`` in group kubevirt.io and on ``virtualmachineinstances/console`` in
    group subresources.kubevirt.io.
    """

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        name: str,
        uid: str,
        line: _Wire,
        keep: int,
        capture: Capture | None = None,
        host: str = "",
    ) -> None:
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self.host = host
        """The Node that the VMI ran on as it was attached to, "" where that was not told."""
        settle = self.settle if kube.clock.follows else lambda: True
        called = f"console {namespace}/{name}"
        self.capture = capture or Capture(kube.clock, called, keep=keep, settle=settle)
        self._kube = kube
        self._line = line
        self._thread = threading.Thread(target=self._drain, name=self.capture.name, daemon=True)

    @classmethod
    def attach(
        cls,
        kube: Kube,
        namespace: str,
        name: str,
        *,
        timeout: float = 30.0,
        keep: int = KEEP,
        capture: Capture | None = None,
    ) -> Console:
        """Attach to a running VMI; whoever was attached is cut off. ``timeout`` in real seconds.

        ``capture`` takes in what it prints, and how it ended; without one it gets its own.

        Raises ApiRefused with the server's sentence where there is no such VMI (404), it does not
        run (400) or has failed (409), Refused where we may not, Unreachable without an answer.
        """
        found = kube.get(_API, _KIND, namespace, name)
        uid, host = (str(found["metadata"]["uid"]), host_of(found)) if found else ("", "")
        path = _VMIS.path(namespace, name, "console")
        opened, bounded = open_socket(kube, "console", path, (), (PROTOCOL,), timeout)
        made = cls(kube, namespace, name, uid, _Wire(opened, bounded, kube), keep, capture, host)
        made._thread.start()
        return made

    @property
    def ending(self) -> Ending | None:
        """How it ended; None as long as it is attached."""
        return self.capture.ending

    def send(self, data: bytes) -> None:
        """Type something: it is put in line and sent in order, soon.

        Raises Unreachable where the console is no longer attached.
        """
        ending = self.ending
        if ending is not None:
            tried = f"type on the console of {self.namespace}/{self.name}"
            raise Unreachable(tried, f"that it has ended: {ending.told}", "attach to it again")
        self._line.put(data)

    def settle(self, within: float = SETTLE) -> bool:
        """Ping the server and wait for its answer; False without one in ``within`` real seconds.

        On the twin, everything printed before the call is in the capture once this is true.
        """
        answered = self._line.ping()
        self._kube.clock.back_off(within, answered)
        return answered.is_set() and self.ending is None

    def close(self) -> None:
        """Detach; the capture stays. Closing twice is fine."""
        self._line.stop()
        self._thread.join(_CLOSING)

    def expecting(self, *, timeout: float = 30.0, since: int | None = None) -> SpawnBase:
        """pexpect's face of this console; see `harness.reach.expecting`.

        ``timeout`` is the default for each expect, in seconds; ``since`` the offset to read from,
        by default what arrives from now on.
        """
        from harness.reach.expecting import Expecting

        start = self.capture.size if since is None else since
        return Expecting(self.capture, self.send, timeout=timeout, since=start)

    def _drain(self) -> None:
        try:
            how, told = self._line.carry(self.capture)
            if how is not How.OURS:
                how, told = self._judged(how, told)
            self.capture.end(how, told)
        finally:
            self.capture.end(How.BROKE, "the thread that captured it failed")
            self._line.over()

    def _judged(self, how: How, told: str) -> tuple[How, str]:
        """What the end means, now that the VMI has been looked at once more."""
        try:
            found = self._kube.get(_API, _KIND, self.namespace, self.name)
        except LabError as error:
            return How.BROKE, f"{told}; what became of the VMI is not known: {error.saw}"
        gone = _gone(found, self.uid)
        if gone:
            return How.GONE, f"{told}; {gone}"
        moved = _moved(found or {}, self.host)
        if moved:
            return How.MOVED, f"{told}; {moved}"
        if how is How.TAKEN:
            return how, f"{told} while the VMI runs on: another client attached, or the way was cut"
        return how, f"{told} while the VMI runs on"


def _gone(found: dict[str, Any] | None, uid: str) -> str:
    """Why a VMI's console is over for good, or ""."""
    if found is None:
        return "the VMI is gone"
    metadata, phase = found["metadata"], (found.get("status") or {}).get("phase")
    if metadata.get("uid") != uid:
        return "another VMI runs under its name"
    if metadata.get("deletionTimestamp"):
        return "the VMI is being deleted"
    return "" if phase == "Running" else f"the VMI is {phase or 'without a phase'}"


def host_of(vmi: dict[str, Any]) -> str:
    """The Node that a VMI runs on, "" for none."""
    return str((vmi.get("status") or {}).get("nodeName") or "")


def _moved(vmi: dict[str, Any], host: str) -> str:
    """Why a VMI's console is over on this host while it runs on, or "": it was migrated.

    At the end of a migration the old socket may close before the VMI's nodeName is another
    (KubeVirt, VirtualMachineInstanceMigrationState: ``completed``, ``failed``).
    """
    now = host_of(vmi)
    if host and now and now != host:
        return f"the VMI was migrated from {host} to {now}"
    state = (vmi.get("status") or {}).get("migrationState") or {}
    under_way = state.get("startTimestamp") and not (state.get("completed") or state.get("failed"))
    return "the VMI is being migrated" if under_way else ""


class _Wire:
    """The WebSocket, read and written by one thread; others put things in line for it."""

    def __init__(self, opened: WebSocket, bounded: Bounded, kube: Kube) -> None:
        self._opened: Any = opened
        self._bounded = bounded
        self._clock = kube.clock
        self._lock = threading.Lock()
        self._waiting: deque[tuple[bytes, threading.Event | None]] = deque()
        self._asked: deque[tuple[bytes, threading.Event]] = deque()
        self._pings = 0
        self._open = True
        self._stop = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._heard = self._clock.monotonic()
        self._checking = False  # a ping against silence is unanswered

    # -- any thread

    def put(self, data: bytes) -> None:
        """Put bytes in line."""
        self._enqueue(data, None)

    def ping(self) -> threading.Event:
        """Put a ping in line; the event is set with its answer, and at the end."""
        answered = threading.Event()
        with self._lock:
            self._pings += 1
            token = b"hil %d" % self._pings
        self._enqueue(token, answered)
        return answered

    def stop(self) -> None:
        """Have it end."""
        self._stop.set()
        self._nudge()

    def over(self) -> None:
        """Let everything go; nothing is carried any more."""
        with self._lock:
            self._open = False
            left = [answered for _, answered in (*self._waiting, *self._asked) if answered]
            self._wake.close()
            self._woken.close()
        for answered in left:
            answered.set()

    def _enqueue(self, data: bytes, answered: threading.Event | None) -> None:
        with self._lock:
            if self._open:
                self._waiting.append((data, answered))
            elif answered is not None:
                answered.set()
        self._nudge()

    def _nudge(self) -> None:
        with self._lock:
            if self._open:
                try:
                    self._wake.send(b"\0")
                except BlockingIOError:
                    return  # it has been nudged often enough

    # -- the one thread

    def carry(self, capture: Capture) -> tuple[How, str]:
        """Carry bytes both ways until the end; says how it ended."""
        import websocket

        try:
            return self._carry(capture)
        except websocket.WebSocketTimeoutException:
            return How.BROKE, f"nothing moved for {KEEPALIVE:g} s in the middle of a message"
        except websocket.WebSocketConnectionClosedException:
            return How.TAKEN, "the server ended the connection without a word"
        except (websocket.WebSocketException, OSError) as error:
            return How.BROKE, f"the connection broke ({error})"
        finally:
            self._opened.shutdown()

    def _carry(self, capture: Capture) -> tuple[How, str]:
        while not self._stop.is_set():
            self._send_waiting()
            if self._bounded.ready(self._patience(), beside=self._woken.fileno()):
                closed = self._receive(capture)
                if closed:
                    return How.CLOSED, closed
            else:
                self._be_nudged()
                if not self._alive():
                    return How.BROKE, f"the server answered no ping for {KEEPALIVE:g} s"
        self._allow(_CLOSING)
        self._opened.send_close()
        return How.OURS, "we closed it"

    def _allow(self, seconds: float) -> None:
        """Let the next thing sent or received take that long."""
        self._bounded.until = self._clock.monotonic() + seconds

    def _send_waiting(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                data, answered = self._waiting.popleft()
                if answered is not None:
                    self._asked.append((data, answered))
            self._allow(KEEPALIVE)
            if answered is None:
                self._opened.send_binary(data)
            else:
                self._opened.ping(data)

    def _receive(self, capture: Capture) -> str:
        """Take in one message; says how the server closed, if that was it."""
        import websocket

        self._allow(KEEPALIVE)
        opcode, frame = self._opened.recv_data_frame(control_frame=True)
        self._heard, self._checking = self._clock.monotonic(), False
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            return closing(frame.data)
        if opcode == websocket.ABNF.OPCODE_PONG:
            self._answer(frame.data)
        elif opcode in (websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT):
            capture.add(bytes(frame.data))
        return ""

    def _answer(self, token: bytes) -> None:
        # answers come in order; RFC 6455, 5.5.3 lets a server answer the latest ping alone
        with self._lock:
            if token not in (asked for asked, _ in self._asked):
                return
            answered = []
            while self._asked:
                asked, event = self._asked.popleft()
                answered.append(event)
                if asked == token:
                    break
        for event in answered:
            event.set()

    def _be_nudged(self) -> None:
        self._woken.setblocking(False)
        try:
            self._woken.recv(4096)
        except BlockingIOError:
            return

    def _patience(self) -> float:
        return max(0.0, self._heard + KEEPALIVE * (1 + self._checking) - self._clock.monotonic())

    def _alive(self) -> bool:
        """False when a ping against silence has gone unanswered for too long; else sees to one."""
        if self._patience() > 0:
            return True
        if self._checking:
            return False
        self._checking = True
        self._allow(KEEPALIVE)
        self._opened.ping(b"hil")
        return True


def closing(data: bytes) -> str:
    """How a server closed: code and reason, where it gave any (RFC 6455, 5.5.1)."""
    if len(data) < 2:
        return "the server closed the connection"
    reason = data[2:].decode("utf-8", "replace")
    code = int.from_bytes(data[:2], "big")
    return f"the server closed the connection ({code}{' ' if reason else ''}{reason})"
