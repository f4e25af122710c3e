from __future__ import annotations

from typing import Any

import pytest

from harness.facts.containers import Container, Variable, containers, host_paths, variable

SPEC: dict[str, Any] = {
    "initContainers": [{"name": "first", "image": "a"}],
    "containers": [
        {
            "name": "main",
            "image": "b",
            "env": [
                {"name": "A", "value": "1"},
                {"name": "A", "value": "2"},
                {"name": "B", "valueFrom": {"fieldRef": {}}},
                {"value": "nameless"},
            ],
            "securityContext": {"privileged": True},
            "volumeMounts": [{"name": "host"}, {"name": "empty"}, {"name": "unknown"}, {}],
        }
    ],
    "volumes": [
        {"name": "host", "hostPath": {"path": "/usr"}},
        {"name": "empty", "emptyDir": {}},
        {"name": "unused", "hostPath": {"path": "/run"}},
        {"name": "again", "hostPath": {"path": "/usr"}},
    ],
}


def test_the_containers_of_a_pod() -> None:
    first, main = containers(SPEC)
    assert first == Container("first", True, "a", (), False, ())
    assert (main.name, main.init, main.image, main.privileged) == ("main", False, "b", True)
    assert main.mounts == ("/usr",)
    assert main.env == (Variable("A", "1"), Variable("A", "2"), Variable("B", None))


def test_of_a_variable_given_twice_the_last_counts() -> None:
    assert containers(SPEC)[1].variables == {"A": "2", "B": None}


def test_host_paths_are_told_once_mounted_or_not() -> None:
    assert host_paths(SPEC) == ("/usr", "/run")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"name": "A", "value": "x"}, Variable("A", "x")),
        ({"name": "A"}, Variable("A", "")),
        ({"name": "A", "value": None}, Variable("A", "")),
        ({"name": "A", "value": True}, Variable("A", "true (no text)")),
        ({"name": "A", "value": 1}, Variable("A", "1 (no text)")),
        ({"name": "A", "valueFrom": {}}, Variable("A", None)),
    ],
)
def test_one_variable(entry: Any, expected: Variable) -> None:
    assert variable(entry) == expected


@pytest.mark.parametrize("entry", [{}, {"value": "x"}, "A=x", None, {"name": 1}])
def test_a_nameless_variable_is_an_error(entry: Any) -> None:
    with pytest.raises(ValueError, match="names no variable"):
        variable(entry)


@pytest.mark.parametrize("spec", [None, {}, {"containers": "x", "volumes": 1}, []])
def test_what_is_no_spec_has_nothing(spec: Any) -> None:
    assert (containers(spec), host_paths(spec)) == ((), ())


def test_in_words() -> None:
    assert (str(Variable("A", "1")), str(Variable("A", None))) == ("A=1", "A=(valueFrom)")
