"""The history never lies: random writes, cuts, expiries and restores against what was written.

The reference knows nothing of watches: it is the list of all that was ever committed. Every write
carries a serial number, which no two commits share, however often the cluster is restored.
``HIL_EXAMPLES=1000`` tries longer than the default.
"""

from __future__ import annotations

import os
from itertools import pairwise

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from harness.reach.counts import AtLeast, Gone
from harness.reach.history import Compacted, Gap, Revision
from harness.reach.waited import Waited
from harness.reach.watch import Observatory
from tests.reach.scripted import (
    Brisk,
    Scripted,
    Stream,
    Written,
    cut_at_once,
    end_at_once,
    expire,
    kube,
    phase,
    refusal,
)

EXAMPLES = int(os.environ.get("HIL_EXAMPLES", "40"))
NAMES = st.sampled_from("abc")
PHASES = st.sampled_from(["Pending", "Running", "Failed"])
LEADER = refusal(500, "InternalError", "etcdserver: leader changed")
EXPIRED = refusal(401, "Unauthorized", "token has expired")
SILENCE = 0.05
STEP = 1000  # from version to version; the rest is how often the cluster was restored


def junk_once(stream: Stream) -> None:
    stream.raw(b'{"type": "ADDED"')
    stream.raw(b', "object": {}}\n')
    stream.end()


def silent(stream: Stream) -> None:
    stream.hold()


def replay(stream: Stream) -> None:
    """As a server that resumes too early: all of this past again, from its beginning."""
    for each in stream.server.since(0):
        stream.raw(each)
    stream.follow()


