"""What an API server asks of the world: run a program, show a log, attach to a console."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.execresult import ExecResult, Running
from harness.twin.apiserver.queries import boolean, number
from harness.twin.world import consoles
from harness.twin.world.world import World

_BY_TIME = ("sinceSeconds", "sinceTime", "timestamps")


@dataclass(frozen=True, slots=True)
class ClusterBackend:
    """The world, as one cluster's API server sees it. ``cluster``: management or tenant-<name>."""

    world: World
    cluster: str

    def exec(
        self, namespace: str, pod: str, container: str, argv: list[str], stdin: bytes
    ) -> ExecResult | Running:
        """Run a program in a container. Raises ApiError."""
        return self.world.exec(self.cluster, namespace, pod, container, argv, stdin)

    def reads_stdin(self, argv: list[str]) -> bool:
        """No program of the model does."""
        del argv
        return False

    def logs(self, namespace: str, pod: str, container: str, query: Mapping[str, str]) -> bytes:
        """What a container has written, cut as asked: ``tailLines``, then ``limitBytes``.

        Raises ApiError, also for what the world does not keep: the time of each line.
        """
        for asked in _BY_TIME:
            if query.get(asked, "false") != "false":
                raise ApiError(400, f"{asked}: this server keeps no times with log lines")
        previous = boolean(query, "previous")
        written = self.world.logs(self.cluster, namespace, pod, container, previous=previous)
        return _cut(written, number(query, "tailLines"), number(query, "limitBytes"))

    def follow_logs(
        self, namespace: str, pod: str, container: str, heard: Callable[[bytes], None]
    ) -> Callable[[], None]:
        """Hand what a container writes from now on to ``heard``; returns how to stop."""
        return self.world.follow_logs(self.cluster, namespace, pod, container, heard)

    def console(
        self,
        namespace: str,
        name: str,
        heard: Callable[[bytes], None],
        ended: Callable[[], None],
    ) -> consoles.Attachment:
        """Attach to a VMI's serial console, which the management cluster alone serves.

        Raises ApiError.
        """
        return consoles.attach(self.world, namespace, name, heard, ended)


def _cut(text: bytes, lines: int | None, size: int | None) -> bytes:
    if lines is not None:
        kept = text.splitlines(keepends=True)
        text = b"".join(kept[len(kept) - min(lines, len(kept)) :])
    return text if size is None else text[:size]
