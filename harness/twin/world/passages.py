"""A pod whose programs the world plays: its way through its containers, in one boot of its node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from harness.twin.engine import Timer
from harness.twin.world import init_stages, nodefit, pods
from harness.twin.world.objects import Obj, deep

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest
    from harness.twin.world.tenant import Workers
    from harness.twin.world.world import World

MANAGER = "kubelet"
POLL = 5.0
"""Seconds between two looks of the operands' waiting loops (GPO: ``sleep 5``, sleepInterval)."""
_BACK_OFF, _MOST = 10.0, 300.0  # kubelet: doubling from 10 s up to 5 min
_NO_RUNTIME = 15.0  # seconds between two tries to make a sandbox (order)


class Passage:
    """One pod in one boot. Its stages are the init containers, in the order of its spec.

    ``player`` plays them: each of its programs is to call `passed` or `failed`, an init container
    without a program ends well at once; then its ``main`` is to call `serve` or `finish`.
    """

    def __init__(self, player: Player, pod: Obj, guest: Guest) -> None:
        self.world, self.workers, self.guest = player.world, player.workers, guest
        self.pod = pod
        self._main = player.main
        self._programs = player.programs()
        self.node = str(deep(pod, "spec", "nodeName"))
        self.serving = False  # its containers run
        self._timers: list[Timer] = []
        self._failures = 0
        self._stages: list[str] = []

    # -- time

    def after(self, seconds: float, do: Callable[[], None], what: str) -> None:
        """Do something later, unless the pod or its node is gone by then."""
        self._timers = [t for t in self._timers if t.when >= self.world.engine.now]
        label = f"{self.pod['metadata']['name']}: {what}"
        self._timers.append(self.world.engine.after(seconds, do, label))

    def takes(self, timing: str, do: Callable[[], None], what: str) -> None:
        """Do something after a duration of the table."""
        self.after(self.world.timings.draw(timing), do, what)

    def stop(self) -> None:
        """Nothing of this passage happens any more."""
        for timer in self._timers:
            timer.cancel()
        self._timers = []
        self.serving = False

    # -- words

    def say(self, container: str, *lines: str) -> None:
        """A container writes to its log."""
        self.workers.logs.say(self.pod, container, *lines)

    def current(self) -> Obj:
        """The pod as it is now (as it was last, if it is gone)."""
        return self.workers.cluster.current(self.pod) or self.pod

    def container(self, name: str) -> Obj:
        """A container of the pod's spec by name; an empty one where it has none such."""
        listed = [*init_stages.init_containers(self.pod), *self.pod["spec"]["containers"]]
        return next((one for one in listed if one["name"] == name), {})

    def env(self, container: str) -> dict[str, str]:
        """A container's environment, as the pod's spec gives it."""
        listed = nodefit.listed(self.container(container).get("env"))
        return {str(one.get("name")): str(one.get("value", "")) for one in listed}

    def _write(self, change: Callable[[Obj], None]) -> None:
        self.workers.cluster.status(self.pod, change, manager=MANAGER)

    # -- the way

    def begin(self) -> None:
        """Take the pod in and let it pass."""
        node = self.workers.cluster.find("v1", "Node", "", self.node) or {}
        addresses = deep(node, "status", "addresses") or [{}]
        now, ip = self.world.engine.now, str(addresses[0].get("address", ""))
        self._write(lambda stored: init_stages.accepted(stored, ip, now))
        self._stages = [one["name"] for one in init_stages.init_containers(self.pod)]
        self._sandbox()

    def _sandbox(self) -> None:
        handler = self.pod["spec"].get("runtimeClassName")
        if handler == "nvidia" and not self.guest.image.has_toolkit:
            text = (
                "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get "
                f'sandbox runtime: no runtime for "{handler}" is configured'
            )
            self._warn("FailedCreatePodSandBox", text)
            self.after(_NO_RUNTIME, self._sandbox, "sandbox")
            return
        self.takes("operand.start", self._next, "starts")

    def _next(self) -> None:
        if not self._stages:
            self._main(self)
            return
        self._run_stage()

    def _run_stage(self) -> None:
        name, now = self._stages[0], self.world.engine.now
        self.workers.logs.start_over(self.pod, name)
        self._write(lambda stored: init_stages.running(stored, name, now))
        program = self._programs.get(name)
        if program is None:
            self.passed()
        else:
            program(self)

    def passed(self) -> None:
        """The init container at hand ended well."""
        name, now = self._stages.pop(0), self.world.engine.now
        self._failures = 0
        self._write(lambda stored: init_stages.ended(stored, name, now))
        self._next()

    def failed(self, exit_code: int = 1) -> None:
        """The init container at hand ended badly; the kubelet starts it again, later and later."""
        name, now = self._stages[0], self.world.engine.now
        self._write(lambda stored: init_stages.ended(stored, name, now, exit_code))
        self._back_off(name, self._run_stage)

    def crashed(self, name: str, again: Callable[[], None], exit_code: int = 1) -> None:
        """A container of the pod proper ended badly; ``again`` is what it does once restarted."""
        now = self.world.engine.now
        self.serving = False
        self._write(lambda stored: init_stages.crashed(stored, name, now, exit_code))
        self._back_off(name, again)

    def _back_off(self, name: str, again: Callable[[], None]) -> None:
        seconds = min(_MOST, _BACK_OFF * 2**self._failures)
        self._failures += 1
        self._write(lambda stored: init_stages.backed_off(stored, name, seconds))
        text = f"Back-off restarting failed container {name} in pod {self.pod['metadata']['name']}"
        self._warn("BackOff", text)

        def restart() -> None:
            self._write(lambda stored: init_stages.restarted(stored, name))
            again()

        self.after(seconds, restart, f"{name} is started again")

    def _warn(self, reason: str, text: str) -> None:
        self.workers.cluster.events.warning(self.current(), reason, text, MANAGER)

    def serve(self) -> None:
        """The pod's containers run, and go on."""
        ip, now = self.workers.address_for(self.current()), self.world.engine.now
        self.serving = True
        self._write(lambda stored: pods.running(stored, ip, now))
        for container in self.pod["spec"]["containers"]:
            text = f"Started container {container['name']}"
            self.workers.cluster.events.normal(self.current(), "Started", text, MANAGER)

    def finish(self, exit_code: int = 0) -> None:
        """The pod's containers have run and ended."""
        self.serve()
        self.serving = False
        now = self.world.engine.now
        self._write(lambda stored: pods.ended(stored, now, exit_code=exit_code))


