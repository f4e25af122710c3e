"""Which rule strikes which request, and how often."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.twin.apiserver.chaos import KINDS, REFUSALS, VERBS, WHOLE_SERVER, Chaos, Rule

PODS = "/api/v1/namespaces/default/pods"


def struck(chaos: Chaos, *requests: tuple[str, str]) -> list[str]:
    """What strikes each request; "" for nothing."""
    rules = [chaos.strike(verb, path) for verb, path in requests]
    return [rule.what if rule else "" for rule in rules]


def unleashed(*rules: Rule) -> Chaos:
    chaos = Chaos()
    for rule in rules:
        chaos.add(rule)
    return chaos


@pytest.mark.parametrize(
    ("glob", "path", "what"),
    [
        ("*", "/version", "timeout"),
        ("*/pods", PODS, "timeout"),
        ("*/pods", f"{PODS}/web", ""),
        ("/api/v1/*", PODS, "timeout"),
        ("/api/v1/namespaces/*/pods*", f"{PODS}/web", "timeout"),
        ("/API/*", PODS, ""),
        ("/api/v?/*", PODS, "timeout"),
        ("/api/v[12]/*", PODS, "timeout"),
        ("pods", PODS, ""),
    ],
)
def test_a_path_is_a_glob(glob: str, path: str, what: str) -> None:
    chaos = unleashed(Rule("timeout", path=glob))
    assert chaos.concerns("get", path) is bool(what)
    assert struck(chaos, ("get", path)) == [what]


def test_skip_then_times_then_spent() -> None:
    chaos = unleashed(Rule("throttle", verb="list", times=2, skip=1))
    requests = [("list", PODS), ("get", PODS), ("list", PODS), ("list", PODS), ("list", PODS)]
    assert struck(chaos, *requests) == ["", "", "throttle", "throttle", ""]
    (kept,) = chaos.in_force
    assert (kept.met, kept.struck, kept.spent) == (3, 2, True)
    assert not chaos.armed
    assert not chaos.concerns("list", PODS)
    assert chaos.rules == (kept.rule,)


def test_rules_are_asked_in_turn_and_one_strikes() -> None:
    chaos = unleashed(Rule("gone", times=1), Rule("throttle", times=2), Rule("timeout", skip=1))
    lists = [("list", PODS)] * 5
    assert struck(chaos, *lists) == ["gone", "throttle", "throttle", "", "timeout"]


def test_no_rules_no_harm_and_clear_takes_all_back() -> None:
    chaos = Chaos()
    assert not chaos.armed
    assert chaos.strike("get", PODS) is None
    chaos.add(Rule("unavailable"))
    assert chaos.armed
    chaos.clear()
    assert (chaos.armed, chaos.rules, chaos.strike("get", PODS)) == (False, (), None)


@pytest.mark.parametrize("what", KINDS)
def test_a_kind_strikes_only_what_it_can_harm(what: str) -> None:
    chaos = unleashed(Rule(what, seconds=1))
    harmed = {verb for verb in VERBS if chaos.strike(verb, PODS)}
    expected = {
        **{whole: set() for whole in WHOLE_SERVER},
        "cut": {"watch", "exec"},
        "silent": {"watch", "exec"},
        "gone": {"watch", "list"},
        "garbled": {*VERBS} - {"exec", "connect"},
    }
    assert harmed == expected.get(what, {*VERBS})


def test_what_strikes_the_whole_server_is_told_at_once_and_taken_back() -> None:
    told: list[Rule | None] = []
    chaos = Chaos(told.append)
    chaos.add(Rule("unavailable"))
    assert told == []
    restart = Rule("restart")
    chaos.add(restart)
    assert told == [restart]
    assert [kept.struck for kept in chaos.in_force] == [0, 1]
    chaos.clear()
    assert told == [restart, None]


def test_a_server_wide_rule_alone_leaves_requests_on_the_quick_way() -> None:
    assert not unleashed(Rule("skew", seconds=5)).armed


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"what": "gon"}, "no chaos 'gon'; did you mean 'gone'?"),
        ({"what": "zzz"}, "no chaos 'zzz': choose one of cut, drop"),
        ({"what": "cut", "verb": "wach"}, "no verb 'wach'; did you mean 'watch'?"),
        ({"what": "cut", "verb": "list"}, "cut never strikes list, only watch and exec"),
        ({"what": "garbled", "verb": "exec"}, "garbled never strikes exec"),
        ({"what": "cut", "times": -1}, "times is -1"),
        ({"what": "cut", "skip": -1}, "skip is -1"),
        ({"what": "cut", "after": -1}, "after is -1"),
        ({"what": "slow"}, "slow needs seconds"),
        ({"what": "skew"}, "skew needs seconds"),
        ({"what": "slow", "seconds": -1}, "seconds is -1"),
        ({"what": "throttle", "seconds": float("nan")}, "seconds is nan"),
        ({"what": "skew", "seconds": float("-inf")}, "seconds is -inf"),
        ({"what": "skew", "seconds": 1e12}, "seconds is 1e+12"),
    ],
)
def test_a_rule_that_could_never_strike_is_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match="^" + said.replace("?", r"\?").replace("+", r"\+")):
        Rule(**fields)  # type: ignore[arg-type]  # what a user may send


@pytest.mark.parametrize(("seconds", "header"), [(0, 0), (0.1, 1), (1, 1), (1.5, 2), (30, 30)])
def test_retry_after_is_in_whole_seconds(seconds: float, header: int) -> None:
    assert Rule("throttle", seconds=seconds).retry_after == header


RULES = st.builds(
    Rule,
    what=st.sampled_from([*REFUSALS[1:], "drop", "half-open"]),
    verb=st.sampled_from(["*", "get", "list", "watch"]),
    path=st.sampled_from(["*", "*/pods", "/version"]),
    times=st.integers(0, 3),
    skip=st.integers(0, 3),
)
REQUESTS = st.tuples(
    st.sampled_from(["get", "list", "watch", "patch"]), st.sampled_from([PODS, "/version", "/api"])
)


@given(st.lists(RULES, max_size=4), st.lists(REQUESTS, max_size=30))
def test_however_many_rules_the_counts_add_up(
    rules: list[Rule], requests: list[tuple[str, str]]
) -> None:
    chaos = unleashed(*rules)
    hits = 0
    for verb, path in requests:
        concerned = chaos.concerns(verb, path)
        before = [kept.met for kept in chaos.in_force]
        rule = chaos.strike(verb, path)
        met = [kept.met - was for kept, was in zip(chaos.in_force, before, strict=True)]
        assert (sum(met) > 0) is concerned
        assert rule is None or rule.matches(verb, path)
        hits += rule is not None
    assert hits == sum(kept.struck for kept in chaos.in_force)
    for kept in chaos.in_force:
        assert kept.struck == min(max(kept.met - kept.rule.skip, 0), kept.rule.times or kept.met)
    able = any(not kept.spent for kept in chaos.in_force)
    assert chaos.armed is able


@given(st.lists(REQUESTS, max_size=20))
def test_the_same_requests_meet_the_same_chaos(requests: list[tuple[str, str]]) -> None:
    rules = (Rule("drop", verb="get", times=2, skip=1), Rule("throttle", path="*/pods"))
    assert struck(unleashed(*rules), *requests) == struck(unleashed(*rules), *requests)
