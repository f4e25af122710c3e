"""The public face for scenarios: the types of the fixtures `pool` and `record`."""

from __future__ import annotations

from harness.bringup.machines import MachinePool, MachineWorker
from harness.bringup.pool import HeldPool as Pool
from harness.bringup.worker import Machine, Worker
from harness.session.recorder import Recorder as Record

__all__ = ["Machine", "MachinePool", "MachineWorker", "Pool", "Record", "Worker"]