def partly(count: int, rest: bytes) -> object:
    """Tell so many lines, then a piece of one, then end."""

    def script(stream: Stream) -> None:
        lines = stream.server.since(stream.after)
        for each in lines[:count]:
            stream.raw(each)
        if len(lines) > count:
            stream.raw(lines[count][: len(lines[count]) // 2] + rest)
        stream.end()

    script.sort = "junk" if rest else ""  # type: ignore[attr-defined]  # a mark for the model
    return script


junk_once.sort = "junk"  # type: ignore[attr-defined]  # as above
silent.sort = "silent"  # type: ignore[attr-defined]  # as above


class WatchedHistory(RuleBasedStateMachine):
    """Every rule leaves the feed and the server running; `check` waits for them to meet."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Scripted()
        self.server.step, self.server.revision = STEP, 100 * STEP
        self.clock = Brisk()
        self.lossy = False
        self.strange: set[str] = set()  # sorts of streams since the feed was last known to be well
        self.serial = 0

    @initialize(
        names=st.sets(NAMES), page=st.integers(0, 2), limit=st.sampled_from([3000, 1 << 25])
    )
    def start(self, names: set[str], page: int, limit: int) -> None:
        for name in sorted(names):
            self.put(name)
        self.listed = len(self.server.written)
        self.lossy = limit < 10_000  # what is forgotten and told again has to be listed again
        self.server.page = page
        self.observatory = Observatory(self.clock, silence=SILENCE, history=limit)
        self.feed = self.observatory.feed(kube(self.server, self.clock), "v1", "Pod", "lab")

    def put(self, name: str, phase: str = "Pending") -> None:
        self.serial += 1
        self.server.write(name, phase, serial=self.serial)

    @rule(name=NAMES, phase=PHASES)
    def write(self, name: str, phase: str) -> None:
        self.put(name, phase)

    @rule(name=NAMES, phase=PHASES, between=NAMES)
    def write_between_pages(self, name: str, phase: str, between: str) -> None:
        self.server.between_pages = lambda: self.put(between, phase)
        self.put(name, phase)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if name in self.server.pods:
            self.server.delete(name)

    @rule(name=NAMES)
    def replace(self, name: str) -> None:
        self.delete(name)
        self.put(name)

    @rule(how=st.sampled_from(["end", "cut"]))
    def lose_the_stream(self, how: str) -> None:
        self.server.tell(how)

    @rule(
        script=st.one_of(
            st.sampled_from([cut_at_once, end_at_once, junk_once, silent, replay, LEADER, EXPIRED]),
            st.builds(partly, st.integers(0, 3), st.sampled_from([b"", b"\n"])),
        )
    )
    def the_next_stream_is_bad(self, script: object) -> None:
        # one at a time, since two 401 in a row are the end
        with self.server.changed:
            if not self.server.watches:
                self.server.watches.append(script)  # type: ignore[arg-type]  # scripts and answers
                sort = getattr(script, "sort", "")
                self.lossy |= bool(sort) and sort in self.strange  # twice is a gap by design
                self.strange.add(sort)
            self.server.tell("cut")

    @rule(again=st.booleans())
    def expire(self, again: bool) -> None:  # noqa: FBT001 - hypothesis names it
        with self.server.changed:
            self.server.compact()
            if again and not self.server.watches:
                self.server.watches.append(expire)
            self.server.tell("cut")
        self.lossy = True

    @rule(far=st.integers(1, 5))
    def restore(self, far: int) -> None:
        """To a version that the feed is past, and seen before anything new is written: a cluster
        that is restored and has overtaken us before we are back cannot be told from another."""
        self.meet()
        if len(self.server.log) <= far:
            return
        back = self.server.log[-1 - far].version
        with self.server.changed:
            self.server.floor = min(self.server.floor, back)
            self.server.restore(back)
            self.server.revision = back // STEP * STEP + self.server.restored
        self.lossy = True
        self.meet()

    @rule(by_http=st.booleans())
    def the_way_of_saying_410(self, by_http: bool) -> None:  # noqa: FBT001 - hypothesis names it
        self.server.expire_by_http = by_http

    @rule()
    def the_next_list_fails(self) -> None:
        with self.server.changed:
            self.server.lists.append(LEADER)

    @rule(name=NAMES, wanted=PHASES, named=st.booleans())
    def wait(self, name: str, wanted: str, named: bool) -> None:  # noqa: FBT001 - as above
        self.meet()
        waited = self.feed.outcome(
            phase(wanted, name), self.clock.deadline(0.001), "it", name=name if named else ""
        )
        self.the_outcome_is_true(waited, name, wanted)

    @rule(name=NAMES, wanted=PHASES)
    def count(self, name: str, wanted: str) -> None:
        self.meet()
        deadline = self.clock.deadline(0.001)
        now = {n: pod["status"]["phase"] for n, pod in self.server.pods.items()}
        enough = self.feed.standing(AtLeast(phase(wanted), 2), deadline, "two of them")
        really = sum(each == wanted for each in now.values()) >= 2
        assert (enough.kind == "met") == really, f"{enough}\n{now}\n{self}"
        gone = self.feed.standing(Gone(name), deadline, "it to be gone")
        assert (gone.kind == "met") == (name not in now)

    @rule()
    def check(self) -> None:
        self.meet()
        self.the_history_does_not_lie()

    def teardown(self) -> None:
        try:
            if hasattr(self, "feed"):
                self.check()
        finally:
            if hasattr(self, "feed"):
                self.observatory.close()
            self.server.close()

    def meet(self) -> None:
        self.server.between_pages = lambda: None
        with self.server.changed:
            # a version of another kind's: reached, it proves that the feed has heard since
            self.server.revision += STEP
            self.server.bookmark()

        def met() -> bool:
            return self.feed.position() == self.server.revision

        assert self.clock.wait(met, self.clock.deadline(10), "the feed"), (
            f"{self.feed.position()} of {self.server.revision}: {self.feed.cuts}"
        )
        self.strange.clear()

    # -- what was written --------------------------------------------------------------------

    def the_history_does_not_lie(self) -> None:
        history = self.feed.history
        log = {_serial(written): written for written in self.server.written}
        told = [r for r in history.revisions() if r.source == "event"]
        order = [self.place(revision) for revision in told]
        assert order == sorted(set(order)), f"out of order, or twice: {order}\n{self}"
        for entry in history.entries:
            if isinstance(entry, Revision):
                self.was_written(entry, log)
        missing = [w for w in self.server.written[self.listed :] if not self.was_told(w)]
        assert all(self.is_owned_up_to(written) for written in missing), (missing, history.gaps())
        assert self.lossy or self.slow() or not history.gaps(), history.gaps()
        summed: dict[object, Revision] = {}
        for revision in history.revisions():
            summed.pop(revision.key, None)
            if revision.change != "DELETED":
                summed[revision.key] = revision
        assert sorted(summed.values(), key=lambda r: r.key) == history.standing()
        assert self.feed.objects() == [self.server.pods[n] for n in sorted(self.server.pods)], str(
            self
        )

    def slow(self) -> bool:
        """Whether this machine made two streams in a row seem silent: a gap by design."""
        late = ["timed out" in cut for cut in self.feed.cuts]
        return any(both == (True, True) for both in pairwise(late))

    def __str__(self) -> str:
        entries = [
            (e.change, e.key[1], e.version, e.source) if isinstance(e, Revision) else e
            for e in self.feed.history.entries
        ]
        written = [(w.change, _name(w), w.version, w.past) for w in self.server.written]
        told = [*written, *entries, *self.server.seen, *self.feed.cuts]
        return "\n".join(map(str, told))

    def place(self, revision: Revision) -> int:
        """Where among all commits an event's was."""
        return next(
            n
            for n, written in enumerate(self.server.written)
            if (written.change, written.obj) == (revision.change, revision.obj)
        )

    def was_written(self, revision: Revision, log: dict[object, Written]) -> None:
        if revision.source == "event":
            return  # `place` found it
        found = log[_number(revision.obj), "there"]
        assert revision.obj["metadata"]["uid"] == _uid(found)
        assert revision.obj["status"] == found.obj["status"]

    def was_told(self, written: Written) -> bool:
        wanted = written.change == "DELETED", written.obj
        return any(
            (r.change == "DELETED", r.obj) == wanted and r.source != "probe"
            for r in self.feed.history.revisions()
        )

    def is_owned_up_to(self, written: Written) -> bool:
        """Whether the history says that this commit may be missing."""
        forgotten = self.feed.history.compacted
        if forgotten is not None and self.was_forgotten(forgotten, written):
            return True
        return any(self.in_gap(gap, written) for gap in self.feed.history.gaps())

    def was_forgotten(self, forgotten: Compacted, written: Written) -> bool:
        key = "lab", written.obj["metadata"]["name"]
        return forgotten.keys is None or key in forgotten.keys

    def in_gap(self, gap: Gap, written: Written) -> bool:
        past = written.past, written.version
        after, upto = _past(gap.after), _past(gap.upto)
        return after < past <= upto

    def the_outcome_is_true(self, waited: Waited, name: str, wanted: str) -> None:
        seen = self.server.written[self.listed :] + self.first()
        true = [w for w in seen if _name(w) == name and w.obj["status"]["phase"] == wanted]
        if waited.kind == "met":
            assert waited.revision is not None
            assert waited.revision.key == ("lab", name)
            assert waited.revision.obj["status"] in [w.obj["status"] for w in self.server.written]
            assert waited.revision.obj["status"]["phase"] == wanted
        elif waited.healthy:
            assert waited.kind == "timed-out"
            assert not true, "it was met"
        else:
            assert waited.kind == "gap"
            assert waited.gaps or waited.compacted

    def first(self) -> list[Written]:
        """What the first list showed."""
        last = {_name(w): w for w in self.server.written[: self.listed]}
        return list(last.values())


def _uid(written: Written) -> str:
    return str(written.obj["metadata"]["uid"])


def _name(written: Written) -> str:
    return str(written.obj["metadata"]["name"])


def _number(obj: dict[str, object]) -> object:
    status = obj["status"]
    assert isinstance(status, dict)
    return status["serial"]


def _serial(written: Written) -> tuple[object, str]:
    return _number(written.obj), "gone" if written.change == "DELETED" else "there"


def _past(version: str) -> tuple[int, int]:
    """(how often restored, version): the order in which commits came."""
    return int(version) % STEP, int(version)


def test_the_history_never_lies() -> None:
    run_state_machine_as_test(
        WatchedHistory,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=25,
            deadline=None,
            phases=[Phase.generate],  # the same steps may go another way the next time
            suppress_health_check=list(HealthCheck),
        ),
    )
