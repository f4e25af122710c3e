"""Whether the platform that was installed is the release that is said to be tested.

What is installed is read off the cluster and stands in the ledger; the subject is what somebody
typed. Only where both name one version does the one prove the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

PRODUCT = "Cozystack"
_VERSION = (
    r"[vV]?(?P<numbers>\d+\.\d+)(?P<patch>\.\d+)?(?P<rest>[-+][0-9A-Za-z]+(?:[.+-][0-9A-Za-z]+)*)?"
)
_ALONE = re.compile(rf"(?<![\w.+]){_VERSION}(?![\w+-]|\.\d)")
_OF_PRODUCT = re.compile(rf"{PRODUCT}[\s:@/_-]*{_VERSION}(?![\w+-]|\.\d)", re.IGNORECASE)
_MORE = re.compile(
    r"[~*\u2010-\u2013\u2212]|\.[x*]"  # 1.7.0~rc1, 1.7.x, a hyphen or range of a text processor's
    r"|[\s(]+(?:alpha|beta|rc)(?![a-z])"
    r"|\s*(?:[/&,\u2192]|->|\.\.+|\b(?:and|or|to)\b)\s*v?\d+\.\d",
    re.IGNORECASE,
)
"""What, right behind a version, makes it another one, or one of several."""


def said_version(subject: str) -> str:
    """The version that a subject names ("v1.7.0"): the one behind the product's name, else its
    only one; "" where there is none, or several ("v1.7.0 and v1.8.0", "1.7.x"). One without a patch
    is the first of its line.
    """
    named = [*_OF_PRODUCT.finditer(subject)] or [*_ALONE.finditer(subject)]
    found = {_whole(one) for one in named}
    more = any(_MORE.match(subject, one.end()) for one in named)
    return next(iter(found)) if len(found) == 1 and not more else ""


def _whole(found: re.Match[str]) -> str:
    return f"v{found['numbers']}{found['patch'] or '.0'}{found['rest'] or ''}"


def contradicted(subject: str, installed: Iterable[str]) -> Iterator[str]:
    """Why a subject cannot be what was tested, for each installed platform ("Cozystack v1.7.0")
    that is not the one it names.
    """
    said = said_version(subject)
    for one in installed:
        if not said:
            yield f"{subject!r} names no single version to hold against the installed {one!r}"
        elif said != said_version(one):
            yield f"the platform installed is {one!r}, and not {subject!r}"
