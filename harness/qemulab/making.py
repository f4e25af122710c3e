"""From what is wanted to a keeper with guests that are being switched on."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.qemulab import accel, diskimage
from harness.qemulab.client import KeeperProcess
from harness.qemulab.errors import Unfit
from harness.qemulab.ports import free_port
from harness.qemulab.rundir import DISKS, DirectoryUnfit, make_run, take, tidy
from harness.qemulab.spec import GuestSpec, Spec

if TYPE_CHECKING:
    from harness.clock import Clock
    from harness.qemulab.image import Image

MiB = 1024 * 1024
MOST_GUESTS = 3
APPEND = "console=ttyS0 net.ifnames=0 quiet loglevel=4 no_timer_check"
"""Without the last a kernel whose emulator is late panics at boot, for want of its timer."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wants:
    """What a lab is to be: ``memory`` and ``disk`` of each guest in bytes.

    ``modules`` are loaded at boot, in order: name and parameters. ``append`` is put after the
    kernel's command line. ``port`` is the first guest's for SSH, the others' follow; 0 means any.
    ``prepare`` are commands that each guest runs before the first snapshot, beside the sync.
    ``image`` is a disk image to boot instead of the project's own, and its SHA-256: such a guest
    has a console, power, the wire and snapshots; nobody logs in and no DRBD is set up.
    """

    guests: int = 2
    memory: int = 192 * MiB
    disk: int = 64 * MiB
    modules: tuple[tuple[str, tuple[str, ...]], ...] = ()
    append: str = ""
    port: int = 0
    prepare: tuple[tuple[str, ...], ...] = ()
    image: tuple[Path, str] | None = None

    @property
    def command(self) -> str:
        """How a person starts such guests; two that are the same in it are as good as each other
        to whoever looks at them."""
        words = ["hil qemu up", f"--guests {self.guests}", f"--memory {self.memory // MiB}"]
        words.append(f"--disk {self.disk // MiB}")
        if self.image is not None:
            return " ".join([*words, f"--image {self.image[0]} --sha256 {self.image[1]}"])
        named = (":".join((name, *parameters)) for name, parameters in self.modules)
        return " ".join([*words, *(f"--module {one}" for one in named)])


@dataclass(slots=True)
class Progress:
    """Says what has been reached, and after how many seconds."""

    clock: Clock
    say: Say
    began: float = 0.0
    times: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.began = self.clock.monotonic()

    def reached(self, key: str, text: str) -> None:
        """Note it under a key and say it."""
        self.times[key] = round(self.clock.monotonic() - self.began, 2)
        self.say(f"{self.times[key]:6.1f} s  {text}")


def keeper_for(
    directory: Path, wants: Wants, progress: Progress, cache: Path | None
) -> KeeperProcess:
    """The keeper of a new lab, its guests being switched on. Raises Unfit, and leaves nothing."""
    from harness.qemulab.cache import default_cache
    from harness.qemulab.image import Recipe, build

    if not 1 <= wants.guests <= MOST_GUESTS:
        saw = f"{wants.guests} guests"
        raise DirectoryUnfit("start a lab", saw, f"ask for 1 to {MOST_GUESTS}")
    accel.check_installed()
    directory = directory.absolute()
    kept = cache or default_cache()
    held = take(directory)
    try:
        _check_room(directory, wants)
        image = build(Recipe(), kept, progress.say)
        progress.reached("image", f"image ready, kernel {image.release}")
        chosen = accel.choose(image.kernel, progress.clock, kept / "accelerator.json")
        progress.reached("accelerator", f"accelerator {chosen.name}: {chosen.why}")
        run = make_run(directory)
        with ExitStack() as undone:
            undone.callback(tidy, run, directory)
            spec = _spec(directory, run, wants, image, chosen)
            base = _own_disk(wants, kept, progress) or image.base
            _make_disks(spec, base, wants)
            keeper = KeeperProcess(spec, held)
            undone.pop_all()
        return keeper
    finally:
        os.close(held)


def _spec(
    directory: Path, run: Path, wants: Wants, image: Image, chosen: accel.Accelerator
) -> Spec:
    modules = ",".join(":".join((name, *parameters)) for name, parameters in wants.modules)
    words = [APPEND, f"hil.key={_make_key(directory)}", *chosen.append.split()]
    words += [f"hil.modules={modules}"] * bool(modules) + [wants.append] * bool(wants.append)
    return Spec(
        directory=directory,
        run=run,
        kernel=image.kernel,
        initrd=image.initrd,
        append=" ".join(words),
        memory=wants.memory,
        accelerator=chosen.options,
        guests=tuple(_guest(directory, run, node, wants) for node in range(1, wants.guests + 1)),
        about={
            "host_key": image.host_key,
            "release": image.release,
            "accelerator": chosen.name,
            "why": chosen.why,
            "image": str(wants.image[0]) if wants.image else "",
            "made_by": wants.command,
        },
        foreign=wants.image is not None,
    )


def _own_disk(wants: Wants, kept: Path, progress: Progress) -> Path | None:
    """The disk image that the user names, ready to be booted; None where none is named."""
    if wants.image is None:
        return None
    found = diskimage.prepare(*wants.image, kept, progress.say)
    progress.reached("disk", f"disk image {wants.image[0].name} is the one that was named")
    return found


def _guest(directory: Path, run: Path, node: int, wants: Wants) -> GuestSpec:
    name = f"n{node}"
    own = directory / name
    own.mkdir(exist_ok=True)
    root, data = (own / file for file in DISKS)
    return GuestSpec(
        name=name,
        node=node,
        port=wants.port + node - 1 if wants.port else free_port(),
        named=bool(wants.port),
        root=root,
        data=data,
        console=run / f"{name}.console",
        log=own / "console.log",
        complaints=own / "qemu.log",
        switch_side=run / f"{name}.switch-side",
        guest_side=run / f"{name}.guest-side",
    )


def _make_key(directory: Path) -> str:
    """A login key of this lab's own, in ``key``; gives its public part in base64."""
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.OpenSSH, forms.NoEncryption()
    )
    file = directory / "key"
    file.unlink(missing_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:  # noqa: PTH123
        made.write(private)
    public = key.public_key().public_bytes(forms.Encoding.OpenSSH, forms.PublicFormat.OpenSSH)
    return public.split()[1].decode()


def _make_disks(spec: Spec, base: Path, wants: Wants) -> None:
    """Root disks as overlays of the base, data disks empty; logs of an earlier lab go."""
    form = diskimage.format_of(base)
    for guest in spec.guests:
        for old in (guest.root, guest.data, guest.log, guest.complaints):
            old.unlink(missing_ok=True)
        _qemu_img(["-b", str(base.absolute()), "-F", form, str(guest.root)])
        _qemu_img([str(guest.data), str(wants.disk)])


def _qemu_img(arguments: Sequence[str]) -> None:
    argv = ["qemu-img", "create", "-q", "-f", "qcow2", *arguments]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        saw = " ".join(done.stderr.decode("utf-8", "replace").split())[:300]
        raise Unfit("make a guest's disk", saw, "see that the disk has room")


def _check_room(directory: Path, wants: Wants) -> None:
    """A snapshot holds a guest's memory: room for two of each, and for the data."""
    found = os.statvfs(directory)
    free, need = found.f_bavail * found.f_frsize, wants.guests * (2 * wants.memory + wants.disk)
    if free < need:
        saw = f"no room: {free // MiB} MiB free, {need // MiB} MiB needed"
        raise Unfit(f"keep the guests' disks in {directory}", saw, "free some, or name another")
