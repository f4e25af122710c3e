"""Talos services of a worker and the boot sequence that waits for every one of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from harness.twin.engine import Engine, Timer
from harness.twin.world.images import Image

BOOT_TIMEOUT = 4200.0
"""Seconds from the start of task startAllServices, which has this limit of its own (TAL BootTimeout
and v1alpha1_sequencer_tasks.go): an uptime of about 4206 s where a boot gets there in six."""
COUNTDOWN = 10  # it is told "rebooting in 10 seconds", 9, and so on to 0, a second each
_WAIT_LINE_EVERY = 15.0
PERSISTENCED = "ext-nvidia-persistenced"
CDI_GEN = "ext-nvidia-cdi-gen"
GUEST_AGENT = "ext-qemu-guest-agent"
PORTS = {"kubelet": 10250, "apid": 50000}
"""Where services listen on all addresses (TAL pkg/machinery/constants, ApidPort)."""
Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A service: what must be up and which path must exist before it starts, seconds it takes."""

    id: str
    after: tuple[str, ...] = ()
    path: str = ""
    needs: str = ""  # one more thing its wait line names: "api certificates"
    takes: tuple[float, float] = (0.5, 1.5)
    one_shot: bool = False


@dataclass(slots=True)
class Service:
    """A service in this boot. ``state`` in Talos' words; ``event`` its latest message."""

    spec: ServiceSpec
    state: str = "Initialized"
    event: str = ""
    timer: Timer | None = None

    @property
    def up(self) -> bool:
        """Up as startAllServices means it: running and healthy, or finished."""
        return self.state in ("Running", "Finished")


def worker_services(image: Image, kubelet_takes: tuple[float, float]) -> tuple[ServiceSpec, ...]:
    """The services a worker of this image loads (gpu_path.md section 3)."""
    specs = [
        ServiceSpec("machined", takes=(0.1, 0.3)),
        ServiceSpec("containerd", ("machined",)),
        ServiceSpec("udevd", ("machined",)),
        ServiceSpec("cri", ("containerd", "udevd")),
        ServiceSpec("apid", ("containerd",), needs="api certificates"),
        ServiceSpec("kubelet", ("cri",), takes=kubelet_takes),
    ]
    if image.has_guest_agent:
        path = "/dev/virtio-ports/org.qemu.guest_agent.0"
        specs.append(ServiceSpec(GUEST_AGENT, ("udevd",), path))
    if image.has_toolkit:
        specs.append(ServiceSpec(PERSISTENCED, ("udevd",), "/sys/bus/pci/drivers/nvidia"))
        specs.append(ServiceSpec(CDI_GEN, (PERSISTENCED,), takes=(1.0, 3.0), one_shot=True))
    return tuple(specs)


class Services:
    """All services of one machine, over all its boots.

    A service starts once what it waits for is there; nothing is polled, ``evaluate`` is called
    when something changed. ``hold`` keeps one from coming up, boot after boot, until ``release``.
    """

    def __init__(
        self, engine: Engine, rng: random.Random, log: Log, exists: Callable[[str], bool]
    ) -> None:
        self.held: dict[str, str] = {}  # service id to what it waits for
        self.on_up: list[Callable[[str], None]] = []
        self._engine, self._rng, self._log, self._exists = engine, rng, log, exists
        self._services: dict[str, Service] = {}

    def boot(self, specs: Sequence[ServiceSpec]) -> None:
        """Start over with these services."""
        self.stop()
        self._services = {spec.id: Service(spec) for spec in specs}
        for service in self._services.values():
            self._say(service, "Starting", "Starting service")
        self.evaluate()

    def stop(self) -> None:
        """The machine goes down: nothing is running any more."""
        for service in self._services.values():
            if service.timer is not None:
                service.timer.cancel()
        self._services = {}

    def table(self) -> tuple[Service, ...]:
        """Every service of this boot, by id."""
        return tuple(self._services[name] for name in sorted(self._services))

    def state(self, identity: str) -> str:
        """A service's state, or "" when this boot has no such service."""
        service = self._services.get(identity)
        return service.state if service else ""

    def is_up(self, identity: str) -> bool:
        """Whether a service is running and healthy, or has finished."""
        service = self._services.get(identity)
        return service is not None and service.up

    def listening(self) -> tuple[int, ...]:
        """The TCP ports on which the services that are up listen, ascending."""
        return tuple(sorted(p for name, p in PORTS.items() if self.is_up(name)))

    def missing(self) -> tuple[str, ...]:
        """The services that are not up, by id."""
        return tuple(service.spec.id for service in self.table() if not service.up)

    def hold(self, identity: str, why: str) -> None:
        """Keep a service from coming up; one that is up goes down. ``why`` is what it awaits."""
        self.held[identity] = why
        service = self._services.get(identity)
        if service is not None:
            if service.timer is not None:
                service.timer.cancel()
            service.timer, service.state = None, "Initialized"
            self.evaluate()

    def release(self, identity: str) -> None:
        """Let a held service come up after all."""
        self.held.pop(identity, None)
        self.evaluate()

    def evaluate(self) -> None:
        """Start what can start; say what the others wait for."""
        for service in list(self._services.values()):
            if service.state in ("Initialized", "Starting", "Waiting"):
                self._try(service)

    def _try(self, service: Service) -> None:
        waits = self._waits(service.spec)
        if waits:
            self._say(service, "Waiting", f"Waiting for {', '.join(waits)}")
            return
        self._say(service, "Preparing", "Creating service runner")
        delay = self._rng.uniform(*service.spec.takes)
        what = f"service {service.spec.id} comes up"
        service.timer = self._engine.after(delay, lambda: self._comes_up(service), what)

    def _waits(self, spec: ServiceSpec) -> list[str]:
        waits = [f'service "{name}" to be "up"' for name in spec.after if not self.is_up(name)]
        if spec.path and not self._exists(spec.path):
            waits.append(f'file "{spec.path}" to exist')
        if spec.id in self.held:
            waits.append(self.held[spec.id] or spec.needs)
        return waits

    def _comes_up(self, service: Service) -> None:
        service.timer = None
        if service.spec.one_shot:
            self._say(service, "Finished", "Service finished successfully")
        else:
            self._say(service, "Running", "Health check successful")
        for listener in tuple(self.on_up):
            listener(service.spec.id)
        self.evaluate()

    def _say(self, service: Service, state: str, event: str) -> None:
        if (service.state, service.event) == (state, event):
            return
        service.state, service.event = state, event
        self._log(f"[talos] service[{service.spec.id}]({state}): {event}")


