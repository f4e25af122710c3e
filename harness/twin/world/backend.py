"""What an API server asks of the world: run a program in a container, show its log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.execresult import ExecResult
from harness.twin.apiserver.queries import boolean, number
from harness.twin.world.world import World

_BY_TIME = ("sinceSeconds", "sinceTime", "timestamps")


@dataclass(frozen=True, slots=True)
class ClusterBackend:
    """The world, as one cluster's API server sees it. ``cluster``: management or tenant-<name>."""

    world: World
    cluster: str

    def exec(
        self, namespace: str, pod: str, container: str, argv: list[str], stdin: bytes
    ) -> ExecResult:
        """Run a program in a container. Raises ApiError."""
        return self.world.exec(self.cluster, namespace, pod, container, argv, stdin)

    def logs(self, namespace: str, pod: str, container: str, query: Mapping[str, str]) -> bytes:
        """What a container has written, cut as asked: ``tailLines``, then ``limitBytes``.

        Raises ApiError, also for what the world does not keep: the log of a container that was
        replaced (none ever is), and the time of each line.
        """
        if boolean(query, "previous"):
            text = f'previous terminated container "{container}" in pod "{pod}" not found'
            raise ApiError(400, text)
        for asked in _BY_TIME:
            if query.get(asked, "false") != "false":
                raise ApiError(400, f"{asked}: this server keeps no times with log lines")
        written = self.world.logs(self.cluster, namespace, pod, container)
        return _cut(written, number(query, "tailLines"), number(query, "limitBytes"))


def _cut(text: bytes, lines: int | None, size: int | None) -> bytes:
    if lines is not None:
        kept = text.splitlines(keepends=True)
        text = b"".join(kept[len(kept) - min(lines, len(kept)) :])
    return text if size is None else text[:size]
