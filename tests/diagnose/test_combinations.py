"""Two faults at once in a running twin: both are named, and neither hides the other."""

from __future__ import annotations

from bench.diagnosis import diagnosed


def test_memory_that_runs_out_and_an_installer_that_names_another_image() -> None:
    faults = ["real-oom", "boot-install-schematic-drift"]
    exit_status, said = diagnosed(faults, ["gpu-l40s"], 9000.0)
    named = {one["id"] for one in said["causes"] if one["standing"] == "named"}
    assert (exit_status, named) == (1, {"out-of-memory", "boot-and-install-differ"})
    (memory,) = [one for one in said["causes"] if one["id"] == "out-of-memory"]
    proofs = [one["text"] for one in memory["for"] if one["weight"] == "proves"]
    assert any("MemAvailable" in text and "at least 60 MiB over" in text for text in proofs)
    assert not memory["against"], "plenty now, for the memory of the next boot is whole"
