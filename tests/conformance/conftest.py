"""The cluster that each case runs against, twice: the twin's, and a real one where there is one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.conformance.client import Api, named
from tests.conformance.clusters import CUSTOM, Cluster, assets, path, real, twin

_numbers = itertools.count(1)


@pytest.fixture(scope="session", params=["twin", "real"] if assets() else ["twin"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    side = twin() if request.param == "twin" else real(tmp_path_factory.mktemp("real"))
    yield side
    side.close()


@pytest.fixture
def api(cluster: Cluster) -> Api:
    return cluster.api


@dataclass(frozen=True)
class Space:
    """A namespace of one case's own, and the paths in it."""

    name: str

    def at(self, group_version: str, plural: str, name: str = "") -> str:
        return path(group_version, plural, self.name, name)

    def configs(self, name: str = "") -> str:
        return self.at("v1", "configmaps", name)

    def pods(self, name: str = "") -> str:
        return self.at("v1", "pods", name)

    def deployments(self, name: str = "") -> str:
        return self.at("apps/v1", "deployments", name)

    def services(self, name: str = "") -> str:
        return self.at("v1", "services", name)

    def customs(self, name: str = "") -> str:
        return self.at(f"{CUSTOM[0]}/{CUSTOM[1]}", CUSTOM[3], name)


@pytest.fixture
def space(api: Api) -> Space:
    name = f"case-{next(_numbers)}"
    assert api.post("/api/v1/namespaces", named("v1", "Namespace", name)).status == 201
    return Space(name)
