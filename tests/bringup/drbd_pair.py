"""Two machines with one DRBD 8.4 resource between them, as far as trials ask: on made-up time.

It speaks the commands of the trials and answers in the real program's words (lab/captures). What
it gets wrong on purpose is named in `faults`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.bringup.drbd.volume import Replica, Volume
from harness.clock import Deadline
from harness.reach.errors import Unreachable
from harness.reach.nodeshell import Reply

KIB = 65496
BLOCK = 65536
NOTICE = 2.0
MEET = 3.0
RESYNC = 1.5
BOOT = 4.0


class Time:
    """A clock that moves when somebody sleeps or something takes its time."""

    follows = True

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def deadline(self, seconds: float) -> Deadline:
        clock: Any = self
        return Deadline(clock, self.at + seconds, seconds)

    def sleep(self, seconds: float, what: str = "sleep") -> None:
        self.at += max(0.01, seconds)


@dataclass
class Node:
    name: str
    role: str = "Secondary"
    disk: str = "UpToDate"
    conn: str = "Connected"
    on: bool = True
    up: bool = True
    attached: bool = True  # the disk is in the machine
    boots: int = 1
    back_at: float = 0.0
    alone_since: float | None = None
    discards: bool = False
    data: dict[int, int] = field(default_factory=dict)
    dirty: set[int] = field(default_factory=set)
    hidden: set[int] = field(default_factory=set)  # differ, and nobody knows
    oos: int = 0  # KiB that a verify found
    log: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)


class Pair:
    """The two machines, the wire, and the time."""

    def __init__(self, *faults: str) -> None:
        self.faults = set(faults)
        self.time = Time()
        self.nodes = {name: Node(name) for name in ("n1", "n2")}
        self.wired = True
        self.sync_until: float | None = None
        self.verify_until: float | None = None
        self.source = ""
        self.meet_at = 0.0
        self.token = 0
        self.asked: list[tuple[str, str]] = []
        self.hooks: dict[str, Callable[[], None]] = {}

    def volume(self, **more: Any) -> Volume:
        replicas = [self.replica(name) for name in self.nodes]
        clock: Any = self.time
        given: dict[str, Any] = {"link": Wire(self), "size": KIB * 1024, **more}
        return Volume("r0", "/dev/drbd0", replicas, clock, **given)

    def replica(self, name: str, **more: Any) -> Replica:
        given = {"power": Switch(self, name), "backing": "/dev/vdb", **more}
        return Replica(name, Shell(self, name), reopen=lambda: Shell(self, name), **given)

    # -- physics

    def other(self, node: Node) -> Node:
        return next(one for one in self.nodes.values() if one is not node)

    def reach(self) -> bool:
        return self.wired and all(one.on and one.up for one in self.nodes.values())

    def tick(self) -> None:
        now = self.time.at
        for one in self.nodes.values():
            lost = one.conn == "Connected" and not self.reach()
            noticed = one.alone_since is not None and now >= one.alone_since + NOTICE
            deaf = f"{one.name} never notices" in self.faults
            if lost and noticed and one.on and one.up and not deaf:
                self.part(one)
        if self.sync_until is not None and now >= self.sync_until and self.reach():
            self.end_sync()
        if self.verify_until is not None and now >= self.verify_until:
            self.end_verify()
        pair = list(self.nodes.values())
        waiting = self.reach() and all(one.conn == "WFConnection" for one in pair)
        if waiting and now >= self.meet_at and "never meet" not in self.faults:
            self.meet(*pair)

    def part(self, one: Node) -> None:
        one.conn = "WFConnection"
        one.alone_since = None
        self.sync_until = None
        self.event(one, "connection", "connection:NetworkFailure role:Unknown")
        self.event(one, "peer-device", "replication:Off peer-disk:DUnknown")
        self.say(one, "drbd r0: conn( NetworkFailure -> Unconnected ) ")
        self.meet_at = self.time.at + MEET

    def lose_touch(self) -> None:
        for one in self.nodes.values():
            if one.conn == "Connected" and one.alone_since is None:
                one.alone_since = self.time.at

    def meet(self, a: Node, b: Node) -> None:
        if a.dirty and b.dirty and not (a.discards or b.discards):
            if "split brain unseen" not in self.faults:
                self.split(a, b)
                return
            b.dirty.clear()
        target = self.behind(a, b)
        source = self.other(target)
        source.dirty |= target.dirty
        target.dirty.clear()
        a.discards = b.discards = False
        a.conn = b.conn = "Connected"
        a.alone_since = b.alone_since = None
        self.begin_sync(source, target)

    def behind(self, a: Node, b: Node) -> Node:
        """Who takes the other's blocks: a victim, else an outdated one, else the older data."""
        for one in (a, b):
            if one.discards or one.disk in ("Outdated", "Inconsistent"):
                return one
        newer = next((one for one in (a, b) if one.dirty or one.role == "Primary"), a)
        return self.other(newer)

    def split(self, a: Node, b: Node) -> None:
        for one in (a, b):
            one.conn = "StandAlone"
            if "log says nothing" not in self.faults:
                self.say(
                    one, "block drbd0: Split-Brain detected but unresolved, dropping connection!"
                )
            self.event(one, "connection", "connection:StandAlone role:Unknown")

    def begin_sync(self, source: Node, target: Node) -> None:
        self.source = source.name
        if target.disk != "Diskless":
            target.disk = "Inconsistent"
        blocks = len(source.dirty) + source.oos // 64
        for one, state in ((source, "SyncSource"), (target, "SyncTarget")):
            self.event(one, "peer-device", f"replication:{state}")
            self.say(
                one,
                f"block drbd0: Began resync as {state} (will sync {64 * blocks} KB "
                f"[{16 * blocks} bits set]).",
            )
        never = "no resync" in self.faults
        self.sync_until = self.time.at + (1e9 if never else RESYNC)

    def end_sync(self) -> None:
        source = self.nodes[self.source]
        target = self.other(source)
        for block in source.dirty:
            if "resync loses data" not in self.faults:
                target.data[block] = source.data[block]
        if source.oos or target.oos:
            for block in target.hidden:
                target.data[block] = source.data.get(block, 0)
            target.hidden.clear()
        source.dirty.clear()
        target.dirty.clear()
        source.oos = target.oos = 0
        target.disk = "UpToDate"
        self.sync_until = None
        for one in (source, target):
            self.event(one, "peer-device", "replication:Established peer-disk:UpToDate")
            self.say(one, "block drbd0: Resync done (total 1 sec; paused 0 sec; 2048 K/sec)")

    def end_verify(self) -> None:
        self.verify_until = None
        found = {block for one in self.nodes.values() for block in one.hidden}
        if "verify blind" in self.faults:
            found = set()
        for one in self.nodes.values():
            one.oos = 64 * len(found)
            self.say(
                one, "block drbd0: Online verify done (total 2 sec; paused 0 sec; 32748 K/sec)"
            )

    def say(self, one: Node, text: str) -> None:
        one.log.append(f"[{self.time.at - 900:12.6f}] {text}")

    def event(self, one: Node, kind: str, states: str) -> None:
        key = "peer-node-id:0 conn-name:peer" + (" volume:0" if kind == "peer-device" else "")
        one.events.append(f"2026-11-30T08:20:30.000000+00:00 change {kind} name:r0 {key} {states}")

    # -- what a node says

    def replication(self, one: Node) -> str:
        if one.conn != "Connected":
            return "Off"
        if self.sync_until is not None:
            return "SyncSource" if one.name == self.source else "SyncTarget"
        if self.verify_until is not None:
            return "VerifyS" if one.role == "Primary" else "VerifyT"
        return "Established"

    def seen_disk(self, one: Node) -> str:
        hidden = "diskless untold" in self.faults and one.disk == "Diskless"
        return "UpToDate" if hidden else one.disk

    def peer(self, one: Node) -> tuple[str, str]:
        peer = self.other(one)
        if one.conn != "Connected":
            return "Unknown", "DUnknown"
        return peer.role, self.seen_disk(peer)

    def out_of_sync(self, one: Node) -> int:
        return 64 * len(one.dirty) + one.oos

    def proc(self, one: Node) -> str:
        head = "version: 8.4.11 (api:1/proto:86-101)\nsrcversion: F73C670A7EC572DB9CF3E5B \n"
        if not one.up:
            return head
        role, disk = self.peer(one)
        state = self.replication(one) if one.conn == "Connected" else one.conn
        state = {"Established": "Connected", "Off": one.conn}.get(state, state)
        return (
            f"{head} 0: cs:{state} ro:{one.role}/{role} ds:{self.seen_disk(one)}/{disk} C r-----\n"
            f"    ns:0 nr:0 dw:0 dr:0 al:8 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f "
            f"oos:{self.out_of_sync(one)}\n"
        )

    def status(self, one: Node) -> str:
        role, disk = self.peer(one)
        own = (
            f"r0 role:{one.role} suspended:no\n    write-ordering:flush\n"
            f"  volume:0 minor:0 disk:{self.seen_disk(one)}\n      size:{KIB} read:0 written:0 "
            "al-writes:8 bm-writes:0 upper-pending:0\n      lower-pending:0 al-suspended:no "
            "blocked:no\n"
        )
        if one.conn == "StandAlone":
            return f"{own}\n"
        word = {"WFConnection": "Connecting"}.get(one.conn, one.conn)
        return (
            f"{own}  peer connection:{word} role:{role} congested:no\n"
            f"    volume:0 replication:{self.replication(one)} peer-disk:{disk} "
            "resync-suspended:no\n        received:0 sent:0 "
            f"out-of-sync:{self.out_of_sync(one)} pending:0 unacked:0\n\n"
        )

    def plain(self, one: Node) -> str:
        peer = "" if one.conn == "StandAlone" else "  peer connection:Connecting\n"
        return f"r0 role:{one.role}\n  disk:{one.disk}\n{peer}\n"

    # -- what is done on it

    def run(self, name: str, argv: Sequence[str]) -> tuple[int, bytes, str]:
        self.time.at += 0.1
        one = self.nodes[name]
        if one.back_at and self.time.at >= one.back_at:
            one.on, one.back_at = True, 0.0
        self.tick()
        words = list(argv)
        self.asked.append((name, " ".join(words)))
        hook = self.hooks.get(" ".join(words))
        if hook is not None:
            hook()
        if not one.on:
            raise Unreachable(f"ask {name}", "no answer", "switch it on")
        done = self.answer(one, words)
        self.tick()
        return done

    def answer(self, one: Node, words: list[str]) -> tuple[int, bytes, str]:
        match words:
            case ["true"] | ["sh", "-c", _, "sh", "/sys/bus/pci/rescan"]:
                one.attached = True if len(words) > 1 else one.attached
                return 0, b"", ""
            case ["cat", "/proc/drbd"]:
                return 0, self.proc(one).encode(), ""
            case ["cat", "/proc/sys/kernel/random/boot_id"]:
                same = "never off" in self.faults
                return 0, f"00000000-0000-4000-8000-{1 if same else one.boots:012d}\n".encode(), ""
            case ["cat", file]:
                return self.history(one, file)
            case ["dmesg"]:
                head = "[    1.000000] drbd: initialized. Version: 8.4.11 (api:1/proto:86-101)\n"
                return 0, (head + "\n".join(one.log) + "\n").encode(), ""
            case ["drbdsetup", "status", *_]:
                return self.told(one, self.status(one))
            case ["sh", "-c", _, "sh", "600", "r0", file]:
                one.files[file] = len(one.events)
                return 0, b"", ""
            case ["readlink", "-f", "/sys/class/block/vdb"]:
                path = "/sys/devices/pci0000:00/0000:00:04.0/virtio2/block/vdb\n"
                virtual = "/sys/devices/virtual/block/dm-3\n"
                return 0, (virtual if "disk on lvm" in self.faults else path).encode(), ""
            case ["sh", "-c", _, "sh", "/sys/devices/pci0000:00/0000:00:04.0/remove"]:
                one.attached = False
                return 0, b"", ""
            case ["ls", "/dev/vdb"]:
                return (0, b"/dev/vdb\n", "") if one.attached else (2, b"", "ls: no such file")
            case ["dd", source, target, *rest]:
                return self.dd(one, source, target, rest)
            case ["drbdadm", verb, *flags, "r0"]:
                return self.drbdadm(one, verb, flags)
        return 127, b"", f"{words[0]}: not found"

    def told(self, one: Node, text: str) -> tuple[int, bytes, str]:
        if not one.up:
            return 10, b"", "r0: No such resource\n"
        return 0, text.encode(), ""

    def history(self, one: Node, file: str) -> tuple[int, bytes, str]:
        if file not in one.files:
            return 1, b"", f"cat: can't open '{file}': No such file or directory"
        at = "2026-11-30T08:20:20.000000+00:00"
        listed = [f"{at} exists resource name:r0 role:{one.role} suspended:no", f"{at} exists -"]
        return 0, ("\n".join([*listed, *one.events[one.files[file] :]]) + "\n").encode(), ""

    def dd(self, one: Node, source: str, target: str, rest: list[str]) -> tuple[int, bytes, str]:
        numbers = {key: int(number) for key, number in re.findall(r"(\w+)=(\d+)", " ".join(rest))}
        first = numbers.get("seek", numbers.get("skip", 0))
        blocks = range(first, first + numbers.get("count", 0))
        if target == "of=/dev/vdb":
            return self.write_below(one, blocks)
        if source == "if=/dev/drbd0":
            numbers["count"] = int(target.partition("=")[2]) if "count" not in numbers else 0
            return self.read(one, range(first, first + numbers_count(rest, target)))
        return self.write(one, blocks)

    def write_below(self, one: Node, blocks: range) -> tuple[int, bytes, str]:
        for block in blocks:
            self.token += 1
            one.data[block] = self.token
            one.hidden.add(block)
        return 0, b"", "copied"

    def read(self, one: Node, blocks: range) -> tuple[int, bytes, str]:
        if one.role != "Primary":
            return 1, b"", "dd: failed to open '/dev/drbd0': Wrong medium type"
        if "reads fail" in self.faults:
            return 1, b"", "dd: error reading '/dev/drbd0': Input/output error"
        if not one.attached:
            one.disk = "Diskless"
        kept = self.other(one).data if one.disk == "Diskless" else one.data
        data = b"".join(kept.get(block, 0).to_bytes(8, "big") * (BLOCK // 8) for block in blocks)
        return 0, data, "copied"

    def write(self, one: Node, blocks: range) -> tuple[int, bytes, str]:
        if one.role != "Primary":
            return 1, b"", "dd: failed to open '/dev/drbd0': Wrong medium type"
        if one.conn == "Connected" and not self.reach():
            if f"{one.name} writes fail" in self.faults:
                return 1, b"", "dd: error writing '/dev/drbd0': Input/output error"
            self.time.at = max(self.time.at, (one.alone_since or 0.0) + NOTICE)
            self.tick()
        if not one.attached and "pass on" in self.faults:
            return 1, b"", "dd: error writing '/dev/drbd0': Input/output error"
        for node in (one, self.other(one)):
            if not node.attached and node.conn == "Connected":
                node.disk = "Diskless"
                self.say(node, "block drbd0: disk( Failed -> Diskless ) ")
        self.spread(one, blocks)
        return 0, b"", "copied"

    def spread(self, one: Node, blocks: range) -> None:
        peer = self.other(one)
        mirrored = one.conn == "Connected" and peer.conn == "Connected" and self.reach()
        for block in blocks:
            self.token += 1
            if one.disk != "Diskless":
                one.data[block] = self.token
            if mirrored and peer.disk != "Diskless":
                lost = "mirror loses data" in self.faults
                peer.data[block] = self.token + (1000 if lost else 0)
            if one.disk == "Diskless":
                peer.dirty.add(block)
            elif not mirrored or peer.disk == "Diskless":
                one.dirty.add(block)

    def drbdadm(self, one: Node, verb: str, flags: list[str]) -> tuple[int, bytes, str]:
        method = getattr(self, f"do_{verb}")
        return method(one, flags)  # type: ignore[no-any-return]

    def do_primary(self, one: Node, flags: list[str]) -> tuple[int, bytes, str]:
        peer = self.other(one)
        if one.conn == "Connected" and peer.role == "Primary" and self.reach():
            return 11, b"", "0: State change failed: (-1) Multiple primaries not allowed by config"
        blind = one.disk == "Outdated" and "promotes outdated" not in self.faults
        refuses = blind or (f"{one.name} refuses" in self.faults)
        if refuses or (one.disk == "Diskless" and one.conn != "Connected"):
            return 17, b"", "0: State change failed: (-2) Need access to UpToDate data"
        one.role = "Primary"
        return 0, b"", ""

    def do_secondary(self, one: Node, flags: list[str]) -> tuple[int, bytes, str]:
        if "held open" in self.faults and one.role == "Primary":
            return 11, b"", "0: State change failed: (-12) Device is held open by someone"
        one.role = "Secondary"
        return 0, b"", ""

    def do_status(self, one: Node, flags: list[str]) -> tuple[int, bytes, str]:
        return self.told(one, self.plain(one))

    def do_up(self, one: Node, flags: list[str]) -> tuple[int, bytes, str]:
        one.up, one.conn, one.role = True, "WFConnection", "Secondary"
        self.meet_at = self.time.at + 1.0
        return 0, b"", ""

    def do_down(self, one: Node, flags: list[str]) -> tuple[int, bytes, str]:
        peer = self.other(one)
        one.up, one.conn, one.role = False, "StandAlone", "Secondary"
        peer.conn, peer.alone_since = "WFConnection", None
        return 0, b"", ""

    def do_disconnect(self, one: Node, flags: list[str]) -> tuple[int, bytes, str]:
        if one.conn == "StandAlone":
            return 10, b"", "r0: Failure: (162) Invalid configuration request"
        one.conn = "StandAlone"
        peer = self.other(one)
        if peer.conn == "Connected":
            peer.conn = "WFConnection"
        return 0, b"", ""

    def do_connect(self, one: Node, flags: list[str]) -> tuple[int, bytes, str]:
        if "connect refused" in self.faults and flags:
            return 20, b"", "unknown option"
        one.conn = "WFConnection"
        one.discards = "--discard-my-data" in flags and "keeps the victim's" not in self.faults
        self.meet_at = self.time.at + 1.0
        return 0, b"", ""

    def do_outdate(self, one: Node, flags: list[str]) -> tuple[int, bytes, str]:
        if "cannot outdate" in self.faults:
            return 17, b"", "0: State change failed: (-10) State change was refused by peer node"
        one.disk = "Outdated"
        return 0, b"", ""

    def do_verify(self, one: Node, flags: list[str]) -> tuple[int, bytes, str]:
        if "no algorithm" in self.faults:
            return (
                11,
                b"",
                "0: State change failed: (-14) Need a verify algorithm to start online verify",
            )
        self.verify_until = self.time.at + 2.0
        return 0, b"", ""

    def do_detach(self, one: Node, flags: list[str]) -> tuple[int, bytes, str]:
        one.disk = "Diskless"
        return 0, b"", ""

    def do_attach(self, one: Node, flags: list[str]) -> tuple[int, bytes, str]:
        if not one.attached or "attach refused" in self.faults:
            return 10, b"", "open(/dev/vdb) failed: No such file or directory"
        one.disk = "UpToDate"
        self.begin_sync(self.other(one), one)
        return 0, b"", ""


def numbers_count(rest: list[str], target: str) -> int:
    found = re.search(r"count=(\d+)", " ".join([target, *rest]))
    return int(found.group(1)) if found else 0


@dataclass
class Shell:
    pair: Pair
    name: str
    root: str = ""

    @property
    def where(self) -> str:
        return f"guest {self.name}"

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        started = self.pair.time.at
        code, out, err = self.pair.run(self.name, argv)
        return Reply(tuple(argv), code, out, err.encode(), started, self.pair.time.at)

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        return self.run(argv, timeout=timeout)


@dataclass
class Switch:
    """The power of one machine."""

    pair: Pair
    name: str

    def off(self) -> None:
        one = self.pair.nodes[self.name]
        if "power stuck" in self.pair.faults:
            raise Unreachable(f"switch {self.name} off", "no answer", "look at its manager")
        self.pair.lose_touch()
        one.on, one.up, one.role, one.conn = False, False, "Secondary", "StandAlone"
        one.files.clear()

    def on(self) -> None:
        one = self.pair.nodes[self.name]
        if one.on or one.back_at:
            return
        one.boots += 1
        one.log.clear()
        one.attached = True
        one.disk = "UpToDate"
        one.back_at = self.pair.time.at + (1e9 if "never back" in self.pair.faults else BOOT)

    def reset(self) -> None:
        raise NotImplementedError

    pause = resume = nmi = reset


@dataclass
class Wire:
    """The link between the two."""

    pair: Pair
    healed: int = 0

    def cut(self, a: str, b: str, *, carrier: bool = False) -> None:
        if "wire uncut" in self.pair.faults:
            return
        self.pair.wired = False
        self.pair.lose_touch()

    def heal(self) -> None:
        self.healed += 1
        if "wire stuck" in self.pair.faults:
            raise Unreachable("heal the link", "no answer", "look at the switch")
        self.pair.wired = True
        self.pair.meet_at = self.pair.time.at + MEET

    def lose(self, a: str, b: str, share: float) -> None:
        raise NotImplementedError

    def delay(self, a: str, b: str, seconds: float) -> None:
        raise NotImplementedError
