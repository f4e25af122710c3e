"""Which servers the cases ran against, and what is drawn from the real one."""

from __future__ import annotations

import pytest

from tests.conformance.clusters import Cluster
from tests.conformance.drawing import TABLE, Drawing, schemas, written


def test_the_server_says_its_version(cluster: Cluster) -> None:
    found = cluster.api.get("/version").made
    assert (found["major"], found["minor"]) == ("1", "33")
    assert found["gitVersion"].startswith("v1.33.")


# Also what tells, by being skipped, that there was no real server to hold the twin against.
@pytest.mark.parametrize("cluster", ["real"], indirect=True, scope="session")
def test_the_twin_s_table_of_fields_is_the_real_server_s(cluster: Cluster) -> None:
    assert TABLE.read_text() == written(Drawing(schemas(cluster.api)).table())
