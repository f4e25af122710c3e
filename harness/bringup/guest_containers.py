"""Containers that try a card on a machine of no cluster: a fresh one, one without, one too early.

A container of the probe's image, which ships no driver, asks podman for one CDI device as a pod
asks for one card. Which of a container's lives is the early pod's? Gpu_path 6: what a pod gets is
decided when it is admitted, and a pod older than a working node has to be made anew. Podman decides
when a container starts, and refuses what it cannot resolve, as a kubelet refuses the pod whose
resource it knows. So the early container is one that asked for the very same as the fresh one and
was started before there was a CDI file: alike but for its age. A container that runs already then
can only be one that asked for nothing, as the container of a pod whose unknown resource the kubelet
struck out; it differs from the fresh one in more than its age, so that it stands beside the early
one and never in its place. Created is not started: a container that is only created before the
file is there starts behind it with a card (tried with podman 4.3.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from harness.bringup.ownership import MANAGED
from harness.bringup.probes import FOR_EVER
from harness.facts import podman as said
from harness.facts.cdi import CdiAbsent, CdiSpec
from harness.facts.cdifiles import CdiFiles
from harness.facts.fact import Unread
from harness.facts.nvidia import SmiCards, SmiFailed
from harness.facts.podman import Container, Refusal
from harness.facts.probes import (
    ARGV,
    Control,
    EarlyPod,
    Injected,
    NoTool,
    Seen,
)
from harness.observe import guest
from harness.observe.containers import Podman, cdi_files
from harness.reach.errors import LabError

if TYPE_CHECKING:
    from harness.reach.nodeshell import NodeShell, Reply

IMAGE = "localhost/hil-probe"
DEVICE = "nvidia.com/gpu=0"
"""One card, as a pod's limit is one."""
IMPORT = "/usr/local/bin/hil-probe-image"
"""Makes the image known to podman, where it is not yet."""
GENERATE = "/usr/local/bin/hil-cdi-generate"
"""Writes the machine's CDI file, as a service of the operating system does at each boot."""
SPEC = "/run/cdi/nvidia.yaml"

IMPORT_BUDGET = 120.0
"""Seconds to import the image: 2 to 3 without KVM on a machine that does nothing else."""
START_BUDGET = 120.0
"""Seconds for a container to start, or to be refused: 1 to 3 on such a one."""

_RUN = "hil.dev/run"
_ASKING = ("early", "fresh")
"""Those that ask for a card; "older" and "control" do not."""
_F = TypeVar("_F")


@dataclass(frozen=True, slots=True)
class _Made:
    """A container as it was made, and why it did not start."""

    container: Container
    refusal: Refusal | None

    @property
    def name(self) -> str:
        return self.container.stored.pod


