"""What goes wrong before a disk is cloned: goldens, imports, sizes, classes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.diagnose.case import MANAGEMENT, Kind, Thing
from harness.diagnose.causes.clones import (
    LOOK_DISKS,
    LOOK_PUBLIC,
    disks,
    marks,
    subject_of,
    wanted_golden,
)
from harness.diagnose.causes.rendering import refusal
from harness.diagnose.causes.shown import COPIED, NOT_JOINED, RELEASE_FAILED, STUCK
from harness.diagnose.causes.signs import fits, proves, rules_out
from harness.diagnose.findings import Cause, Seen
from harness.diagnose.view import View
from harness.facts.clones import GOLDEN, restart_count
from harness.facts.goldenname import GOLDENS
from harness.facts.objects import condition, mapped, text_at

_TOO_SMALL = re.compile(r"(?i)DataVolume too small to contain image|virtual image size .* larger")


@proves(
    "HelmRelease of the pool: its message",
    "osImage.builtin requested golden DataVolume ... not found",
)
def _golden_refused(view: View) -> Iterator[Seen]:
    yield from refusal(view, "requested golden DataVolume")


@proves("DataVolumes in cozy-public, listed whole", "none of the name that the pool clones from")
def _golden_not_there(view: View) -> Iterator[Seen]:
    if not view.lacks("DataVolume", MANAGEMENT, GOLDENS):
        return
    there = {one.name for one in view.things("DataVolume", MANAGEMENT, GOLDENS)}
    for pool in view.pools:
        name = wanted_golden(pool)
        if name and name not in there:
            yield Seen(f"{pool.subject} clones from {name}, which is not in {GOLDENS}", "",
                       pool.subject)  # fmt: skip


@rules_out("DataVolumes in cozy-public", "the golden is there")
def _golden_there(view: View) -> Iterator[Seen]:
    there = {one.name for one in view.things("DataVolume", MANAGEMENT, GOLDENS)}
    for pool in view.pools:
        if wanted_golden(pool) in there:
            yield Seen(f"{wanted_golden(pool)} is there", "", pool.subject)


def _retrying(view: View) -> Iterator[tuple[Thing, str]]:
    """DataVolumes whose import has failed and is tried again, with what its condition says."""
    for one in view.things("DataVolume", MANAGEMENT):
        phase = text_at(one.obj, "status", "phase")
        running = condition(one.obj, "Running")
        failed = text_at(running, "reason") in ("Error", "ImportFailed", "ImagePullFailed")
        if phase.startswith("Import") and (restart_count(one.obj) or 0) > 0 and failed:
            yield one, text_at(running, "message")


@proves(
    "the golden's DataVolume: phase, restartCount, condition Running",
    "ImportInProgress or ImportScheduled, restarts that rise, Running=False Error",
)
def _golden_retries(view: View) -> Iterator[Seen]:
    for one, message in _retrying(view):
        if one.namespace == GOLDENS and not _TOO_SMALL.search(message):
            yield Seen(f"{one.name}: {text_at(one.obj, 'status', 'phase')}, "
                       f"{restart_count(one.obj)} restarts: {message}", one.where,
                       one.name)  # fmt: skip


def _restarted(view: View) -> Iterator[Thing]:
    """Imports that were begun again, of which it is not told why: a table's row has no more."""
    for one in view.things("DataVolume", MANAGEMENT):
        importing = text_at(one.obj, "status", "phase").startswith("Import")
        why = text_at(condition(one.obj, "Running"), "reason")
        if importing and not why and (restart_count(one.obj) or 0) > 0:
            yield one


@fits("the golden's DataVolume: phase, restartCount", "an Import phase, and restarts")
def _golden_restarts(view: View) -> Iterator[Seen]:
    for one in _restarted(view):
        if one.namespace == GOLDENS:
            yield Seen(f"{one.name}: {text_at(one.obj, 'status', 'phase')}, "
                       f"{restart_count(one.obj)} restarts", one.where, one.name)  # fmt: skip


@fits("a worker's DataVolume: phase, restartCount", "an Import phase, and restarts")
def _import_restarts(view: View) -> Iterator[Seen]:
    for one in _restarted(view):
        if one.namespace != GOLDENS:
            yield Seen(f"{one.name}: {text_at(one.obj, 'status', 'phase')}, "
                       f"{restart_count(one.obj)} restarts", one.where, one.name)  # fmt: skip


