"""How the world's controllers are driven: changes of a store in, keyed reconciles out.

A controller never acts inside the write that woke it: it asks the engine for a moment of its own,
at most one for each object, so that what it reads is the state and not the event.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.twin.engine import Engine, Timer
from harness.twin.world.objects import Obj

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change, Store

Key = tuple[str, str]  # namespace, name
Listener = Callable[["Change"], None]


class Dispatcher:
    """One subscription to a store, handed out by kind."""

    def __init__(self, store: Store) -> None:
        self._by_kind: dict[tuple[str, str], list[Listener]] = {}
        store.subscribe(self._deliver)

    def on(self, api_version: str, kind: str, listener: Listener) -> None:
        """Hear of every change of a kind, in commit order."""
        self._by_kind.setdefault((api_version, kind), []).append(listener)

    def _deliver(self, change: Change) -> None:
        resource = change.resource
        for listener in self._by_kind.get((resource.api_version, resource.kind), ()):
            listener(change)


@dataclass(slots=True)
class Queue:
    """Keys to reconcile, each at most once at a time, at the earliest moment asked for."""

    engine: Engine
    name: str
    reconcile: Callable[[str, str], None]
    latency: Callable[[], float]
    _timers: dict[Key, Timer] = field(default_factory=dict)

    def add(self, namespace: str, name: str, delay: float | None = None) -> None:
        """Reconcile an object after ``delay`` seconds, one draw of ``latency`` where not given."""
        key = (namespace, name)
        waiting = self._timers.get(key)
        when = self.engine.now + (self.latency() if delay is None else delay)
        if waiting is not None:
            if waiting.when <= when:
                return
            waiting.cancel()
        what = f"{self.name} {namespace}/{name}" if namespace else f"{self.name} {name}"
        self._timers[key] = self.engine.at(when, lambda: self._run(key), what)

    def hear(self, change: Change) -> None:
        """A listener that enqueues the changed object itself."""
        self.hear_of(change.obj)

    def hear_of(self, obj: Obj) -> None:
        """Enqueue one object."""
        metadata = obj["metadata"]
        self.add(metadata.get("namespace", ""), metadata["name"])

    def _run(self, key: Key) -> None:
        del self._timers[key]
        self.reconcile(*key)


class Activities:
    """Things under way that take time, by key: started once, forgotten when they end."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._timers: dict[str, Timer] = {}

    def start(self, key: str, seconds: float, done: Callable[[], None]) -> bool:
        """Begin an activity unless it is under way; whether it was begun."""
        if key in self._timers:
            return False

        def end() -> None:
            del self._timers[key]
            done()

        self._timers[key] = self._engine.after(seconds, end, key)
        return True

    def running(self, key: str) -> bool:
        """Whether it is under way."""
        return key in self._timers

    def stop(self, key: str) -> None:
        """Give an activity up; one that is not under way is fine."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
