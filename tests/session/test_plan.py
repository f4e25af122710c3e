"""The plan, as workers leave it for the controller."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.session.plan import Lacking, Plan, Planned, in_order

names = st.text(min_size=1, max_size=8)
planned = st.builds(Planned, names, names, st.lists(names, max_size=3).map(tuple), names)
lacking = st.builds(Lacking, names, st.lists(names, max_size=3).map(tuple), names)


@given(plan=st.builds(Plan, st.lists(planned, max_size=4), st.lists(lacking, max_size=3)))
def test_it_is_read_as_it_was_written(tmp_path_factory: object, plan: Plan) -> None:
    path = Path(tmp_path_factory.mktemp("plan")) / "plan.json"  # type: ignore[attr-defined]
    plan.write(path)
    assert Plan.read(path) == plan
    assert list(path.parent.iterdir()) == [path]


@given(items=st.lists(planned, max_size=8))
def test_scenarios_of_one_pool_stay_together_and_in_order(items: list[Planned]) -> None:
    ordered = in_order(items)
    assert sorted(ordered, key=repr) == sorted(items, key=repr)
    met = list(dict.fromkeys(item.pool for item in items))
    assert list(dict.fromkeys(item.pool for item in ordered)) == met
    for pool in met:
        mine = [item for item in ordered if item.pool == pool]
        assert mine == [item for item in items if item.pool == pool]
        first = ordered.index(mine[0])
        assert ordered[first : first + len(mine)] == mine
