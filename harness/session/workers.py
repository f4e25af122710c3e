"""The controller's care for its xdist workers when a run is cut short.

xdist closes the connection at once and kills who is still there ten seconds later: a pool may take
longer to be taken down.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from harness.live.record import FOLDER, born_of
from harness.live.tailing import Tails
from harness.session.interrupts import ONCE, TWICE

if TYPE_CHECKING:
    from harness.session.state import RunState

LOOK = 0.1
"""Seconds between two looks at who is still there."""
FORCED = 5.0
"""Seconds that workers have to end once they leave everything standing."""


class Workers:
    """A pytest plugin of the controller."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._nodes: list[Any] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Know each of them."""
        self._nodes.append(node)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Before xdist closes: let workers of an interrupted run take down what they hold."""
        if not self._state.interrupted or not self._nodes:
            return
        try:
            self._tell(ONCE)
            self._wait(None)
        except KeyboardInterrupt:
            self._tell(TWICE)
            self._wait(FORCED)

    def _wait(self, seconds: float | None) -> None:
        wall = self._state.wall
        deadline = None if seconds is None else wall.deadline(seconds)
        while self._working() and not (deadline is not None and deadline.expired):
            wall.sleep(LOOK, "the workers to take down what they hold")

    def _working(self) -> dict[str, int]:
        """Workers that have not ended their part: their process by name."""
        # xdist gives a node this attribute as it hears that its part has ended
        ended = {node.gateway.id for node in self._nodes if hasattr(node, "workeroutput")}
        return {
            name: pid for name, (pid, born) in self._processes().items()
            if name not in ended and born_of(pid) == born
        }  # fmt: skip

    def _processes(self) -> dict[str, tuple[int, str]]:
        """Who wrote that it works for this run: number and birth of the process, by name."""
        known = {node.gateway.id for node in self._nodes}
        return {
            name: (int(record["pid"]), str(record["born"]))
            for name, record in Tails(self._state.directory.path / FOLDER).new()
            if record.get("record") == "process" and name in known
        }

    def _tell(self, signal_: int) -> None:
        for pid in self._working().values():
            try:
                os.kill(pid, signal_)
            except ProcessLookupError:
                continue
