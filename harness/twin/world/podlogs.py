"""What containers of a tenant's pods have written: by pod and container, since the last start."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from harness.twin.world.objects import Obj

_KEPT = 4000  # lines of one container; a kubelet keeps 10 MiB
Heard = Callable[[bytes], None]
_Key = tuple[str, str]  # UID of the pod, name of the container


class PodLogs:
    """The logs of one cluster's containers."""

    def __init__(self) -> None:
        self._lines: dict[_Key, deque[str]] = {}
        self._before: dict[_Key, deque[str]] = {}  # of the container that was replaced
        self._readers: dict[_Key, list[Heard]] = {}

    def say(self, pod: Obj, container: str, *lines: str) -> None:
        """A container writes lines."""
        key = (pod["metadata"]["uid"], container)
        kept = self._lines.setdefault(key, deque(maxlen=_KEPT))
        for line in lines:
            kept.append(line)
            for heard in tuple(self._readers.get(key, ())):
                heard(f"{line}\n".encode())

    def start_over(self, pod: Obj, container: str) -> None:
        """A container is started again: its log begins anew, the last one is kept."""
        key = (pod["metadata"]["uid"], container)
        self._before[key] = self._lines.pop(key, deque())

    def read(self, pod: Obj, container: str, *, previous: bool = False) -> bytes:
        """Everything a container has written; its first container's where none is named.

        ``previous``: what the one before it wrote that it took the place of.
        """
        kept = self._before if previous else self._lines
        lines = kept.get(self._key(pod, container), ())
        return "".join(f"{line}\n" for line in lines).encode()

    def follow(self, pod: Obj, container: str, heard: Heard) -> Callable[[], None]:
        """Hand each further line of a container to ``heard``; returns how to stop."""
        readers = self._readers.setdefault(self._key(pod, container), [])
        readers.append(heard)
        return lambda: readers.remove(heard)

    def forget(self, pod: Obj) -> None:
        """The pod is gone, and its logs with it."""
        uid = pod["metadata"]["uid"]
        for lines in (self._lines, self._before):
            for key in [key for key in lines if key[0] == uid]:
                del lines[key]
        for key in [key for key in self._readers if key[0] == uid]:
            del self._readers[key]

    @staticmethod
    def _key(pod: Obj, container: str) -> _Key:
        return pod["metadata"]["uid"], container or pod["spec"]["containers"][0]["name"]
