"""Loads the harness into pytest: `pytest scenarios --lab inventory/twin.yaml`."""

pytest_plugins = ["harness.plugin"]
