"""A pod of somebody's own in one boot of its node: pulled, made, run, ended, run again.

Waits: kubernetes ``pkg/kubelet`` (a first restart at once, then back-off from 10 s, doubled up to
5 min, forgotten after 10 min of running; image pulls the same), ``kuberuntime_container.go``. Init
containers are not run. What a container is made with: `container_runtime`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.engine import Timer
from harness.twin.world import (
    container_images,
    container_programs,
    container_runtime,
    container_states,
    nodefit,
)
from harness.twin.world.container_programs import Process
from harness.twin.world.container_runtime import CannotCreate, CannotStart
from harness.twin.world.objects import Obj, deep, terminating

if TYPE_CHECKING:
    from harness.twin.world.kubelet import Kubelets
    from harness.twin.world.worker import Worker

MANAGER = "kubelet"
_BACK_OFF, _MOST, _FORGOTTEN = 10.0, 300.0, 600.0
_NO_SANDBOX = 15.0  # seconds between two tries to make a sandbox (order)
Change = Callable[[Obj], None]


class PodLife:
    """One pod. ``begin`` once; ``stop`` ends everything that is still to come."""

    def __init__(self, kubelets: Kubelets, worker: Worker, pod: Obj) -> None:
        self._kubelets, self._worker, self.pod = kubelets, worker, pod
        self._world, self._cluster = kubelets.world, kubelets.cluster
        self._engine = kubelets.world.engine
        self._specs = {one["name"]: one for one in nodefit.listed(pod["spec"]["containers"])}
        self._timers: list[Timer] = []
        self._waits: dict[str, int] = {}  # back-offs so far, by container
        self._started: dict[str, float] = {}

    def begin(self) -> None:
        """The pod is admitted, and its node can start it."""
        self._sandbox()

    def stop(self) -> None:
        """The pod is going, or its node is down."""
        for timer in self._timers:
            timer.cancel()
        self._timers = []

    def _sandbox(self) -> None:
        problem = self._kubelets.no_sandbox(self._worker, self.pod)
        if problem:
            self._warn("FailedCreatePodSandBox", f"Failed to create pod sandbox: {problem}")
            self._after(_NO_SANDBOX, self._sandbox, "sandbox")
            return
        image = next(iter(self._specs.values())).get("image", "")
        cached = image in self._worker.images
        seconds = self._world.timings.draw("tenant.cached" if cached else "tenant.pull")
        if not cached and not deep(self._current(), "status", "podIP"):
            self._normal("Pulling", f'Pulling image "{image}"')
        self._after(seconds, self._first, "starts")

    def _first(self) -> None:
        address = self._kubelets.address_for(self.pod)

        def placed(stored: Obj) -> None:
            stored["status"] |= {"podIP": address, "podIPs": [{"ip": address}]}

        self._make([name for name in self._specs if self._is_due(name)], placed)

    def _is_due(self, name: str) -> bool:
        """Whether a container is to be started: one that has done its work in an earlier boot
        is not."""
        ended = container_states.status_of(self._current(), name)["state"].get("terminated")
        return ended is None or _comes_again(self.pod, ended["exitCode"])

    # -- a container

    def _make(self, names: list[str], *first: Change) -> None:
        """Try to bring containers up, with one write for all that came of it."""
        changes: list[Change] = list(first)
        then: list[Callable[[], None]] = []
        for name in names:
            self._try(name, changes, then)
        self._write(*changes)
        for do in then:
            do()

    def _try(self, name: str, changes: list[Change], then: list[Callable[[], None]]) -> None:
        spec, now = self._specs[name], self._engine.now
        reason, words = container_images.problem(spec.get("image", ""))
        if reason:
            changes.append(partial(_wait, name=name, reason=reason, message=words))
            then.append(lambda: self._unpulled(name, reason, words))
            return
        self._worker.images[spec.get("image", "")] = None
        try:
            process = self._create(name, spec)
        except CannotCreate as refused:
            told = str(refused)
            changes.append(partial(_wait, name=name, reason="CreateContainerError", message=told))
            then.append(lambda: self._uncreated(name, told))
        except CannotStart as refused:
            told = str(refused)
            changes.append(lambda stored: container_states.not_started(stored, name, now, told))
            then.append(lambda: self._unstarted(name, told))
        else:
            changes.append(lambda stored: container_states.running(stored, name, now))
            then.append(lambda: self._runs(name, process))

    def _create(self, name: str, spec: Obj) -> Process:
        guest, pod = self._worker.guest, self._current()
        allocation = self._worker.devices.allocation(pod, name)
        handler = self._kubelets.handler(pod) or guest.default_runtime
        made = container_runtime.create(pod, spec, guest, allocation, handler)
        process = container_programs.main(spec, made, guest)
        self._kubelets.made(pod, name, made)
        self._kubelets.logs.start_over(pod, name)
        return process

    def _runs(self, name: str, process: Process) -> None:
        self._started[name] = self._engine.now
        self._normal("Started", f"Started container {name}")
        takes = process.takes
        seconds = self._world.timings.draw(takes) if isinstance(takes, str) else takes
        if not math.isinf(seconds):
            self._after(seconds, lambda: self._ends(name, process), f"{name} ends")

    def _ends(self, name: str, process: Process) -> None:
        ran, now = process.run(), self._engine.now
        told = [ran.stdout.decode(), ran.stderr.decode(), ran.error]
        for words in told:
            self._kubelets.logs.say(self.pod, name, *words.splitlines())
        code = ran.exit_code or int(bool(ran.error))
        self._write(lambda stored: container_states.ended(stored, name, now, code))
        self._follow(name, code)

    # -- what did not come about

    def _unpulled(self, name: str, reason: str, words: str) -> None:
        image = self._specs[name].get("image", "")
        if reason == "ErrImagePull":
            self._warn("Failed", f'Failed to pull image "{image}": {words}')
            self._warn("Failed", f"Error: {reason}")
            seconds = self._next_wait(name)
            backed_off = f'Back-off pulling image "{image}"'
            message = f"{backed_off}: ErrImagePull: {words}"

            def back_off() -> None:
                self._write(partial(_wait, name=name, reason="ImagePullBackOff", message=message))
                self._normal("BackOff", backed_off)
                self._warn("Failed", "Error: ImagePullBackOff")

            self._after(1.0, back_off, f"{name} backs off")
        else:
            self._warn("InspectFailed", words)
            seconds = self._world.timings.draw("container.retry")
        self._after(seconds, lambda: self._make([name]), f"{name} is tried again")

    def _uncreated(self, name: str, told: str) -> None:
        self._warn("Failed", f"Error: {told}")
        seconds = self._world.timings.draw("container.retry")
        self._after(seconds, lambda: self._make([name]), f"{name} is tried again")

    def _unstarted(self, name: str, told: str) -> None:
        self._warn("Failed", f"Error: {told}")
        self._follow(name, container_states.START_ERROR)

    # -- again, or not

    def _follow(self, name: str, code: int) -> None:
        if _comes_again(self.pod, code):
            self._restart(name)
        # a pod that is finished now is heard of, and its devices are free

    def _restart(self, name: str) -> None:
        ran = self._engine.now - self._started.pop(name, self._engine.now)
        if ran >= _FORGOTTEN:
            self._waits.pop(name, None)
        if name not in self._waits:
            self._waits[name] = 0
            seconds = self._world.timings.draw("tenant.cached")
        else:
            seconds = self._next_wait(name)
            metadata = self.pod["metadata"]
            place = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
            text = f"back-off {_duration(seconds)} restarting failed container={name} pod={place}"
            self._write(partial(_wait, name=name, reason="CrashLoopBackOff", message=text))
            told = f"Back-off restarting failed container {name} in pod {place}"
            self._warn("BackOff", told)
        again = partial(container_states.again, name=name)
        self._after(seconds, lambda: self._make([name], again), f"{name} is started again")

    def _next_wait(self, name: str) -> float:
        count = self._waits.get(name, 0)
        self._waits[name] = count + 1
        return float(min(_MOST, _BACK_OFF * 2**count))

    # -- plumbing

    def _current(self) -> Obj:
        return self._cluster.current(self.pod) or self.pod

    def _after(self, seconds: float, do: Callable[[], None], what: str) -> None:
        def act() -> None:
            current = self._cluster.current(self.pod)
            if current is not None and not terminating(current):
                do()

        self._timers = [timer for timer in self._timers if timer.when >= self._engine.now]
        label = f"{self.pod['metadata']['name']}: {what}"
        self._timers.append(self._engine.after(seconds, act, label))

    def _write(self, *changes: Change) -> None:
        now = self._engine.now

        def change(stored: Obj) -> None:
            for each in changes:
                each(stored)
            container_states.settle(stored, now)

        self._cluster.status(self.pod, change, manager=MANAGER)

    def _normal(self, reason: str, text: str) -> None:
        self._cluster.events.normal(self._current(), reason, text, MANAGER)

    def _warn(self, reason: str, text: str) -> None:
        self._cluster.events.warning(self._current(), reason, text, MANAGER)


def _comes_again(pod: Obj, code: int) -> bool:
    policy = pod["spec"].get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _duration(seconds: float) -> str:
    """As Go writes it: ``40s``, ``1m20s``, ``5m0s``."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _wait(stored: Obj, *, name: str, reason: str, message: str) -> None:
    container_states.waiting(stored, name, reason, message)
