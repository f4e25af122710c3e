from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.facts.containers import Container, Variable
from harness.facts.daemonsets import DaemonSet, DaemonSets
from harness.facts.fact import Origin, Unread
from harness.facts.gpunode import GpuNode
from harness.facts.operator import Addons, OperatorPolicy, OperatorValues, Said
from harness.facts.validator import (
    STAGES,
    CudaValidation,
    DriverReady,
    DriverReadyAbsent,
    StageState,
    ValidatorAbsent,
    ValidatorPod,
    ValidatorStage,
)
from harness.judge.operator import (
    PLUGIN_ENV,
    VALIDATOR_ENV,
    gpu_advertised,
    host_driver_accepted,
    operator_default,
    operator_live,
)
from harness.judge.verdict import Verdict

AT = Origin(1.0, "x", "")
LOST = Unread(AT, "asked", "the reason")
OFF = Addons(AT, "kubernetes-lab", True, False, ())
HAMI = dataclasses.replace(OFF, hami=True)
HAMI_RELEASE = dataclasses.replace(OFF, hami_release=True)
OVERRIDDEN = dataclasses.replace(OFF, override=("devicePlugin.env",))
POLICY = OperatorPolicy(AT, "cluster-policy", "ready", (Said("Ready", "True", "NoGPUNodes", ""),))


def env(pairs: Any, **changed: str | None) -> tuple[Variable, ...]:
    """Variables; one set to None is left out."""
    merged = {**pairs, **changed}
    return tuple(Variable(key, value) for key, value in merged.items() if value is not None)


VALUES = OperatorValues(
    AT, "kubernetes-lab-gpu-operator", False, False, None, env(VALIDATOR_ENV), env(PLUGIN_ENV)
)


def values(**more: Any) -> OperatorValues:
    return dataclasses.replace(VALUES, **more)


def test_the_variables_are_those_of_the_chart() -> None:
    assert dict(PLUGIN_ENV) == {
        "DEVICE_LIST_STRATEGY": "cdi-annotations",
        "DEVICE_ID_STRATEGY": "uuid",
        "NVIDIA_DRIVER_ROOT": "/",
        "NVIDIA_CTK_PATH": "/usr/local/bin/nvidia-ctk",
        "CDI_ANNOTATION_PREFIX": "cdi.k8s.io/",
    }
    assert dict(VALIDATOR_ENV) == {
        "DRIVER_ROOT": "/",
        "NVIDIA_DRIVER_ROOT": "/",
        "DISABLE_DEV_CHAR_SYMLINK_CREATION": "true",
    }


def check(verdict: Verdict, claim: str, outcome: str, said: str) -> None:
    assert (verdict.claim, verdict.subject) == (claim, "cluster lab")
    assert verdict.outcome == outcome, verdict.because
    assert said in verdict.because


@pytest.mark.parametrize(
    ("given", "addons", "outcome", "said"),
    [
        (VALUES, OFF, "holds", "nothing overrides them"),
        (values(plugin_enabled=True), OFF, "holds", "renders driver and toolkit off"),
        (
            values(plugin_env=env(PLUGIN_ENV, CDI_ENABLED="true")),
            OFF,
            "holds",
            "nothing overrides",
        ),
        (VALUES, OVERRIDDEN, "unknown", "the values arrive by override: the default is not"),
        (VALUES, OVERRIDDEN, "unknown", "valuesOverride sets devicePlugin.env"),
        (values(values_from=("Secret x",)), OFF, "unknown", "takes values from Secret x too"),
        (
            values(values_from=("Secret x",), driver_enabled=True),
            OFF,
            "unknown",
            "which are not read",
        ),
        (values(driver_enabled=True), OFF, "broken", "driver.enabled true, expected false"),
        (values(driver_enabled=None), OFF, "broken", "driver.enabled absent, expected false"),
        (values(toolkit_enabled=True), OFF, "broken", "toolkit.enabled true, expected false"),
        (values(toolkit_enabled=None), OFF, "broken", "toolkit.enabled absent"),
        (values(plugin_enabled=False), OFF, "broken", "devicePlugin.enabled false"),
        (values(plugin_env=None), OFF, "broken", "no devicePlugin.env, expected"),
        (values(validator_env=None), OFF, "broken", "no validator.driver.env, expected"),
        (values(plugin_env=()), OFF, "broken", "no DEVICE_LIST_STRATEGY"),
        (
            values(plugin_env=env(PLUGIN_ENV, DEVICE_LIST_STRATEGY="envvar")),
            OFF,
            "broken",
            "with DEVICE_LIST_STRATEGY=envvar, expected DEVICE_LIST_STRATEGY=cdi-annotations",
        ),
        (values(plugin_env=(Variable("X", "1"),)), OVERRIDDEN, "broken", "valuesOverride sets"),
        (values(driver_enabled=True), OFF, "broken", "driver.enabled true"),
        (LOST, OFF, "unknown", "the reason"),
        (VALUES, LOST, "unknown", "whether HAMi is on could not be read: the reason"),
        (VALUES, HAMI, "unknown", "HAMi is not covered"),
        (VALUES, HAMI_RELEASE, "unknown", "HAMi is not covered"),
        (values(plugin_env=None), HAMI, "unknown", "HAMi is not covered"),
    ],
)
def test_operator_default(
    given: OperatorValues | Unread, addons: Addons | Unread, outcome: str, said: str
) -> None:
    verdict = operator_default(given, addons, "cluster lab")
    check(verdict, "operator-default", outcome, said)
    assert verdict.facts == (given, addons)


