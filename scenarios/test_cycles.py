"""Whether a boot can come to an end at all, known in seconds and not after 70 minutes.

A boot that waits for a service for ever is given up at an uptime of 4200 s and begins anew, while
the Node is Ready all along. What it waits for is declared: the image, the card, the modules, the
port through which Talos' API gets its certificate.
"""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import Pool, Record


@pytest.mark.claims("image-fits")
def test_the_image_waits_for_nothing_that_the_pool_lacks(pool: Pool, record: Record) -> None:
    """No service of the image that the pool boots waits for a card or modules it does not have."""
    booting = pool.booting
    record(
        judge.image_fits(
            booting.source(),
            booting.known,
            booting.running(),
            pool.rendered_modules(),
            pool.devices,
            pool.subject,
        )
    )


@pytest.mark.claims("apid-serves")
def test_talos_api_gets_its_certificate(pool: Pool, record: Record) -> None:
    """The control plane's Service has 6443, 8132 and 50001, and apid listens on every worker."""
    booting = pool.booting
    record(judge.apid_serves(booting.control_plane(), booting.control_plane_subject))
    for worker in pool.workers:
        record(judge.apid_serves(worker.listening(), worker.subject))
