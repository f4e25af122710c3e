"""The loaded kernel modules, from /proc/modules.

The kernel lists the newest module first; a reload moves a module to the head (gpu_path 2.1; the
captures of modules_load_order). The used-by column names dependents, with a trailing comma.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.reply import Output, plain, quote, unfinished

ASKED = "/proc/modules"

_RECORD = re.compile(
    r"(?P<name>[A-Za-z0-9_.-]+) +(?P<size>\d{1,20}) +(?P<refs>\d{1,20}|-)"
    r" +(?P<users>-|(?:[^\s,]+,)*[^\s,]+,?)"
    r" +(?P<state>Live|Loading|Unloading) +(?P<address>0x[0-9a-f]{1,16})"
    r"(?: +\((?P<taint>[A-Z+-]+)\))?(?P<extra>(?: +[A-Za-z0-9_.=:/-]+)*) *",
    re.ASCII,
)
# a record glued onto another's line would otherwise pass for extra columns of the first
_GLUED = re.compile(r"\b(?:Live|Loading|Unloading|0x[0-9a-f]+)\b")
_PERMANENT = "[permanent]"


@dataclass(frozen=True, slots=True)
class Module:
    """One line. ``size`` in bytes; ``refcount`` None where the kernel does not count.

    ``used_by`` are the modules that depend on this one; ``state`` is Live, Loading or Unloading;
    ``address`` is 0x0… for an unprivileged reader; ``taint`` the letters, "OE" for an unsigned
    module from outside the kernel's tree. ``permanent`` modules can't be unloaded.
    """

    name: str
    size: int
    refcount: int | None
    used_by: tuple[str, ...]
    state: str
    address: str
    taint: str = ""
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class ModuleTable(Fact):
    """All loaded modules, newest first.

    ``whole`` is False where the text ended inside a line: what is listed was loaded, but what is
    missing may have stood further down.
    """

    modules: tuple[Module, ...]
    whole: bool = True

    def find(self, name: str) -> Module | None:
        """The module of this name, ``-`` and ``_`` alike as the kernel takes them."""
        wanted = canonical(name)
        return next((one for one in self.modules if canonical(one.name) == wanted), None)

    def position(self, name: str) -> int | None:
        """Lines above the module's own (0: the newest); None where it is not listed."""
        found = self.find(name)
        return None if found is None else self.modules.index(found)


def canonical(name: str) -> str:
    """A module's name as /proc/modules spells it."""
    return name.replace("-", "_")


def read_modules(output: Output, *, at: float, source: str) -> ModuleTable | Unread:
    """Read the reply of ``cat /proc/modules``.

    Lines wrapped by a terminal are joined; its colours, CRLF, a byte order mark and further columns
    are let pass; a last line cut short is left out and told by ``whole``. A line that is no
    record, or one module twice, makes the whole table Unread.
    """
    origin = output.origin(at, source)
    return unfinished(output, ASKED, origin) or _table(output.stdout, origin)


def _table(text: str, origin: Origin) -> ModuleTable | Unread:
    lines = plain(text).split("\n")
    tail = lines.pop()
    whole = not tail
    if _read(tail) is not None:
        lines.append(tail)
    modules: list[Module] = []
    for line in _unwrapped([line for line in lines if line.strip()]):
        module = _read(line)
        if module is None:
            return Unread(origin, ASKED, f"this line is no module's: {quote(line)}")
        if any(canonical(known.name) == canonical(module.name) for known in modules):
            return Unread(origin, ASKED, f"{module.name} is listed twice: {quote(line)}")
        modules.append(module)
    return ModuleTable(origin, tuple(modules), whole)


def _read(line: str) -> Module | None:
    found = _RECORD.fullmatch(line)
    if found is None or _GLUED.search(found["extra"]):
        return None
    users = () if found["users"] == "-" else tuple(found["users"].rstrip(",").split(","))
    return Module(
        name=found["name"],
        size=int(found["size"]),
        refcount=None if found["refs"] == "-" else int(found["refs"]),
        used_by=tuple(user for user in users if user != _PERMANENT),
        state=found["state"],
        address=found["address"],
        taint=found["taint"] or "",
        permanent=_PERMANENT in users,
    )


def _unwrapped(lines: list[str]) -> Iterator[str]:
    """Lines with those joined that a terminal broke at its last column.

    Only a line as long as the longest can have been broken, and only pieces that are not records
    each on its own are joined.
    """
    width = max(map(len, lines), default=0)
    at = 0
    while at < len(lines):
        taken = _taken(lines, at, width)
        yield "".join(lines[at : at + taken])
        at += taken


def _taken(lines: list[str], at: int, width: int) -> int:
    """How many lines from ``at`` on make one record; 1 where none does."""
    joined, best = lines[at], 1
    for count in range(2, len(lines) - at + 1):
        previous, piece = lines[at + count - 2], lines[at + count - 1]
        if len(previous) != width or (_read(joined) and _read(piece)):
            break
        joined += piece
        if _read(joined):
            best = count
    return best