def test_all_eight_variables_are_told() -> None:
    for verdict in (operator_default(VALUES, OFF, "x"), operator_live(VALUES, live(), OFF, "x")):
        for name, value in (*PLUGIN_ENV.items(), *VALIDATOR_ENV.items()):
            assert f"{name}={value}" in verdict.because


def test_without_an_override_none_is_told() -> None:
    verdict = operator_default(values(driver_enabled=True), OFF, "cluster lab")
    assert "valuesOverride" not in verdict.because


@pytest.mark.parametrize("name", PLUGIN_ENV)
def test_every_variable_of_the_plugin_is_required(name: str) -> None:
    for env_now in (env(PLUGIN_ENV, **{name: None}), env(PLUGIN_ENV, **{name: "other"})):
        verdict = operator_default(values(plugin_env=env_now), OFF, "cluster lab")
        check(verdict, "operator-default", "broken", f"expected {name}={PLUGIN_ENV[name]}")


@pytest.mark.parametrize("name", VALIDATOR_ENV)
def test_every_variable_of_the_validator_is_required(name: str) -> None:
    for env_now in (env(VALIDATOR_ENV, **{name: None}), env(VALIDATOR_ENV, **{name: "other"})):
        verdict = operator_default(values(validator_env=env_now), OFF, "cluster lab")
        check(verdict, "operator-default", "broken", f"expected {name}={VALIDATOR_ENV[name]}")


def test_of_a_variable_rendered_twice_the_last_counts() -> None:
    twice = (Variable("DEVICE_ID_STRATEGY", "index"), *env(PLUGIN_ENV))
    assert operator_default(values(plugin_env=twice), OFF, "x").outcome == "holds"
    twice = (*env(PLUGIN_ENV), Variable("DEVICE_ID_STRATEGY", "index"))
    assert operator_default(values(plugin_env=twice), OFF, "x").outcome == "broken"


def container(name: str, variables: tuple[Variable, ...], *, init: bool = False) -> Container:
    return Container(name, init, "image", variables, False, ())


def daemonset(name: str, *containers: Container, namespace: str = "cozy-gpu-operator") -> DaemonSet:
    owner = "ClusterPolicy cluster-policy"
    return DaemonSet(namespace, name, owner, "", containers, (), 1, 1, False)


def live(
    plugin_env: tuple[Variable, ...] = env(PLUGIN_ENV),
    validator_env: tuple[Variable, ...] = env(VALIDATOR_ENV),
    *more: DaemonSet,
) -> DaemonSets:
    plugin = daemonset(
        "nvidia-device-plugin-daemonset",
        container("toolkit-validation", (), init=True),
        container("nvidia-device-plugin", plugin_env),
    )
    validator = daemonset(
        "nvidia-operator-validator",
        container("driver-validation", validator_env, init=True),
        container("toolkit-validation", (), init=True),
    )
    return DaemonSets(AT, (plugin, validator, *more))


