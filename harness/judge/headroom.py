"""The claim that there was room for a pool at its peak, with the sum that a person can check."""

from __future__ import annotations

from harness.facts.headroom import Headroom
from harness.facts.reckoning import reckon
from harness.judge.verdict import Outcome, Verdict

CLAIM = "headroom"
_UNMEASURED = "nothing was measured: the lab says nothing of LINSTOR's controller"
_OUTCOMES = {True: Outcome.HOLDS, False: Outcome.BROKEN, None: Outcome.UNKNOWN}


def headroom(measured: Headroom | None, subject: str) -> Verdict:
    """headroom: the storage pool and the tenant's quota have room for the pool at its peak.

    ``measured`` before the pool was asked for, None where LINSTOR could not be asked. Broken where
    the peak is more than is free, unknown where a figure is missing: what a node that is not ONLINE
    has free, or how large a golden is.
    """
    if measured is None:
        return Verdict(CLAIM, subject, Outcome.UNKNOWN, _UNMEASURED)
    reckoning = reckon(measured)
    return Verdict(CLAIM, subject, _OUTCOMES[reckoning.fits], reckoning.because, measured.facts)
