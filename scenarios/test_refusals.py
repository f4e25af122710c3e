"""What a pool's chart must refuse and what it must not, tried on scratch pools without machines.

A refusal counts only by the words of the guard that is meant, in the release's condition and in a
Warning Event, and only where nothing was made or changed.
"""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import Pool, Record


@pytest.mark.claims("os-image-refused")
def test_bad_images_are_refused(pool: Pool, record: Record) -> None:
    """Both forms at once, a bad schematic, version or factory, and versions that do not fit."""
    record(judge.os_image_refused(pool.refusals.os_image(), pool.subject))


@pytest.mark.claims("golden-refused")
def test_what_the_golden_cannot_give_is_refused(pool: Pool, record: Record) -> None:
    """A schematic without a golden, another class than the golden's, a disk smaller than it."""
    record(judge.golden_refused(pool.refusals.golden(), pool.subject))


@pytest.mark.claims("os-image-allowed")
def test_what_only_looks_wrong_is_rendered(pool: Pool, record: Record) -> None:
    """Empty forms of osImage, a factory that nobody asks, a class left to the cluster."""
    tried, untried = pool.refusals.allowed()
    record(judge.os_image_allowed(tried, untried, pool.subject))


@pytest.mark.claims("spec-applied")
def test_accepted_is_applied(pool: Pool, record: Record) -> None:
    """What the pool's object says is in use; an edit under a failing release is applied nowhere."""
    record(judge.spec_applied(pool.refusals.applied(), pool.subject))
    edit = pool.refusals.hazard()
    record(
        judge.spec_applied_while_refused(
            edit.valid,
            edit.refused,
            edit.edited,
            edit.shown,
            edit.mended,
            edit.old,
            edit.new,
            f"a scratch pool of {pool.subject}",
        )
    )


@pytest.mark.claims("os-image-rolls")
def test_adopting_the_golden_moves_that_pool_alone(pool: Pool, record: Record) -> None:
    """Another template for the pool that adopts osImage, and not an object of any other changed."""
    change = pool.refusals.adoption()
    record(
        judge.os_image_rolls(
            change.before,
            change.after,
            change.around_before,
            change.around_after,
            change.held,
            pool.subject,
        )
    )


@pytest.mark.claims("clone-rbac")
def test_a_tenant_may_clone_and_no_more(pool: Pool, record: Record) -> None:
    """The tenant's service account may clone goldens by the shipped binding, and nothing else."""
    answers, binding = pool.refusals.clone_access()
    record(judge.clone_rbac(answers, binding, pool.subject))
