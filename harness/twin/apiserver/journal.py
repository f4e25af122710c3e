"""The bounded log of committed changes: what a watch resumes from, and when it no longer can."""

from __future__ import annotations

from collections import deque

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.records import Change, Kind, kind_of
from harness.twin.apiserver.resources import Resource


class Journal:
    """The last ``size`` changes, oldest first."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"a history of {size} changes cannot serve a watch")
        self.size = size
        self._changes: deque[tuple[Kind, Change]] = deque()
        self._forgotten = 0  # revision of the newest change that was dropped

    def add(self, change: Change) -> None:
        """Record a change; the oldest goes when there are too many."""
        self._changes.append((kind_of(change.resource), change))
        if len(self._changes) > self.size:
            self._forgotten = self._changes.popleft()[1].revision

    def forget(self, revision: int) -> None:
        """Drop everything; nothing before ``revision`` can be resumed from."""
        self._changes.clear()
        self._forgotten = revision

    def reaches(self, revision: int) -> bool:
        """Whether everything after a revision is still known."""
        return revision >= self._forgotten

    def since(self, resource: Resource, revision: int, current: int) -> list[Change]:
        """Changes of one kind after a revision, oldest first.

        Raises 410 Expired for a revision older than the log, 504 for one not reached yet.
        """
        if not self.reaches(revision):
            raise ApiError(410, f"too old resource version: {revision} ({self._forgotten})")
        if revision > current:
            raise _too_large(revision, current)
        found, wanted = [], kind_of(resource)
        for kind, change in reversed(self._changes):
            if change.revision <= revision:
                break
            if kind == wanted:
                found.append(change)
        found.reverse()
        return found


def _too_large(revision: int, current: int) -> ApiError:
    message = f"Timeout: Too large resource version: {revision}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(
        504, message, reason="Timeout", details={"causes": [cause], "retryAfterSeconds": 1}
    )
