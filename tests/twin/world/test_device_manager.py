"""Devices handed out by a kubelet, whatever comes in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.twin.world.device_manager import DeviceManager
from harness.twin.world.gpu_devices import Allocation

GPU = "nvidia.com/gpu"


class Plugin:
    def __init__(self, count: int, resource: str = GPU) -> None:
        self.resource = resource
        self.ids = [f"GPU-{i}" for i in range(count)]

    def devices(self) -> tuple[str, ...]:
        return tuple(self.ids)

    def allocate(self, ids: Any) -> Allocation:
        return Allocation(cdi_devices=tuple(ids))


def pod(uid: str, *counts: int) -> Any:
    containers = [
        {"name": f"c{i}", "resources": {"limits": {GPU: str(count)}}}
        for i, count in enumerate(counts)
    ]
    return {"metadata": {"uid": uid}, "spec": {"containers": containers}}


def test_each_container_has_devices_of_its_own() -> None:
    manager = DeviceManager()
    manager.register(Plugin(3))
    one = pod("a", 1, 2)
    assert manager.admit(one, {GPU: "3"}, []) is None
    assert manager.allocation(one, "c0").cdi_devices == ("GPU-0",)
    assert manager.allocation(one, "c1").cdi_devices == ("GPU-1", "GPU-2")
    assert manager.allocation(one, "c2") == Allocation()


def test_a_pod_that_is_refused_holds_nothing() -> None:
    manager = DeviceManager()
    manager.register(Plugin(2))
    refusal = manager.admit(pod("a", 1, 2), {GPU: "2"}, [])
    assert refusal is not None and "Requested: 2, Available: 1" in refusal.message
    assert manager.admit(pod("b", 2), {GPU: "2"}, []) is None


def test_a_pod_that_asks_for_none_is_not_looked_at() -> None:
    manager = DeviceManager()
    manager.register(Plugin(0))
    assert manager.admit(pod("a"), {}, []) is None


def test_the_same_pod_keeps_its_devices_over_a_new_registration() -> None:
    manager = DeviceManager()
    manager.register(Plugin(2))
    one = pod("a", 1)
    manager.admit(one, {GPU: "2"}, [])
    before = manager.allocation(one, "c0")
    manager.register(Plugin(2))
    assert manager.admit(one, {GPU: "2"}, []) is None
    assert manager.allocation(one, "c0") == before
    empty = Plugin(2)
    empty.ids = ["GPU-7", "GPU-8"]
    manager.register(empty)
    refusal = manager.admit(one, {GPU: "2"}, [])
    assert refusal is not None and "no longer healthy" in refusal.message


def test_counts_follow_plugin_loss_and_reboot() -> None:
    manager = DeviceManager()
    assert manager.count(GPU) == (0, 0)
    manager.register(Plugin(2))
    assert manager.count(GPU) == (2, 2)
    assert manager.lose(GPU) and not manager.lose(GPU)
    assert manager.count(GPU) == (2, 0)
    manager.reboot()
    assert manager.count(GPU) == (0, 0)
    assert manager.admit(pod("a", 1), {GPU: "0"}, []) is not None
    manager.forget(GPU)
    assert manager.admit(pod("a", 1), {}, []) is None  # unknown again: it runs without


_STEPS = st.lists(
    st.tuples(st.sampled_from(["admit", "release", "lose", "plug", "reboot"]), st.integers(0, 4)),
    max_size=30,
)


@settings(deadline=None)
@given(_STEPS, st.integers(0, 4))
def test_no_device_is_ever_with_two_pods(steps: list[tuple[str, int]], size: int) -> None:
    manager, plugin = DeviceManager(), Plugin(size)
    manager.register(plugin)
    admitted: dict[str, Any] = {}
    for what, number in steps:
        uid = f"pod-{number}"
        if what == "admit" and uid not in admitted:
            one = pod(uid, 1 + number % 2)
            if manager.admit(one, {GPU: "9"}, []) is None:
                admitted[uid] = one
        elif what == "release":
            manager.release(uid)
            admitted.pop(uid, None)
        elif what == "lose":
            manager.lose(GPU)
        elif what == "plug":
            manager.register(plugin)
        elif what == "reboot":
            manager.reboot()
        held = [d for one in admitted.values() for d in manager.allocation(one, "c0").cdi_devices]
        assert len(held) == len(set(held))
        assert set(held) <= set(plugin.ids)
        capacity, allocatable = manager.count(GPU)
        assert allocatable in (0, size) and capacity in (0, size) and allocatable <= capacity
