"""Facts to ranked causes: evidence for, evidence against, what would decide."""
