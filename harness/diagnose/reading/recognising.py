"""What a text is, by what it says; the command that printed it decides only what that leaves open.

Each recognition rests on lines that nothing else prints. A text of which part is such lines and
the rest is not understood is a mixture: those lines are then given alone, as a part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.diagnose.case import Kind

_STAMP = re.compile(
    r"(?:<\d+>)?\[ *\d+\.\d{4,6}\]|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\]"
    r"|\S+: +(?:kern|user|daemon|syslog): +\w+: \[\d{4}-\d\d-\d\dT"
)
_MODULE = re.compile(
    r"[\w.-]+ +\d+ +(?:\d+|-) +(?:-|\S+,) +(?:Live|Loading|Unloading) +0x[0-9a-f]+.*"
)
_LSMOD = re.compile(r"Module +Size +Used by\b.*")
_CARD = re.compile(
    r"GPU \d+: .+ \(UUID: GPU-.*|\s+MIG .*\(UUID: MIG-.*|No devices (?:were )?found\.?"
)
_SMI = re.compile(
    r"^(?:\|? ?NVIDIA-SMI \d|=+NVSMI LOG=+|NVIDIA-SMI has failed|Failed to initialize NVML"
    r"|NVIDIA-SMI couldn't find)",
    re.MULTILINE,
)
_PARAM = re.compile(r"[A-Za-z]\w+: ?(?:\d+|\".*\"|)")
_PARAMS = re.compile(
    r"^(?:NvLinkDisable|ResmanDebugLevel|RmLogonRC|ModifyDeviceFiles|DeviceFileUID|EnableMSI"
    r"|RegistryDwords|OpenRmEnableUnsupportedGpus): ?",
    re.MULTILINE,
)
_HOST = re.compile(r"^\S*/sys/module/kvm_\w+/parameters/\w+\W", re.MULTILINE)
_DRIVER = re.compile(r"NVRM version: +\S")
_LSPCI = re.compile(
    r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] .*\[[0-9a-f]{4}:[0-9a-f]{4}\]"
)
_PROC_DRBD = re.compile(r"\s*version: \d+\.\d+\.\d+\S* \(api:")
_DRBD = re.compile(
    r"^\S+ (?:node-id:\d+ )?role:(?:Primary|Secondary|Unknown)\b"
    r"|^(?:\d{4}-\S+ )?(?:exists|create|change|destroy) (?:resource|connection|device|peer-device) "
    r"|^# No currently configured DRBD found",
    re.MULTILINE,
)
_EVENTS2 = re.compile(
    r"(?:\d{4}-\S+ )?(?:exists|create|change|destroy|rename|call|response) (?:[a-z-]+ \S+:.*|-\s*)"
)
_SERVICES = re.compile(r"^\s*NODE\s+SERVICE\s+STATE\s+HEALTH\b", re.MULTILINE)
_EXTENSIONS = re.compile(
    r"^\s*NODE\s+NAMESPACE\s+TYPE\s+ID\s+VERSION\b[^\n]*\n(?:[^\n]*\bExtensionStatus\b)|"
    r"^\s*NAMESPACE\s+TYPE\s+ID\s+VERSION\b[^\n]*\n(?:[^\n]*\bExtensionStatus\b)",
    re.MULTILINE,
)
_MEMORY = re.compile(r"^MemAvailable of \S+ over \d+ s: at least \d+", re.MULTILINE)
_MEMINFO = re.compile(r"^MemTotal:\s+\d+ kB", re.MULTILINE)
_FREE = re.compile(r"^\s+total\s+used\s+free\b.*\n(?:Mem:|Mem )", re.MULTILINE)
_UPTIME = re.compile(r"^ ?\d\d?:\d\d(?::\d\d)?\s+up\s+.*load averages?:", re.MULTILINE)
_PROC_UPTIME = re.compile(r"\d+\.\d\d \d+\.\d\d\s*")
_HELM = re.compile(
    r"Helm (?:install|upgrade|rollback|uninstall|test) (?:failed|succeeded) for release"
    r"|execution error at \(|^(?:install|upgrade) retries exhausted",
    re.MULTILINE,
)
_CONSOLE = re.compile(
    r"\[talos\]|^\S* ?login: |boot sequence: |Linux version \d|^Debian GNU/Linux|\bsystemd\[1\]:",
    re.MULTILINE,
)
_BANNER = re.compile(r"\bLinux version \d")
_LOG = re.compile(
    r"(?:\S+ )?(?:[IWEF]\d{4} \d\d:\d\d:\d\d|\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\{\""
    r"|time=|level=|ts=|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d "
    r"|\[?(?:INFO|WARN|WARNING|ERROR|DEBUG)\b)"
)


@dataclass(frozen=True, slots=True)
class Recognised:
    """A kind, the text of it, and whether what it does not hold may have been there all the same.

    ``line`` is how many lines it begins after the text's first.
    """

    kind: Kind
    text: str
    cut: bool = False
    line: int = 0


def recognised(text: str, command: str = "", hint: str = "") -> list[Recognised]:
    """What a text is, or which of its parts are something; UNKNOWN where nothing is.

    ``hint`` is the name of its file, in small letters: it decides between a console and a dmesg.
    """
    kind = _whole(text, command, hint)
    if kind is not None:
        return [Recognised(kind, text, _part(kind, text))]
    found = list(_runs(text))
    if found:
        return found
    return [Recognised(Kind.LOG if _is_log(text, command) else Kind.UNKNOWN, text)]


def _whole(text: str, command: str, hint: str) -> Kind | None:
    lines = [line for line in text.split("\n") if line.strip()]
    for kind, share, pattern in _BY_LINES:
        if lines and sum(1 for line in lines if pattern.fullmatch(line)) >= share * len(lines):
            return kind
    if _PARAMS.search(text) and _share(lines, _PARAM) > 0.9:
        return Kind.PARAMS
    for kind, sign in _BY_SIGN:
        if sign.match(text) if kind in _AT_START else sign.search(text):
            return kind
    if _PROC_UPTIME.fullmatch(text):
        return Kind.UPTIME
    return _kernel(text, lines, command, hint) or _helm(text, lines)


_BY_LINES = (
    (Kind.MODULES, 1.0, _MODULE),
    (Kind.SMI_LIST, 1.0, _CARD),
    (Kind.DRBD, 1.0, _EVENTS2),
)
_AT_START = (Kind.PROC_DRBD, Kind.LSPCI, Kind.MODULES, Kind.DRIVER)
_BY_SIGN = (
    (Kind.PROC_DRBD, _PROC_DRBD),
    (Kind.MODULES, _LSMOD),
    (Kind.NVIDIA_SMI, _SMI),
    (Kind.DRIVER, _DRIVER),
    (Kind.LSPCI, _LSPCI),
    (Kind.TALOS_SERVICES, _SERVICES),
    (Kind.TALOS_EXTENSIONS, _EXTENSIONS),
    (Kind.MEMORY, _MEMORY),
    (Kind.MEMINFO, _MEMINFO),
    (Kind.MEMINFO, _FREE),
    (Kind.HOST, _HOST),
)


def _share(lines: list[str], pattern: re.Pattern[str]) -> float:
    return sum(1 for line in lines if pattern.match(line)) / len(lines) if lines else 0.0


def _kernel(text: str, lines: list[str], command: str, hint: str) -> Kind | None:
    """A kernel's log or a console's text."""
    stamped = _share(lines, _STAMP)
    if "dmesg" in command and stamped > 0.5:
        return Kind.DMESG
    told = bool(_CONSOLE.search(text))
    if "console" in hint + command or "serial" in hint:
        return Kind.CONSOLE if stamped > 0.05 or told else None
    if stamped > 0.97 and len(_BANNER.findall(text)) < 2:
        return Kind.DMESG
    if stamped > 0.2 and told:
        return Kind.CONSOLE
    if stamped > 0.5:
        return Kind.DMESG
    return Kind.CONSOLE if "[talos]" in text and _share(lines, _LOG) < 0.5 else None


def _helm(text: str, lines: list[str]) -> Kind | None:
    if _DRBD.search(text):
        return Kind.DRBD
    if _UPTIME.search(text) and len(lines) <= 3:
        return Kind.UPTIME
    # many such lines are a controller's log
    return Kind.HELM_MESSAGE if _HELM.search(text) and _share(lines, _LOG) < 0.5 else None


def _is_log(text: str, command: str) -> bool:
    lines = [line for line in text.split("\n") if line.strip()]
    asked = " logs " in f" {command} " or command.startswith("journalctl")
    return bool(lines) and (asked or _share(lines, _LOG) > 0.5)


def _part(kind: Kind, text: str) -> bool:
    """Whether a text is a part only, or looks like one."""
    return not text.endswith("\n") or (kind is Kind.MODULES and _alike(text))


def _alike(text: str) -> bool:
    """Whether all lines share a word, as what ``grep`` printed does; one line always does."""
    words: set[str] | None = None
    for line in text.split("\n"):
        if line.strip() and not line.startswith("Module "):
            said = re.split(r" (?:Live|Loading|Unloading) ", line)[0]
            found = {one for one in re.split(r"[\W_\d]+", said) if len(one) > 2}
            words = found if words is None else words & found
    return bool(words)


_RUNS = (
    (Kind.MODULES, _MODULE),
    (Kind.SMI_LIST, _CARD),
    (Kind.PARAMS, _PARAMS),
    (Kind.DRIVER, _DRIVER),
)


def _runs(text: str) -> Iterator[Recognised]:
    """Lines next to each other that only one kind has; each such run is a part."""
    kind: Kind | None = None
    run: list[str] = []
    start = 0
    for number, line in enumerate([*text.split("\n"), ""]):
        this = next((one for one, pattern in _RUNS if pattern.match(line)), None)
        if this is not kind:
            if kind is not None:
                yield Recognised(kind, "\n".join(run) + "\n", cut=True, line=start)
            kind, run, start = this, [], number
        run.append(line)
