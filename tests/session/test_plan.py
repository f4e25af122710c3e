"""The plan, as workers leave it for the controller."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.session.plan import Lacking, Plan, Planned

names = st.text(min_size=1, max_size=8)
planned = st.builds(Planned, names, names, st.lists(names, max_size=3).map(tuple), names)
lacking = st.builds(Lacking, names, st.lists(names, max_size=3).map(tuple), names)


@given(plan=st.builds(Plan, st.lists(planned, max_size=4), st.lists(lacking, max_size=3)))
def test_it_is_read_as_it_was_written(tmp_path_factory: object, plan: Plan) -> None:
    path = Path(tmp_path_factory.mktemp("plan")) / "plan.json"  # type: ignore[attr-defined]
    plan.write(path)
    assert Plan.read(path) == plan
    assert list(path.parent.iterdir()) == [path]