def without(daemonsets: DaemonSets, name: str) -> DaemonSets:
    return DaemonSets(AT, tuple(one for one in daemonsets.sets if one.name != name))


PLUGIN = "nvidia-device-plugin-daemonset"
VALIDATOR = "nvidia-operator-validator"


@pytest.mark.parametrize(
    ("given", "sets", "addons", "outcome", "said"),
    [
        (VALUES, live(), OFF, "holds", "are not there"),
        (VALUES, live(), OVERRIDDEN, "holds", "DEVICE_LIST_STRATEGY=cdi-annotations"),
        (VALUES, live(env(PLUGIN_ENV, CDI_ENABLED="true")), OFF, "holds", "run with"),
        (
            VALUES,
            live(env(PLUGIN_ENV, NVIDIA_CTK_PATH=None)),
            OFF,
            "broken",
            "with no NVIDIA_CTK_PATH, asked NVIDIA_CTK_PATH=/usr/local/bin/nvidia-ctk",
        ),
        (
            VALUES,
            live(env(PLUGIN_ENV, DEVICE_LIST_STRATEGY="envvar")),
            OFF,
            "broken",
            "with DEVICE_LIST_STRATEGY=envvar",
        ),
        (
            VALUES,
            live(env(PLUGIN_ENV), env(VALIDATOR_ENV, DRIVER_ROOT=None)),
            OFF,
            "broken",
            "runs driver-validation with no DRIVER_ROOT",
        ),
        (
            values(plugin_env=env(PLUGIN_ENV, DEVICE_LIST_STRATEGY="envvar")),
            live(env(PLUGIN_ENV, DEVICE_LIST_STRATEGY="envvar")),
            OFF,
            "broken",
            "asked DEVICE_LIST_STRATEGY=cdi-annotations",
        ),
        (
            values(plugin_env=env(PLUGIN_ENV, PASS_DEVICE_SPECS="true")),
            live(),
            OFF,
            "broken",
            "no PASS_DEVICE_SPECS, asked PASS_DEVICE_SPECS=true",
        ),
        (
            values(validator_env=env(VALIDATOR_ENV, WITH_WAIT="true")),
            live(),
            OFF,
            "broken",
            "no WITH_WAIT, asked WITH_WAIT=true",
        ),
        (
            values(plugin_env=(*env(PLUGIN_ENV), Variable("FROM", None))),
            live(),
            OFF,
            "holds",
            "run with",
        ),
        (values(plugin_env=None, validator_env=None), live(), OFF, "holds", "run with"),
        (
            VALUES,
            live(env(PLUGIN_ENV), env(VALIDATOR_ENV), daemonset("nvidia-driver-daemonset")),
            OFF,
            "broken",
            "cozy-gpu-operator/nvidia-driver-daemonset exists, though",
        ),
        (
            VALUES,
            live(
                env(PLUGIN_ENV),
                env(VALIDATOR_ENV),
                daemonset("nvidia-container-toolkit-daemonset", namespace="gpu-operator"),
            ),
            OFF,
            "broken",
            "gpu-operator/nvidia-container-toolkit-daemonset exists",
        ),
        (
            VALUES,
            without(live(), PLUGIN),
            OFF,
            "broken",
            f"no DaemonSet cozy-gpu-operator/{PLUGIN}",
        ),
        (VALUES, without(live(), VALIDATOR), OFF, "broken", "no DaemonSet cozy-gpu-operator/"),
        (
            VALUES,
            DaemonSets(AT, (daemonset(PLUGIN), daemonset(VALIDATOR))),
            OFF,
            "broken",
            "has no container nvidia-device-plugin",
        ),
        (LOST, live(), OFF, "unknown", "the reason"),
        (VALUES, LOST, OFF, "unknown", "the reason"),
        (VALUES, live(), LOST, "unknown", "whether HAMi is on"),
        (VALUES, live(), HAMI, "unknown", "HAMi is not covered"),
        (VALUES, DaemonSets(AT, ()), HAMI, "unknown", "HAMi is not covered"),
    ],
)
def test_operator_live(
    given: OperatorValues | Unread,
    sets: DaemonSets | Unread,
    addons: Addons | Unread,
    outcome: str,
    said: str,
) -> None:
    verdict = operator_live(given, sets, addons, "cluster lab")
    check(verdict, "operator-live", outcome, said)
    assert verdict.facts == (given, sets, addons)


