"""What a run saw and judged, kept and shown: reads ledgers, never a cluster."""
