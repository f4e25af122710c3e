"""Pictures drawn from a ledger alone: SVG that a page can hold inline, with nothing to load."""
