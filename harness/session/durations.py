"""A length of time as a command line gives it."""

from __future__ import annotations

import argparse
import re

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """Seconds of ``90s``, ``20m``, ``2h`` or ``1h30m``; 0 alone needs no unit. Raises argparse's
    error, which ends a command line with 2.
    """
    if re.fullmatch(r"0+", text):
        return 0.0
    if not re.fullmatch(r"(?:[0-9]+h)?(?:[0-9]+m)?(?:[0-9]+s)?", text) or not text:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time: 90s, 20m, 2h or 1h30m")
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([hms])", text))