DONE = tuple(ValidatorStage(name, StageState.DONE, exit_code=0) for name in STAGES)


def pod(stuck: str = "", state: StageState = StageState.RUNNING, **more: Any) -> ValidatorPod:
    stages = tuple(
        ValidatorStage(one.name, state, last_line="waiting for it") if one.name == stuck else one
        for one in DONE
    )
    given = {"phase": "Running", "restarts": 0, "stages": stages, **more}
    return ValidatorPod(AT, "v-1", "w1", **given)


READY = DriverReady(AT, {"IS_HOST_DRIVER": "true", "NVIDIA_DRIVER_ROOT": "/"})
CUDA = CudaValidation(AT, "nvidia-cuda-validator-x", "w1", "Succeeded", 0, "Completed")


def cuda(phase: str, code: int | None, reason: str = "", line: str = "") -> CudaValidation:
    return CudaValidation(AT, "nvidia-cuda-validator-x", "w1", phase, code, reason, line)


@pytest.mark.parametrize(
    ("validator", "ready", "run", "outcome", "said"),
    [
        (pod(), READY, CUDA, "holds", "every stage of the validator is done without a restart"),
        (
            pod("driver-validation", phase="Pending"),
            READY,
            CUDA,
            "broken",
            "v-1 is stuck in driver-validation (running: waiting for it): usually the driver is",
        ),
        (pod("toolkit-validation"), READY, CUDA, "broken", "usually the container gets no driver"),
        (pod("cuda-validation"), READY, CUDA, "broken", "error 802 in its log means the fabric"),
        (pod("plugin-validation"), READY, CUDA, "broken", "the Node offers no nvidia.com/gpu"),
        (
            pod("plugin-validation", StageState.WAITING),
            READY,
            CUDA,
            "broken",
            "stuck in plugin-validation (waiting: ",
        ),
        (pod(phase="Pending"), READY, CUDA, "broken", "v-1 is Pending after its last stage"),
        (pod(phase=""), READY, CUDA, "broken", "v-1 is without a phase after"),
        (pod(stages=()), READY, CUDA, "broken", "v-1 has no stage at all"),
        (pod(restarts=1), READY, CUDA, "broken", "v-1 has 1 restart, expected none"),
        (
            pod(stages=(ValidatorStage("other", StageState.RUNNING),)),
            READY,
            CUDA,
            "broken",
            "v-1 is stuck in other (running); ClusterPolicy",
        ),
        (ValidatorAbsent(AT, "w1"), READY, CUDA, "broken", "no pod of nvidia-operator-validator"),
        (pod(), DriverReadyAbsent(AT, "no file"), CUDA, "broken", "has no driver-ready: no file"),
        (
            pod(),
            DriverReady(AT, {"IS_HOST_DRIVER": "false"}),
            CUDA,
            "broken",
            "says IS_HOST_DRIVER=false, expected true",
        ),
        (pod(), DriverReady(AT, {"A": "1"}), CUDA, "broken", "IS_HOST_DRIVER=nothing"),
        (pod(), READY, cuda("Failed", 1, "Error", "802"), "broken", "(exit status 1, Error): 802"),
        (pod(), READY, cuda("Failed", None, "Evicted"), "broken", "(not ended, Evicted)"),
        (pod(), READY, cuda("Pending", 3), "broken", "(exit status 3, no reason)"),
        (pod(), READY, cuda("Running", None), "unknown", "is Running, not ended yet"),
        (pod(), READY, cuda("", None), "unknown", "is without a phase, not ended yet"),
        (LOST, READY, CUDA, "unknown", "the reason"),
        (pod(), LOST, CUDA, "unknown", "the reason"),
        (pod(), READY, LOST, "unknown", "the reason"),
        (pod("driver-validation"), LOST, LOST, "broken", "stuck in driver-validation"),
        (LOST, READY, cuda("Failed", 1), "broken", "is Failed"),
    ],
)
def test_host_driver_accepted(
    validator: ValidatorPod | ValidatorAbsent | Unread,
    ready: DriverReady | DriverReadyAbsent | Unread,
    run: CudaValidation | Unread,
    outcome: str,
    said: str,
) -> None:
    verdict = host_driver_accepted(validator, ready, run, POLICY, OFF, "cluster lab")
    check(verdict, "host-driver-accepted", outcome, said)
    assert verdict.facts == (validator, ready, run, POLICY, OFF)


