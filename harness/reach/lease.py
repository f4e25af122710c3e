"""A pool belongs to one run at a time: a Kubernetes Lease that is renewed and that expires.

``coordination.k8s.io/v1`` Lease; its times are RFC 3339 with microseconds. Optimistic concurrency
(the resourceVersion in each write) decides between two runs that reach for it at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from harness.reach.errors import ApiRefused, LeaseHeld, LeaseLost

if TYPE_CHECKING:
    from harness.clock import Clock
    from harness.reach.kube import Kube

Obj = dict[str, Any]

API, KIND = "coordination.k8s.io/v1", "Lease"


@dataclass(frozen=True, slots=True)
class LeaseState:
    """What a Lease says: whose it is ("" for nobody's), since and till when in epoch seconds, None
    where it does not say.
    """

    namespace: str
    name: str
    holder: str
    since: float | None
    until: float | None
    renewed: float | None = None
    """When it was last renewed, or given back."""

    def held_after(self, at: float, now: float) -> bool:
        """Whether somebody held it later than ``at``, as far as it tells ``now``."""
        # a Lease's times are rounded to microseconds
        return self.live(now) or (self.renewed is not None and self.renewed - at > 1e-5)

    def live(self, now: float) -> bool:
        """Whether somebody holds it: one that does not say till when has not expired."""
        return bool(self.holder) and (self.until is None or now < self.until)


def lease_state(found: Obj) -> LeaseState:
    """Read a Lease."""
    spec, metadata = _spec(found), found.get("metadata") or {}
    return LeaseState(
        str(metadata.get("namespace", "")),
        str(metadata.get("name", "")),
        str(spec.get("holderIdentity") or ""),
        _epoch(spec.get("acquireTime")),
        _until(spec),
        _epoch(spec.get("renewTime")),
    )


class PoolLease:
    """The lease on one pool. ``duration`` is how long it lasts unrenewed, in whole seconds;
    ``notes`` are annotations that whoever holds it leaves on it.
    """

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        name: str,
        *,
        duration: int = 300,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        if duration < 3:
            raise ValueError(f"a lease of {duration} s cannot be renewed in time")
        self.namespace = namespace
        self.name = name
        self.duration = duration
        self.notes = dict(notes or {})
        self.holder = ""
        self._kube = kube
        self._transitions = 0
        self._renewed = 0.0
        self._clock: Clock | None = None

    def acquire(self, holder: str, clock: Clock) -> None:
        """Take the lease for ``holder`` (the run's id), from now on ``clock``.

        An expired or released one is taken over; one that ``holder`` already has is renewed.
        Raises LeaseHeld where another run has it or was quicker.
        """
        if not holder:
            raise ValueError("a lease needs a holder")
        now = clock.now()
        found = self._read()
        try:
            kept = self._take(found, holder, now)
        except ApiRefused as refused:
            if refused.reason not in ("AlreadyExists", "Conflict"):
                raise
            raise self._held(self._read() or {}, holder) from refused
        self.holder = holder
        self._clock = clock
        self._transitions = _spec(kept).get("leaseTransitions") or 0
        self._renewed = now

    def renew(self, clock: Clock) -> None:
        """Extend the lease from now. Raises LeaseLost where another run has taken it since."""
        if not self.holder:
            raise ValueError(f"lease {self.name} was not acquired")
        found = self._read()
        if found is None or not self._is_ours(found):
            raise self._lost(found)
        now = clock.now()
        self._write(found, {**_spec(found), "renewTime": micro_time(now)})
        self._renewed = now

    def renew_if_due(self, clock: Clock) -> bool:
        """Renew once a third of the duration has passed; whether it did."""
        if clock.now() - self._renewed < self.duration / 3:
            return False
        self.renew(clock)
        return True

    def release(self) -> bool:
        """Give the lease back; False where it was no longer ours. The object stays, as history:
        its time of renewal is then that of its release.
        """
        if not self.holder or self._clock is None:
            return False
        found = self._read()
        ours = found is not None and self._is_ours(found)
        if found is not None and ours:
            kept = {key: value for key, value in _spec(found).items() if key != "holderIdentity"}
            self._write(found, {**kept, "renewTime": micro_time(self._clock.now())})
        self.holder = ""
        return ours

    def _take(self, found: Obj | None, holder: str, now: float) -> Obj:
        if found is None:
            return self._kube.create(
                {
                    "apiVersion": API,
                    "kind": KIND,
                    "metadata": {
                        "name": self.name,
                        "namespace": self.namespace,
                        "labels": {"app.kubernetes.io/managed-by": "hil"},
                        **({"annotations": self.notes} if self.notes else {}),
                    },
                    "spec": self._claim(holder, now, 0),
                }
            )
        spec = _spec(found)
        transitions = int(spec.get("leaseTransitions") or 0)
        if spec.get("holderIdentity") == holder:
            since = spec.get("acquireTime") or micro_time(now)
            claim = self._claim(holder, now, transitions)
            return self._write(found, {**claim, "acquireTime": since})
        if spec.get("holderIdentity"):
            until = _until(spec)
            if until is None or now < until:
                raise self._held(found, holder)
        return self._write(found, self._claim(holder, now, transitions + 1))

    def _claim(self, holder: str, now: float, transitions: int) -> Obj:
        return {
            "holderIdentity": holder,
            "leaseDurationSeconds": self.duration,
            "acquireTime": micro_time(now),
            "renewTime": micro_time(now),
            "leaseTransitions": transitions,
        }

    def _read(self) -> Obj | None:
        return self._kube.get(API, KIND, self.namespace, self.name)

    def _write(self, found: Obj, spec: Obj) -> Obj:
        metadata = found.get("metadata") or {}
        if self.notes:
            noted = {**(metadata.get("annotations") or {}), **self.notes}
            metadata = {**metadata, "annotations": noted}
        return self._kube.replace({**found, "metadata": metadata, "spec": spec})

    def _is_ours(self, found: Obj) -> bool:
        # the count too: another run may have had it and gone again under the same name
        spec = _spec(found)
        same = int(spec.get("leaseTransitions") or 0) == self._transitions
        return spec.get("holderIdentity") == self.holder and same

    def _held(self, found: Obj, holder: str) -> LeaseHeld:
        spec = _spec(found)
        other = str(spec.get("holderIdentity") or "another run")
        since, until = _epoch(spec.get("acquireTime")), _until(spec)
        saw = (
            f"it held by {other} since {spec.get('acquireTime') or 'an unknown time'} "
            f"till {'a time that cannot be read' if until is None else micro_time(until)}"
        )
        do = f"wait till then, choose another pool, or end {other}"
        tried = f"lease pool {self.name} for {holder}"
        what = f"lease {self.name}"
        return LeaseHeld(tried, saw, do, holder=other, since=since, until=until, what=what)

    def _lost(self, found: Obj | None) -> LeaseLost:
        other = _spec(found).get("holderIdentity") if found else None
        saw = f"it held by {other}" if other else "it gone" if found is None else "it released"
        do = "treat what was seen of the pool since the last renewal as unknown"
        return LeaseLost(f"renew {self.holder}'s lease on pool {self.name}", saw, do)


def micro_time(at: float) -> str:
    """Epoch seconds as Kubernetes' MicroTime: ``2026-01-01T00:00:00.000000Z``."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _epoch(text: object) -> float | None:
    if not isinstance(text, str):
        return None
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return read.timestamp() if read.tzinfo else None


def _until(spec: Obj) -> float | None:
    """When a lease expires; None where it does not say, which is not the same as expired."""
    renewed, duration = _epoch(spec.get("renewTime")), spec.get("leaseDurationSeconds")
    if renewed is None or not isinstance(duration, int):
        return None
    return renewed + duration


def _spec(found: Obj) -> Obj:
    spec = found.get("spec")
    return spec if isinstance(spec, dict) else {}
