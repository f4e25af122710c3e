"""Lengths of time in the words of one who reads them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """``seconds`` in words: ``<1 ms``, ``250 ms``, ``4.2 s``,
    ``70 min``, ``2 h 15 min``.
    """
    if seconds <= 0:
        return "0 s"
    if seconds < 0.001:
        return "<1 ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    whole = round(seconds)
    if whole < 2 * 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{seconds / 60:.0f} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours < 72:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{seconds / 86400:.1f} days"
