"""What to collect of a worker that does not join, cheapest first, without an agent of our own.

Which question each collector separates: uptime_and_diagnosis.md section 6 (Cozystack's own
hack/e2e-chainsaw/_lib/run-kubernetes.sh asks the same). Each is bounded in time and in bytes, none
writes, and none raises reach's LabError: what could not be asked is Unread, with the reason. Lists
of objects are in the form of `kubectl get -o json`, so that `hil diagnose --from` reads them.
"""

from __future__ import annotations

from harness.observe.joining_context import Collector, JoinContext
from harness.observe.joining_machine import SECOND
from harness.observe.joining_objects import FIRST

__all__ = ["COLLECTORS", "Collector", "JoinContext"]

COLLECTORS: tuple[Collector, ...] = (*FIRST, *SECOND)
"""All of them, cheapest first."""
