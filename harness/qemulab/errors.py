"""What can keep the mini-lab from being built or run, in one sentence each."""

from __future__ import annotations

from harness.reach.errors import LabError


class Unfit(LabError):
    """This machine cannot hold the mini-lab as it stands; ``do`` says what would change that."""
