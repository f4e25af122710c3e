"""What `hil inventory` does: check files, print the schema."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from harness.inventory.loading import check
from harness.inventory.schema import published

USER_MISTAKE = 2


def check_files(files: Sequence[Path], claims: Collection[str]) -> int:
    """Print every mistake of every file; 2 when there is one. ``claims`` are the known ids."""
    wrong = 0
    for file in files:
        problems = check(file, claims=claims)
        wrong += len(problems)
        if not problems:
            sys.stdout.write(f"{file}: ok\n")
        for problem in problems:
            sys.stderr.write(f"{problem}\n")
    if wrong:
        sys.stderr.write(f"hil: {wrong} mistake{'s' * (wrong != 1)}\n")
    return USER_MISTAKE if wrong else 0


def print_schema() -> int:
    """Print the JSON Schema of an inventory file."""
    sys.stdout.write(published())
    return 0
