"""How signs are declared: a function that finds, and what it means when it does."""

from __future__ import annotations

from collections.abc import Callable

from harness.diagnose.findings import Find, Sign, Weight

Declared = Callable[[Find], Sign]


def proves(look: str, shows: str) -> Declared:
    """Nothing else of the catalogue shows so."""
    return lambda find: Sign(Weight.PROVES, look, shows, find)


def fits(look: str, shows: str) -> Declared:
    """Expected with this cause, and with others."""
    return lambda find: Sign(Weight.FITS, look, shows, find)


def speaks_against(look: str, shows: str) -> Declared:
    """Not expected with this cause."""
    return lambda find: Sign(Weight.AGAINST, look, shows, find)


def rules_out(look: str, shows: str) -> Declared:
    """Cannot be with this cause."""
    return lambda find: Sign(Weight.RULES_OUT, look, shows, find)
