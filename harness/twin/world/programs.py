"""What a privileged pod on the guest can run: a small busybox, and the host root's own binaries.

Messages and exit statuses are busybox's. What is not modelled is refused with a sentence in
``ExecResult.error``; it is never answered with a guess.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from harness.twin.apiserver.execresult import ExecResult
from harness.twin.world import dirlisting
from harness.twin.world.filesystem import (
    Directory,
    Entry,
    File,
    Filesystem,
    Link,
    PathError,
    text,
)

_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_SHARED = ("/proc/", "/sys/", "/dev/")  # a privileged pod sees the machine's own
_SHELL_SYNTAX = re.compile(r"[;|&<>$`(){}\n]")
_REDIRECTED = re.compile(r"(?P<script>[^;|&<>$`(){}\n]+)>\s*(?P<path>/[\w./-]+)\s*$")
_PATTERN = re.compile(r"[*?]")
Program = Callable[[Sequence[str]], ExecResult]


@dataclass(frozen=True, slots=True)
class Machine:
    """What programs are run on. ``date`` is what ``ls -l`` shows ("Jan  5 12:00").

    ``programs`` are a container's own beside the small ones, by name; ``unloadable`` are real
    paths of binaries whose loader the container lacks; ``coreutils``: it speaks GNU's words;
    ``writes`` are files that may be written to, with what that does.
    """

    host: Filesystem
    hostname: str
    release: str
    dmesg: Callable[[], str]
    date: str
    host_program: Callable[[str, Sequence[str]], ExecResult]  # real path, arguments
    programs: Mapping[str, Program] = field(default_factory=dict)
    unloadable: frozenset[str] = frozenset()
    coreutils: bool = False
    writes: Mapping[str, Callable[[bytes], ExecResult]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Run:
    """One program run: its machine, the pod's view of the files, its arguments."""

    machine: Machine
    files: Filesystem
    name: str
    arguments: list[str]


def run(argv: Sequence[str], machine: Machine, files: Filesystem | None = None) -> ExecResult:
    """Run a program in a container that sees ``files``.

    Without them: in a privileged pod that mounts the host root at /host.
    """
    if not argv:
        return ExecResult(b"", b"", 1, "you must specify at least one command for the container")
    name, arguments = argv[0], list(argv[1:])
    seen = _pod_files(machine.host) if files is None else files
    real = find(name, seen)
    if real in machine.unloadable:
        return ExecResult(b"", b"", 127, cannot_exec(f"exec {real}: no such file or directory"))
    if not real:
        return ExecResult(b"", b"", 127, cannot_exec(not_found(name)))
    known = _known(machine, real)
    if known is None:
        return _refuse(real)
    return known(_Run(machine, seen, posixpath.basename(name), arguments))


def find(name: str, files: Filesystem) -> str:
    """The real path of a program, looked up as a runtime does; "" where it is not to be found."""
    for path in [name] if "/" in name else [f"{directory}/{name}" for directory in _PATH]:
        try:
            real, entry = files.find(path)
        except PathError:
            continue
        if isinstance(entry, File) and entry.mode & 0o111:
            return real
    return ""


def not_found(name: str) -> str:
    """A runtime's words for a program that is not there."""
    if "/" in name:
        return f'exec: "{name}": stat {name}: no such file or directory'
    return f'exec: "{name}": executable file not found in $PATH'


def cannot_exec(why: str) -> str:
    """A kubelet's sentence, over containerd, for an exec whose program did not start."""
    return (
        "error executing command in container: failed to exec in container: failed to start exec: "
        "OCI runtime exec failed: exec failed: unable to start container process: "
        f"{why}: unknown"
    )


def _known(machine: Machine, real: str) -> Callable[[_Run], ExecResult] | None:
    name = posixpath.basename(real)
    own = machine.programs.get(name)
    if own is not None:
        return lambda run: own(run.arguments)
    return _PROGRAMS.get(name)


