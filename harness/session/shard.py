"""The ledger's shard of one pool, as a run writes it: a disk that refuses is told, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.facts.fact import Fact
from harness.judge.verdict import Verdict
from harness.report.ledger import Ledger
from harness.report.records import LedgerError, Record
from harness.session.waits import Waits


class Refusals:
    """What could not be written in this process. The first is the one to tell of."""

    def __init__(self) -> None:
        self.sentence = ""

    @contextmanager
    def noted(self, path: Path) -> Iterator[None]:
        """Go on without what ``path`` refuses: take-down must not end for want of a note."""
        try:
            yield
        except OSError as refused:
            named = refused.filename or path
            self.note(f"cannot write {named}: {refused.strerror or refused}")
        except LedgerError as refused:
            self.note(f"cannot write {path}: {refused}")

    def note(self, sentence: str) -> None:
        """Keep the first."""
        self.sentence = self.sentence or sentence


class Shard:
    """A `Ledger` that is opened with its first line and given up with the first refusal."""

    def __init__(
        self,
        directory: Path,
        name: str,
        refusals: Refusals,
        told: Callable[[Record], None] | None = None,
    ) -> None:
        self._directory = directory
        self._name = name
        self._refusals = refusals
        self._told = told
        self._ledger: Ledger | None = None
        self._scenario = ""
        self._pool = ""
        self._waits = Waits(self._wait)

    def begin(self, scenario: str, *, pool: str, at: float) -> None:
        """As `Ledger.begin`."""
        self._pool = pool
        self._write(lambda to: to.begin(scenario, pool, at=at))

    @contextmanager
    def called(self, scenario: str) -> Iterator[None]:
        """What is waited for in here is of that scenario, not of its pool's bring-up or end."""
        self._waits.flush()
        self._scenario = scenario
        try:
            yield
        finally:
            self._waits.flush()
            self._scenario = ""

    def waited(self, what: str, since: float, until: float) -> None:
        """A wait of the lab's clock has ended, or a slice of one."""
        self._waits.heard(what, since, until)

    def fact(self, fact: Fact) -> None:
        """As `Ledger.fact`."""
        self._write(lambda to: to.fact(fact))

    def verdict(self, verdict: Verdict, *, scenario: str, pool: str, at: float) -> None:
        """As `Ledger.verdict`."""
        self._write(lambda to: to.verdict(verdict, scenario=scenario, pool=pool, at=at))

    def note(self, kind: str, text: str, *, at: float) -> None:
        """As `Ledger.note`."""
        self._write(lambda to: to.note(kind, text, at=at))

    def evidence(self, scenario: str, pool: str, **fields: Any) -> None:
        """As `Ledger.evidence`."""
        self._write(lambda to: to.evidence(scenario, pool, **fields))

    def end(self, scenario: str, outcome: str, *, pool: str, at: float | None = None) -> None:
        """As `Ledger.end`."""
        self._write(lambda to: to.end(scenario, outcome, pool=pool, at=at))

    def close(self) -> None:
        """Close the file, if there is one."""
        self._waits.flush()
        if self._ledger is not None:
            self._ledger.close()

    def _wait(self, what: str, since: float, until: float) -> None:
        def write(to: Ledger) -> None:
            to.wait(what, scenario=self._scenario, pool=self._pool, since=since, until=until)

        self._put(write)

    def _write(self, write: Callable[[Ledger], object]) -> None:
        self._waits.flush()
        self._put(write)

    def _put(self, write: Callable[[Ledger], object]) -> None:
        if self._refusals.sentence:
            return  # a line after one that is cut could be read as its rest
        with self._refusals.noted(self._directory):
            if self._ledger is None:
                self._ledger = Ledger(self._directory, self._name, self._told)
            with self._refusals.noted(self._ledger.path):
                write(self._ledger)
