"""The mini-lab: real guests under QEMU, and what may be done to them.

`MiniLab.start` builds the image, boots the guests, syncs DRBD between them and takes the joint
snapshot ``pristine``; each scenario then begins with a rollback and may break what it likes.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.clock import WallClock
from harness.qemulab import client, drbdup
from harness.qemulab.boot import log_in, modules_refused, wait_for_prompt, wait_for_words
from harness.qemulab.errors import Misnamed, Unfit, told_by_disk
from harness.qemulab.machines import PRISTINE
from harness.qemulab.making import MOST_GUESTS, MiB, Progress, Say, Wants, keeper_for
from harness.reach.hostkeys import Pins
from harness.reach.serial import SerialConsole
from harness.reach.sshlogin import Machine

if TYPE_CHECKING:
    from harness.clock import Clock
    from harness.reach.power import Link, Power
    from harness.reach.ssh import SshShell

__all__ = ["MOST_GUESTS", "PRISTINE", "GuestAccess", "MiB", "MiniLab", "Wants"]


_PREPARING = 180.0  # seconds for one command
_GRACE = 2.0  # seconds in which QEMU notices that a console's client has gone


@dataclass(frozen=True, slots=True)
class GuestAccess:
    """How to reach a guest: ``machine`` for SSH, ``console`` a socket, ``log`` all it printed."""

    name: str
    machine: Machine
    console: Path
    log: Path


class MiniLab:
    """A running lab. Made by `start`, or by `attach` for one that another process keeps.

    For any thread. Every call that asks the lab raises `harness.qemulab.errors.Unfit` where it
    cannot be done, NoLab where the lab has ended.
    """

    def __init__(
        self,
        directory: Path,
        told: dict[str, Any],
        keeper: client.KeeperProcess | None = None,
    ) -> None:
        self.directory = directory
        self.control = Path(told["control"])
        self.guests = tuple(_access(one, told["about"], directory) for one in told["guests"])
        self._image = str(told["about"].get("image", ""))
        self._keeper = keeper
        self._clock = WallClock()

    # -- made

    @classmethod
    def start(
        cls,
        directory: Path,
        wants: Wants,
        *,
        say: Say = lambda _: None,
        cache: Path | None = None,
    ) -> MiniLab:
        """A lab of one's own, up and synced, with the snapshot ``pristine``.

        It ends with `close`, and with this process in any case. ``directory`` keeps the logs
        afterwards; ``cache`` is where images are kept (default: the user's cache). ``say`` gets a
        line for each step. Raises Unfit; nothing is left running then.
        """
        progress = Progress(WallClock(), say)
        with (
            told_by_disk(f"keep a lab in {directory}", "name another directory"),
            ExitStack() as undone,
        ):
            keeper = keeper_for(directory, wants, progress, cache)
            undone.callback(keeper.close)
            keeper.ready()
            lab = cls(directory, client.find(directory), keeper)
            progress.reached("on", f"{', '.join(lab.names)} switched on")
            lab._bring_up(progress, wants.prepare)
            client.ask(lab.control, "note", notes={"times": progress.times})
            undone.pop_all()
        return lab

    @classmethod
    def attach(cls, directory: Path) -> MiniLab:
        """The lab that is up in a directory. Raises NoLab."""
        lab = cls(directory, client.find(directory))
        lab.status()
        return lab

    def refuse_other_than(self, wants: Wants) -> None:
        """Raise Unfit where its guests are not such as are wanted: what is looked for in others
        would be missed there, and taken for a fault."""
        made_by = str(self.status()["about"].get("made_by", ""))
        if made_by != wants.command:
            tried, saw = f"use the guests in {self.directory}", f"those of `{made_by}`"
            raise Unfit(tried, saw, f"start others, with `{wants.command}`")

    def close(self) -> None:
        """End the lab, where this object started it; closing twice is fine."""
        if self._keeper is not None:
            self._keeper.close()

    # -- asked

    @property
    def names(self) -> tuple[str, ...]:
        """The guests' names."""
        return tuple(guest.name for guest in self.guests)

    @property
    def keeper(self) -> client.KeeperProcess | None:
        """The process that keeps it, where this object started it."""
        return self._keeper

    def guest(self, name: str) -> GuestAccess:
        """A guest by name. Raises Unfit."""
        for guest in self.guests:
            if guest.name == name:
                return guest
        saw = f"the guests {', '.join(self.names)}"
        raise Misnamed(f"find a guest {name!r}", saw, "name one of them")

    def status(self) -> dict[str, Any]:
        """Everything about it as plain data: guests, links, snapshots, times, its making."""
        told: dict[str, Any] = client.ask(self.control, "status")
        return told

    def power(self, guest: str) -> Power:
        """A guest's power. `Power.on` returns when its QEMU runs, long before it can be used."""
        return _Power(self.control, self.guest(guest).name)

    def link(self) -> Link:
        """The private wire between the guests."""
        return _Link(self.control)

    def snapshot(self, name: str, *, replace: bool = False) -> None:
        """Keep the state of all guests and the wire. Every guest has to be on, and the name free
        unless what has it is to be replaced; ``pristine`` never is.

        SSH connections that are open then are not usable after a rollback: close them before.
        """
        client.ask(self.control, "snapshot", name=name, replace=replace)

    def rollback(self, name: str = PRISTINE) -> None:
        """Put all guests and the wire back; those that are off come back on.

        Memory, disks, clocks, boot ids, carriers, losses and delays are as they were. Shells that
        were open are of no use any more: open new ones. A console stays attached, and what it
        captured stays as it is, unless its guest was off: that one's has ended.
        """
        client.ask(self.control, "rollback", name=name)

    def printed(self, guest: str, most: int) -> bytes:
        """The last bytes that a guest's console has printed, from the log that QEMU keeps. Raises
        Unfit where there is none.
        """
        log = self.guest(guest).log
        try:
            with log.open("rb") as file:
                file.seek(max(0, log.stat().st_size - most))
                return file.read()
        except OSError as gone:
            tried = f"read what {guest} has printed"
            raise Unfit(tried, f"{log}: {gone.strerror}", "is the lab still up?") from gone

    def console(self, guest: str, clock: Clock) -> SerialConsole:
        """Attach to a guest's console, drained from now on. Raises Unfit where another client is
        attached, since that one hears everything; Unreachable where the guest is off."""
        access = self.guest(guest)
        until = clock.monotonic() + _GRACE
        while client.ask(self.control, "console", guest=guest):
            if clock.monotonic() >= until:
                tried = f"attach to the console of {guest}"
                raise Unfit(tried, "that another client is attached to it", "have that one let go")
            clock.back_off(0.05, threading.Event())
        return SerialConsole.attach(access.console, clock, name=guest)

    def shell(self, guest: str, clock: Clock) -> SshShell:
        """A new login to a guest that is up. Raises as `harness.reach.ssh.SshShell.open` does, and
        Unfit where the guests boot an image that is not the project's own."""
        self.check_login(guest)
        return log_in(self.guest(guest).machine, clock)

    def check_login(self, guest: str) -> None:
        """Raise Unfit where nobody logs in: the guests boot an image that is not our own."""
        if self._image:
            saw = f"that it boots {self._image}, which the project has no login to"
            raise Unfit(f"log in to {guest}", saw, "use its console, or talosctl on its port")

    def power_of(self, guest: str) -> tuple[str, str]:
        """A guest's power: "on", "paused", or "off" and why. Raises Misnamed."""
        name = self.guest(guest).name
        told = next(one for one in self.status()["guests"] if one["name"] == name)
        return str(told["power"]), str(told["why"])

    # -- brought up

    def _bring_up(self, progress: Progress, prepare: Sequence[Sequence[str]]) -> None:
        """Boot, sync, snapshot: each guest from a thread of its own as far as it can go alone."""
        with ExitStack() as undone:
            pool = ThreadPoolExecutor(len(self.guests))
            undone.callback(pool.shutdown)
            if self._keeper is not None:
                with ExitStack() as failing:
                    # threads that wait for a guest are told by its end
                    failing.callback(self._keeper.close)
                    boot = self._hear if self._image else self._boot
                    booted = [pool.submit(boot, name, progress) for name in self.names]
                    # the first that fails ends the wait, whichever it is
                    for one in wait(booted, return_when=FIRST_EXCEPTION).done:
                        one.result()
                    shells = [shell for one in booted if (shell := one.result()) is not None]
                    for shell in shells:
                        undone.callback(shell.close)
                    prepared = [pool.submit(_prepare, shell, prepare) for shell in shells]
                    if not self._image:
                        self._sync(shells, progress)
                    for preparing in prepared:
                        preparing.result()
                    failing.pop_all()
        self.snapshot(PRISTINE)
        progress.reached("snapshot", f"snapshot {PRISTINE!r} taken: ready")

    def _boot(self, name: str, progress: Progress) -> SshShell:
        try:
            return self._booted(name, progress)
        except Unfit as error:
            why = self._why_off(name)
            raise (
                Unfit(error.tried, f"that {why}; {error.saw}", error.do) if why else error
            ) from error

    def _hear(self, name: str, progress: Progress) -> None:
        """Wait for the first words of an image that is not the project's own."""
        console = self.console(name, progress.clock)
        try:
            wait_for_words(console, progress.clock)
        finally:
            console.close()
        progress.reached(f"{name} words", f"{name}: speaks on its console")

    def _why_off(self, name: str) -> str:
        """Why a guest is off; "" where it is on, or nobody is left who knows."""
        try:
            return next(str(g["why"]) for g in self.status()["guests"] if g["name"] == name)
        except Unfit:
            return ""

    def _booted(self, name: str, progress: Progress) -> SshShell:
        clock = progress.clock
        console = self.console(name, clock)
        try:
            wait_for_prompt(console, clock)
            progress.reached(f"{name} prompt", f"{name}: login prompt")
            for module in modules_refused(console.capture.text()):
                progress.say(f"{name}: beware: modprobe {module} failed; see its console")
            shell = log_in(self.guest(name).machine, clock, console)
        finally:
            console.close()
        progress.reached(f"{name} ssh", f"{name}: SSH answers")
        if name in self.names[: _replicas(self.names)]:
            version = drbdup.module_version(shell)
            drbdup.attach(shell)
            progress.reached(f"{name} drbd", f"{name}: DRBD {version} up")
        return shell

    def _sync(self, shells: Sequence[SshShell], progress: Progress) -> None:
        known = "".join(
            f"[127.0.0.1]:{guest.machine.port} {shell.connections[-1].host_key}\n"
            for guest, shell in zip(self.guests, shells, strict=True)
        )
        (self.directory / "known_hosts").write_text(known, encoding="ascii")
        replicas = shells[: _replicas(self.names)]
        if replicas:
            drbdup.sync(replicas, progress.clock)
            progress.reached("synced", "replicas UpToDate/UpToDate, both Secondary")


def _prepare(shell: SshShell, commands: Sequence[Sequence[str]]) -> None:
    for argv in commands:
        reply = shell.run(argv, timeout=_PREPARING)
        if reply.exit_code != 0:
            told = " ".join((reply.stderr or reply.stdout).decode("utf-8", "replace").split())
            saw = reply.problem or f"exit {reply.exit_code}: {told[:300] or 'no word'}"
            tried = f"prepare {shell.where} with `{' '.join(argv)}`"
            raise Unfit(tried, saw, "see whether it wants more memory")


@dataclass(frozen=True, slots=True)
class _Power:
    control: Path
    guest: str

    def reset(self) -> None:
        self._press("reset")

    def off(self) -> None:
        self._press("off")

    def on(self) -> None:
        self._press("on")

    def pause(self) -> None:
        self._press("pause")

    def resume(self) -> None:
        self._press("resume")

    def nmi(self) -> None:
        self._press("nmi")

    def _press(self, what: str) -> None:
        client.ask(self.control, "power", guest=self.guest, what=what)


@dataclass(frozen=True, slots=True)
class _Link:
    control: Path

    def cut(self, a: str, b: str, *, carrier: bool = False) -> None:
        client.ask(self.control, "cut", a=a, b=b, carrier=carrier)

    def lose(self, a: str, b: str, share: float) -> None:
        client.ask(self.control, "lose", a=a, b=b, share=share)

    def delay(self, a: str, b: str, seconds: float) -> None:
        client.ask(self.control, "delay", a=a, b=b, seconds=seconds)

    def heal(self) -> None:
        client.ask(self.control, "heal")


def _replicas(names: Sequence[str]) -> int:
    """How many guests the image's DRBD resource names: the 8.4 module knows two nodes at most."""
    return 2 if len(names) >= 2 else 0


def _access(told: dict[str, Any], about: dict[str, str], directory: Path) -> GuestAccess:
    machine = Machine(
        "127.0.0.1",
        port=int(told["port"]),
        pins=Pins(fingerprint=about["host_key"], source="the guests' image"),
        key_file=directory / "key",
        where=f"guest {told['name']}",
    )
    return GuestAccess(str(told["name"]), machine, Path(told["console"]), Path(told["log"]))
