"""Server-side apply to lists and maps: by key, as a set, or with one owner."""

from __future__ import annotations

from typing import Any

from tests.conformance.client import Api, config, named, owned
from tests.conformance.conftest import Space
from tests.conformance.test_objects import custom
from tests.conformance.test_patches import deployment, images, pod_spec


def partial(name: str, *containers: Any, **spec: Any) -> Any:
    """What one of several managers says of a Deployment's containers."""
    body = {"template": {"spec": {"containers": list(containers)}}, **spec}
    return named("apps/v1", "Deployment", name, spec=body)


def test_containers_are_owned_by_name(api: Api, space: Space) -> None:
    api.apply(space.deployments("a"), {**deployment("a", {"name": "one", "image": "i:1"})})
    made = api.apply(
        space.deployments("a"), partial("a", {"name": "two", "image": "i:2"}), "beta"
    ).made
    assert images(made) == {"one": "i:1", "two": "i:2"}
    assert owned(made, "beta") == {
        "f:spec": {
            "f:template": {
                "f:spec": {
                    "f:containers": {'k:{"name":"two"}': {".": {}, "f:image": {}, "f:name": {}}}
                }
            }
        }
    }
    refused = api.apply(
        space.deployments("a"), partial("a", {"name": "one", "image": "i:9"}), "beta"
    ).refused
    assert refused.message == (
        'Apply failed with 1 conflict: conflict with "alpha": '
        '.spec.template.spec.containers[name="one"].image'
    )
    gone = api.apply(space.deployments("a"), named("apps/v1", "Deployment", "a"), "beta").made
    assert images(gone) == {"one": "i:1"}


def test_the_order_of_an_applied_list(api: Api, space: Space) -> None:
    api.apply(
        space.deployments("a"),
        deployment("a", *({"name": n, "image": "i:1"} for n in ("one", "two", "three"))),
    )
    swapped = deployment("a", *({"name": n, "image": "i:1"} for n in ("three", "one", "two")))
    made = api.apply(space.deployments("a"), swapped).made
    assert [c["name"] for c in pod_spec(made)["containers"]] == ["three", "one", "two"]


def test_environment_and_ports_are_owned_by_their_keys(api: Api, space: Space) -> None:
    container = {
        "name": "main",
        "image": "i:1",
        "env": [{"name": "A", "value": "1"}],
        "ports": [{"containerPort": 80, "protocol": "TCP", "name": "web"}],
    }
    api.apply(space.deployments("a"), deployment("a", container))
    more = {
        "name": "main",
        "env": [{"name": "B", "value": "1"}],
        "ports": [{"containerPort": 80, "protocol": "UDP", "name": "dns"}],
    }
    made = api.apply(space.deployments("a"), partial("a", more), "beta").made
    (main,) = pod_spec(made)["containers"]
    assert [e["name"] for e in main["env"]] == ["A", "B"]
    assert [(p["containerPort"], p["protocol"]) for p in main["ports"]] == [
        (80, "TCP"),
        (80, "UDP"),
    ]
    theirs = owned(made, "beta")["f:spec"]["f:template"]["f:spec"]["f:containers"]
    keys = theirs['k:{"name":"main"}']
    assert set(keys["f:env"]) == {'k:{"name":"B"}'}
    assert set(keys["f:ports"]) == {'k:{"containerPort":80,"protocol":"UDP"}'}


def test_the_ports_of_a_service_are_keyed_by_number_and_protocol(api: Api, space: Space) -> None:
    def service(*ports: Any) -> Any:
        return named("v1", "Service", "a", spec={"ports": list(ports)})

    api.apply(space.services("a"), service({"name": "dns", "port": 53, "protocol": "UDP"}))
    made = api.apply(
        space.services("a"), service({"name": "dns-tcp", "port": 53, "protocol": "TCP"}), "beta"
    ).made
    assert [p["name"] for p in made["spec"]["ports"]] == ["dns", "dns-tcp"]


def test_an_atomic_list_has_one_owner(api: Api, space: Space) -> None:
    api.apply(space.deployments("a"), deployment("a", {"name": "m", "image": "i", "args": ["1"]}))
    other = partial("a", {"name": "m", "args": ["2"]})
    refused = api.apply(space.deployments("a"), other, "beta").refused
    assert refused.message == (
        'Apply failed with 1 conflict: conflict with "alpha": '
        '.spec.template.spec.containers[name="m"].args'
    )
    made = api.apply(space.deployments("a"), other, "beta", force="true").made
    assert pod_spec(made)["containers"][0]["args"] == ["2"]


def test_finalizers_are_a_set_of_which_each_owns_its_own(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", finalizers=["example.org/a"]))
    made = api.apply(space.configs("a"), config("a", finalizers=["example.org/b"]), "beta").made
    assert made["metadata"]["finalizers"] == ["example.org/a", "example.org/b"]
    assert owned(made, "beta") == {"f:metadata": {"f:finalizers": {'v:"example.org/b"': {}}}}
    made = api.apply(space.configs("a"), config("a")).made
    assert made["metadata"]["finalizers"] == ["example.org/b"]


def test_an_item_named_twice_is_refused(api: Api, space: Space) -> None:
    body = deployment("a", {"name": "m", "image": "i:1"}, {"name": "m", "image": "i:2"})
    refused = api.apply(space.deployments("a"), body).refused
    assert refused.code == 500
    assert refused.message == (
        "failed to create typed patch object (/a; apps/v1, Kind=Deployment): "
        '.spec.template.spec.containers: duplicate entries for key [name="m"]'
    )


def test_lists_of_a_custom_kind_without_schema_are_atomic(api: Api, space: Space) -> None:
    api.apply(space.customs("a"), custom("a", spec={"list": [{"name": "x"}]}))
    refused = api.apply(
        space.customs("a"), custom("a", spec={"list": [{"name": "y"}]}), "beta"
    ).refused
    assert refused.message == 'Apply failed with 1 conflict: conflict with "alpha": .spec.list'


def test_maps_of_a_custom_kind_are_owned_by_leaf(api: Api, space: Space) -> None:
    api.apply(space.customs("a"), custom("a", spec={"deep": {"x": 1}}))
    made = api.apply(space.customs("a"), custom("a", spec={"deep": {"y": 2}}), "beta").made
    assert made["spec"] == {"deep": {"x": 1, "y": 2}}
    assert owned(made, "beta") == {"f:spec": {"f:deep": {"f:y": {}}}}


def test_an_atomic_map_has_one_owner(api: Api, space: Space) -> None:
    def service(**selector: str) -> Any:
        spec = {"selector": selector, "ports": [{"port": 80, "protocol": "TCP"}]}
        return named("v1", "Service", "a", spec=spec)

    api.apply(space.services("a"), service(app="a"))
    refused = api.apply(space.services("a"), service(tier="b"), "beta").refused
    assert refused.message == 'Apply failed with 1 conflict: conflict with "alpha": .spec.selector'
    made = api.apply(space.services("a"), service(tier="b"), "beta", force="true").made
    assert made["spec"]["selector"] == {"tier": "b"}
