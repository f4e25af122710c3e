from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import claims
from harness.facts.clones import DiskRefused, DiskSource, WantedDisk
from harness.judge.disk_source import disk_source
from tests.facts.disk_objects import GOLDEN, SCHEMATIC, URL, VERSION
from tests.judge.disk_facts import AT, DOWNLOAD, DOWNLOADED, SOURCE, UNREAD, WANTED

FACTORY = replace(DOWNLOADED, form="factory")
NO_CLASS = replace(WANTED, storage_class="")
FREE = replace(DOWNLOADED, storage_class="")


@pytest.mark.parametrize(
    ("source", "wanted", "said"),
    [
        (SOURCE, WANTED, f"osImage builtin; cloned from cozy-public/{GOLDEN}"),
        (SOURCE, WANTED, "annotation pool kubernetes-lab-md0; class replicated"),
        (DOWNLOAD, DOWNLOADED, f"osImage left out; downloaded from {URL}"),
        (DOWNLOAD, FACTORY, "osImage factory"),
        (SOURCE, NO_CLASS, "osImage builtin"),
        (replace(DOWNLOAD, storage_class=""), FREE, "osImage left out"),
    ],
)
def test_as_asked_for(source: DiskSource, wanted: WantedDisk, said: str) -> None:
    verdict = disk_source(source, wanted, "disk d1")
    assert (verdict.claim, verdict.subject) == ("disk-source", "disk d1")
    assert verdict.claim in claims.load()
    assert verdict.outcome == "holds", verdict.because
    assert said in verdict.because
    assert verdict.facts == (source,)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"forms": ("http", "pvc")}, "osImage builtin, and the source is http, pvc"),
        ({"forms": ()}, "the source is none"),
        ({"claim": f"tenant-hil/{GOLDEN}"}, f"it is cloned from tenant-hil/{GOLDEN}"),
        ({"claim": f"cozy-public/{GOLDEN}-rc.1"}, "it is cloned from"),
        ({"claim": ""}, "it is cloned from"),
        ({"use_populator": "false"}, "usePopulator is 'false', and a clone must not carry it"),
        ({"use_populator": "true"}, "usePopulator is 'true'"),
        ({"golden": None}, "the annotation golden is missing"),
        ({"golden": GOLDEN[:-1]}, "the annotation golden is 'talos-worker-"),
        ({"pool": None}, "the annotation pool is missing"),
        ({"pool": ""}, "the annotation pool is ''"),
        ({"pool": "kubernetes-lab-md0-gpu"}, "is 'kubernetes-lab-md0-gpu', expected exactly"),
        ({"pool": "kubernetes-lab-md"}, "the annotation pool is"),
        ({"pool": "lab-md0"}, "the annotation pool is"),
        ({"storage_class": ""}, "its class is not written, not replicated"),
        ({"storage_class": "local"}, "its class is local, not replicated"),
    ],
)
def test_a_clone_that_is_otherwise(change: dict[str, Any], said: str) -> None:
    verdict = disk_source(replace(SOURCE, **change), WANTED, "disk d1")
    assert verdict.outcome == "broken"
    assert said in verdict.because, verdict.because


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"forms": ("pvc",)}, "osImage is not builtin, and the source is pvc"),
        ({"schematic": ""}, "is none of an image factory's"),
        ({"schematic": f"{SCHEMATIC}0"}, f"the URL names schematic {SCHEMATIC}0 {VERSION}"),
        ({"version": "v1.13.5"}, f"{SCHEMATIC} v1.13.5, the pool asked for"),
        ({"use_populator": None}, 'usePopulator is missing, a download carries "false"'),
        ({"use_populator": "true"}, "usePopulator is 'true'"),
        ({"golden": GOLDEN}, "the annotation golden is 'talos-worker-"),
        ({"golden": ""}, "the annotation golden is ''"),
        ({"pool": "kubernetes-lab-md0"}, "the annotation pool is 'kubernetes-lab-md0'"),
        ({"storage_class": ""}, "its class is not written"),
    ],
)
def test_a_download_that_is_otherwise(change: dict[str, Any], said: str) -> None:
    for wanted in (DOWNLOADED, FACTORY):
        verdict = disk_source(replace(DOWNLOAD, **change), wanted, "disk d1")
        assert verdict.outcome == "broken"
        assert said in verdict.because, verdict.because


def test_an_empty_class_stays_empty_for_a_download_only() -> None:
    written = disk_source(DOWNLOAD, FREE, "disk d1")
    assert (written.outcome, "the pool names none" in written.because) == ("broken", True)
    left = disk_source(replace(SOURCE, storage_class=""), NO_CLASS, "disk d1")
    assert (left.outcome, "no class is written" in left.because) == ("broken", True)


def test_what_is_not_there_or_not_read_is_unknown() -> None:
    assert disk_source(UNREAD, WANTED, "d").outcome == "unknown"
    refused = disk_source(DiskRefused(AT, "m1", "denied"), WANTED, "d")
    assert (refused.outcome, refused.because) == ("unknown", "there is no disk: denied")


def test_the_wrong_form_is_broken_either_way() -> None:
    downloaded = disk_source(DOWNLOAD, WANTED, "d")
    assert downloaded.outcome == "broken"
    assert f"and the source is http {URL}" in downloaded.because
    cloned = disk_source(SOURCE, DOWNLOADED, "d")
    assert cloned.outcome == "broken"
    assert f"and the source is pvc cozy-public/{GOLDEN}" in cloned.because
