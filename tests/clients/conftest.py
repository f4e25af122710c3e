"""Twins that run, and the kubectls to drive them with."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.driving import (
    COMPILED,
    TENANT,
    Binary,
    Kubectl,
    RunningTwin,
    ask_for_pool,
    binary_for,
    kubectls,
)

_numbers = itertools.count(1)
NONE = "no kubectl: put one on PATH, or name some in HIL_KUBECTL (':' between them)"


@pytest.fixture(scope="session", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Children compile the project's modules once, also where nothing may be left beside them."""
    COMPILED["PYTHONPYCACHEPREFIX"] = str(tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="session", params=kubectls() or [None], ids=lambda path: str(path))
def binary(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Binary:
    """Each kubectl there is to prove."""
    if request.param is None:
        pytest.skip(NONE)
    return binary_for(request.param, tmp_path_factory.mktemp("kubectl"))


@pytest.fixture(scope="session")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Binary:
    """The last kubectl named: journeys are about the lab, and one client drives them."""
    if not kubectls():
        pytest.skip(NONE)
    return binary_for(kubectls()[-1], tmp_path_factory.mktemp("kubectl"))


@pytest.fixture(scope="session")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTwin]:
    """A twin in which pool gpu-l40s is up. What a test makes in it, it makes under its own name."""
    twin = RunningTwin(tmp_path_factory.mktemp("twin") / "standing")
    try:
        ask_for_pool(twin)
        twin.advance(600)
        yield twin
    finally:
        twin.end()


@pytest.fixture
def lab(binary: Binary, standing: RunningTwin) -> Iterator[Kubectl]:
    """kubectl on the management cluster of the standing twin."""
    kubectl = binary.at(standing)
    yield kubectl
    kubectl.close()


@pytest.fixture
def tenant(binary: Binary, standing: RunningTwin) -> Iterator[Kubectl]:
    """kubectl on the tenant cluster of the standing twin."""
    kubectl = binary.at(standing, *TENANT)
    yield kubectl
    kubectl.close()


@pytest.fixture
def twin(tmp_path: Path) -> Iterator[Callable[..., RunningTwin]]:
    """Starts twins, each in a directory of its own; they end with the test."""
    running: list[RunningTwin] = []

    def start(*options: str, directory: str = "") -> RunningTwin:
        where = tmp_path / (directory or f"twin-{len(running)}")
        running.append(RunningTwin(where, *options))
        return running[-1]

    yield start
    for one in running:
        one.end()


@pytest.fixture
def unique() -> str:
    """A name that nothing else in the standing twin has."""
    return f"t{next(_numbers)}-{os.getpid()}"


@pytest.fixture
def namespace(lab: Kubectl, unique: str) -> str:
    """A namespace of the test's own on the management cluster."""
    lab("create", "namespace", unique)
    return unique
