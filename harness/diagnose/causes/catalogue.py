"""All causes, by id, in the order in which equals are told."""

from __future__ import annotations

from harness.diagnose.causes import (
    cards,
    clones,
    drbd,
    driver,
    flavour,
    goldens,
    injection,
    joining,
    linstor,
    modules,
    operator,
    rendering,
    restarts,
    uptime,
)
from harness.diagnose.findings import Cause

CAUSES: dict[str, Cause] = {
    cause.id: cause
    for family in (
        uptime,
        restarts,
        cards,
        modules,
        driver,
        flavour,
        operator,
        injection,
        linstor,
        drbd,
        goldens,
        clones,
        rendering,
        joining,
    )
    for cause in family.CAUSES
}
