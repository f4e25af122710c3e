"""Which StorageClass an empty class name stands for (clone_path 3, empty-class resolution)."""

from __future__ import annotations

from collections.abc import Iterable

from harness.facts.objects import Obj, mapped, name_of, text_at

MARKS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
VIRT_MARK = "storageclass.kubevirt.io/is-default-virt-class"
"""KubeVirt's own, which the newest chart honours and older ones do not."""


def default_class(classes: Iterable[Obj]) -> str:
    """The cluster's default StorageClass: of several the newest; "" where there is none.

    "" as well where KubeVirt's own default is another: which of the two counts then depends on the
    chart's age.
    """
    found = sorted(classes, key=lambda one: text_at(one, "metadata", "creationTimestamp"))
    plain = [name_of(one) for one in found if any(_is_true(one, mark) for mark in MARKS)]
    virt = [name_of(one) for one in found if _is_true(one, VIRT_MARK)]
    chosen = plain[-1] if plain else ""
    return "" if virt and virt[-1] != chosen else chosen


def _is_true(obj: Obj, mark: str) -> bool:
    return mapped(obj, "metadata", "annotations").get(mark) == "true"
