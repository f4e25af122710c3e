"""A text cut at the prompts of a terminal: which command printed which part.

Prompts are those of shells that people paste (``$``, ``#``, ``user@host:~#``, ``PS C:\\>``, ``+``
of ``set -x``, a heading that quotes a command), and only before a command that is known: ``#``
begins a comment in YAML as well. `script` recordings are no different once its frame is off.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_SURE = (
    "kubectl|k|oc|talosctl|linstor|drbdadm|drbdsetup|drbdsetup-84|dmesg|journalctl|nvidia-smi|lspci"
    "|lsmod|helm|flux|virtctl|chroot|podman|crictl|systemctl|modinfo|modprobe|lsblk|nvidia-ctk|uname"
)
_LOOSE = (
    "cat|grep|egrep|zgrep|free|uptime|ip|ls|date|hostname|df|ps|echo|for|head|tail|curl|cd|mount"
    "|sysctl|which|id|insmod|zfs|zpool|vgs|lvs|systemd-analyze|bash|sh"
)
_ANY = r"(?P<command>[\w./~-]+(?:\s.*)?)"
_PREFIX = r"(?:[A-Z_]+=\S+ )*(?:(?:sudo|time|watch) (?:-\S+ )*)?(?:/\S*/)?"
_SURELY = rf"(?P<command>{_PREFIX}(?:{_SURE})(?:\.exe)?(?:\s.*)?)"
_PERHAPS = rf"(?P<command>{_PREFIX}(?:{_SURE}|{_LOOSE})(?:\.exe)?(?:\s.*)?)"
_PROMPTS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern)
    for pattern in (
        # n1# cmd; user@host:~/x$ cmd; [user@host x]# cmd; (venv) user@host ~ % cmd
        rf"(?:\([\w.-]+\) )?(?P<host>[\w.-]+)(?P<mark>[#$]) {_PERHAPS}",
        r"(?:\([\w.-]+\) )?\[?[\w.-]{1,64}@(?P<host>[\w.-]{1,64})[: ]?[^$#%>\s]{0,120}\]?"
        r"(?: [^\s$#%>]{1,120})?\]? ?"
        rf"(?P<mark>[#$%>]) {_ANY}",
        rf"(?P<host>)(?:[~/][^\s$#]* )?(?P<mark>\$) {_ANY}",
        rf"(?P<host>)(?:[~/][^\s$#]* )?(?P<mark>#) {_PERHAPS}",
        rf"(?P<host>)(?:[~/]\S* )?(?P<mark>[%\u276f\u279c>]|PS [A-Za-z]:[^>]*>) ?{_SURELY}",
        rf"(?P<host>)(?P<mark>\++ |={{2,}} |-{{3,}} |#{{2,}} |\*\*|>{{2,}} ){_SURELY}",
    )
)
_MARKED = re.compile(r"[\w.()@\[\]:~/\\ -]{0,160}[$#%>\u276f\u279c]|[-+=*#>]{1,4} ?\w")
_CHROOT = re.compile(r"exec\b.*?\s--\s+(?:nsenter\s.*?--\s+|chroot\s+\S+\s+)?(?P<inner>\S.*)")
_END = re.compile(
    r"\[exit (?P<code>\d{1,3})(?:, [\d.]+ s)?\]\s*|```+\s*|</?(?:details|summary|pre)>.*"
)
_FENCE = re.compile(r"```+[\w-]*\s*")
_HEADING = re.compile(r"={3,} .*")
_EMPTY = re.compile(
    r"\$ ?|(?:\([\w.-]+\) )?\[?[\w.-]{1,64}@[\w.-]{1,64}[: ]?[^$#%>\s]{0,120}\]?[$#] ?"
    r"|[a-z][\w.-]{0,64}[#$] ?"
)
"""A prompt at which nothing was typed."""
_LONGEST = 2000  # characters of a line that may be a prompt
_SCRIPT = re.compile(r"Script (?:started|done)(?:[,:]? .*)?|exit\s*")
_YAML_LINE = re.compile(r"(?:[ -]*[\w./-]+:(?: .*)?|\s*- .*|\s+\S.*)")


@dataclass(frozen=True, slots=True)
class Part:
    """What one command printed, or a text without any.

    ``command`` is "" where there was no prompt; ``host`` is what the prompt called the machine.
    ``line`` is the first line's number, from 1. ``closed`` says that something follows, so that
    the end is where the command ended; ``code`` its exit status where that stands there.
    """

    text: str
    line: int = 1
    command: str = ""
    host: str = ""
    closed: bool = False
    code: int | None = None


def parts_of(text: str) -> list[Part]:
    """The parts of a text, in their order; those without any text and command left out."""
    cutter = _Cutter()
    for number, line in enumerate(_with_ends(text), start=1):
        cutter.take(number, line)
    return cutter.done()


def _with_ends(text: str) -> list[str]:
    """The lines with their ends; only LF ends a line."""
    lines = text.split("\n")
    last = lines.pop()
    return [line + "\n" for line in lines] + ([last] if last else [])


class _Cutter:
    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._lines: list[str] = []
        self._start = 1
        self._command, self._host = "", ""

    def take(self, number: int, line: str) -> None:
        bare = line.rstrip("\r\n")
        whole = line.endswith("\n")
        end = _END.fullmatch(bare)
        prompt = _prompt(bare)
        if prompt is not None and not self._commented(prompt):
            self._close(number + 1, closed=True)
            self._command, self._host = prompt["command"].strip(), prompt["host"]
        elif (end is not None and whole) or self._separates(bare):
            code = end["code"] if end else None
            self._close(number + 1, closed=True, code=None if code is None else int(code))
        else:
            self._lines.append(line)

    def _separates(self, line: str) -> bool:
        """Whether a line ends a part without being one. A heading does only behind a command:
        a console may print one too."""
        known = (_FENCE, _SCRIPT, _EMPTY, *([_HEADING] if self._command else []))
        return any(one.fullmatch(line) for one in known)

    def _commented(self, prompt: re.Match[str]) -> bool:
        """Whether a ``#`` stands inside YAML, where it begins a comment."""
        if not prompt["mark"].startswith("#") or prompt["host"]:
            return False
        before = next((line for line in reversed(self._lines) if line.strip()), "")
        return not self._command and bool(_YAML_LINE.fullmatch(before.rstrip()))

    def _close(self, following: int, *, closed: bool, code: int | None = None) -> None:
        text = "".join(self._lines)
        said = [line for line in self._lines if line.strip()]
        if self._command or not all(_HEADING.match(line) for line in said):
            self._parts.append(Part(text, self._start, self._command, self._host, closed, code))
        self._lines, self._start = [], following
        self._command, self._host = "", ""

    def done(self) -> list[Part]:
        self._close(0, closed=False)
        return self._parts


def _prompt(line: str) -> re.Match[str] | None:
    """The first form of a prompt that the line has."""
    if len(line) > _LONGEST or not _MARKED.match(line):
        return None
    found = (pattern.fullmatch(line) for pattern in _PROMPTS)
    return next((one for one in found if one is not None), None)


def inner(command: str) -> str:
    """The command that ran inside a pod or a chroot, else the command itself."""
    found = _CHROOT.search(command)
    return found["inner"] if found else command
