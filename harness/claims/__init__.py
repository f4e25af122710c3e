"""Claims: what a run sets out to establish, in words that a release manager can sign."""

from __future__ import annotations

from harness.claims.catalogue import SEVERITIES, Claim, UnknownClaim, get, load

__all__ = ["SEVERITIES", "Claim", "UnknownClaim", "get", "load"]
