"""The result of the scenario that goes on, on disk after each of its records.

A process that is killed leaves it as interrupted; the scenario's end replaces it.
"""

from __future__ import annotations

from pathlib import Path

from harness.report.allure_build import Setting, result_of
from harness.report.allure_writer import write_result
from harness.report.records import Record
from harness.report.traces import Shard


class Checkpoint:
    """Follows one shard while it is written. Raises OSError when the disk refuses."""

    def __init__(self, results: Path, setting: Setting) -> None:
        self._results = results
        self._setting = setting
        self._shard = Shard()

    def heard(self, record: Record) -> None:
        """Take in a record that was just written."""
        trace = self._shard.take(record)
        # a fact says nothing by itself: the verdict that rests on it comes next
        if trace is not None and record.kind != "fact":
            write_result(self._results, result_of(trace, self._shard, self._setting))
