"""One driver program for each tool that is compared; `protocol` is what they have in common.

A driver runs in its tool's own environment and imports nothing of this repository but `protocol`,
which lies beside it.
"""