@proves(
    "a worker's DataVolume: phase, restartCount, condition Running", "an import that is retried"
)
def _import_retries(view: View) -> Iterator[Seen]:
    for one, message in _retrying(view):
        if one.namespace != GOLDENS and not _TOO_SMALL.search(message):
            yield Seen(f"{one.name}: {text_at(one.obj, 'status', 'phase')}, "
                       f"{restart_count(one.obj)} restarts: {message}", one.where,
                       one.name)  # fmt: skip


@proves(
    "a DataVolume's condition Running, its Events, the importer's log",
    "too small to contain the image",
)
def _too_small(view: View) -> Iterator[Seen]:
    for one in view.things("DataVolume", MANAGEMENT):
        message = text_at(condition(one.obj, "Running"), "message")
        if _TOO_SMALL.search(message):
            size = _size(one)
            yield Seen(f"{one.namespace}/{one.name} ({size}): {message}", one.where, one.name)


@proves("HelmRelease of the pool, or Events of its disk", "diskSize is smaller than the golden")
def _smaller_than_golden(view: View) -> Iterator[Seen]:
    yield from refusal(view, "is smaller than golden image")
    for event in view.events("ErrIncompatiblePVC", "CloneValidationFailed"):
        yield Seen(f"{text_at(event.obj, 'involvedObject', 'name')}: "
                   f"{text_at(event.obj, 'message')}", event.source)  # fmt: skip


def _size(volume: Thing) -> str:
    spec = mapped(volume.obj, "spec", "storage") or mapped(volume.obj, "spec", "pvc")
    return str(mapped(spec, "resources", "requests").get("storage", "no size"))


@proves("the golden's Events: ErrClaimNotValid", "its class has no StorageProfile that CDI can use")
def _no_profile(view: View) -> Iterator[Seen]:
    for event in view.events("ErrClaimNotValid"):
        message = text_at(event.obj, "message")
        if "StorageProfile" in message:
            about = text_at(event.obj, "involvedObject", "name")
            yield Seen(f"{about}: {message}", event.source, about)


@proves("HelmRelease of the pool: its message", "storageClass differs from golden image")
def _class_refused(view: View) -> Iterator[Seen]:
    yield from refusal(view, "differs from golden image")


@proves("the claims of a cloned disk and of its golden: class", "two different ones")
def _class_differs(view: View) -> Iterator[Seen]:
    for pool, volume, claim in disks(view):
        golden = view.find("PersistentVolumeClaim", _golden_of(volume), MANAGEMENT, GOLDENS)
        ours, theirs = _class(claim), _class(golden)
        if ours and theirs and ours != theirs:
            yield Seen(f"{claim.name} is of class {ours}, its golden of {theirs}", claim.where,
                       subject_of(pool, volume))  # fmt: skip


def _golden_of(volume: Thing) -> str:
    """What a disk is cloned from, by its mark or by its source; "" for what is no clone."""
    source = mapped(volume.obj, "spec", "source", "pvc")
    here = text_at(source, "name") if source.get("namespace") == GOLDENS else ""
    return str(marks(volume).get(GOLDEN, "")) or here


def _class(claim: Thing) -> str:
    return text_at(claim.obj, "spec", "storageClassName")


@proves(
    "the pool's storageClass beside the cluster's default",
    "empty, and disks of another class than their golden",
)
def _default_moved(view: View) -> Iterator[Seen]:
    refused = {one.subject: one for one in refusal(view, "differs from golden image")}
    differing = {one.subject: one for one in _class_differs.find(view)}
    for pool in view.pools:
        values = mapped(pool.release.obj, "spec", "values")
        found = refused.get(pool.subject) or differing.get(pool.subject)
        if found and "storageClass" in values and not values["storageClass"]:
            yield Seen(f"{pool.subject} leaves storageClass empty; {found.text}", found.source,
                       pool.subject)  # fmt: skip


@fits("the importer's log", "it cannot reach the image factory")
def _importer_log(view: View) -> Iterator[Seen]:
    pattern = re.compile(r"(?i)unable to connect to http data source|no such host|i/o timeout|404")
    told: set[str] = set()
    for text, line in view.lines(pattern, Kind.LOG):
        if "importer" in text.node and text.source not in told:
            told.add(text.source)
            yield Seen(f"{line!r}", text.source)


