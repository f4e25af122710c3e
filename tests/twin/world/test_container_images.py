"""References to images: what they mean, and which are of nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.twin.world import container_images


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        ("ubuntu", ("docker.io/library/ubuntu", "latest")),
        ("ubuntu:24.04", ("docker.io/library/ubuntu", "24.04")),
        ("docker.io/library/ubuntu:24.04", ("docker.io/library/ubuntu", "24.04")),
        ("nvidia/cuda:12.5.0-base", ("docker.io/nvidia/cuda", "12.5.0-base")),
        ("localhost:5000/a/b", ("localhost:5000/a/b", "latest")),
        ("localhost/a", ("localhost/a", "latest")),
        ("example.org/a:b@sha256:" + "0" * 64, ("example.org/a", "b")),
    ],
)
def test_a_short_reference_is_completed_as_the_runtime_does(
    reference: str, meant: tuple[str, str]
) -> None:
    assert container_images.split(reference) == meant
    assert container_images.problem(reference) == ("", "")


def test_the_catalogue_tells_who_brings_a_driver() -> None:
    driverless = ("ubuntu:24.04", "busybox", "nvcr.io/nvidia/cuda:12.5.0-base", "example.org/own")
    assert not any(container_images.named(one).driver for one in driverless)
    assert (
        container_images.named("nvcr.io/nvidia/driver:550.90.07-ubuntu22.04").driver == "550.90.07"
    )
    sample = container_images.named("nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0")
    assert sample.command == sample.programs
    assert not container_images.named("example.org/own:1").known
    assert not container_images.named("nvcr.io/nvidia/k8s/cuda-sample:nbody").known


@pytest.mark.parametrize(
    ("reference", "reason", "words"),
    [
        ("example.org/probe:does-not-exist", "ErrImagePull", "probe:does-not-exist: not found"),
        ("does-not-exist", "ErrImagePull", "docker.io/library/does-not-exist:latest: not found"),
        ("registry.invalid/probe:1", "ErrImagePull", "lookup registry.invalid: no such host"),
        ("", "InvalidImageName", "invalid reference format"),
        ("A/b", "InvalidImageName", 'couldn\'t parse image name "A/b"'),
        ("a b", "InvalidImageName", "invalid reference format"),
    ],
)
def test_what_does_not_exist_is_said_in_the_runtimes_words(
    reference: str, reason: str, words: str
) -> None:
    found = container_images.problem(reference)
    assert found[0] == reason and words in found[1]


@given(st.text(max_size=40))
def test_no_reference_breaks_the_catalogue(reference: str) -> None:
    reason, words = container_images.problem(reference)
    assert reason in ("", "InvalidImageName", "ErrImagePull")
    assert bool(reason) == bool(words)
    container_images.named(reference)
