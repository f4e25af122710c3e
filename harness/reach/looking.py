"""A look: a server that has said nothing is asked plainly, before a wait is in vain, or counted.

A stream may be open and tell nothing, or be long in opening. Without this a condition that became
true is reported as never met until the stream has been silent for long enough to be given up.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from harness.clock import Clock
from harness.reach.errors import LabError
from harness.reach.following import Follower
from harness.reach.history import Key, Listed
from harness.reach.listing import PAGE
from harness.reach.picture import Picture

LEAD = 2.0
"""Real seconds before a limit at which a silent server is asked, at most a quarter of the wait."""

QUIET = 1.0
"""Real seconds without a word from the server that need no look."""


@dataclass(slots=True, eq=False)
class Look:
    """Looks at one feed; one at a time at the whole of it, and at each object."""

    clock: Clock
    picture: Picture
    follower: Follower
    _running: set[Key | None] = field(default_factory=set)
    _doubt: str = ""
    _since: float = 0.0

    def begin(self, key: Key | None, seconds: float) -> bool:
        """Ask in a thread of its own, if the server has been quiet; it may take so many seconds.

        Where there are more objects than fit a page, only the one named is asked for. False where
        the server was heard a moment ago.
        """
        with self.picture.lock:
            scope = key if len(self.picture.history.current) > PAGE else None
            if not self.due() or scope in self._running:
                return self.due()
            self._running.add(scope)
            self._doubt, self._since = "no answer yet to a plain list", self.picture.heard
        name = f"look {self.follower.name}"
        threading.Thread(target=self._run, args=(scope, seconds), name=name, daemon=True).start()
        return True

    def due(self) -> bool:
        """Whether the server has been quiet for so long that the picture may be an old one."""
        return self.clock.monotonic() - self.picture.heard > QUIET

    def doubt(self) -> str:
        """Why the picture may be behind the cluster although a stream is open, "" for no reason."""
        return self._doubt if self._since == self.picture.heard else ""

    def _run(self, scope: Key | None, seconds: float) -> None:
        try:
            self._ask(scope, seconds)
        except LabError as error:
            self._end(f"a plain list failed: {error}")
        finally:
            with self.picture.lock:
                self._running.discard(scope)

    def _ask(self, scope: Key | None, seconds: float) -> None:
        history = self.picture.history
        asked, mark = history.place, (len(history.gaps()), history.compacted)
        items, version = self.follower.ask(scope[1] if scope else "")
        kept_back = self._kept_back(items, scope, asked)
        if (len(history.gaps()), history.compacted) != mark:
            return  # the feed was listed anew meanwhile, or forgot: this list is the older one
        doubt = ""
        if kept_back:
            about = ", ".join("/".join(item.key) for _, item in kept_back[:3])
            self.follower.give_up(f"the stream kept back what a list shows of {about}")
            deadline = self.clock.deadline(seconds / 2)
            self.clock.wait(
                lambda: not self._kept_back(items, scope, asked), deadline, "what it kept back"
            )
            with self.clock.held(), self.picture.lock:
                same = (len(history.gaps()), history.compacted) == mark
                still = self._kept_back(items, scope, asked)
                if still and same and not self.follower.listing:
                    self.picture.probed(still, version)
                elif still:
                    doubt = f"a list shows what no stream has told of {about}"
        self._end(doubt)

    def _kept_back(
        self, items: list[Listed], scope: Key | None, asked: int
    ) -> list[tuple[str, Listed]]:
        with self.picture.lock:
            found = self.picture.history.kept_back(items, asked)
            return [each for each in found if scope in (None, each[1].key)]

    def _end(self, doubt: str) -> None:
        with self.picture.lock:
            if doubt:
                self._doubt = doubt
            else:
                self.picture.heard = self.clock.monotonic()
                self.picture.waiters.settle(None)
        self.clock.notify()
