"""The ledger's shard of one pool, as a run writes it: a disk that refuses is told, once."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from allure_commons import hookimpl

from harness.judge.verdict import Verdict
from harness.report.ledger import Ledger
from harness.report.records import LedgerError


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

    def __init__(self, directory: Path, name: str, refusals: Refusals) -> None:
        self._directory = directory
        self._name = name
        self._refusals = refusals
        self._ledger: Ledger | None = None

    def verdict(self, verdict: Verdict, *, scenario: str, pool: str, at: float) -> None:
        """As `Ledger.verdict`."""
        self._write(lambda to: to.verdict(verdict, scenario=scenario, pool=pool, at=at))

    def note(self, kind: str, text: str, *, at: float) -> None:
        """As `Ledger.note`."""
        self._write(lambda to: to.note(kind, text, at=at))

    def end(self, scenario: str, outcome: str, *, pool: str) -> None:
        """As `Ledger.end`."""
        self._write(lambda to: to.end(scenario, outcome, pool=pool))

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._ledger is not None:
            self._ledger.close()

    def _write(self, write: Callable[[Ledger], None]) -> None:
        if self._refusals.sentence:
            return  # a line after one that is cut could be read as its rest
        with self._refusals.noted(self._directory):
            if self._ledger is None:
                self._ledger = Ledger(self._directory, self._name)
            with self._refusals.noted(self._ledger.path):
                write(self._ledger)


class AllureWrites:
    """Stands around Allure's own writing of results, which knows no disk that is full."""

    def __init__(self, directory: Path, refusals: Refusals) -> None:
        self._directory = directory
        self._refusals = refusals

    @hookimpl(wrapper=True)
    def report_result(self) -> Generator[None, Any, Any]:
        """A test's result."""
        return (yield from self._written())

    @hookimpl(wrapper=True)
    def report_container(self) -> Generator[None, Any, Any]:
        """What fixtures did."""
        return (yield from self._written())

    @hookimpl(wrapper=True)
    def report_attached_data(self) -> Generator[None, Any, Any]:
        """A text beside a result."""
        return (yield from self._written())

    def _written(self) -> Generator[None, Any, Any]:
        result = None
        with self._refusals.noted(self._directory):
            result = yield
        return result
