"""Faults of what the charts refuse and do not refuse: a guard that is missing, or tells nothing.

Rows are those of clone_path.md section 3. Each is a revision of a chart that lacks one of them.
"""

from __future__ import annotations

from harness.twin.faults.model import ALL_POOLS, Edit, Fault
from harness.twin.faults.requests import catalogue_chart, disk_rules

CLONED = ("cloned",)
OF_IMAGES = frozenset({"os-image-refused"})
OF_GOLDENS = frozenset({"golden-refused"})
OF_CLASSES = OF_GOLDENS | {"class-resolved"}
OF_CATALOGUE = frozenset({"catalogue-refused"})


def lacks(*rows: str) -> Edit:
    """The pool chart does not refuse these rows."""
    return disk_rules(lacks=frozenset(rows))


def wordless(*rows: str) -> Edit:
    """It refuses them, and does not say what is wrong."""
    return disk_rules(wordless=frozenset(rows))


FAULTS = (
    Fault(
        id="both-image-forms-accepted",
        sentence="The chart takes builtin and factory at once, and downloads.",
        seen="osImage with both keys; the release is Ready, the disk's source a URL",
        wrong_diagnosis="the one that was meant was taken",
        breaks=OF_IMAGES,
        where=ALL_POOLS,
        edit=lacks("R1"),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="schematic-unchecked",
        sentence="The chart takes any text for a schematic.",
        seen="a template whose URL has a slash too many, or capitals; an importer's 404 once there "
        "are workers",
        wrong_diagnosis="the image factory is down",
        breaks=OF_IMAGES,
        where=ALL_POOLS,
        edit=lacks("R2"),
        source="S-OSI",
    ),
    Fault(
        id="talos-version-unchecked",
        sentence="The chart takes a Talos version without its patch.",
        seen="a release that is Ready with v1.13 in its template, which names no image",
        wrong_diagnosis="the API and the release accepted it, so it is valid",
        breaks=OF_IMAGES | {"spec-applied"},
        where=ALL_POOLS,
        edit=lacks("R3"),
        source="S-OSI",
    ),
    Fault(
        id="factory-url-unchecked",
        sentence="The chart takes an image factory that is no address, or none.",
        seen="a template whose URL begins with /image, or with ftp",
        wrong_diagnosis="the network",
        breaks=OF_IMAGES,
        where=ALL_POOLS,
        edit=lacks("R4"),
        source="S-OSI",
    ),
    Fault(
        id="talos-matrix-unchecked",
        sentence="The chart does not ask whether the Talos release runs that Kubernetes.",
        seen="refused all the same, as a Kubernetes version that the chart does not know; one that "
        "it knows would pass",
        wrong_diagnosis="refused is refused",
        breaks=OF_IMAGES,
        where=ALL_POOLS,
        edit=lacks("R10"),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="pool-ahead-of-parent",
        sentence="The chart does not compare a pool's Kubernetes with its control plane's.",
        seen="refused as unknown until the chart knows that version; then kubelets ahead of their "
        "API server",
        wrong_diagnosis="refused is refused",
        breaks=OF_IMAGES,
        where=ALL_POOLS,
        edit=lacks("R11"),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="foreign-pool-taken-over",
        sentence="The chart does not look whose release the pool's MachineDeployment is.",
        seen="two releases write one MachineDeployment in turns; or Helm's own words about "
        "ownership, late and in another place",
        wrong_diagnosis="Helm refuses it anyway",
        breaks=OF_IMAGES,
        where=ALL_POOLS,
        edit=lacks("R12"),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="refusals-of-images-wordless",
        sentence="The chart refuses a bad schematic, version or factory as invalid values.",
        seen="InstallFailed, invalid values; which field, and of which pool, is not said",
        wrong_diagnosis="refused is refused",
        breaks=OF_IMAGES | {"spec-applied"},
        where=ALL_POOLS,
        edit=wordless("R1", "R2", "R3", "R4"),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="golden-absent-unrefused",
        sentence="The chart renders a pool whose golden is not there.",
        seen="the release is Ready; the disk waits, CloneWithoutSource, for as long as one looks",
        wrong_diagnosis="the clone is slow",
        breaks=OF_GOLDENS,
        where=CLONED,
        edit=lacks("R5"),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="class-mismatch-unrefused",
        sentence="The chart renders a pool of another class than its golden's.",
        seen="the release is Ready; CDI copies or clones, as the two classes' provisioners are",
        wrong_diagnosis="the clone worked",
        breaks=OF_CLASSES,
        where=CLONED,
        edit=lacks("R8"),
        source="S-OSI",
    ),
    Fault(
        id="disk-smaller-than-golden",
        sentence="The chart renders a disk that is smaller than the golden.",
        seen="the release is Ready; CDI: ErrIncompatiblePVC, and no disk",
        wrong_diagnosis="the tenant's quota",
        breaks=OF_GOLDENS,
        where=CLONED,
        edit=lacks("R9"),
        source="S-OSI",
    ),
    Fault(
        id="pool-annotation-prefix-collision",
        sentence="The chart knows a pool's disks by the beginning of their annotation: those of "
        "md0-gpu count as md0's.",
        seen="a pool that never cloned is taken for one that has: its golden is not asked for, and "
        "an empty class is the other pool's",
        wrong_diagnosis="none: what is refused otherwise passes",
        breaks=OF_GOLDENS,
        where=CLONED,
        edit=disk_rules(exact_pool=False),
        source="S-OSI",
    ),
    Fault(
        id="refusals-of-goldens-wordless",
        sentence="The chart refuses what the golden cannot give as invalid values.",
        seen="InstallFailed, invalid values; neither the golden nor its package is named",
        wrong_diagnosis="RBAC: the chart may not see the golden",
        breaks=OF_CLASSES,
        where=CLONED,
        edit=wordless("R5", "R8", "R9"),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="empty-form-is-none",
        sentence="The chart takes an osImage form that is there and empty for none.",
        seen="osImage.builtin {} in the values, and a disk that is downloaded; both empty pass",
        wrong_diagnosis="the golden was cloned, for builtin was asked for",
        breaks=OF_IMAGES | {"os-image-allowed"},
        where=ALL_POOLS,
        edit=disk_rules(empty_counts=False),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="mid-import-refused",
        sentence="The chart refuses a pool whose golden is still being imported.",
        seen="UpgradeFailed, is not ready (phase ImportInProgress); minutes later it would pass",
        wrong_diagnosis="the import is broken",
        breaks=frozenset({"catalogue-import", "class-resolved"}),
        where=CLONED,
        edit=disk_rules(waits_for_import=False),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="failing-golden-rendered",
        sentence="The chart renders a pool whose golden keeps failing to import.",
        seen="the release is Ready; the disk waits for a golden that never comes, and its phase is "
        "never Failed",
        wrong_diagnosis="the import is slow",
        breaks=frozenset({"golden-lost"}),
        where=CLONED,
        edit=disk_rules(importer_guard=False),
        source="S-OSI",
    ),
    Fault(
        id="gone-golden-strands-pools",
        sentence="The chart asks a pool that has cloned before for its golden all the same.",
        seen="UpgradeFailed, not found in cozy-public, on pools whose workers run: no edit of "
        "theirs is applied any more",
        wrong_diagnosis="the golden is needed for the running workers",
        breaks=frozenset({"golden-lost"}),
        where=CLONED,
        edit=disk_rules(clones_exempt=False),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="cloned-class-forgotten",
        sentence="The chart takes the cluster's default class for a pool without one that has "
        "cloned already.",
        seen="the default is moved, and every pool without a class is refused: storageClass local "
        "differs from golden image; their workers run on",
        wrong_diagnosis="the pools' class was changed",
        breaks=frozenset({"class-resolved"}),
        where=CLONED,
        edit=disk_rules(own_class=False),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="golden-class-by-default",
        sentence="The chart takes the cluster's default class for a golden without one, whatever "
        "its claim has.",
        seen="a pool of the class that the golden lies on is refused, and one of the default is "
        "rendered, and then not cloned but copied",
        wrong_diagnosis="the golden is broken",
        breaks=frozenset({"class-resolved"}),
        where=CLONED,
        edit=disk_rules(golden_claim=False),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="adoption-not-rolled",
        sentence="A machine template's name does not tell where its disk comes from.",
        seen="the pool adopts osImage under the same template: workers that are there stay on the "
        "download until something else rolls them",
        wrong_diagnosis="the release is Ready, so it took effect",
        breaks=frozenset({"os-image-rolls"}),
        where=CLONED,
        edit=disk_rules(disk_in_name=False),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="catalogue-duplicates-accepted",
        sentence="The catalogue takes one image twice.",
        seen="two entries, one golden, of the later entry's size",
        wrong_diagnosis="nothing happened",
        breaks=OF_CATALOGUE,
        where=CLONED,
        edit=catalogue_chart(duplicate_guard=False),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="catalogue-names-unchecked",
        sentence="The catalogue takes an entry that no pool can name.",
        seen="a golden that is imported and that nobody can ask for, or an importer's 404",
        wrong_diagnosis="the image factory",
        breaks=OF_CATALOGUE,
        where=CLONED,
        edit=catalogue_chart(name_guard=False),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="catalogue-change-unchecked",
        sentence="The catalogue lets an entry be changed under the golden that it made.",
        seen="UpgradeFailed in CDI's words: Cannot update DataVolume Spec; of which entry is not "
        "said",
        wrong_diagnosis="CDI's webhook is broken",
        breaks=OF_CATALOGUE,
        where=CLONED,
        edit=catalogue_chart(change_guard=False),
        source="S-OSI",
    ),
)
