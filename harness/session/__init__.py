"""One run: its plan, its record, the lab it holds, and how it ends."""
