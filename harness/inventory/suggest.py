"""The word somebody probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ALIKE = 0.6


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word of ``words`` most like ``word``, case aside; None when nothing is alike."""
    spelt = {candidate.casefold(): candidate for candidate in sorted(words)}
    close = difflib.get_close_matches(word.casefold(), list(spelt), n=1, cutoff=_ALIKE)
    return spelt[close[0]] if close else None


def choice(word: str, words: Iterable[str]) -> str:
    """A phrase that offers ``words``: the nearest one first, then all of them, sorted."""
    known = sorted(set(words))
    if not known:
        return "nothing: none is defined here"
    every = "one of " + ", ".join(known) if len(known) > 1 else known[0]
    meant = nearest(word, known) if len(known) > 1 else None
    return f"{meant}, as the nearest; {every}" if meant else every