def _pod_files(host: Filesystem) -> Filesystem:
    entries: dict[str, Entry] = {f"/bin/{name}": text("", 0o755) for name in _PROGRAMS}
    entries["/etc/os-release"] = text('NAME="BusyBox"\nID=busybox\n')
    entries["/host"] = Directory()
    for path, entry in host.entries().items():
        entries[f"/host{path}"] = entry
        if path.startswith(_SHARED):
            entries[path] = entry
    return Filesystem(entries)


# -- answers -----------------------------------------------------------------------------------


def _ok(out: bytes | str) -> ExecResult:
    return ExecResult(out.encode() if isinstance(out, str) else out, b"", 0)


def _fail(message: str, exit_code: int = 1, out: bytes = b"") -> ExecResult:
    return ExecResult(out, f"{message}\n".encode(), exit_code)


def _refuse(what: str) -> ExecResult:
    return ExecResult(b"", b"", 1, f"not modelled on this machine: {what}")


def _options(run: _Run, allowed: str) -> tuple[set[str], list[str], ExecResult | None]:
    """Single-letter options and operands, or the complaint about one that is not allowed."""
    letters: set[str] = set()
    operands: list[str] = []
    for index, argument in enumerate(run.arguments):
        if argument == "--":
            operands.extend(run.arguments[index + 1 :])
            break
        if len(argument) < 2 or not argument.startswith("-"):
            operands.append(argument)
            continue
        unknown = [letter for letter in argument[1:] if letter not in allowed]
        if unknown:
            return letters, operands, _fail(f"{run.name}: unrecognized option: {unknown[0]}")
        letters.update(argument[1:])
    return letters, operands, None


# -- files -------------------------------------------------------------------------------------


def _each(
    run: _Run, paths: Sequence[str], words: str, show: Callable[[bytes], bytes]
) -> ExecResult:
    out, errors = b"", ""
    for path in paths:
        try:
            out += show(run.files.read(path))
        except PathError as error:
            if str(error) == "Is a directory":
                errors += f"{run.name}: read error: Is a directory\n"
            else:
                errors += words.format(name=run.name, path=path, error=error) + "\n"
    return ExecResult(out, errors.encode(), 1 if errors else 0)


_CANNOT_OPEN = "{name}: can't open '{path}': {error}"
_PLAIN = "{name}: {path}: {error}"


def _cat(run: _Run) -> ExecResult:
    _, paths, complaint = _options(run, "")
    words = _PLAIN if run.machine.coreutils else _CANNOT_OPEN
    return complaint or _each(run, paths, words, lambda data: data)


def _count(run: _Run) -> tuple[str, int, list[str]] | None:
    """Unit ("n" or "c"), how many, operands; None for arguments that are not taken."""
    arguments = list(run.arguments)
    unit, number = "n", "10"
    if arguments and arguments[0] in ("-n", "-c") and len(arguments) > 1:
        unit, number = arguments[0][1], arguments[1]
        del arguments[:2]
    elif arguments and re.fullmatch(r"-[nc]?\d+", arguments[0]):
        unit = "c" if arguments[0].startswith("-c") else "n"
        number = arguments.pop(0).lstrip("-nc")
    if not number.isdigit() or any(item.startswith("-") for item in arguments):
        return None
    return unit, int(number), arguments


def _head(run: _Run) -> ExecResult:
    asked = _count(run)
    if asked is None:
        return _refuse(shlex.join([run.name, *run.arguments]))
    unit, number, paths = asked

    def show(data: bytes) -> bytes:
        return data[:number] if unit == "c" else b"".join(data.splitlines(keepends=True)[:number])

    return _each(run, paths, _PLAIN, show)


def _tail(run: _Run) -> ExecResult:
    asked = _count(run)
    if asked is None:
        return _refuse(shlex.join([run.name, *run.arguments]))
    unit, number, paths = asked

    def show(data: bytes) -> bytes:
        if number == 0:
            return b""
        return data[-number:] if unit == "c" else b"".join(data.splitlines(keepends=True)[-number:])

    return _each(run, paths, _CANNOT_OPEN, show)