class Player:
    """Plays pods with one label ``app``: a passage for each. A subclass says what they do."""

    def __init__(self, world: World, workers: Workers) -> None:
        self.world, self.workers = world, workers
        self._passages: dict[str, Passage] = {}  # by the pod's UID
        workers.on_down.append(self._node_down)

    def admitted(self, pod: Obj, guest: Guest) -> None:
        """The kubelet took a pod: it starts from its first container."""
        uid = pod["metadata"]["uid"]
        if uid in self._passages:
            self._passages[uid].stop()
        passage = self._passages[uid] = Passage(self, pod, guest)
        passage.begin()

    def removed(self, pod: Obj) -> None:
        """The pod is gone."""
        passage = self._passages.pop(pod["metadata"]["uid"], None)
        if passage is not None:
            self.ended(passage)
            passage.stop()

    def _node_down(self, node: str) -> None:
        for uid, passage in list(self._passages.items()):
            if passage.node == node:
                passage.stop()
                del self._passages[uid]

    def programs(self) -> Mapping[str, Callable[[Passage], None]]:
        """What plays the init containers, by name."""
        return {}

    def main(self, passage: Passage) -> None:
        """What the pod does once its init containers ended well."""
        passage.serve()

    def ended(self, passage: Passage) -> None:
        """What is left to do when a pod is taken away, before its passage stops."""


def wait_for_file(
    passage: Passage, container: str, path: str, line: str, then: Callable[[], None]
) -> None:
    """A shell's loop: ``line`` every five seconds until a file is there on the host."""
    if path in passage.guest.tmpfs:
        then()
        return
    passage.say(container, line)
    passage.after(
        POLL, lambda: wait_for_file(passage, container, path, line, then), f"waits for {path}"
    )
