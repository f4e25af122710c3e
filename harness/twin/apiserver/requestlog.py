"""What was asked of the servers: the oracle of tests that say "at most N requests"."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, NamedTuple


class Request(NamedTuple):
    """One answered request.

    ``verb`` is the API's word (get, list, watch, create, update, patch, delete, deletecollection)
    or, off the resource paths, the HTTP method in lower case. A watch or an exec is recorded when
    it is accepted, not when it ends.
    """

    cluster: str
    verb: str
    path: str
    query: str
    status: int
    user_agent: str


class RequestLog:
    """The last requests of one or several servers, oldest first. ``total`` counts all ever."""

    def __init__(self, limit: int = 65536) -> None:
        self._requests: deque[Request] = deque(maxlen=limit)
        self.total = 0

    def add(self, request: Request) -> None:
        """Record one request."""
        self._requests.append(request)
        self.total += 1

    def entries(
        self,
        *,
        cluster: str | None = None,
        verb: str | None = None,
        path: str | None = None,
        status: int | None = None,
        user_agent: str | None = None,
    ) -> list[Request]:
        """The requests that match. ``path`` and ``user_agent`` match anywhere in the text."""
        return [
            entry
            for entry in self._requests
            if (cluster is None or entry.cluster == cluster)
            and (verb is None or entry.verb == verb)
            and (path is None or path in entry.path)
            and (status is None or entry.status == status)
            and (user_agent is None or user_agent in entry.user_agent)
        ]

    def count(
        self,
        *,
        cluster: str | None = None,
        verb: str | None = None,
        path: str | None = None,
        status: int | None = None,
        user_agent: str | None = None,
    ) -> int:
        """How many requests match; the arguments are those of ``entries``."""
        found = self.entries(
            cluster=cluster, verb=verb, path=path, status=status, user_agent=user_agent
        )
        return len(found)

    def clear(self) -> None:
        """Forget the requests kept; ``total`` stays."""
        self._requests.clear()

    def summary(self, newest: int = 200) -> dict[str, Any]:
        """Counts of what is kept by cluster, verb and status, and the newest requests whole."""
        kept = list(self._requests)
        return {
            "total": self.total,
            "kept": len(kept),
            "clusters": dict(Counter(entry.cluster for entry in kept)),
            "verbs": dict(Counter(entry.verb for entry in kept)),
            "statuses": {str(k): n for k, n in Counter(entry.status for entry in kept).items()},
            "newest": [entry._asdict() for entry in kept[-newest:]],
        }