@pytest.mark.parametrize(
    ("addons", "said"), [(HAMI, "HAMi is not covered"), (LOST, "whether HAMi is on")]
)
def test_no_driver_is_accepted_under_hami(addons: Addons | Unread, said: str) -> None:
    verdict = host_driver_accepted(pod(), READY, CUDA, POLICY, addons, "cluster lab")
    check(verdict, "host-driver-accepted", "unknown", said)


def test_a_green_policy_accepts_no_driver() -> None:
    for policy, said in ((POLICY, "is ready (Ready=True NoGPUNodes), which proves nothing"),
                         (LOST, "no pod of")):  # fmt: skip
        absent = ValidatorAbsent(AT, "w1")
        verdict = host_driver_accepted(absent, READY, CUDA, policy, OFF, "cluster lab")
        check(verdict, "host-driver-accepted", "broken", said)
        assert ("proves nothing" in verdict.because) is (policy is POLICY)


def test_a_cuda_pod_without_a_last_line_is_told_without_one() -> None:
    failed = host_driver_accepted(pod(), READY, cuda("Failed", 1, "Error"), LOST, OFF, "x")
    assert failed.because.endswith("(exit status 1, Error)")


def test_a_policy_that_could_not_be_read_does_not_matter() -> None:
    assert host_driver_accepted(pod(), READY, CUDA, LOST, OFF, "x").outcome == "holds"


NODE = GpuNode(AT, "w1", "u", True, "b", "1", "1", "on", "true", True)


def node(**more: Any) -> GpuNode:
    return dataclasses.replace(NODE, **more)


@pytest.mark.parametrize(
    ("given", "cards", "policy", "addons", "outcome", "said"),
    [
        (NODE, 1, POLICY, OFF, "holds", "allocatable nvidia.com/gpu is 1"),
        (NODE, 1, LOST, OFF, "holds", "expected 1"),
        (node(allocatable="2", capacity="2"), 2, POLICY, OFF, "holds", "expected 2"),
        (NODE, 2, POLICY, OFF, "broken", "is 1 (no proof: capacity 1, label gpu on"),
        (NODE, 2, POLICY, OFF, "broken", "gpu.present true, NFD's 10de true)"),
        (node(allocatable="0"), 1, POLICY, OFF, "broken", "which proves nothing"),
        (node(allocatable=None), 1, LOST, OFF, "broken", "nvidia.com/gpu is absent"),
        (node(allocatable="2"), 1, POLICY, OFF, "broken", "is 2"),
        (node(capacity=None, label_gpu="", gpu_present="", nfd_pci=False, allocatable=None), 1,
         LOST, OFF, "broken", "(no proof: none)"),
        (NODE, 0, POLICY, OFF, "unknown", "asked for no card"),
        (node(allocatable="0"), 0, POLICY, OFF, "unknown", "asked for no card"),
        (node(ready=False), 1, POLICY, OFF, "unknown", "w1 is not Ready"),
        (LOST, 1, POLICY, OFF, "unknown", "the reason"),
        (NODE, 1, POLICY, HAMI, "unknown", "HAMi is not covered"),
        (NODE, 1, POLICY, LOST, "unknown", "whether HAMi is on"),
    ],
)  # fmt: skip
def test_gpu_advertised(
    given: GpuNode | Unread,
    cards: int,
    policy: OperatorPolicy | Unread,
    addons: Addons | Unread,
    outcome: str,
    said: str,
) -> None:
    verdict = gpu_advertised(given, cards, policy, addons, "cluster lab")
    check(verdict, "gpu-advertised", outcome, said)
    assert verdict.facts == (given, policy, addons)


def test_a_policy_that_could_not_be_read_is_not_told() -> None:
    assert gpu_advertised(NODE, 2, LOST, OFF, "x").because.endswith("; expected 2")


def test_a_policy_is_not_told_where_nothing_is_wrong() -> None:
    assert "ClusterPolicy" not in gpu_advertised(NODE, 1, POLICY, OFF, "x").because
    assert "ClusterPolicy" not in host_driver_accepted(pod(), READY, CUDA, POLICY, OFF, "x").because
