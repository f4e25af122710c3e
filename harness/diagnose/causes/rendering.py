"""What a chart refuses, what it was asked and did not do, and what was applied and does not "
"show."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.diagnose.case import MANAGEMENT, Kind, Thing
from harness.diagnose.causes.shown import NOT_APPLIED, NOT_JOINED, RELEASE_FAILED
from harness.diagnose.causes.signs import fits, proves, rules_out
from harness.diagnose.findings import Cause, Grade, Seen
from harness.diagnose.things import application, ready, said
from harness.diagnose.view import Pool, View
from harness.facts.objects import condition, listed, mapped, name_of, text_at
from harness.facts.poolstate import regime
from harness.facts.refusals import REFUSED, chart_text

_ROWS = {
    "set only one of osImage.builtin or osImage.factory": "both image forms are given",
    "is not a plain lowercase alphanumeric identifier": "the schematic id is no identifier",
    "is not a vMAJOR.MINOR.PATCH release": "the Talos version has no patch (v1.13 for v1.13.6)",
    "is not a plain http(s) URL": "the image factory's URL is none",
    "is not supported by Talos": "this Talos does not run that Kubernetes",
    "keeps failing to import": "the golden's import fails again and again",
    "failed to import (phase Failed)": "the golden's import failed",
    "invalid kernelModules name": "a kernel module's name is not one",
    "invalid kernelModules parameter": "a kernel module's parameter has characters that are "
    "refused",
}
"""Refusals of the chart (clone_path 3, gpu_path 1.1): a fragment, and what it means."""
_ELSEWHERE = ("requested golden DataVolume", "differs from golden image", "is smaller than golden")
_YAML = re.compile(r"(?i)yaml parse error|error converting YAML to JSON|YAML: line \d+")
_DENIED = re.compile(r"(?i)denied the request|admission webhook .* denied|field is immutable"
                     r"|spec is immutable")  # fmt: skip


def failed(view: View) -> Iterator[tuple[Thing, str]]:
    """Releases whose chart was refused, with what it said itself."""
    for one in view.things("HelmRelease", MANAGEMENT):
        for kind in ("Ready", "Released"):
            found = condition(one.obj, kind)
            if text_at(found, "status") == "False" and text_at(found, "reason") in REFUSED:
                yield one, chart_text(text_at(found, "message")).text
                break
    for text in view.texts(Kind.HELM_MESSAGE):
        name = re.search(r"for release (\S+?)/(\S+?)(?:\.v\d+)? with", text.text)
        obj = {"kind": "HelmRelease", "metadata": {"name": name[2] if name else ""}}
        yield Thing(obj, MANAGEMENT, text.source), chart_text(text.text).text


def refusal(view: View, fragment: str) -> Iterator[Seen]:
    """Releases refused with these words."""
    for one, words in failed(view):
        if fragment in words:
            yield Seen(f"{one.name}: {words[:300]}", one.where or one.source, subject(one))


def subject(release: Thing) -> str:
    """The pool that a release renders, as a subject; else its name."""
    if release.name.startswith("kubernetes-nodes-"):
        return "pool kubernetes-" + release.name.removeprefix("kubernetes-nodes-")
    return release.name


@proves("HelmRelease: condition Ready, its message", "the chart's own words on a value")
def _refused_value(view: View) -> Iterator[Seen]:
    for one, words in failed(view):
        for fragment, meaning in _ROWS.items():
            if fragment in words:
                yield Seen(f"{one.name}: {meaning}: {words[:300]}", one.where or one.source,
                           subject(one))  # fmt: skip


@proves("HelmRelease: condition Ready, its message", "a YAML parse error of what was rendered")
def _yaml_error(view: View) -> Iterator[Seen]:
    for one, words in failed(view):
        if _YAML.search(words):
            yield Seen(f"{one.name}: {words[:300]}", one.where or one.source, subject(one))


@fits("HelmRelease spec.values: texts", "U+2028 or U+2029 in one of them")
def _line_separators(view: View) -> Iterator[Seen]:
    for one, _ in failed(view):
        values = str(mapped(one.obj, "spec", "values"))
        if "\\u2028" in values or "\\u2029" in values or re.search("[\u2028\u2029]", values):
            yield Seen(f"{one.name} has a Unicode line separator in its values", one.where,
                       subject(one))  # fmt: skip


@proves("HelmRelease: condition Ready, its message", "a failure that is none of the known refusals")
def _refused_otherwise(view: View) -> Iterator[Seen]:
    for one, words in failed(view):
        known = any(fragment in words for fragment in (*_ROWS, *_ELSEWHERE))
        if not known and not _YAML.search(words):
            yield Seen(f"{one.name}: {words[:300]}", one.where or one.source, subject(one))


# -- accepted and not applied


@proves(
    "HelmRelease: Ready False, beside its history and its values",
    "an older revision is deployed, and the values are newer",
)
def _not_applied(view: View) -> Iterator[Seen]:
    for one, words in failed(view):
        deployed = [text_at(each, "status") for each in listed(one.obj, "status", "history")]
        before = "deployed" in deployed or "superseded" in deployed
        attempted = text_at(one.obj, "status", "lastAttemptedReleaseAction")
        if before or attempted == "upgrade":
            yield Seen(f"{one.name} runs an earlier revision; what its values say now was refused: "
                       f"{words[:160]}", one.where, subject(one))  # fmt: skip


@rules_out("HelmRelease: condition Ready", "True: what it says was applied")
def _all_ready(view: View) -> Iterator[Seen]:
    releases = view.things("HelmRelease", MANAGEMENT)
    if releases and not list(failed(view)) and view.lacks("HelmRelease", MANAGEMENT):
        yield Seen(f"none of {len(releases)} HelmReleases has failed", releases[0].source)


@proves(
    "the talos-reconcile Job's log (gone 600 s after its end)",
    "denied by the webhook: the spec is immutable",
)
def _denied(view: View) -> Iterator[Seen]:
    for text in view.texts(Kind.LOG):
        found = [line for line in text.text.splitlines() if _DENIED.search(line)]
        if found and "talos-reconcile" in text.node:
            yield Seen(f"{found[-1].strip()[:200]!r}", text.source)


@proves(
    "TalosConfigTemplate under a fixed name, beside what the release's values say",
    "its modules or its image are not what is asked",
)
def _old_template(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        if not pool.config_template.name or not _fixed(pool) or ready(pool.release) == "False":
            continue
        asked = pool.written.listed if pool.written else None
        rendered = pool.modules.modules if pool.modules else None
        if asked is not None and rendered is not None and tuple(asked) != rendered:
            yield Seen(f"{pool.subject} asks for modules {pool.written}, and its template has "
                       f"{[m.name for m in rendered]}", pool.config_template.where,
                       pool.subject)  # fmt: skip


def _fixed(pool: Pool) -> bool:
    return regime(pool.config_template.obj, pool.name) == "fixed"


@proves("TalosConfigTemplate: its name and labels", "named by its pool alone: it cannot be changed")
def _fixed_name(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        if pool.config_template.name and pool.config_template.whole and _fixed(pool):
            yield Seen(f"{name_of(pool.config_template.obj)} is named by its pool alone",
                       pool.config_template.where, pool.subject)  # fmt: skip


@rules_out("TalosConfigTemplate: its name and labels", "named by its content")
def _content_name(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        if pool.config_template.name and not _fixed(pool):
            yield Seen(f"{pool.config_template.name} is named by its content",
                       pool.config_template.where, pool.subject)  # fmt: skip


@proves(
    "MachineSets and Machines of the pool beside its release's history",
    "a younger MachineSet took over with a new revision of the chart",
)
def _rolled(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        sets = [one for one in view.things("MachineSet", MANAGEMENT)
                if mapped(one.obj, "metadata", "labels").get("cluster.x-k8s.io/deployment-name")
                == pool.name]  # fmt: skip
        charts = {text_at(one, "chartVersion")
                  for one in listed(pool.release.obj, "status", "history")}  # fmt: skip
        if len(sets) > 1 and len(charts) > 1:
            yield Seen(f"{pool.subject} has {len(sets)} MachineSets, and its release was deployed "
                       f"from charts {', '.join(sorted(charts))}", pool.release.where,
                       pool.subject)  # fmt: skip


@proves("machine.kernel of a pool without a card", "there and empty, where nothing should be")
def _empty_block(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        asked = pool.written is not None and pool.written.listed is None
        block = pool.modules is not None and pool.modules.present_block and not pool.modules.modules
        if pool.cardless and asked and block and pool.modules and not pool.modules.misplaced:
            yield Seen(f"{pool.subject} asks for no modules, and its configuration has an empty "
                       "machine.kernel", pool.config_template.where, pool.subject)  # fmt: skip


# -- Ready and nothing there


@proves("Cluster: spec.paused", "true")
def _paused(view: View) -> Iterator[Seen]:
    for one in view.things("Cluster", MANAGEMENT):
        if mapped(one.obj, "spec").get("paused") is True:
            yield Seen(f"Cluster {one.name} is paused", one.where, one.name)
    for kind in ("MachineDeployment", "Machine", "MachineSet"):
        for one in view.things(kind, MANAGEMENT):
            if "cluster.x-k8s.io/paused" in mapped(one.obj, "metadata", "annotations"):
                yield Seen(f"{kind} {one.name} is paused", one.where, one.name)


@rules_out("Cluster: spec.paused", "not set")
def _running(view: View) -> Iterator[Seen]:
    found = view.things("Cluster", MANAGEMENT)
    known = all(one.knows("spec") for one in found)
    if found and known and not list(_paused.find(view)):
        yield Seen(f"Cluster {found[0].name} is not paused", found[0].where)


@fits("CR of the pool or cluster: conditions Ready and WorkloadsReady", "True and False")
def _workloads(view: View) -> Iterator[Seen]:
    for kind in ("Kubernetes", "KubernetesNodes"):
        for one in view.things(kind, MANAGEMENT):
            if (
                ready(one) == "True"
                and text_at(condition(one.obj, "WorkloadsReady"), "status") == "False"
            ):
                yield Seen(f"{kind} {one.name}: Ready, and {said(one, 'WorkloadsReady')}",
                           one.where, one.name)  # fmt: skip


@fits("the pool's release and Machines", "Ready, and no Machine was made")
def _no_machines(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        if ready(pool.release) == "True" and not pool.workers and view.lacks("Machine", MANAGEMENT):
            yield Seen(f"{pool.subject}: its release is Ready, and it has no Machine",
                       pool.release.where, pool.subject)  # fmt: skip


@proves("ConfigMap <release>-awaiting-etcd", "it is there, and nothing else was rendered")
def _awaiting_etcd(view: View) -> Iterator[Seen]:
    for one in view.things("ConfigMap", MANAGEMENT):
        if one.name.endswith("-awaiting-etcd"):
            yield Seen(f"ConfigMap {one.namespace}/{one.name} is there", one.where, one.name)


@fits("HelmReleases of tenant clusters beside KamajiControlPlanes", "Ready, and no control plane")
def _no_control_plane(view: View) -> Iterator[Seen]:
    if not view.lacks("KamajiControlPlane", MANAGEMENT):
        return
    planes = {one.name for one in view.things("KamajiControlPlane", MANAGEMENT)}
    for one in view.things("HelmRelease", MANAGEMENT):
        if application(one) == "Kubernetes" and ready(one) == "True" and one.name not in planes:
            yield Seen(f"{one.name} is Ready, and has no control plane", one.where, one.name)


_RELEASE = "kubectl -n <tenant> get helmreleases; kubectl -n <tenant> describe helmrelease <name>"

CAUSES = (
    Cause(
        id="value-refused",
        family="render",
        title="The chart refuses a value",
        story="A value of the pool breaks a rule of the chart, which says so in the release's "
        "message; what ran before runs on.",
        signs=(_refused_value,),
        wrong="a regression of clones, or of the platform's upgrade",
        why_wrong="the chart names the value. After an upgrade it refuses what it used to let "
        "pass, v1.13 without a patch for one.",
        check="the message, and the value that it names",
        command=_RELEASE,
        symptoms=(RELEASE_FAILED, NOT_APPLIED),
        leads_to=("accepted-not-applied",),
    ),
    Cause(
        id="rendered-yaml-broken",
        family="render",
        title="A value breaks the YAML that is rendered",
        story="A text in the values (a Unicode line separator, for one) ends a line where none "
        "should end: what is rendered is no YAML, and no rule of the chart caught it before.",
        signs=(_yaml_error, _line_separators),
        wrong="a typing error in the YAML",
        why_wrong="nobody typed that YAML: it was rendered, from a value that has to be refused by "
        "name.",
        check="the values' texts for characters that do not show",
        command="kubectl -n <tenant> get helmrelease <name> -o json | jq .spec.values | cat -A",
        symptoms=(RELEASE_FAILED,),
        leads_to=("accepted-not-applied",),
    ),
    Cause(
        id="release-failed-otherwise",
        family="render",
        title="A release failed, with words that are none of the known refusals",
        story="Helm could not render or apply the release; its message says why.",
        signs=(_refused_otherwise,),
        wrong="the platform is slow",
        why_wrong="it has answered: read the message.",
        check="the whole message and the Events of the release",
        command=_RELEASE,
        symptoms=(RELEASE_FAILED,),
        leads_to=("accepted-not-applied",),
    ),
    Cause(
        id="accepted-not-applied",
        family="render",
        title="The API took a change that was never applied",
        story="The CR shows the new values, the release that should apply them has failed, and the "
        "cluster runs an earlier revision.",
        signs=(_not_applied, _all_ready),
        wrong="the API accepted it, so it is in force",
        why_wrong="the CR is the release's values, not what runs. A failed release applies "
        "nothing, "
        "unrelated edits neither.",
        check="Ready of the HelmRelease (False: this; True: see the reconcile Job)",
        command=_RELEASE,
        symptoms=(NOT_APPLIED,),
    ),
    Cause(
        id="template-immutable",
        family="render",
        title="The Talos template could not be changed",
        story="The template is named by its pool alone and its spec is immutable: the reconcile "
        "Job was refused, the release is Ready, and running workers and new ones keep the old "
        "configuration.",
        signs=(_denied, _old_template, _content_name),
        wrong="a new worker will fix it",
        why_wrong="new workers are made from the same old template. Only a pool of another name, "
        "or a chart that names templates by content, gets the new one.",
        check="the reconcile Job's log, and the template's name",
        command="kubectl -n <tenant> logs -l cozystack.io/talos-reconcile --tail=-1; kubectl -n "
        "<tenant> get talosconfigtemplates",
        symptoms=(NOT_APPLIED,),
    ),
    Cause(
        id="template-name-fixed",
        family="render",
        title="Templates are named by their pool alone: no change of theirs will arrive",
        story="The chart predates templates named by content: whatever is changed of the machine "
        "configuration of this pool is refused by the webhook, and the release stays Ready.",
        signs=(_fixed_name, _content_name),
        wrong="a new worker will fix it",
        why_wrong="it is made from the same template.",
        check="the names of the templates",
        command="kubectl -n <tenant> get talosconfigtemplates",
        grade=Grade.HAZARD,
    ),
    Cause(
        id="pool-rolled-by-upgrade",
        family="render",
        title="A new chart rolled the pool",
        story="The platform's new chart renders another template for the pool, so that Cluster API "
        "replaced its workers.",
        signs=(_rolled,),
        wrong="a regression of how disks are made",
        why_wrong="disks were made anew because the workers were.",
        check="the templates' names before and after, and the release's history",
        command="kubectl -n <tenant> get machinesets,kubevirtmachinetemplates",
        symptoms=("reboots",),
        grade=Grade.HAZARD,
    ),
    Cause(
        id="empty-kernel-block",
        family="render",
        title="A pool without a card renders an empty kernel block",
        story="machine.kernel is there and empty: the configuration is not what it was, and an "
        "upgrade to this chart rolls every such pool.",
        signs=(_empty_block,),
        wrong="harmless",
        why_wrong="templates are named by content: another text is another template.",
        check="the rendered configuration of a pool without a card",
        command="kubectl -n <tenant> get talosconfigtemplates -o yaml",
        grade=Grade.HAZARD,
    ),
    Cause(
        id="cluster-paused",
        family="render",
        title="The Cluster is paused",
        story="Somebody paused the Cluster: every release is Ready, and no controller makes a "
        "worker.",
        signs=(_paused, _no_machines, _workloads, _running),
        wrong="Ready means done",
        why_wrong="a release that is Ready has applied its manifests; it says nothing of workers.",
        check="spec.paused of the Cluster",
        command="kubectl -n <tenant> get clusters.cluster.x-k8s.io -o yaml | grep paused",
        symptoms=(NOT_JOINED,),
    ),
    Cause(
        id="tenant-without-etcd",
        family="render",
        title="The tenant has no etcd",
        story="There is no DataStore for the control plane: the chart renders one ConfigMap, "
        "<release>-awaiting-etcd, and the release is Ready.",
        signs=(_awaiting_etcd, _no_control_plane),
        wrong="Kamaji is slow",
        why_wrong="Kamaji was never asked: no control plane was rendered.",
        check="the ConfigMap, and the tenant's etcd",
        command="kubectl -n <tenant> get configmaps,datastores",
        symptoms=(NOT_JOINED,),
    ),
)  # fmt: skip
