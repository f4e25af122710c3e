"""Why a pool could not be handed over."""

from __future__ import annotations


class PoolNotReady(Exception):
    """No worker to look at. The message names the object that is stuck and why.

    It is no error of the harness: the claims that need a worker are unknown for this reason.
    """


class TakeDownIncomplete(Exception):
    """The pool was deleted and something of it is still there."""
