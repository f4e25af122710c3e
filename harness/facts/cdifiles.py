"""Every CDI file of a machine, as a container engine meets them: directories, files, versions.

Podman says the same words for nearly every mistake in these files ("unresolvable CDI devices"), so
that only the files tell which one it was (lab/captures/cdi_host_podman43_runc.txt).
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.facts.cdi import CdiSpec
from harness.facts.fact import Fact, Unread
from harness.facts.reply import Output, no_such_file, plain, unfinished

DIRECTORIES = ("/etc/cdi", "/run/cdi")
"""Where the CDI library looks, a later one before an earlier (/var/run is /run on every system)."""
RUN_ONLY = ("/run/cdi",)
"""Where Talos' containerd looks (gpu_path 6)."""
ENDINGS = (".json", ".yaml")
"""What a file's name must end in to be looked at."""
NEWEST = {"podman 4.3": "0.5.0"}
"""The newest cdiVersion that an engine takes, by its release; only what has been tried."""


@dataclass(frozen=True, slots=True)
class CdiFile:
    """One file of a CDI directory; ``spec`` is Unread where it is no CDI file."""

    path: str
    spec: CdiSpec | Unread

    @property
    def directory(self) -> str:
        """The directory that it lies in."""
        return self.path.rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class CdiFiles(Fact):
    """All CDI files of a machine at one moment.

    ``engine`` is the one that reads them ("podman 4.3.1"), "" where it is not known;
    ``directories`` are in its order, a later one before an earlier.
    """

    engine: str
    directories: tuple[str, ...]
    files: tuple[CdiFile, ...]

    @property
    def newest(self) -> str:
        """The newest cdiVersion that the engine takes, "" where that has not been tried."""
        return NEWEST.get(self.engine.rpartition(".")[0], "")


def read_names(
    output: Output, directory: str, *, at: float, source: str
) -> tuple[str, ...] | Unread:
    """The paths of a directory's files, from the reply of ``ls``; none where it is not there."""
    origin = output.origin(at, source)
    if output.exit_code not in (0, None) and no_such_file(directory, output.stderr):
        return ()
    refused = unfinished(output, directory, origin)
    if refused is not None:
        return refused
    names = (line.strip() for line in plain(output.stdout).split("\n"))
    return tuple(f"{directory}/{name}" for name in names if name)
