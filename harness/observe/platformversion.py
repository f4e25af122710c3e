"""Ask a management cluster which Cozystack is installed on it.

Never an error: a run is not lost for want of it, and what could not be asked is told as unknown.
"""

from __future__ import annotations

from harness.facts import platformversion as facts
from harness.facts.platformversion import (
    INSTALLER,
    NAMESPACE,
    OPERATOR,
    PACKAGES,
    Answer,
    PlatformVersion,
)
from harness.observe.pool import Now
from harness.reach.errors import ApiRefused, LabError
from harness.reach.kube import Kube

APPS = "apps/v1"
SOURCES = "source.toolkit.fluxcd.io/v1"
_ABSENT = "it is not there"


def platform_version(management: Kube, *, now: Now) -> PlatformVersion:
    """The version that is installed, from two requests; unknown with the reason where need be."""
    try:
        operator = _ask(management, APPS, "Deployment", OPERATOR)
        if operator == _ABSENT:
            older = _ask(management, APPS, "Deployment", INSTALLER)
            operator = f"{_ABSENT}, nor is {INSTALLER}, that of v0" if older == _ABSENT else older
        packages = _ask(management, SOURCES, facts.packages_kind(operator), PACKAGES)
    except LabError as error:
        why = f"the cluster could not be asked: {error.saw}"
        return facts.unknown_platform(why, at=now(), cluster=management.name)
    return facts.platform_version(operator, packages, at=now(), cluster=management.name)


def _ask(kube: Kube, api_version: str, kind: str, name: str) -> Answer:
    try:
        found = kube.get(api_version, kind, NAMESPACE, name)
    except ApiRefused as refused:
        return f"it may not be read: {refused.saw}"
    return _ABSENT if found is None else found
