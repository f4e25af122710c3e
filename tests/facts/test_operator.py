from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.containers import Variable
from harness.facts.fact import Unread
from harness.facts.operator import (
    Addons,
    OperatorPolicy,
    OperatorValues,
    Said,
    addons,
    operator_policy,
    operator_values,
)


def release(values: Any, **spec: Any) -> dict[str, Any]:
    return {
        "kind": "HelmRelease",
        "metadata": {"name": "kubernetes-lab-gpu-operator", "namespace": "tenant-test"},
        "spec": {"values": values, **spec},
    }


def values(written: Any, **spec: Any) -> OperatorValues | Unread:
    read = release({"gpu-operator": written} if written is not None else {}, **spec)
    return operator_values(read, at=1.0, cluster="management")


def asked(written: Any, *, hami_release: bool = False) -> Addons | Unread:
    return addons(release(written), hami_release=hami_release, at=1.0, cluster="management")


WRITTEN: dict[str, Any] = {
    "driver": {"enabled": False},
    "toolkit": {"enabled": False},
    "validator": {"driver": {"env": [{"name": "DRIVER_ROOT", "value": "/"}]}},
    "devicePlugin": {"enabled": True, "env": [{"name": "DEVICE_ID_STRATEGY", "value": "uuid"}]},
}


def test_what_is_rendered() -> None:
    found = values(WRITTEN)
    assert isinstance(found, OperatorValues)
    assert found.release == "kubernetes-lab-gpu-operator"
    assert (found.driver_enabled, found.toolkit_enabled, found.plugin_enabled) == (
        False,
        False,
        True,
    )
    assert found.validator_env == (Variable("DRIVER_ROOT", "/"),)
    assert found.plugin_env == (Variable("DEVICE_ID_STRATEGY", "uuid"),)
    assert found.values_from == ()
    assert found.origin.source == "management HelmRelease tenant-test/kubernetes-lab-gpu-operator"


@pytest.mark.parametrize("written", [None, {}])
def test_what_is_absent_is_absent(written: Any) -> None:
    found = values(written)
    assert isinstance(found, OperatorValues)
    assert (found.driver_enabled, found.plugin_enabled) == (None, None)
    assert (found.validator_env, found.plugin_env) == (None, None)


def test_an_empty_list_is_not_an_absent_one() -> None:
    found = values({"devicePlugin": {"env": []}})
    assert isinstance(found, OperatorValues)
    assert (found.plugin_env, found.validator_env) == ((), None)


def test_values_without_any() -> None:
    found = operator_values({"spec": {}}, at=1.0, cluster="management")
    assert isinstance(found, OperatorValues)
    assert found.driver_enabled is None


def test_values_from_elsewhere_are_named() -> None:
    found = values(WRITTEN, valuesFrom=[{"kind": "Secret", "name": "more"}])
    assert isinstance(found, OperatorValues)
    assert found.values_from == ("Secret more",)


@pytest.mark.parametrize(
    ("written", "quoted"),
    [
        ("text", "no mapping: \"'text'\""),
        ({"driver": {"enabled": "false"}}, "driver.enabled is neither true nor false"),
        ({"toolkit": {"enabled": 0}}, "toolkit.enabled is neither"),
        ({"devicePlugin": {"enabled": "no"}}, "devicePlugin.enabled is neither"),
        ({"devicePlugin": {"env": {"A": "1"}}}, "devicePlugin.env is no list"),
        ({"validator": {"driver": {"env": ["A=1"]}}}, "names no variable"),
    ],
)
def test_what_is_not_of_its_shape_is_unread(written: Any, quoted: str) -> None:
    found = values(written)
    assert isinstance(found, Unread)
    assert quoted in found.reason


def test_what_the_cluster_asks_of_its_addons() -> None:
    found = asked({"addons": {"gpuOperator": {"enabled": True}, "hami": {"enabled": False}}})
    assert isinstance(found, Addons)
    assert (found.operator, found.hami, found.override, found.hami_on) == (True, False, (), False)


@pytest.mark.parametrize(
    ("written", "release_too", "on"),
    [
        ({"addons": {"hami": {"enabled": True}}}, False, True),
        ({"addons": {"hami": {"enabled": False}}}, True, True),
        ({"addons": {"hami": {"enabled": False}}}, False, False),
        ({}, True, True),
        ({}, False, False),
    ],
)
def test_hami_is_on_where_either_says_so(written: Any, *, release_too: bool, on: bool) -> None:
    found = asked(written, hami_release=release_too)
    assert isinstance(found, Addons)
    assert found.hami_on is on


@pytest.mark.parametrize(
    ("override", "keys"),
    [
        (None, ()),
        ({}, ()),
        ({"devicePlugin": {"env": []}}, ("devicePlugin.env",)),
        ({"devicePlugin": {}}, ("devicePlugin",)),
        (
            {"gpu-operator": {"toolkit": {"enabled": True}}, "a": None},
            ("a", "gpu-operator.toolkit.enabled"),
        ),
    ],
)
def test_the_keys_of_an_override(override: Any, keys: tuple[str, ...]) -> None:
    found = asked({"addons": {"gpuOperator": {"valuesOverride": override}}})
    assert isinstance(found, Addons)
    assert found.override == keys


@pytest.mark.parametrize(
    ("written", "quoted"),
    [
        (None, "no mapping"),
        ([], "no mapping"),
        ({"addons": {"gpuOperator": {"valuesOverride": "driver: {}"}}}, "no mapping"),
        ({"addons": {"hami": {"enabled": "true"}}}, "addons.hami.enabled is neither"),
    ],
)
def test_addons_that_are_not_of_their_shape_are_unread(written: Any, quoted: str) -> None:
    found = asked(written)
    assert isinstance(found, Unread)
    assert quoted in found.reason


def test_a_policy() -> None:
    conditions = [{"type": "Ready", "status": "True", "reason": "NoGPUNodes", "message": "m"}]
    found = operator_policy(
        {
            "metadata": {"name": "cluster-policy"},
            "status": {"state": "ready", "conditions": conditions},
        },
        at=1.0,
        cluster="tenant lab",
    )
    assert isinstance(found, OperatorPolicy)
    assert found.conditions == (Said("Ready", "True", "NoGPUNodes", "m"),)
    assert str(found) == "ClusterPolicy cluster-policy is ready (Ready=True NoGPUNodes)"


def test_a_policy_that_says_nothing() -> None:
    found = operator_policy({}, at=1.0, cluster="tenant lab")
    assert str(found).endswith("is without a state (no condition)")


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
keyed = st.fixed_dictionaries(
    {},
    optional={
        "gpu-operator": st.fixed_dictionaries(
            {}, optional={"driver": json_like, "devicePlugin": json_like, "validator": json_like}
        ),
        "addons": st.fixed_dictionaries({}, optional={"gpuOperator": json_like}),
    },
)


@given(keyed | json_like)
def test_any_values_are_read_or_unread(written: Any) -> None:
    read = release(written)
    assert isinstance(operator_values(read, at=1.0, cluster="m"), OperatorValues | Unread)
    assert isinstance(addons(read, hami_release=False, at=1.0, cluster="m"), Addons | Unread)
