"""Amounts of bytes as Kubernetes writes them: 20Gi is 2^30 each, 20G 10^9, and they differ."""

from __future__ import annotations

import re
from fractions import Fraction

_WRITTEN = re.compile(
    r"(?P<number>\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})"
    r"(?P<suffix>[KMGTPE]i|[mkMGTPE]|[eE](?P<power>[+-]?\d{1,2}))?",
    re.ASCII,
)
_FACTORS = {
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000) ** power for power, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", start=1)},
}


def bytes_of(text: object) -> int | None:
    """A quantity in bytes, a fraction of one rounded up as Kubernetes does; None where the text is
    none. A bare number, as YAML may hold it, is one too."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text if text >= 0 else None
    found = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    power = found["power"]
    factor = Fraction(10) ** int(power) if power else _FACTORS.get(found["suffix"] or "", 1)
    amount = Fraction(found["number"]) * factor
    return -int(-amount // 1)


def told(amount: int | None) -> str:
    """An amount for a sentence: whole Gi as such, and always the bytes."""
    if amount is None:
        return "an unknown size"
    whole, rest = divmod(amount, 1024**3)
    return f"{whole}Gi ({amount} bytes)" if whole and not rest else f"{amount} bytes"
