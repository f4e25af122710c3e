"""A tenant worker's operating system: Talos in a virtual machine, from power-on to power-off."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from harness.twin.apiserver.execresult import ExecResult
from harness.twin.engine import Engine, Timer
from harness.twin.world import cdi_gen, machineconfig, nvidia_smi, panics, programs
from harness.twin.world.container_images import ContainerImage
from harness.twin.world.hostroot import HostRoot
from harness.twin.world.images import Image
from harness.twin.world.kernel import Kernel
from harness.twin.world.machineconfig import MachineConfig, MachineConfigError
from harness.twin.world.memory import Boot
from harness.twin.world.modulespecs import ModuleSpecs
from harness.twin.world.nvidia import Card
from harness.twin.world.services import (
    BOOT_TIMEOUT,
    CDI_GEN,
    COUNTDOWN,
    PERSISTENCED,
    BootSequence,
    Services,
    worker_services,
)

_FIRMWARE = (3.0, 6.0)  # seconds before the kernel starts
_INSTALL = (20.0, 30.0)
_CONFIG_AT = (4.0, 6.0)  # uptime at which the configuration is there
_KUBELET = (4.0, 9.0)
_KUBELET_PULLS = (12.0, 25.0)  # more, once: its image is not on the disk yet


class Guest:
    """One worker's machine on virtual time.

    The first boot installs to disk and reboots, normally and once; every later boot brings up
    services and, with them, the kubelet. ``kind`` "nocloud" is an image that does not look at the
    config drive: it stays in maintenance mode without a word of complaint. So does a machine
    whose configuration cannot be read, which says so on its console.
    """

    def __init__(
        self,
        *,
        hostname: str,
        machine_config: str,
        image: Image,
        cards: tuple[Card, ...],
        engine: Engine,
        rng: random.Random,
        kind: str = "openstack",
    ) -> None:
        self.hostname = hostname
        self.machine_config = machine_config  # read again at each boot
        self.image = image
        self.cards = cards
        self.kind = kind
        self.pace = 1.0  # how many times longer than on bare metal everything takes here
        self.running = False  # the operating system is up
        self.installed = False
        self.default_runtime = "runc"  # containerd's, for a pod without a RuntimeClass
        # images, by repository, that the registry mirror of this machine gives out as its own
        self.mirror: dict[str, ContainerImage] = {}
        self.stage = "off"  # off | booting | maintenance | installing | running | rebooting
        self._engine, self._rng = engine, rng
        self._console = bytearray()
        self._console_listeners: list[Callable[[bytes], None]] = []
        # what reads from the console; Talos has no login there, so nothing does
        self.console_reader: Callable[[bytes], None] | None = None
        self._timers: list[Timer] = []
        self._card_holds: dict[str, float] = {}
        self._on_kubelet: Callable[[], None] = _nothing
        self._on_reboot: Callable[[], None] = _nothing
        self._pulled = False
        self._hunger: list[float] = []
        self.repeats_boot_id, self._last_boot = False, ""
        self._specs: ModuleSpecs | None = None
        self._sequence: BootSequence | None = None
        self.kernel = Kernel(image, hostname, lambda: engine.now, self._print_line)
        if kind == "nocloud":
            self.kernel.command_line = self.kernel.command_line.replace("=openstack", "=nocloud")
        self.boots: list[Boot] = []  # every one, the latest last
        self.root = HostRoot(self.kernel, image, listening=lambda: self.services.listening())
        self.services = Services(engine, rng, self._log, self._exists)
        self.services.on_up.append(self._service_up)
        self.kernel.changed.append(self.services.evaluate)

    # -- what others read ----------------------------------------------------------------------

    @property
    def boot_id(self) -> str:
        """The id of this boot, a UUID; "" before the first."""
        return self.kernel.boot_id

    @property
    def kernel_version(self) -> str:
        """``uname -r``."""
        return self.image.kernel

    @property
    def os_image(self) -> str:
        """As a Node's nodeInfo shows it: ``Talos (v1.13.6)``."""
        return f"Talos ({self.image.version})"

    @property
    def uptime(self) -> float:
        """Seconds since the kernel started; 0 when it is not running."""
        return self.kernel.uptime if self.running else 0.0

    @property
    def kubelet_up(self) -> bool:
        """The kubelet runs in this boot."""
        return self.running and self.services.is_up("kubelet")

    @property
    def boot_outcome(self) -> str:
        """How the last boot phase stands: "", "waiting", "done" or "failed"."""
        return self._sequence.outcome if self._sequence else ""

    @property
    def node_labels(self) -> dict[str, str]:
        """machine.nodeLabels of the configuration; empty when it cannot be read."""
        config = self._config()
        return dict(config.node_labels) if isinstance(config, MachineConfig) else {}

    def console(self) -> bytes:
        """Everything the serial console has carried since the first power-on, CR LF line ends."""
        return bytes(self._console)

    def follow_console(self, listener: Callable[[bytes], None]) -> Callable[[], None]:
        """Hand each further piece of console output to ``listener``; returns how to stop."""
        self._console_listeners.append(listener)
        return lambda: self._console_listeners.remove(listener)

    def type(self, data: bytes) -> None:
        """Type on the serial console; ignored where nothing reads from it."""
        if self.running and self.console_reader is not None:
            self.console_reader(data)

    def kernel_log(self) -> bytes:
        """The ring buffer of this boot, as ``dmesg`` prints it."""
        return self.kernel.dmesg().encode()

    @property
    def tmpfs(self) -> dict[str, bytes]:
        """Files written below /run in this boot, by absolute path; others may add theirs."""
        return self.root.tmpfs

    def run(self, argv: Sequence[str]) -> ExecResult:
        """Run a program in a privileged pod that mounts the host root at /host."""
        if not self.running:
            return ExecResult(b"", b"", 1, "error dialing backend: the machine is not running")
        return programs.run(argv, self.machine())

    def machine(self) -> programs.Machine:
        """The running machine, as what runs on it finds it."""
        return programs.Machine(
            host=self.root.tree(),
            hostname=self.hostname,
            release=self.kernel_version,
            dmesg=self.kernel.dmesg,
            date=self._moment().strftime("%b %e %H:%M"),
            host_program=self._host_program,
            writes=self._writes(),
        )

    def _writes(self) -> dict[str, Callable[[bytes], ExecResult]]:
        """Files that root may write to, with what that does."""
        settings = {
            f"/proc/sys/kernel/{name}": partial(self._set, name) for name in self.kernel.settings
        }
        return {
            **settings,
            "/proc/sysrq-trigger": self._sysrq,
            "/proc/sys/vm/drop_caches": self._drop_caches,
            "/dev/ttyS0": self._print,
            "/dev/console": self._print,
        }

    def _set(self, name: str, data: bytes) -> ExecResult:
        text = data.decode("ascii", "replace").strip()
        if not text.removeprefix("-").isdigit():
            return ExecResult(b"", b"sh: write error: Invalid argument\n", 1)
        self.kernel.settings[name] = int(text)
        return ExecResult(b"", b"", 0)

    def _drop_caches(self, data: bytes) -> ExecResult:
        if data.strip() not in (b"1", b"2", b"3"):
            return ExecResult(b"", b"sh: write error: Invalid argument\n", 1)
        self.root.disk.drop_caches()
        return ExecResult(b"", b"", 0)

    def _print(self, data: bytes) -> ExecResult:
        for line in data.decode("utf-8", "replace").splitlines():
            self._print_line(line)
        return ExecResult(b"", b"", 0)

    def _sysrq(self, data: bytes) -> ExecResult:
        """What the kernel does at once on a letter; of a machine that goes down nobody is told."""
        letter = data[:1]
        if letter == b"b":
            self.kernel.log("sysrq: Resetting")
            self._restart(0.0)
            return ExecResult(b"", b"", 0, dropped=True)
        if letter == b"c":
            self.kernel.log("sysrq: Trigger a crash")
            self.panic("sysrq triggered crash", "sh")
            return ExecResult(b"", b"", 0, dropped=True)
        self.kernel.log(
            "sysrq: HELP : loglevel(0-9) reboot(b) crash(c) show-memory-usage(m) sync(s)"
        )
        return ExecResult(b"", b"", 0)

    def panic(self, why: str, task: str) -> None:
        """The kernel panics, and starts anew after what /proc/sys/kernel/panic says."""
        self.kernel.log("\n".join(panics.lines(why, task, self.kernel_version)))
        seconds = self.kernel.settings["panic"]
        if seconds > 0:
            self.kernel.log(f"Rebooting in {seconds} seconds..")
            self._restart(float(seconds))
            return
        self.kernel.log(f"---[ end Kernel panic - not syncing: {why} ]---")
        self._go_down("off")
        self._on_reboot()

    def run_out_of_memory(self, uptimes: Sequence[float]) -> None:
        """Memory is out at these uptimes, one for each boot with a kubelet to come."""
        self._hunger = list(uptimes)

    def _starve(self) -> None:
        """Memory runs out: a kill, another, and then there is nobody left to kill."""
        for index, delay in enumerate((30.0, 41.0)):
            kill = panics.out_of_memory(self.kernel.memory.total, index, self.kernel_version)
            self._later(delay, partial(self._kill, "\n".join(kill)), "out of memory")
        end = partial(self.panic, "System is deadlocked on memory", "kworker/u16:1")
        self._later(58.0, end, "deadlocked on memory")

    def _kill(self, said: str) -> None:
        self.boots[-1].kills.append(self._engine.now)
        self.kernel.log(said)

    def _restart(self, delay: float) -> None:
        """Start anew without having gone down in order."""
        self._go_down("rebooting")
        seconds = delay + self._rng.uniform(*_FIRMWARE)
        self._later(seconds, self._start_kernel, "firmware")
        self._on_reboot()

    # -- power ---------------------------------------------------------------------------------

    def power_on(self, on_kubelet: Callable[[], None], on_reboot: Callable[[], None]) -> None:
        """Start the machine. ``on_kubelet`` is called at each boot when the kubelet is up,
        ``on_reboot`` each time the operating system goes down to come up again."""
        if self.stage != "off":
            raise ValueError(f"{self.hostname}: already powered on")
        self._on_kubelet, self._on_reboot = on_kubelet, on_reboot
        self.stage = "booting"
        self._later(self._rng.uniform(*_FIRMWARE), self._start_kernel, "firmware")

    def power_off(self) -> None:
        """Cut the power. The disk keeps what was installed."""
        self._go_down("off")

    def reboot(self) -> None:
        """Go down and come up again, as ``talosctl reboot`` would have it."""
        if not self.running:
            return
        self.kernel.log("reboot: Restarting system")
        self.kernel.log("reboot: machine restart")
        self._go_down("rebooting")
        self._later(self._rng.uniform(*_FIRMWARE), self._start_kernel, "firmware")
        self._on_reboot()

    def hold_card_until(self, uptime: float, bdf: str = "") -> None:
        """Cards (or the one at ``bdf``) appear on the PCI bus only at this uptime, each boot."""
        for card in self.cards:
            if bdf in ("", card.bdf):
                self._card_holds[card.bdf] = uptime

    def _go_down(self, stage: str) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers = []
        if self._specs is not None:
            self._specs.stop()
        if self._sequence is not None:
            self._sequence.stop()
        self.services.stop()
        self.root.disk.crash()
        if self.running:
            self.boots[-1].ended = self._engine.now
        self.running, self.stage = False, stage

    # -- a boot --------------------------------------------------------------------------------

    def _start_kernel(self) -> None:
        self.running, self.stage = True, "booting"
        self._specs = self._sequence = None
        self.tmpfs.clear()
        boot_id = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        if self.repeats_boot_id and self.installed:
            boot_id = self._last_boot = self._last_boot or boot_id
        at_once = [card for card in self.cards if card.bdf not in self._card_holds]
        self.kernel.memory = replace(self.kernel.memory, exhausted=None)
        self.boots.append(Boot(self._engine.now, self.kernel.memory))
        self.kernel.boot(boot_id, at_once)
        for card in self.cards:
            if card.bdf in self._card_holds:
                self._plug_later(card, self._card_holds[card.bdf])
        self._log("[talos] initialize sequence: 10 phase(s)")
        self._later(self._rng.uniform(*_CONFIG_AT), self._configure, "configuration")

    def _plug_later(self, card: Card, uptime: float) -> None:
        self._later(uptime, lambda: self.kernel.plug(card), f"card {card.bdf} appears")

    def _config(self) -> MachineConfig | MachineConfigError:
        try:
            return machineconfig.parse(self.machine_config)
        except MachineConfigError as error:
            return error

    def _configure(self) -> None:
        config = self._config()
        if self.kind == "nocloud":
            self._maintain()
        elif isinstance(config, MachineConfigError):
            self._log(f"[talos] failed to load machine configuration: {config}")
            self._maintain()
        elif not self.installed:
            self._install(config)
        else:
            self._start_everything(config)

    def _maintain(self) -> None:
        self.stage = "maintenance"
        self._log("[talos] entering maintenance service")
        self._log("[talos] this machine is reachable at:")
        self._log("[talos] upload configuration using talosctl: apply-config --insecure")

    def _install(self, config: MachineConfig) -> None:
        self.stage = "installing"
        self._log("[talos] machine config loaded successfully")
        self._log("[talos] install sequence: 1 phase(s)")
        image, disk = config.install_image or "the running system", config.install_disk
        self._log(f"[talos] installing Talos to disk {disk or '/dev/vda'} from {image}")
        self._later(self._rng.uniform(*_INSTALL), self._installed, "installation")

    def _installed(self) -> None:
        self.installed = True
        self._log(f"[talos] installation of {self.image.version} complete")
        self._log("[talos] install sequence: done")
        self.reboot()

    def _start_everything(self, config: MachineConfig) -> None:
        self._log("[talos] machine config loaded successfully")
        self._specs = ModuleSpecs(self.kernel, config.kernel_modules, self._engine, self._rng)
        self._sequence = BootSequence(
            self._engine,
            self.services,
            quiet=self._log_quietly,
            loud=self._log,
            failed=self._boot_failed,
        )
        self.services.boot(worker_services(self.image, self._kubelet_takes()))
        self._sequence.start(self._engine.now + BOOT_TIMEOUT)
        self._specs.reconcile()
        if self._hunger:
            uptime = self.kernel.memory.exhausted = self._hunger.pop(0)
            self._later(uptime - self.uptime, self._starve, "memory runs out")

    def _kubelet_takes(self) -> tuple[float, float]:
        least, most = (0.0, 0.0) if self._pulled else _KUBELET_PULLS
        return ((_KUBELET[0] + least) * self.pace, (_KUBELET[1] + most) * self.pace)

    def _service_up(self, identity: str) -> None:
        if identity == PERSISTENCED:
            self.kernel.hold("nvidia", max(1, len(self.kernel.driven())))
        if identity == CDI_GEN:
            self.tmpfs[cdi_gen.SPEC] = cdi_gen.text(self.kernel.driven(), self.root.tree())
        if identity == "kubelet":
            self._pulled = True
            self.boots[-1].served = self._engine.now
            self._on_kubelet()
        if self._sequence is not None:
            self._sequence.check()
            self.stage = "running" if self._sequence.outcome == "done" else self.stage

    def _boot_failed(self) -> None:
        if "panic=0" in self.kernel.command_line.split():
            self._log("[talos] panic=0 kernel flag found, sleeping forever")
            return
        for second in range(COUNTDOWN, -1, -1):
            line = f"[talos] rebooting in {second} seconds"
            self._later(COUNTDOWN - second, partial(self._log, line), "countdown")
        self._later(COUNTDOWN + 1, self.reboot, "reboot after a failed boot")

    # -- plumbing ------------------------------------------------------------------------------

    def _later(self, delay: float, do: Callable[[], None], what: str) -> None:
        self._timers = [timer for timer in self._timers if timer.when >= self._engine.now]
        seconds = delay * self.pace
        self._timers.append(self._engine.after(seconds, do, f"{self.hostname}: {what}"))

    def _log(self, text: str) -> None:
        self.kernel.log(text)

    def _log_quietly(self, text: str) -> None:
        self.kernel.log(text, console=False)

    def _print_line(self, line: str) -> None:
        data = f"{line}\r\n".encode()
        self._console += data
        for listener in tuple(self._console_listeners):
            listener(data)

    def _exists(self, path: str) -> bool:
        return self.root.tree().exists(path)

    def _moment(self) -> datetime:
        return datetime.fromtimestamp(self._engine.now, UTC)

    def _host_program(self, path: str, arguments: Sequence[str]) -> ExecResult:
        name = path.rpartition("/")[2]
        if name == "nvidia-smi":
            return nvidia_smi.run(arguments, self.driver())
        if name == "nvidia-ctk" and list(arguments) == ["--version"]:
            return ExecResult(b"NVIDIA Container Toolkit CLI version 1.18.2\n", b"", 0)
        return ExecResult(b"", b"", 1, f"not modelled on this machine: {path}")

    def driver(self) -> nvidia_smi.Driver:
        """What NVIDIA's programs find on this machine now, with every device in reach."""
        core = self.kernel.module("nvidia")
        return nvidia_smi.Driver(
            loaded=core is not None,
            cards=self.kernel.driven(),
            persistence=self.services.is_up(PERSISTENCED),
            when=self._moment().strftime("%a %b %e %H:%M:%S %Y"),
            parameters=dict(core.parameters) if core is not None else {},
        )


def _nothing() -> None:
    return