def _grep(run: _Run) -> ExecResult:
    letters, operands, complaint = _options(run, "iEFcqvh")
    if complaint or len(operands) < 2:
        return complaint or _refuse(shlex.join([run.name, *run.arguments]))
    pattern = re.escape(operands[0]) if "F" in letters else operands[0]
    try:
        wanted = re.compile(pattern.encode(), re.IGNORECASE if "i" in letters else 0)
    except re.error as error:
        return _fail(f"grep: bad regex '{operands[0]}': {error}", 2)
    paths = operands[1:]
    found = False

    def show(data: bytes) -> bytes:
        nonlocal found
        lines = [
            line
            for line in data.splitlines(keepends=True)
            if bool(wanted.search(line)) != ("v" in letters)
        ]
        found = found or bool(lines)
        return f"{len(lines)}\n".encode() if "c" in letters else b"".join(lines)

    result = _each(run, paths, _PLAIN, show)
    code = 2 if result.exit_code else int(not found)
    return ExecResult(b"" if "q" in letters else result.stdout, result.stderr, code)


def _readlink(run: _Run) -> ExecResult:
    letters, operands, complaint = _options(run, "fn")
    if complaint or len(operands) != 1:
        return complaint or _fail("readlink: one argument expected")
    try:
        real, entry = run.files.find(operands[0], follow="f" in letters)
    except PathError:
        return ExecResult(b"", b"", 1)
    answer = real if "f" in letters else entry.target if isinstance(entry, Link) else ""
    end = "" if "n" in letters else "\n"
    return _ok(f"{answer}{end}") if answer else ExecResult(b"", b"", 1)


def _ls(run: _Run) -> ExecResult:
    letters, operands, complaint = _options(run, "1lad")
    if complaint:
        return complaint
    date = run.machine.date
    plain: list[str] = []
    blocks: list[tuple[str, list[str]]] = []
    errors = ""
    for path in operands or ["/"]:
        try:
            entry = run.files.find(path, follow="l" not in letters)[1]
            if isinstance(entry, Directory) and "d" not in letters:
                blocks.append((path, dirlisting.lines(run.files, path, letters, date)))
            else:
                plain.append(dirlisting.line(run.files, path, path, letters, date))
        except PathError as error:
            asked = f"cannot access '{path}'" if run.machine.coreutils else path
            errors += f"ls: {asked}: {error}\n"
    out = plain + dirlisting.titled(blocks, alone=len(operands) < 2)
    code = 0 if not errors else 2 if run.machine.coreutils else 1
    return ExecResult("".join(f"{x}\n" for x in out).encode(), errors.encode(), code)


# -- the machine -------------------------------------------------------------------------------


def _uname(run: _Run) -> ExecResult:
    letters, _, complaint = _options(run, "asnrvmo")
    if complaint:
        return complaint
    parts: Mapping[str, str] = {
        "s": "Linux",
        "n": run.machine.hostname,
        "r": run.machine.release,
        "v": "#1 SMP Thu Apr 16 09:12:44 UTC 2026",
        "m": "x86_64",
        "o": "GNU/Linux",
    }
    wanted = set(parts) if "a" in letters else letters or {"s"}
    return _ok(" ".join(value for key, value in parts.items() if key in wanted) + "\n")


def _id(run: _Run) -> ExecResult:
    if run.arguments == ["-u"] or run.arguments == ["-g"]:
        return _ok("0\n")
    return _ok("uid=0(root) gid=0(root) groups=0(root),10(wheel)\n")


def _dmesg(run: _Run) -> ExecResult:
    _, _, complaint = _options(run, "r")
    return complaint or _ok(run.machine.dmesg())