CAUSES = (
    Cause(
        id="golden-absent",
        family="disk",
        title="The golden image is not there",
        story="The pool clones from a golden that the platform's catalogue does not have: the "
        "catalogue is not enabled, or has no entry for this schematic and version.",
        signs=(_golden_refused, _golden_not_there, _golden_there),
        wrong="missing permissions",
        why_wrong="the chart looks before anything is cloned, and names the golden that it misses.",
        check="the goldens that are there, and the catalogue's entries",
        command=f"{LOOK_PUBLIC}; kubectl get package cozystack.cozystack-platform -o yaml",
        symptoms=(RELEASE_FAILED, STUCK, NOT_JOINED),
        leads_to=("accepted-not-applied",),
    ),
    Cause(
        id="image-too-large-for-disk",
        family="disk",
        title="The image does not fit into the disk or golden asked for",
        story="What is asked for is smaller than the image: the import fails and is tried again, "
        "for ever.",
        signs=(_too_small, _smaller_than_golden, _golden_restarts, _import_restarts),
        wrong="a quota, or the network",
        why_wrong="the importer's message names the size. More tries do not help.",
        check="the size asked for; the image takes about 4.2 GiB, a golden 6Gi",
        command=LOOK_DISKS,
        symptoms=(STUCK, NOT_JOINED, RELEASE_FAILED),
        leads_to=("golden-import-retrying", "disk-import-retrying"),
    ),
    Cause(
        id="golden-import-retrying",
        family="disk",
        title="The golden's import fails and is tried again",
        story="The image factory does not give the image: the golden stays ImportInProgress with "
        "restarts that rise, and every disk that is cloned from it waits.",
        signs=(_golden_retries, _golden_restarts, _importer_log),
        wrong="wait for it to become Failed",
        why_wrong="it never does: CDI tries for ever. restartCount and the condition Running tell.",
        check="the importer's log, and the factory's address from within the cluster",
        command=f"{LOOK_PUBLIC}; kubectl -n {GOLDENS} logs <importer-...>",
        symptoms=(STUCK, NOT_JOINED),
    ),
    Cause(
        id="disk-import-retrying",
        family="disk",
        title="The import of a worker's disk fails and is tried again",
        story="The image of the worker's disk cannot be had: the DataVolume stays in an Import "
        "phase with restarts that rise.",
        signs=(_import_retries, _import_restarts, _importer_log),
        wrong="wait for it to become Failed",
        why_wrong="it never does: CDI tries for ever. A URL with a wrong schematic or version "
        "gives 404 each time.",
        check="the importer's log and the URL",
        command="kubectl -n <tenant> logs <importer-...>; " + LOOK_DISKS,
        symptoms=(STUCK, NOT_JOINED),
    ),
    Cause(
        id="class-without-profile",
        family="disk",
        title="CDI knows nothing of the catalogue's class",
        story="The class's provisioner has no StorageProfile that CDI can use: the golden is never "
        "begun.",
        signs=(_no_profile,),
        wrong="DRBD",
        why_wrong="no volume was asked for yet: CDI does not know what access mode to ask for.",
        check="the StorageProfile of that class",
        command="kubectl get storageprofiles -o yaml",
        symptoms=(STUCK, RELEASE_FAILED),
    ),
    Cause(
        id="default-class-moved",
        family="disk",
        title="The pool's class is empty, and the cluster's default is not the golden's",
        story="The pool leaves its class to the cluster's default, which is another than the "
        "golden's: its disks are refused, or are of a class that nobody named.",
        signs=(_default_moved,),
        wrong="the golden is broken",
        why_wrong="the golden is as it was; the default has moved.",
        check="which class is the default, and the golden's",
        command=f"kubectl get storageclasses; {LOOK_PUBLIC}",
        symptoms=(RELEASE_FAILED, COPIED),
        leads_to=("class-mismatch", "accepted-not-applied", "disk-of-one-node"),
    ),
    Cause(
        id="class-mismatch",
        family="disk",
        title="Pool and golden are of two classes",
        story="The pool asks for another StorageClass than its golden has: the chart refuses it, "
        "or, without that guard, CDI clones or copies as the provisioners allow.",
        signs=(_class_refused, _class_differs),
        wrong="the clone worked",
        why_wrong="across classes it may be a copy, through the pod network: cloneType tells.",
        check="both classes, and cloneType",
        command=LOOK_DISKS,
        symptoms=(RELEASE_FAILED, COPIED),
        leads_to=("accepted-not-applied",),
    ),
)  # fmt: skip
