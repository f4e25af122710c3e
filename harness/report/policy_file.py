"""A policy's file to a `Policy`, or to every mistake that it has, each with its line."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from harness.claims.catalogue import Claim
from harness.report.policy import NO_CARD, Choice, Policy, PolicyFile, chosen, resolved
from harness.report.substrate import Substrate

Steps = tuple[str | int, ...]
_DEEP = "lists or mappings nested too deep to read, or within themselves"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One mistake: the file, its line from 1 (0: all of it), the field's path, what is wrong."""

    file: str
    line: int
    path: str
    says: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.path}: {self.says}" if self.path else f"{place}: {self.says}"


class PolicyError(Exception):
    """A policy that cannot be used; ``problems`` has every mistake of every file read."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        count = len(self.problems)
        head = f"the policy has {count} mistake{'s' * (count != 1)}:"
        super().__init__("\n".join([head, *(f"  {one}" for one in self.problems)]))


def find(policy: str, folder: Path) -> Path:
    """The file of a policy that is named by its name, among those in ``folder``, or by its path.

    PolicyError, with the names there are, where there is none.
    """
    path, named = Path(policy), folder / f"{policy}.yaml"
    try:
        if path.is_file():
            return path
        if named.is_file():
            return named
    except OSError as error:
        raise PolicyError([Problem(policy, 0, "", str(error.strerror))]) from error
    raise PolicyError([Problem(policy, 0, "", f"no such policy{_hint(policy, names(folder))}")])


def names(folder: Path) -> list[str]:
    """The policies in a folder, by name."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def load(path: Path, catalogue: Mapping[str, Claim]) -> Policy:
    """The policy in the file at ``path``, with those it includes from the same folder.

    PolicyError with every mistake, unknown claims among them.
    """
    problems: list[Problem] = []
    read: dict[str, tuple[PolicyFile, bytes]] = {}
    _gather(path, catalogue, read, problems)
    if problems:
        raise PolicyError(problems)
    digest = hashlib.sha256(b"".join(raw for _, raw in read.values())).hexdigest()
    found = resolved([file for file, _ in read.values()], catalogue, sha256=digest)
    if not found.requirements:
        raise PolicyError([Problem(str(path), 0, "needs", "nothing is needed: name some claims")])
    return found


def _gather(
    path: Path,
    catalogue: Mapping[str, Claim],
    read: dict[str, tuple[PolicyFile, bytes]],
    problems: list[Problem],
) -> None:
    """Read a file and what it includes, each once: a circle of policies comes to its end."""
    if path.stem in read:
        return
    raw = _bytes(path, problems)
    if raw is None:
        return
    lines: dict[Steps, int] = {}
    file = _parsed(path, raw, lines, problems)
    if file is None:
        return
    read[path.stem] = file, raw
    problems += _slips(path, file, lines, catalogue)
    for place, other in enumerate(file.includes):
        beside = path.with_name(f"{other}.yaml")
        if beside.is_file():
            _gather(beside, catalogue, read, problems)
            if other in read and read[other][0].purpose != file.purpose:
                says = f"{other} is for {read[other][0].purpose}, this policy for {file.purpose}"
                problems.append(_problem(path, lines, ("includes", place), says))
        else:
            hint = _hint(other, names(path.parent))
            problems.append(
                _problem(path, lines, ("includes", place), f"no policy {other!r}{hint}")
            )


def _bytes(path: Path, problems: list[Problem]) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError as error:
        problems.append(Problem(str(path), 0, "", f"cannot be read: {error.strerror}"))
        return None


def _parsed(
    path: Path, raw: bytes, lines: dict[Steps, int], problems: list[Problem]
) -> PolicyFile | None:
    try:
        node = yaml.compose(raw.decode("utf-8"), Loader=yaml.SafeLoader)
        data = yaml.safe_load(raw.decode("utf-8"))
    except UnicodeDecodeError:
        problems.append(Problem(str(path), 0, "", "bytes that are not UTF-8"))
        return None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        says = f"no YAML: {getattr(error, 'problem', None) or error}"
        problems.append(Problem(str(path), mark.line + 1 if mark else 0, "", says))
        return None
    except (ValueError, RecursionError) as error:
        says = f"no YAML: {error}" if isinstance(error, ValueError) else _DEEP
        problems.append(Problem(str(path), 0, "", says))
        return None
    try:
        twice = list(_walk(node, (), lines))
        text = _json(data)
    except (ValueError, RecursionError):
        problems.append(Problem(str(path), 0, "", _DEEP))
        return None
    problems += [_problem(path, lines, place, "stands here twice") for place in twice]
    try:
        return PolicyFile.model_validate_json(text, by_alias=True, by_name=False)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            place = _within(detail["loc"], lines)
            problems.append(_problem(path, lines, place, _says(detail)))
        return None


