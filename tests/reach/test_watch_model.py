"""The history never lies: random writes, cuts and expiries against a log of what was written."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from harness.reach.history import Gap, Revision
from harness.reach.watch import Observatory
from tests.reach.scripted import (
    Brisk,
    Scripted,
    Stream,
    Written,
    cut_at_once,
    end_at_once,
    kube,
    refusal,
)

NAMES = st.sampled_from("abc")
PHASES = st.sampled_from(["Pending", "Running", "Failed"])
LEADER = refusal(500, "InternalError", "etcdserver: leader changed")
SILENCE = 0.05


def junk_once(stream: Stream) -> None:
    stream.raw(b'{"type": "ADDED"')
    stream.raw(b', "object": {}}\n')
    stream.end()


def silent(stream: Stream) -> None:
    stream.hold()


def partly(count: int, rest: bytes) -> object:
    """Tell so many lines, then a piece of one, then end."""

    def script(stream: Stream) -> None:
        lines = stream.server.since(stream.after)
        for each in lines[:count]:
            stream.raw(each)
        if len(lines) > count:
            stream.raw(lines[count][: len(lines[count]) // 2] + rest)
        stream.end()

    return script


class WatchedHistory(RuleBasedStateMachine):
    """Every rule leaves the feed and the server running; `check` waits for them to meet."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Scripted()
        self.clock = Brisk()
        self.observatory = Observatory(self.clock, silence=SILENCE)
        self.lossy = False

    @initialize(names=st.sets(NAMES))
    def start(self, names: set[str]) -> None:
        for name in sorted(names):
            self.server.write(name)
        self.listed = self.server.revision
        self.feed = self.observatory.feed(kube(self.server, self.clock), "v1", "Pod", "lab")

    @rule(name=NAMES, phase=PHASES)
    def write(self, name: str, phase: str) -> None:
        self.server.write(name, phase)

    @precondition(lambda self: self.server.pods)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.server.delete(data.draw(st.sampled_from(sorted(self.server.pods))))

    @precondition(lambda self: self.server.pods)
    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.server.pods)))
        self.server.delete(name)
        self.server.write(name)

    @rule(how=st.sampled_from(["end", "cut"]))
    def lose_the_stream(self, how: str) -> None:
        self.server.tell(how)

    @rule(
        script=st.one_of(
            st.sampled_from([cut_at_once, end_at_once, junk_once, silent, LEADER]),
            st.builds(partly, st.integers(0, 3), st.sampled_from([b"", b"\n"])),
        )
    )
    def the_next_stream_is_bad(self, script: object) -> None:
        # one of each sort at a time: two junk or silent ones in a row are a gap by design
        with self.server.changed:
            if not self.server.watches:
                self.server.watches.append(script)  # type: ignore[arg-type]  # scripts and answers
            self.server.tell("cut")

    @rule()
    def expire(self) -> None:
        with self.server.changed:
            self.server.compact()
            self.server.tell("cut")
        self.lossy = True

    @rule(by_http=st.booleans())
    def the_way_of_saying_410(self, by_http: bool) -> None:  # noqa: FBT001 - hypothesis names it
        self.server.expire_by_http = by_http

    @rule()
    def the_next_list_fails(self) -> None:
        with self.server.changed:
            self.server.lists.append(LEADER)

    @rule()
    def check(self) -> None:
        self.meet()
        self.the_history_does_not_lie()

    @invariant()
    def the_state_is_the_sum_of_the_history(self) -> None:
        if hasattr(self, "feed") and not self.feed.history.entries:
            assert self.feed.objects() == []

    def teardown(self) -> None:
        try:
            if hasattr(self, "feed"):
                self.check()
        finally:
            self.observatory.close()
            self.server.close()

    def meet(self) -> None:
        wanted = self.server.revision
        self.server.bookmark()
        met = self.clock.wait(
            lambda: self.feed.position() >= wanted, self.clock.deadline(10), "the feed"
        )
        assert met, f"{self.feed.position()} of {wanted}: {self.feed.cuts}"

    def the_history_does_not_lie(self) -> None:
        history = self.feed.history
        log = {written.version: written for written in self.server.log}
        events = [int(r.version) for r in history.revisions() if r.source == "event"]
        assert events == sorted(set(events)), "out of order, or twice"
        for entry in history.entries:
            if isinstance(entry, Revision):
                self.was_written(entry, log)
        missing = set(log) - {v for v in log if v <= self.listed} - self.told()
        assert all(self.in_a_gap(version) for version in missing), (missing, history.gaps())
        assert self.lossy or not history.gaps(), history.gaps()
        assert self.feed.objects() == [self.server.pods[n] for n in sorted(self.server.pods)]

    def was_written(self, revision: Revision, log: dict[int, Written]) -> None:
        written = log[int(revision.version)]
        if revision.source == "event":
            assert (revision.change, revision.obj) == (written.change, written.obj)
        elif revision.change == "DELETED":
            gone = [w for w in log.values() if w.change == "DELETED" and _uid(w) == revision.uid]
            assert gone, "nobody deleted it"
            assert all(self.in_a_gap(w.version) for w in gone)
        else:
            assert revision.obj["metadata"]["uid"] == _uid(written)
            assert revision.obj["status"] == written.obj["status"]

    def told(self) -> set[int]:
        return {int(r.version) for r in self.feed.history.revisions()}

    def in_a_gap(self, version: int) -> bool:
        return any(int(g.after) < version <= int(g.upto) for g in self.gaps())

    def gaps(self) -> list[Gap]:
        return self.feed.history.gaps()


def _uid(written: Written) -> str:
    return str(written.obj["metadata"]["uid"])


def test_the_history_never_lies() -> None:
    run_state_machine_as_test(
        WatchedHistory,
        settings=settings(
            max_examples=40,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
