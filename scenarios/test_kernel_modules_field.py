"""The field kernelModules itself, tried on scratch pools without machines that are gone after.

Left out, an empty list and a list are three requests; what the field must refuse is refused before
anything is made of it.
"""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import Pool, Record


@pytest.mark.claims("kernel-modules-refused")
def test_hostile_values_are_refused(pool: Pool, record: Record) -> None:
    """Names and parameters that a shell would expand are refused at render, by the field's words.

    Among them the two characters that YAML takes for line ends, U+2028 and U+2029.
    """
    record(judge.kernel_modules_refused(pool.trials.hostile(), pool.subject))


@pytest.mark.claims("kernel-modules-verbatim")
def test_valid_values_arrive_word_for_word(pool: Pool, record: Record) -> None:
    """A list arrives as written, a semicolon in it too; unknown keys go; [] means none at all."""
    record(judge.kernel_modules_verbatim(pool.trials.valid(), pool.subject))


@pytest.mark.claims("rollout")
def test_changed_list_reaches_the_pool(pool: Pool, record: Record) -> None:
    """A changed list reaches the template that new workers are made from, under another name."""
    change = pool.trials.rollout()
    record(judge.rollout(change.before, change.after, change.rendered, change.wanted, pool.subject))