def _sh(run: _Run) -> ExecResult:
    if len(run.arguments) < 2 or run.arguments[0] != "-c":
        return _refuse("an interactive shell")
    script, target = run.arguments[1], ""
    redirected = _REDIRECTED.match(script)
    if redirected is not None and (run.machine.writes or run.files.exists(redirected["path"])):
        script, target = redirected["script"], redirected["path"]
    if _SHELL_SYNTAX.search(script):
        return _refuse(f"shell syntax in {script!r}: give one plain command")
    try:
        words = shlex.split(script)
    except ValueError:
        return _fail("sh: syntax error: unterminated quoted string", 2)
    if not words:
        return _ok("")
    name = words[0]
    real = find(name, run.files)
    if not real or real in run.machine.unloadable:
        line = "1: " if run.machine.coreutils else ""
        return _fail(f"{run.name}: {line}{name}: not found", 127)
    known = _known(run.machine, real)
    if known is None:
        return _refuse(real)
    arguments = [each for word in words[1:] for each in _expanded(run.files, word)]
    result = known(_Run(run.machine, run.files, posixpath.basename(name), arguments))
    return _written(run, target, result) if target else result


def _written(run: _Run, path: str, result: ExecResult) -> ExecResult:
    """A program's output goes to a file."""
    write = run.machine.writes.get(path)
    if write is None:
        line = "1: " if run.machine.coreutils else ""
        why = "Read-only file system" if run.files.exists(path) else "nonexistent directory"
        return _fail(f"{run.name}: {line}can't create {path}: {why}")
    if result.exit_code or result.error:
        return replace(result, stdout=b"")
    return write(result.stdout)


def _expanded(files: Filesystem, word: str) -> list[str]:
    """A word of a shell with its pattern in the last part of a path; itself where none fits."""
    directory, name = posixpath.split(word)
    if not _PATTERN.search(name) or _PATTERN.search(directory) or not directory:
        return [word]
    try:
        found = [each for each in files.listing(directory) if fnmatchcase(each, name)]
    except PathError:
        found = []
    return [posixpath.join(directory, each) for each in found] or [word]


def _chroot(run: _Run) -> ExecResult:
    if not run.arguments:
        return _fail("BusyBox v1.37.0 multi-call binary.\n\nUsage: chroot NEWROOT [PROG ARGS]")
    root, *command = run.arguments
    try:
        real, entry = run.files.find(root)
        if not isinstance(entry, Directory):
            raise PathError("Not a directory")
    except PathError as error:
        return _fail(f"chroot: can't change root directory to '{root}': {error}")
    program, *arguments = command or ["/bin/sh", "-i"]
    if real == "/":
        return _same_root(run, program, arguments)
    host = run.machine.host if real == "/host" else Filesystem({})
    return _host_program(run.machine, host, program, arguments)


def _same_root(run: _Run, program: str, arguments: list[str]) -> ExecResult:
    """``chroot /``: the same root, so the same programs."""
    known = _known(run.machine, find(program, run.files))
    if known is None:
        return _cannot_execute(program, "No such file or directory", 127)
    return known(_Run(run.machine, run.files, posixpath.basename(program), arguments))


def _host_program(
    machine: Machine, host: Filesystem, program: str, arguments: list[str]
) -> ExecResult:
    paths = [program] if "/" in program else [f"{directory}/{program}" for directory in _PATH]
    for path in paths:
        try:
            real, entry = host.find(path)
        except PathError:
            continue
        if not isinstance(entry, File) or not entry.mode & 0o111:
            return _cannot_execute(program, "Permission denied", 126)
        return machine.host_program(real, arguments)
    return _cannot_execute(program, "No such file or directory", 127)


def _cannot_execute(program: str, why: str, exit_code: int) -> ExecResult:
    return _fail(f"chroot: can't execute '{program}': {why}", exit_code)


_PROGRAMS: Mapping[str, Callable[[_Run], ExecResult]] = {
    "cat": _cat,
    "chroot": _chroot,
    "dmesg": _dmesg,
    "echo": lambda run: _ok(" ".join(run.arguments) + "\n"),
    "false": lambda _run: ExecResult(b"", b"", 1),
    "grep": _grep,
    "head": _head,
    "hostname": lambda run: _ok(f"{run.machine.hostname}\n"),
    "id": _id,
    "ls": _ls,
    "readlink": _readlink,
    "sh": _sh,
    "tail": _tail,
    "true": lambda _run: ExecResult(b"", b"", 0),
    "uname": _uname,
}
NAMES = tuple(_PROGRAMS)
"""The small programs that there are, by name."""
