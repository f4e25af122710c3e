"""Which Cozystack is installed, as its management cluster tells it.

The installer's chart makes Deployment cozystack-operator in cozy-system. Where the release names
itself, the chart renders COZYSTACK_VERSION into its environment, and that goes over what the image
was built with, so that the image of a release candidate can be promoted as it is (cozystack
packages/core/installer/tests/cozystack_version_test.yaml, pkg/version/version.go,
hack/promote-publish-chart.sh). Earlier ones had the argument --cozystack-version, or only their
image's tag (packages/core/installer/templates/cozystack-operator.yaml and values.yaml); v0 had
Deployment cozystack with image installer:v0.41.5.

Charts come from cozystack-packages beside it, a copy of the source that --platform-source-url and
--platform-source-ref name (packages/core/platform/templates/repository.yaml). What was fetched is
"<tag>@<digest>", or the digest alone (Flux source-controller, status.artifact.revision).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from harness.facts.fact import Fact, Origin
from harness.facts.objects import Obj, at_path, condition, listed, name_of, text_at
from harness.facts.reply import quote

NAMESPACE = "cozy-system"
OPERATOR = "cozystack-operator"
INSTALLER = "cozystack"
"""The Deployment of v0, which has no operator."""
PACKAGES = "cozystack-packages"
VARIABLE = "COZYSTACK_VERSION"
_ELSEWHERE = f"{VARIABLE} (valueFrom)"
_ARGUMENT = "--cozystack-version"
_SOURCE_URL, _SOURCE_REF = "--platform-source-url", "--platform-source-ref"
_VERSION = re.compile(r"[vV]?(\d+\.\d+\.\d+(?:[-+][0-9A-Za-z][0-9A-Za-z.+-]*)?)")
_CANDIDATE = re.compile(r"-(?:alpha|beta|rc)\.?\d*")
_DIGEST = re.compile(r"sha\d+:[0-9a-f]+")

Answer = Obj | str
"""An object as it was read, or in words why there is none to read."""


@dataclass(frozen=True, slots=True)
class VersionSource:
    """One place that may tell the version: ``text`` is what stands there, or why nothing could be
    read; ``version`` is the version in it ("v1.7.0"), "" for none.
    """

    where: str
    text: str
    version: str

    def __str__(self) -> str:
        return f"{self.where} says {quote(self.text)}"


@dataclass(frozen=True, slots=True)
class PlatformVersion(Fact):
    """The version of Cozystack that is installed ("v1.7.0"), "" where it is not known; ``reason``
    is then why, with the text quoted. ``sources`` is all that was looked at.
    """

    version: str
    sources: tuple[VersionSource, ...]
    reason: str = ""


def version_in(text: str) -> str:
    """The text as a version, with its "v"; "" where it is none: a branch's name, a digest."""
    found = _VERSION.fullmatch(text.strip())
    return f"v{found[1]}" if found else ""


def packages_kind(operator: Answer) -> str:
    """The kind of the source that the platform's charts come from."""
    url = _argument(_container(operator), _SOURCE_URL)
    return "OCIRepository" if url.startswith("oci://") or not url else "GitRepository"


def platform_version(
    operator: Answer, packages: Answer, *, at: float, cluster: str
) -> PlatformVersion:
    """Read the Deployment that is the platform's own, and the source of its charts."""
    named = name_of(operator) or OPERATOR
    raw = json.dumps({"operator": operator, "packages": packages}, indent=1, sort_keys=True)
    origin = Origin(at, f"{cluster} Deployment {NAMESPACE}/{named}", raw)
    own = tuple(_of_operator(operator))
    fetched = _of_packages(packages)
    sources = (*own, fetched)
    first = next((one for one in own if one.version), None)
    if first is None or _calls_itself_otherwise(own):
        return PlatformVersion(origin, "", sources, _untold(own))
    names = {one.version for one in own}
    apart = [one for one in own if one.version and not _agree(first.version, one.version)]
    apart += [fetched] if fetched.version and fetched.version not in names else []
    reason = _unfinished(operator) or _other_packages(operator, fetched)
    if apart:
        reason = f"what tells it differs: {'; '.join(map(str, (first, *apart)))}"
    return PlatformVersion(origin, "" if reason else first.version, sources, reason)


def unknown_platform(reason: str, *, at: float, cluster: str) -> PlatformVersion:
    """What is known where the cluster could not be asked at all: nothing, for this reason."""
    where = f"{cluster} Deployment {NAMESPACE}/{OPERATOR}"
    return PlatformVersion(Origin(at, where, reason), "", (), reason)


