"""Garbage collection by ownerReferences: background, foreground and orphaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from harness.twin.apiserver.records import Kind, Ref
from harness.twin.apiserver.resources import Obj

FOREGROUND: Final = "foregroundDeletion"  # the finalizer of an owner that waits for dependents
ORPHAN: Final = "orphan"  # the finalizer of an owner whose dependents are to be let go


class Keeper(Protocol):
    """What the collector asks of the store."""

    def look(self, ref: Ref) -> Obj | None:
        """The object now, or None."""
        ...

    def discard(self, ref: Ref, propagation: str) -> None:
        """Delete an object; one that may not be deleted stays."""
        ...

    def rewrite(self, ref: Ref, metadata: Obj) -> None:
        """Give an object other metadata."""
        ...

    def serves(self, kind: Kind) -> bool:
        """Whether a kind is known, so that the absence of an owner can be told."""
        ...


class Owners:
    """Which UID is where, and who depends on it."""

    def __init__(self) -> None:
        self._uids: dict[str, Ref] = {}
        self._dependents: dict[str, set[Ref]] = {}

    def note(self, ref: Ref, old: Obj | None, new: Obj | None) -> None:
        """Take notice of an object that came, changed or went (``new`` None)."""
        if old is None and new is not None:
            self._uids[new["metadata"]["uid"]] = ref
        if new is None and old is not None:
            del self._uids[old["metadata"]["uid"]]
        before, after = owner_references(old), owner_references(new)
        if before is not after:
            self._move(ref, {o["uid"] for o in before}, {o["uid"] for o in after})

    def _move(self, ref: Ref, before: set[str], after: set[str]) -> None:
        for uid in before - after:
            self._dependents[uid].discard(ref)
            if not self._dependents[uid]:
                del self._dependents[uid]
        for uid in after - before:
            self._dependents.setdefault(uid, set()).add(ref)

    def holder(self, uid: str) -> Ref | None:
        """Where the object with a UID is, or None."""
        return self._uids.get(uid)

    def dependents(self, uid: str) -> list[Ref]:
        """Who names a UID as owner, in order."""
        return sorted(self._dependents.get(uid, ()))


_NO_OWNERS: Final[list[Obj]] = []


def owner_references(obj: Obj | None) -> list[Obj]:
    """The owner references of an object, [] where there are none."""
    return (obj["metadata"].get("ownerReferences") or _NO_OWNERS) if obj else _NO_OWNERS


class Collector:
    """Deletes what has lost its owners and lets go of owners that waited."""

    def __init__(self, owners: Owners, keeper: Keeper) -> None:
        self._owners = owners
        self._keeper = keeper

    def settle(self, ref: Ref) -> None:
        """Delete an object none of whose owners stays; drop references to those that are gone.

        As in the API, an owner in another namespace counts as gone, while an owner of a kind that
        is not served, or one in a namespace named by a cluster-wide object, settles nothing.
        """
        obj = self._keeper.look(ref)
        if obj is None:
            return
        references = owner_references(obj)
        solid = [owner for owner in references if self._is_solid(owner, ref)]
        if not references or len(solid) == len(references):
            return
        if solid:
            self._keeper.rewrite(ref, {**obj["metadata"], "ownerReferences": solid})
        elif not obj["metadata"].get("deletionTimestamp"):
            waiting = any(self._waits(self._holding(owner)) for owner in references)
            deep = waiting and self._owners.dependents(obj["metadata"]["uid"])
            self._keeper.discard(ref, "Foreground" if deep else "Background")

    def owner_gone(self, uid: str) -> None:
        """See to the dependents of an object that is gone."""
        for ref in self._owners.dependents(uid):
            self.settle(ref)

    def dependent_gone(self, obj: Obj) -> None:
        """Let go of owners that waited for this object."""
        for owner in owner_references(obj):
            holder = self._owners.holder(owner["uid"])
            if holder is not None:
                self.let_go(holder)

    def let_go(self, ref: Ref) -> None:
        """Take the finalizer off an owner in foreground deletion that nothing blocks any more."""
        owner = self._keeper.look(ref)
        if owner is not None and self._waits(owner) and not self.blockers(owner):
            self._release(ref, owner, FOREGROUND)

    def _release(self, ref: Ref, owner: Obj, finalizer: str) -> None:
        rest = [name for name in owner["metadata"]["finalizers"] if name != finalizer]
        self._keeper.rewrite(ref, _with_list(owner["metadata"], "finalizers", rest))

    def blockers(self, owner: Obj) -> list[Ref]:
        """The dependents whose reference asks that the owner wait for them."""
        uid = owner["metadata"]["uid"]
        return [ref for ref in self._owners.dependents(uid) if self._blocks(ref, uid)]

    def begin(self, ref: Ref) -> None:
        """See to the dependents of an owner that is going away and waits for that."""
        owner = self._keeper.look(ref)
        if owner is None:
            return
        if ORPHAN in owner["metadata"].get("finalizers", ()):
            self._orphan(owner)
            self._release(ref, owner, ORPHAN)
        elif self._waits(owner):
            for blocker in self.blockers(owner):
                self.settle(blocker)
            self.let_go(ref)

    def _orphan(self, owner: Obj) -> None:
        """Take an owner out of its dependents' references."""
        uid = owner["metadata"]["uid"]
        for ref in self._owners.dependents(uid):
            self._edit_references(ref, lambda reference: reference["uid"] != uid)

    def _edit_references(self, ref: Ref, keep: Callable[[Obj], bool]) -> None:
        obj = self._keeper.look(ref)
        if obj is not None:
            rest = [reference for reference in owner_references(obj) if keep(reference)]
            self._keeper.rewrite(ref, _with_list(obj["metadata"], "ownerReferences", rest))

    def _is_solid(self, owner: Obj, dependent: Ref) -> bool:
        holder = self._owners.holder(owner["uid"])
        if holder is None:
            return not self._keeper.serves((owner["apiVersion"], owner["kind"]))
        if dependent[1][0] and holder[1][0] not in ("", dependent[1][0]):
            return False
        return not self._waits(self._keeper.look(holder))

    def _holding(self, owner: Obj) -> Obj | None:
        holder = self._owners.holder(owner["uid"])
        return self._keeper.look(holder) if holder else None

    def _waits(self, owner: Obj | None) -> bool:
        if owner is None:
            return False
        metadata = owner["metadata"]
        return bool(metadata.get("deletionTimestamp")) and FOREGROUND in (
            metadata.get("finalizers") or ()
        )

    def _blocks(self, ref: Ref, uid: str) -> bool:
        references = owner_references(self._keeper.look(ref))
        return any(r["uid"] == uid and r.get("blockOwnerDeletion") is True for r in references)


def _with_list(metadata: Obj, field: str, value: list[Any]) -> Obj:
    """Metadata with a list in place of another; an empty one leaves no field."""
    out = {key: item for key, item in metadata.items() if key != field}
    return {**out, field: value} if value else out