@dataclass(slots=True)
class GuestContainers:
    """The containers of one machine and one run; each is made once.

    ``node`` is the machine's name, ``run`` the run's id, which their names carry; ``podman`` is as
    it has to be called there. They go with the machine, with its roll-back, or by `clear`. Raises
    LabError where podman runs no container at all.
    """

    shell: NodeShell
    node: str
    run: str
    podman: Podman | None = None
    image: str = IMAGE
    device: str = DEVICE
    options: tuple[str, ...] = ("--network=none",)
    _tried: dict[str, object] = field(default_factory=dict)

    def early_pod(self) -> EarlyPod | Unread:
        """A container that was started before there was a CDI file, now that there is one."""
        return self._once("early", self._early)

    def fresh_pod(self) -> Injected | Unread:
        """A new container that asks for one card, and what it sees."""
        return self._once("fresh", self._fresh)

    def control_pod(self) -> Control | Unread:
        """The same without a card."""
        return self._once("control", self._control)

    def cdi_spec(self) -> CdiSpec | CdiAbsent | Unread:
        """The CDI file that the machine's own generator wrote."""
        self._offer()
        return guest.cdi_spec(self.shell)

    def clear(self) -> None:
        """Remove every container that this run has left on the machine."""
        words = ("rm", "-f", "-t", "0", "--filter", f"label={_RUN}={self.run}")
        output, _ = self._podman.ask(*words, timeout=START_BUDGET)
        if output.exit_code != 0:
            saw = output.text.strip() or output.problem
            raise LabError(f"remove the run's containers on {self.node}", saw, "look at them")

    # -- the three

    def _early(self) -> EarlyPod | Unread:
        self._withdraw()
        before = cdi_files(self.shell, "")
        if isinstance(before, Unread):
            return before
        made = self._make("early", "older")
        if isinstance(made, Unread):
            return made
        asker, older = made
        self._offer()
        now = self._standing(asker)
        if isinstance(now, Unread):
            return now
        seen = self._podman.smi_list(asker.name) if now.running else None
        advertised = _naming(before, self.device)
        return EarlyPod(now.origin, now.stored, advertised, seen, self._beside(older))

    def _fresh(self) -> Injected | Unread:
        self._offer()
        made = self._make("fresh")
        if isinstance(made, Unread):
            return made
        found = self._look(made[0])
        if isinstance(found, Unread):
            return found
        now, seen = found
        return Injected(now.origin, now.stored, seen, self._files(made[0].refusal))

    def _control(self) -> Control | Unread:
        self._offer()
        made = self._make("control")
        return made if isinstance(made, Unread) else self._beside(made[0])

    def _beside(self, made: _Made) -> Control | Unread:
        """A container that asked for no card, and what it finds all the same."""
        found = self._look(made)
        if isinstance(found, Unread):
            return found
        now, seen = found
        if isinstance(seen, Unread):
            return seen
        told = seen.said if isinstance(seen, NoTool) else seen.origin.raw
        has_tool = isinstance(seen, SmiCards | SmiFailed)
        return Control(now.origin, now.stored, has_tool, told)

    # -- containers

    def _make(self, *kinds: str) -> list[_Made] | Unread:
        """Create containers, look at them as they were made, and start them, in this order."""
        self._import()
        names = [f"hil-{kind}-{self.run}" for kind in kinds]
        for kind, name in zip(kinds, names, strict=True):
            output, origin = self._podman.ask(*self._create(name, asks=kind in _ASKING))
            if output.exit_code != 0:
                return said.lost(origin, name, output.text or output.problem)
        hooks = self._podman.hooks()
        if isinstance(hooks, Unread):
            return hooks
        found = self._podman.containers(names, hooks)
        if isinstance(found, Unread):
            return found
        return [_Made(one, self._start(one.stored.pod)) for one in found]

    def _create(self, name: str, *, asks: bool) -> list[str]:
        labels = {**MANAGED, _RUN: self.run}
        marks = [f"--label={key}={value}" for key, value in labels.items()]
        asked = ["--device", self.device] if asks else []
        words = ["create", "--pull=never", "--replace", "--name", name, *marks, *self.options]
        return [*words, *asked, self.image, *FOR_EVER]

    def _start(self, name: str) -> Refusal | None:
        output, _ = self._podman.ask("start", name, timeout=START_BUDGET)
        return said.refusal(output)

    def _look(self, made: _Made) -> tuple[Container, Seen] | Unread:
        """A container as it stands, and what it sees.

        An answer from inside says that it runs; podman is asked only where there is none.
        """
        seen = None if made.refusal is not None else self._podman.smi_list(made.name)
        if seen is not None and not isinstance(seen, Unread):
            return said.running(made.container), seen
        now = self._standing(made)
        if isinstance(now, Unread):
            return now
        asked = " ".join(ARGV)
        stands = Unread(now.origin, asked, f"container {now.stored}")
        return now, (seen if seen is not None and now.running else stands)

    def _standing(self, made: _Made) -> Container | Unread:
        """A container as it was made, standing as podman says now."""
        now = self._podman.containers([made.name])
        if isinstance(now, Unread):
            return now
        return said.standing(made.container.stored, now[0], made.refusal)

    def _files(self, refusal: Refusal | None) -> CdiFiles | Unread:
        """The CDI files; where a container was refused, with which podman it was that read them."""
        engine = self._podman.version() if refusal is not None else ""
        return engine if isinstance(engine, Unread) else cdi_files(self.shell, engine)

    # -- the machine

    def _import(self) -> None:
        """Once: podman has the image."""
        if "imported" not in self._tried:
            reply = self.shell.host([IMPORT], timeout=IMPORT_BUDGET)
            if reply.exit_code != 0:
                raise self._failed(IMPORT, reply)
            self._tried["imported"] = True

    def _withdraw(self) -> None:
        """Take the boot's CDI file away, as it is before the service has written it."""
        reply = self.shell.host(["rm", "-f", SPEC])
        if reply.exit_code != 0:
            raise self._failed(f"rm {SPEC}", reply)
        self._tried.pop("offered", None)

    def _offer(self) -> None:
        """Let the machine write its CDI file; that it cannot is for the file's readers to see."""
        if "offered" not in self._tried:
            reply = self.shell.host([GENERATE], timeout=IMPORT_BUDGET)
            if reply.exit_code in (None, 126, 127):
                raise self._failed(GENERATE, reply)
            self._tried["offered"] = True

    def _failed(self, path: str, reply: Reply) -> LabError:
        saw = " ".join((reply.stderr or reply.stdout).decode("utf-8", "backslashreplace").split())
        do = "look at the machine's image"
        return LabError(f"run {path} on {self.node}", saw or reply.problem or "no word", do)

    @property
    def _podman(self) -> Podman:
        return self.podman or Podman(self.shell, self.node)

    def _once(self, kind: str, look: Callable[[], _F]) -> _F:
        if kind not in self._tried:
            self._tried[kind] = look()
        seen: _F = self._tried[kind]  # type: ignore[assignment]  # kept under its own kind
        return seen


def _naming(files: CdiFiles, device: str) -> str | None:
    """A CDI file that names a device, None where none does."""
    for one in files.files:
        if isinstance(one.spec, CdiSpec):
            names = {f"{one.spec.device_kind}={name}" for name in one.spec.devices}
            if device in names:
                return one.path
    return None
