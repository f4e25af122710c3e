"""Which Debian packages a guest is made of, in which versions, and their files on this machine.

apt answers all of it: names are resolved anew each time, because a kernel's name holds its ABI and
leaves the archive with the next security update. Of dependencies only shared libraries (section
"libs") are followed: the rest (debconf, init systems, perl) serves package scripts that never run
in the guest. What the programs truly load is read from them afterwards (`harness.qemulab.tree`).
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from harness.qemulab.errors import Unfit
from harness.qemulab.hosttools import failed, run_tool

Say = Callable[[str], None]
Run = Callable[[Sequence[str], Path | None], "subprocess.CompletedProcess[str]"]

KERNEL = "linux-image-cloud-amd64"
"""The metapackage that stands for the newest kernel for virtual machines."""
PROGRAMS = (
    "busybox-static",
    "dash",
    "openssh-server",
    "openssh-sftp-server",
    "drbd-utils",
    "kmod",
)
CONTAINERS = ("podman", "crun", "conmon")

_LIBRARIES = ("libs", "oldlibs")
_IMAGE = "linux-image-"
_HEADERS = "linux-headers-"
_FOR_MODULES = (_HEADERS, "linux-kbuild-")  # what headers depend on, the compiler left out


@dataclass(frozen=True, slots=True)
class Package:
    """One binary package as the archive describes it; ``size`` in bytes, ``sha256`` in hex.

    ``depends`` are the names that it depends on, alternatives among them.
    """

    name: str
    version: str
    architecture: str
    section: str
    size: int
    sha256: str
    depends: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The name that apt gives its file."""
        return f"{self.name}_{self.version.replace(':', '%3a')}_{self.architecture}.deb"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What an image is made from: ``userland`` goes into its root, ``headers`` compile the stubs.

    ``versions`` by name; the metapackage is in it, for a new one stands for another kernel.
    """

    kernel: Package
    userland: tuple[Package, ...]
    headers: tuple[Package, ...]
    versions: Mapping[str, str]

    @property
    def release(self) -> str:
        """What ``uname -r`` will say: "6.1.0-57-cloud-amd64"."""
        return self.kernel.name.removeprefix(_IMAGE)

    @property
    def all(self) -> tuple[Package, ...]:
        """Every package with a file that is needed, the kernel first."""
        return (self.kernel, *self.userland, *self.headers)


def read_packages(text: str) -> list[Package]:
    """Read what ``apt-cache show`` prints: one stanza a package, parted by empty lines.

    A package without a checksum is left out: it is installed here and in no archive.
    """
    stanzas = (_fields(stanza) for stanza in re.split(r"\n\s*\n", text))
    return [_package(fields) for fields in stanzas if fields.keys() >= _WHOLE]


_WHOLE = {"Package", "Version", "Architecture", "SHA256", "Size"}


def _fields(stanza: str) -> dict[str, str]:
    lines = re.sub(r"\n[ \t]+", " ", stanza.strip()).split("\n")
    parted = (line.partition(":") for line in lines if ":" in line)
    return {key: value.strip() for key, _, value in parted}


def _package(fields: Mapping[str, str]) -> Package:
    needs = f"{fields.get('Pre-Depends', '')},{fields.get('Depends', '')}"
    names = (re.split(r"[\s(:\[]", need.strip(), maxsplit=1)[0] for need in re.split("[,|]", needs))
    return Package(
        fields["Package"],
        fields["Version"],
        fields["Architecture"],
        fields.get("Section", "").rpartition("/")[2],
        int(fields["Size"]) if fields["Size"].isdecimal() else 0,
        fields["SHA256"],
        tuple(name for name in names if name),
    )


def read_candidates(text: str) -> dict[str, str]:
    """Read what ``apt-cache policy NAME…`` prints: the version that apt would take, by name."""
    found = re.findall(r"(?m)^(\S+):\n(?:\s+.*\n)*?\s+Candidate: (\S+)$", text)
    return {name: version for name, version in found if version != "(none)"}


class Archive:
    """The archive that this machine's apt is set up with, and packages fetched from it.

    ``directory`` keeps the package files and apt's own caches, so that nothing of the system's is
    written and root is not needed.
    """

    def __init__(self, directory: Path, *, run: Run = run_tool) -> None:
        self._directory = directory
        self._run = run
        self._known: dict[str, Package] = {}
        self._asked: set[str] = set()

    def choose(self, *, containers: bool, stubs: bool) -> Chosen:
        """Name every package of an image, with versions.

        Raises `Unfit` for one that cannot be had. What was chosen last is kept, and taken again
        while apt would take the same versions: asking that is quick, following dependencies not.
        """
        kept = self._directory / f"chosen{'-containers' * containers}{'-stubs' * stubs}.json"
        last = _remembered(kept)
        if last and self._candidates(last.versions) == last.versions:
            return last
        chosen = self._choose([*PROGRAMS, *(CONTAINERS if containers else ())], stubs=stubs)
        kept.write_text(json.dumps(asdict(chosen)), encoding="utf-8")
        return chosen

    def _candidates(self, names: Iterable[str]) -> dict[str, str]:
        return read_candidates(self._apt("apt-cache", "policy", *names).stdout)

    def _choose(self, programs: Sequence[str], *, stubs: bool) -> Chosen:
        found = self._spread([KERNEL, *programs], stubs=stubs)
        meta = found.pop(KERNEL)
        kernel = self._kernel_of(meta)
        del found[kernel.name]
        if stubs:
            self._need([_headers_of(kernel)])
        headers = [package for name, package in found.items() if name.startswith(_FOR_MODULES)]
        userland = [package for package in found.values() if package not in headers]
        versions = {name: one.version for name, one in found.items()}
        versions |= {one.name: one.version for one in (meta, kernel)}
        return Chosen(kernel, tuple(userland), tuple(headers), versions)

    def _spread(self, names: Sequence[str], *, stubs: bool) -> dict[str, Package]:
        fresh = self._need(names)
        chosen = {package.name: package for package in fresh}
        while fresh:
            leads = {name for package in fresh for name in _leads(package, stubs=stubs)}
            leads -= chosen.keys()
            self._look_up(leads)
            found = [self._known[name] for name in sorted(leads) if name in self._known]
            fresh = [package for package in found if _is_followed(package)]
            chosen |= {package.name: package for package in fresh}
        return chosen

    def _kernel_of(self, meta: Package) -> Package:
        named = [name for name in meta.depends if name.startswith(_IMAGE)]
        if not named:
            raise Unfit(
                f"find the kernel that {meta.name} {meta.version} stands for",
                f"no dependency on a package {_IMAGE}…",
                f"`apt-get update`, then look at `apt-cache show {meta.name}`",
            )
        return self._need(named[:1])[0]

    def _need(self, names: Sequence[str]) -> list[Package]:
        self._look_up(names)
        for name in names:
            if name not in self._known:
                raise Unfit(
                    "build the guests' image",
                    f"no package {name} in this machine's package lists",
                    "`apt-get update`, with Debian's main archive among apt's sources",
                )
        return [self._known[name] for name in names]

    def _look_up(self, names: Iterable[str]) -> None:
        unknown = sorted(set(names) - self._asked)
        if unknown:
            shown = self._apt("apt-cache", "show", "--no-all-versions", *unknown)
            self._known |= {package.name: package for package in read_packages(shown.stdout)}
            self._asked |= set(unknown)

    def _apt(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        caches = self._directory / "apt"
        (caches / "archives" / "partial").mkdir(parents=True, exist_ok=True)
        settings = {
            "Dir::Cache": caches,
            "Dir::Cache::pkgcache": "pkgcache.bin",
            "Dir::Cache::srcpkgcache": "",
            "APT::Sandbox::User": "root",  # it writes as whoever runs it, into a folder of theirs
        }
        options = [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]
        return self._run([program, *options, *words], self._directory)

    def fetch(self, packages: Sequence[Package], say: Say) -> dict[str, Path]:
        """The packages' files by name; what is not here yet is downloaded, and all are checked.

        Raises `Unfit` for one that cannot be had.
        """
        files = {package.name: self._directory / package.file for package in packages}
        missing = [package for package in packages if not _is(files[package.name], package)]
        if missing:
            size = sum(package.size for package in missing)
            say(f"downloading {len(missing)} packages, {size / 1e6:.0f} MB")
            self._download(missing)
        return files

    def missing(self, packages: Sequence[Package]) -> int:
        """How many bytes `fetch` would have to download."""
        return sum(one.size for one in packages if not (self._directory / one.file).is_file())

    def _download(self, packages: Sequence[Package]) -> None:
        for package in packages:
            (self._directory / package.file).unlink(missing_ok=True)
        asked = [f"{package.name}={package.version}" for package in packages]
        done = self._apt("apt-get", "-q", "download", *asked)
        for package in packages:
            if not _is(self._directory / package.file, package):
                raise failed(
                    "apt-get",
                    done,
                    f"download {package.name} {package.version}",
                    "see that this machine reaches its archive, and `apt-get update` old lists",
                )


def _leads(package: Package, *, stubs: bool) -> list[str]:
    if package.name == KERNEL:
        return [name for name in package.depends if name.startswith(_IMAGE)]
    if package.name.startswith(_IMAGE):
        return [_headers_of(package)] if stubs else []
    if package.name.startswith(_FOR_MODULES):
        return [name for name in package.depends if name.startswith(_FOR_MODULES)]
    return list(package.depends)


def _is_followed(package: Package) -> bool:
    return package.section in _LIBRARIES or package.name.startswith((_IMAGE, *_FOR_MODULES))


def _headers_of(kernel: Package) -> str:
    return kernel.name.replace(_IMAGE, _HEADERS, 1)


def _remembered(file: Path) -> Chosen | None:
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        kernel, userland, headers = (
            tuple(Package(**{**one, "depends": tuple(one["depends"])}) for one in ones)
            for ones in ([told["kernel"]], told["userland"], told["headers"])
        )
        return Chosen(kernel[0], userland, headers, dict(told["versions"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None  # none yet, or an older form: it is chosen anew


def _is(file: Path, package: Package) -> bool:
    if not file.is_file() or file.stat().st_size != package.size:
        return False
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == package.sha256