def _json(data: Any) -> str:
    """As JSON, in which lists may be tuples and nothing else is taken for what it is not."""
    import json

    return json.dumps(data, default=str)


def _walk(node: yaml.Node | None, at: Steps, lines: dict[Steps, int]) -> Iterator[Steps]:
    """Note the line of each path; gives the paths of keys that are there twice."""
    if node is None:
        return
    lines.setdefault(at, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            place = (*at, str(key.value))
            if place in lines:
                yield place
            lines[place] = key.start_mark.line + 1
            yield from _walk(value, place, lines)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _walk(value, (*at, number), lines)


def _within(place: Steps, lines: Mapping[Steps, int]) -> Steps:
    """A place of the model's as the file has it: without the steps that only the model knows."""
    return tuple(step for step in place if step != "[key]") if place not in lines else place


def _problem(path: Path, lines: Mapping[Steps, int], place: Steps, says: str) -> Problem:
    near = next((place[:n] for n in range(len(place), -1, -1) if place[:n] in lines), ())
    words = "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in place).lstrip(".")
    return Problem(str(path), lines.get(near, 0), words, says)


def _says(detail: ErrorDetails) -> str:
    kind = detail["type"]
    if kind == "missing":
        return "is missing"
    if kind == "extra_forbidden":
        return f"unknown field{_hint(str(detail['loc'][-1]), _fields())}"
    if kind == "value_error":
        return f"found {detail['input']!r}; allowed: {detail.get('ctx', {}).get('error')}"
    return f"found {detail['input']!r}; {detail['msg'][:1].lower()}{detail['msg'][1:]}"


def _fields() -> list[str]:
    from harness.report.policy import Need

    models = (PolicyFile, Need)
    return sorted(
        {field.alias or name for one in models for name, field in one.model_fields.items()}
    )


def _slips(
    path: Path, file: PolicyFile, lines: Mapping[Steps, int], catalogue: Mapping[str, Claim]
) -> Iterator[Problem]:
    """What the fields cannot know by themselves: claims, cards and substrates that fit."""
    for number, need in enumerate(file.needs):
        at = ("needs", number)
        yield from _unknown(path, need, lines, at, catalogue)
        if not chosen(need, catalogue):
            says = "chooses no claim: name claims, a severity, or parts"
            yield _problem(path, lines, at, says)
        if file.cards and need.hardware not in (*file.cards, NO_CARD):
            says = f"{need.hardware!r} is not among cards{_hint(need.hardware, file.cards)}"
            yield _problem(path, lines, (*at, "hardware"), says)
    needed = {one for need in file.needs for one in chosen(need, catalogue)}
    for place, claim in enumerate(file.waivable):
        if claim not in needed:
            says = f"{claim!r} is not needed here{_hint(claim, needed)}"
            yield _problem(path, lines, ("waivable", place), says)
    if file.purpose == "release":
        for number, one in enumerate(file.substrates):
            if one != Substrate.CLUSTER.value:
                says = f"a release cannot be signed on a {one} lab"
                yield _problem(path, lines, ("substrates", number), says)


def _unknown(
    path: Path,
    choice: Choice,
    lines: Mapping[Steps, int],
    at: Steps,
    catalogue: Mapping[str, Claim],
) -> Iterator[Problem]:
    terms = {need.partition("=")[0] for one in catalogue.values() for need in one.needs}
    groups = (
        ("claims", choice.claims, "claim", catalogue),
        ("exclude", choice.exclude, "claim", catalogue),
        ("without", choice.without, "need", terms),
    )
    for field, words, noun, known in groups:
        for place, word in enumerate(words):
            if word not in known:
                says = f"no {noun} {word!r} in the catalogue{_hint(word, known)}"
                yield _problem(path, lines, (*at, field, place), says)


def _hint(word: str, known: Sequence[str] | Mapping[str, Any] | set[str]) -> str:
    near = get_close_matches(word, sorted(known), n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    every = ", ".join(sorted(known))
    return f"; there are: {every}" if known and len(every) < 200 else ""
