"""The order in which a worker's kernel modules were loaded, beside the order they had to have.

Two columns of the same modules, the oldest at the foot: on the left as the kernel lists them, on
the right each after all that it depends on. Lines that are level mean that both agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.facts.modules import canonical
from harness.judge.expectation import NVIDIA_MODULES
from harness.report.pictures.reading import Seen, by_pool, items, slug, words
from harness.report.pictures.svg import (
    INK,
    LETTER,
    SMALL,
    WIDTH,
    Picture,
    fitted,
    text,
    titled,
    whole,
)

ROWS = 28
"""Rungs of one picture."""
MOST = 6
"""Nodes of a pool with a picture each, those out of order first."""
_STORAGE = "drbd"
_CLAIMS = ("kernel-module-order", "modules-live")
_LEFT, _RIGHT, _NOTE, _TOP, _ROW = 214.0, 330.0, 500.0, 44.0, 19.0


@dataclass(frozen=True, slots=True)
class _Ladder:
    """``loaded`` are names, oldest first; ``due`` the same in the order they had to have;
    ``needs`` what each depends on among them; ``wrong`` the pairs (module, what it needs, which is
    newer); ``others`` how many modules more there are; ``whole`` is whether the table was.
    """

    node: str
    loaded: tuple[str, ...]
    due: tuple[str, ...]
    needs: Mapping[str, tuple[str, ...]]
    wrong: tuple[tuple[str, str], ...]
    others: int
    whole: bool


def draw(seen: Sequence[Seen]) -> Iterator[Picture]:
    """A ladder for each node whose modules were read, those that are out of order first."""
    for pool, tables in by_pool(seen, "ModuleTable").items():
        found = {_node(one): ladder for one in tables if (ladder := _ladder(one)) is not None}
        ladders = sorted(found.values(), key=lambda one: not one.wrong)
        for number, ladder in enumerate(ladders[:MOST], start=1):
            name = f"modules-{slug(pool)}-{number}"
            left_out = len(ladders) - MOST if number == MOST else 0
            yield _picture(name, pool, ladder, left_out)


def _node(table: Seen) -> str:
    return table.subject.removeprefix("node ") or "node"


def _ladder(table: Seen) -> _Ladder | None:
    modules = [one for one in items(table.values.get("modules")) if words(one.get("name"))]
    names = [canonical(words(one["name"])) for one in modules][::-1]
    if not names or len(set(names)) != len(names):
        return None
    needs = _needs(modules, set(names))
    wrong = _wrong(names, needs)
    shown = _family(names, needs) | {name for pair in wrong for name in pair}
    kept = [name for name in names if name in shown]
    if not kept:
        return None
    among = {name: tuple(one for one in needs[name] if one in shown) for name in kept}
    return _Ladder(
        _node(table),
        tuple(kept),
        tuple(_due(kept, among)),
        among,
        tuple(wrong),
        len(names) - len(kept),
        table.values.get("whole") is not False,
    )


def _needs(modules: Sequence[Mapping[str, object]], known: set[str]) -> dict[str, list[str]]:
    """What each module depends on: as the used-by columns tell, and the driver's known family."""
    needs: dict[str, list[str]] = {name: [] for name in known}
    for one in modules:
        users = one.get("used_by")
        for user in users if isinstance(users, (list, tuple)) else ():
            name = canonical(words(user))
            if name in known:
                needs[name].append(canonical(words(one["name"])))
    driver, *dependents = NVIDIA_MODULES
    for name in dependents:
        if name in known and driver in known and driver not in needs[name]:
            needs[name].append(driver)
    return needs