def _of_operator(operator: Answer) -> Iterator[VersionSource]:
    """What is said at deployment first: it goes over what the image was built as."""
    if isinstance(operator, str):
        yield VersionSource(f"Deployment {NAMESPACE}/{OPERATOR}", operator, "")
        return
    where, container = f"of Deployment {NAMESPACE}/{name_of(operator)}", _container(operator)
    for variable in listed(container, "env"):
        if text_at(variable, "name") == VARIABLE and variable.get("value") != "":
            text = text_at(variable, "value")
            if text:
                yield VersionSource(f"{VARIABLE} {where}", text, version_in(text))
            else:
                text = json.dumps(variable, sort_keys=True, default=str)
                yield VersionSource(f"{_ELSEWHERE} {where}", text, "")
    argument = _argument(container, _ARGUMENT)
    if argument:
        yield VersionSource(f"{_ARGUMENT} {where}", argument, version_in(argument))
    image = text_at(container, "image")
    yield VersionSource(f"the image {where}", image, version_in(_tag(image)))


def _of_packages(packages: Answer) -> VersionSource:
    if isinstance(packages, str):
        return VersionSource(f"source {NAMESPACE}/{PACKAGES}", packages, "")
    where = f"{text_at(packages, 'kind')} {NAMESPACE}/{PACKAGES}"
    revision = text_at(packages, "status", "artifact", "revision")
    if not revision:
        said = text_at(condition(packages, "Ready"), "message") or "no artifact"
        return VersionSource(where, said, "")
    tag = revision.partition("@")[0] if "@" in revision else ""
    return VersionSource(where, revision, version_in(tag))


def _calls_itself_otherwise(own: Sequence[VersionSource]) -> bool:
    """Whether what counts before the first version is no version ("main"): then what is beneath it
    is none either. A variable whose value stands elsewhere says nothing.
    """
    above = takewhile(lambda one: not one.version, own)
    return any(not one.where.startswith(_ELSEWHERE) for one in above)


def _untold(own: Sequence[VersionSource]) -> str:
    return f"the operator names no version: {'; '.join(map(str, own))}"


def _agree(version: str, other: str) -> bool:
    """One and the same, or the candidate that was promoted to it: its images keep their tags."""
    if version == other:
        return True
    rest = other.removeprefix(version) if other.startswith(version) else ""
    return _CANDIDATE.fullmatch(rest) is not None


def _unfinished(operator: Answer) -> str:
    """Why the Deployment is not yet what its template says, "" where it is."""
    generation = at_path(operator, "metadata", "generation")
    wanted = at_path(operator, "spec", "replicas")
    seen, total, updated = (
        at_path(operator, "status", key)
        for key in ("observedGeneration", "replicas", "updatedReplicas")
    )
    up = _number(updated)
    if _number(seen) >= _number(generation) and up >= max(_number(wanted), _number(total), 1):
        return ""
    return (
        f"Deployment {NAMESPACE}/{name_of(operator)} is not rolled out: generation {seen!r} of "
        f"{generation!r} is seen, {updated!r} of {wanted!r} replicas are updated, {total!r} exist"
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _other_packages(operator: Answer, fetched: VersionSource) -> str:
    """Why the charts are not those that the operator is told to take, "" where nothing says so."""
    asked = _DIGEST.search(_argument(_container(operator), _SOURCE_REF))
    has = _DIGEST.search(fetched.text.rpartition("@")[2])
    if asked is None or has is None or asked[0] == has[0]:
        return ""
    return f"the operator is told to take packages {asked[0]}, and {fetched}"


def _container(operator: Answer) -> Obj:
    """The container that the Deployment is named for, else its first."""
    found = listed(operator, "spec", "template", "spec", "containers")
    named = [one for one in found if text_at(one, "name") == name_of(operator)]
    first = (named or found or [{}])[0]
    return first if isinstance(first, dict) else {}


def _argument(container: Obj, flag: str) -> str:
    """What a flag is given as, "" where it is not."""
    told = [one for key in ("command", "args") for one in listed(container, key)]
    for number, one in enumerate(told):
        if isinstance(one, str) and one.startswith(f"{flag}="):
            return one.partition("=")[2].strip("\"'")
        if one == flag and isinstance(next(iter(told[number + 1 :]), None), str):
            return str(told[number + 1])
    return ""


def _tag(image: str) -> str:
    """An image's tag, "" where it has a digest only, or nothing."""
    last = image.partition("@")[0].rpartition("/")[2]
    return last.partition(":")[2]
