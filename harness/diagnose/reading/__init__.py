"""A folder of plain captures, such as people attach to bug reports, as a Case.

Told by content, not by name; bounded in memory; what was not used is said, with why.
"""

from __future__ import annotations

from harness.diagnose.reading.folder import describe_unused, read_folder
from harness.diagnose.reading.limits import DEFAULT, Limits
from harness.diagnose.reading.sources import NotReadable

__all__ = ["DEFAULT", "Limits", "NotReadable", "describe_unused", "read_folder"]