def _wrong(names: Sequence[str], needs: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    place = {name: at for at, name in enumerate(names)}
    return [(name, one) for name in names for one in needs[name] if place[one] > place[name]]


def _family(names: Sequence[str], needs: Mapping[str, Sequence[str]]) -> set[str]:
    """The driver's and DRBD's modules, with all that they rest on; without any, whatever rests
    on another.
    """
    roots = {name for name in names if name in NVIDIA_MODULES or name.startswith(_STORAGE)}
    found = roots or {name for name in names if needs[name]}
    todo = list(found)
    while todo:
        for one in needs[todo.pop()]:
            if one not in found:
                found.add(one)
                todo.append(one)
    return found


def _due(names: Sequence[str], needs: Mapping[str, Sequence[str]]) -> list[str]:
    """The order nearest to the one they have in which each comes after all that it needs."""
    due: list[str] = []
    begun: set[str] = set()

    def place(name: str) -> None:
        todo = [name]
        while todo:
            top = todo[-1]
            begun.add(top)
            missing = [one for one in needs[top] if one not in begun]
            if missing:
                todo.append(missing[0])
            else:
                todo.pop()
                if top not in due:
                    due.append(top)

    for name in names:
        place(name)
    return due


def _picture(name: str, pool: str, ladder: _Ladder, left_out: int) -> Picture:
    shown = ladder.loaded[:ROWS]
    due = [one for one in ladder.due if one in shown]
    lines = list(_legend(ladder, len(ladder.loaded) - len(shown), left_out))
    bottom = _TOP + _ROW * len(shown)
    height = bottom + 12 + 13 * len(lines)
    title = f"Kernel modules of {ladder.node} in the order they were loaded"
    says = _says(ladder)
    parts = [
        *_heads(),
        *(part for at, one in enumerate(shown) for part in _rung(ladder, one, at, shown, due)),
        *(text(4, bottom + 16 + 13 * at, line, size=9.5) for at, line in enumerate(lines)),
    ]
    return Picture(name, pool, _CLAIMS, title, says, whole(name, title, says, height, parts))


def _says(ladder: _Ladder) -> str:
    if not ladder.wrong:
        return f"{ladder.node}: each of {len(ladder.loaded)} modules is newer than what it needs."
    told = "; ".join(f"{one} is older than {need}, which it needs" for one, need in ladder.wrong)
    return f"{ladder.node}: {told}."


def _legend(ladder: _Ladder, cut: int, left_out: int) -> Iterator[str]:
    yield "oldest at the foot; a level line: loaded in its turn; a slanting one: out of order"
    if cut:
        yield f"newer modules that are not drawn: {cut}"
    if ladder.others:
        yield f"modules that have nothing to do with these and are not drawn: {ladder.others}"
    if not ladder.whole:
        yield "the table was cut short: older modules may be missing"
    if left_out > 0:
        yield f"nodes of this pool that are not drawn: {left_out}"


def _heads() -> Iterator[str]:
    bold = 'font-weight="bold"'
    yield text(_LEFT - 10, _TOP - 8, "as loaded", size=9.5, more=f'text-anchor="end" {bold}')
    yield text(_RIGHT + 10, _TOP - 8, "as due", size=9.5, more=bold)
    yield text(_NOTE, _TOP - 8, "needs", size=9.5, more=bold)


def _rung(
    ladder: _Ladder, name: str, at: int, shown: Sequence[str], due: Sequence[str]
) -> Iterator[str]:
    foot = _TOP + _ROW * (len(shown) - 1) + 9
    left, right = foot - _ROW * at, foot - _ROW * due.index(name)
    late = [need for one, need in ladder.wrong if one == name]
    weight = ' font-weight="bold"' if late else ""
    number = shown.index(name) + 1
    says = f"{name} was loaded as number {number} of these"
    says += f"; it needs {', '.join(ladder.needs[name])}" if ladder.needs[name] else ""
    says += f", and {', '.join(late)} came after it: out of order" if late else ""
    width, dash = ("2.2", "") if late else ("1", ' stroke-dasharray="2 2"' if left != right else "")
    parts = [
        text(
            _LEFT - 10,
            left + 4,
            f"{fitted(name, _LEFT - 60, LETTER * 1.08)}  {number}",
            more=f'text-anchor="end"{weight}',
        ),
        f'<line class="rung" x1="{_LEFT:.0f}" y1="{left:.1f}" x2="{_RIGHT:.0f}" y2="{right:.1f}" '
        f'stroke="{INK}" stroke-width="{width}"{dash}/>',
        _end(_LEFT, left, filled=bool(late)),
        _end(_RIGHT, right, filled=False),
        text(_RIGHT + 10, right + 4, fitted(name, _NOTE - _RIGHT - 20), more=weight.strip()),
    ]
    yield titled(says, parts)
    yield _needs_note(ladder, name, late, right)


def _end(x: float, y: float, *, filled: bool) -> str:
    fill = INK if filled else "#fff"
    return f'<circle cx="{x:.0f}" cy="{y:.1f}" r="3.4" fill="{fill}" stroke="{INK}"/>'


def _needs_note(ladder: _Ladder, name: str, late: Sequence[str], y: float) -> str:
    if late:
        told = f"{', '.join(late)}: came after it"
        return text(_NOTE, y + 4, fitted(told, WIDTH - _NOTE - 2, SMALL * 1.1), size=9.5,
                    more='font-weight="bold"')  # fmt: skip
    told = ", ".join(ladder.needs[name]) or "nothing"
    return text(_NOTE, y + 4, fitted(told, WIDTH - _NOTE - 2, SMALL), size=9.5, more='fill="#444"')
