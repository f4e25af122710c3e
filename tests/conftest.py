"""For all tests: how long an example of a property takes depends on who else uses the machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("hil", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hil")
