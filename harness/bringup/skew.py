"""Whether this machine's clock and the API server's are close enough for a Lease to be judged.

A Lease says till when it is held in the time of who renewed it, and is judged by the time of who
asks. A run renews it when a third has passed, and sees after that every 240 s at least
(`harness.bringup.pool.RENEW_EVERY`): of a living run's Lease as little as six minutes may be left.
Two machines that are each apart from the API server's clock by a sixth of a Lease are apart from
each other by a third, five minutes, and none takes over what the other still holds.

An answer's ``Date`` is in whole seconds (RFC 9110 section 5.6.7), and was written at some moment
between question and answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from harness.bringup.connect import ConnectedLab
from harness.clock import Clock
from harness.reach.errors import ApiRefused, LabError
from harness.reach.kube import Kube
from harness.reach.lease import micro_time

LEASE_SECONDS = 900
"""How long a Lease on a pool lasts unrenewed."""
FAR_APART = LEASE_SECONDS / 6
"""Seconds between two clocks from which no Lease can be judged."""
NTP = "let both follow one time source (NTP)"


@dataclass(frozen=True, slots=True)
class Skew:
    """An API server's time against this machine's, both in epoch seconds. ``apart`` is what of the
    difference cannot be the answer's way or its whole seconds: above zero, the server is ahead.
    """

    theirs: float
    ours: float
    apart: float

    @property
    def too_far(self) -> bool:
        """Whether no Lease can be judged by these clocks."""
        return abs(self.apart) > FAR_APART

    def __str__(self) -> str:
        if not self.apart:
            return "the API server's clock is this machine's, to the second"
        way = "ahead of" if self.apart > 0 else "behind"
        return f"the API server's clock is {abs(self.apart):.0f} s {way} this machine's"


def skew_of(date: str, asked: float, answered: float) -> Skew | None:
    """What the ``Date`` of an answer says, to a question put and answered at these epoch seconds;
    None where it is no date.
    """
    try:
        theirs = parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    ahead, behind = theirs - answered, asked - (theirs + 1)
    return Skew(theirs, answered, max(0.0, ahead) - max(0.0, behind))


def measured(kube: Kube, clock: Clock) -> Skew | str:
    """The skew of a cluster's API server; why it is not known, where it is not. Raises LabError
    where the server does not answer.
    """
    asked = clock.now()
    try:
        answer = kube.stream("/version", {}, read_timeout=kube.timeouts.read, verb="get")
    except ApiRefused as refused:
        return refused.saw
    try:
        date = str(answer.headers.get("Date", ""))
    finally:
        answer.close()
    return skew_of(date, asked, clock.now()) or f"it sends no Date that can be read: {date!r}"


def refuse_far_apart(lab: ConnectedLab) -> str:
    """How far a lab's clock is from this machine's, a sentence. Raises LabError, with both times,
    where it is too far.
    """
    found = measured(lab.management, lab.clock)
    if isinstance(found, Skew) and found.too_far:
        raise LabError(
            f"judge the leases of lab {lab.inventory.name} by this machine's clock",
            f"{found}: {micro_time(found.theirs)} there, {micro_time(found.ours)} here; "
            f"{FAR_APART:.0f} s are allowed, a sixth of a lease",
            NTP,
        )
    told = found if isinstance(found, Skew) else f"the API server's clock is not known: {found}"
    return f"{told}; {FAR_APART:.0f} s are allowed, a sixth of a lease"