class BootSequence:
    """The last boot phase: done when every service is up, failed when BootTimeout passes first.

    While it waits it names what is missing every 15 s, in the ring buffer only; that is why a
    serial console is silent between boots (S-DOC). The failure itself goes to the console too.
    """

    def __init__(
        self,
        engine: Engine,
        services: Services,
        *,
        quiet: Log,
        loud: Log,
        failed: Callable[[], None],
    ) -> None:
        self._engine, self._services, self._quiet, self._loud = engine, services, quiet, loud
        self._failed = failed
        self._timers: list[Timer] = []
        self._began = engine.now
        self.outcome = "waiting"  # "waiting" | "done" | "failed"

    def start(self, deadline: float) -> None:
        """Wait for every service until ``deadline`` (the engine's time)."""
        self._began = self._engine.now
        self._loud("[talos] phase startEverything (10/10): 1 tasks(s)")
        self._loud("[talos] task startAllServices (1/1): starting")
        count = len(self._services.table())
        self._loud(f"[talos] task startAllServices (1/1): waiting for {count} services")
        self._still_waiting()
        self._timers = [
            self._engine.every(_WAIT_LINE_EVERY, self._still_waiting, "startAllServices waits"),
            self._engine.at(deadline, self._give_up, "BootTimeout"),
        ]
        self.check()

    def check(self) -> None:
        """Something came up: is that all?"""
        if self.outcome != "waiting" or not self._timers or self._services.missing():
            return
        self.outcome = "done"
        self.stop()
        seconds = self._engine.now - self._began
        self._loud(f"[talos] task startAllServices (1/1): done, {seconds:.9f}s")
        self._loud(f"[talos] phase startEverything (10/10): done, {seconds:.9f}s")
        self._loud(f"[talos] boot sequence: done: {seconds:.9f}s")

    def stop(self) -> None:
        """The machine goes down."""
        for timer in self._timers:
            timer.cancel()
        self._timers = []

    def _still_waiting(self) -> None:
        names = ", ".join(f'service "{name}" to be "up"' for name in self._services.missing())
        self._quiet(f"[talos] task startAllServices (1/1): {names}")

    def _give_up(self) -> None:
        self.outcome = "failed"
        missing = self._services.missing()
        self.stop()
        plural = "error" if len(missing) == 1 else "errors"
        errors = "".join("\n\t* context deadline exceeded" for _ in missing)
        names = ", ".join(f'service "{name}" to be "up"' for name in missing)
        self._loud(f"[talos] task startAllServices (1/1): {names}")
        task = f"failed: {len(missing)} {plural} occurred:{errors}\n"
        self._loud(f"[talos] task startAllServices (1/1): {task}")
        self._loud("[talos] phase startEverything (10/10): failed")
        self._loud("[talos] boot sequence: failed")
        self._failed()
