"""Claims about the field kernelModules itself: what it refuses, and what it keeps word for word.

Judged by trials: pools that are rendered and never get a machine. What the field must refuse
stands in gpu_path 1.1 (S-KM): a name has lowercase letters, digits, ``_`` and ``-``; a parameter
is printable ASCII without whitespace, ``$``, backtick, backslash and quotes. A semicolon is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from harness.facts.fact import Unread
from harness.facts.machineconfig import DeclaredModule, RenderedModules, declared_module
from harness.facts.pool import ABSENT, RequestedModules
from harness.facts.trials import RenderTrial
from harness.judge.expectation import expected_modules, has_nvidia
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, named, unread

_NAME = re.compile(r"[a-z0-9_-]+", re.ASCII)
_PARAMETER = re.compile(r"[!#%&(-\[\]-_a-~]+", re.ASCII)
_REFUSAL = {"name": "invalid kernelModules name", "parameter": "invalid kernelModules parameter"}
_YAML = re.compile(r"yaml|cannot unmarshal", re.IGNORECASE)
_SEPARATORS = {"U+2028": "\u2028", "U+2029": "\u2029"}


def kernel_modules_refused(trials: Sequence[RenderTrial | Unread], subject: str) -> Verdict:
    """kernel-modules-refused: every hostile input is refused by the chart's own words, naming the
    pool and the value, and nothing is made.

    Broken where one is accepted, refused as a YAML error or without pool or value, or where
    anything was made. Unknown where a trial has not ended, rendered no pool at all, is not hostile,
    and where no name, no parameter, no U+2028 or no U+2029 was among them.
    """
    claim = "kernel-modules-refused"
    facts = tuple(trials)
    read = [one for one in facts if isinstance(one, RenderTrial)]
    wrong = [line for one in read for line in _not_refused(one)]
    if wrong:
        return Verdict(claim, subject, Outcome.BROKEN, "; ".join(wrong), facts)
    if len(read) != len(facts):
        return unread(claim, subject, *facts)
    doubts = [line for one in read for line in _undecided(one)]
    doubts += [f"{one.name} asks for nothing hostile" for one in read if not _hostile(one)]
    doubts += [f"no trial had {what}" for what in _untried(read)]
    if doubts:
        return Verdict(claim, subject, Outcome.UNKNOWN, "; ".join(doubts), facts)
    because = (
        f"{counted(len(read), 'hostile input')} refused with the field's own words, each naming "
        "pool and value, and nothing was made"
    )
    return Verdict(claim, subject, Outcome.HOLDS, because, facts)


def kernel_modules_verbatim(trials: Sequence[RenderTrial | Unread], subject: str) -> Verdict:
    """kernel-modules-verbatim: the machine configuration carries exactly the names and parameters
    that were written, a semicolon literally and no other key; ``[]`` declares none and keeps the
    label gpu: "on"; what was left out stays out.

    Unknown where a trial has not ended or rendered nothing, and where no semicolon, no unknown key
    or no ``[]`` on a pool with an NVIDIA device was among them.
    """
    claim = "kernel-modules-verbatim"
    facts = tuple(trials)
    read = [one for one in facts if isinstance(one, RenderTrial)]
    wrong = [line for one in read for line in _not_verbatim(one)]
    if wrong:
        return Verdict(claim, subject, Outcome.BROKEN, "; ".join(wrong), facts)
    if len(read) != len(facts):
        return unread(claim, subject, *facts)
    doubts = [line for one in read for line in _unrendered(one)]
    doubts += [f"no trial had {what}" for what in _unkept(read)]
    if doubts:
        return Verdict(claim, subject, Outcome.UNKNOWN, "; ".join(doubts), facts)
    told = "; ".join(f"{one.name} ({_asked(one)})" for one in read)
    because = f"rendered as written, no more and no less: {told}"
    return Verdict(claim, subject, Outcome.HOLDS, because, facts)


def _not_refused(trial: RenderTrial) -> Iterator[str]:
    """What is wrong with how a hostile input was met."""
    hostile = _hostile(trial)
    if not hostile or not trial.settled:
        return
    if trial.ready == "True":
        if trial.created:
            yield f"{trial.name} is accepted with {_told(hostile)}"
    elif not any(_names(text, trial.name, hostile) for text in trial.refusals):
        said = named(trial.refusals)
        kind = " as a YAML error" if _YAML.search(said) else ""
        yield f"{trial.name} with {_told(hostile)} is refused{kind}, not by its own words: {said}"
    if trial.created:
        yield f"{trial.name} with {_told(hostile)} made {named(trial.created)}"


def _names(text: str, pool: str, hostile: dict[str, str]) -> bool:
    """Whether a refusal says which field, which pool and which of the values."""
    return pool in text and any(
        _REFUSAL[kind] in text and any(form in text for form in _forms(value))
        for value, kind in hostile.items()
    )


def _forms(value: str) -> tuple[str, ...]:
    """A value as a message may show it: as it is, or escaped as Go and JSON do."""
    return (value, json.dumps(value)[1:-1]) if value else ('""',)


def _hostile(trial: RenderTrial) -> dict[str, str]:
    """Each value that the field must refuse, and whether it is a name or a parameter."""
    found: dict[str, str] = {}
    for name, parameters in _entries(trial):
        if not _NAME.fullmatch(name):
            found[name] = "name"
        found.update({one: "parameter" for one in parameters if not _PARAMETER.fullmatch(one)})
    return found


def _entries(trial: RenderTrial) -> Iterator[tuple[str, list[str]]]:
    """Names and parameters as written, as far as they are texts."""
    items = _written(trial)
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict):
            parameters = item.get("parameters")
            texts = parameters if isinstance(parameters, list) else []
            yield str(item.get("name", "")), [one for one in texts if isinstance(one, str)]


def _written(trial: RenderTrial) -> Any:
    """What was written, None where the key was left out or is no JSON."""
    try:
        return json.loads(trial.written)
    except ValueError:
        return None


def _undecided(trial: RenderTrial) -> Iterator[str]:
    if not trial.settled:
        yield f"{trial.name} has not come to an end ({trial.reason or 'no condition Ready'})"
    elif trial.ready == "True" and not trial.created:
        yield f"{trial.name} is Ready with no pool rendered: its chart never came to that field"


def _untried(trials: Sequence[RenderTrial]) -> Iterator[str]:
    values = [item for one in trials for item in _hostile(one).items()]
    for kind in _REFUSAL:
        if not any(found == kind for _, found in values):
            yield f"a hostile {kind}"
    for name, separator in _SEPARATORS.items():
        if not any(separator in value for value, _ in values):
            yield name


def _not_verbatim(trial: RenderTrial) -> Iterator[str]:
    """What is wrong with how a valid request was rendered."""
    if trial.ready == "False" and any("kernelModules" in text for text in trial.refusals):
        yield f"{trial.name} ({_asked(trial)}) is refused: {named(trial.refusals)}"
        return
    if _kept(trial.stored) != _kept(trial.written):
        yield f"{trial.name} is stored as {trial.stored or 'absent'}, written as {_asked(trial)}"
    rendered, wanted = trial.rendered, _wanted(trial)
    if not isinstance(rendered, RenderedModules) or wanted is None:
        return
    if rendered.modules != wanted or rendered.misplaced:
        yield f"{trial.name} ({_asked(trial)}) declares {_list(rendered.modules)}"
    if rendered.extra_keys:
        yield f"{trial.name} ({_asked(trial)}) declares the keys {named(rendered.extra_keys)} too"
    if not trial.written and not wanted and rendered.present_block:
        yield f"{trial.name}, which asks for nothing, has a kernel block"
    if trial.labels is not None and has_nvidia(trial.gpus) and trial.labels.get("gpu") != "on":
        yield f"{trial.name} ({_asked(trial)}) labels its node {trial.labels}, expected gpu: on"


def _kept(text: str) -> object:
    """What a value keeps of kernelModules: absent, its modules, or else its very text.

    Keys that the field does not know may go at any station.
    """
    try:
        return RequestedModules(tuple(map(declared_module, json.loads(text)))) if text else ABSENT
    except (ValueError, TypeError):
        return text


def _wanted(trial: RenderTrial) -> tuple[DeclaredModule, ...] | None:
    """The modules that a trial's request calls for, None where it is none that can be met."""
    requested = _kept(trial.written)
    if not isinstance(requested, RequestedModules):
        return None
    return expected_modules(requested, trial.gpus)


def _unrendered(trial: RenderTrial) -> Iterator[str]:
    """Why a trial shows nothing."""
    if trial.ready != "True":
        yield f"{trial.name} is not Ready ({trial.reason or 'no condition'}: {trial.message})"
    if isinstance(trial.rendered, Unread):
        yield f"{trial.name}: {trial.rendered.reason}"
    elif trial.rendered is None:
        yield f"{trial.name} has no machine configuration"
    if _wanted(trial) is None:
        yield f"{trial.name} asks for no list of modules: {trial.written}"
    if trial.labels is None and has_nvidia(trial.gpus):
        yield f"the node labels of {trial.name} could not be read"


def _unkept(trials: Sequence[RenderTrial]) -> Iterator[str]:
    wanted: dict[str, Callable[[RenderTrial], bool]] = {
        "a semicolon in a parameter": _has_semicolon,
        "an unknown key": _has_unknown_key,
        "[] on a pool with an NVIDIA device": _is_opted_out,
    }
    yield from (what for what, tried in wanted.items() if not any(map(tried, trials)))


def _has_semicolon(trial: RenderTrial) -> bool:
    return any(";" in text for _, parameters in _entries(trial) for text in parameters)


def _has_unknown_key(trial: RenderTrial) -> bool:
    items = _written(trial)
    known = {"name", "parameters"}
    return isinstance(items, list) and any(
        isinstance(one, dict) and bool(set(one) - known) for one in items
    )


def _is_opted_out(trial: RenderTrial) -> bool:
    return _written(trial) == [] and has_nvidia(trial.gpus)


def _told(hostile: dict[str, str]) -> str:
    return named(f"{kind} {value!r}" for value, kind in hostile.items())


def _asked(trial: RenderTrial) -> str:
    return f"kernelModules {trial.written or 'absent'}, gpus {named(trial.gpus)}"


def _list(modules: Iterable[DeclaredModule]) -> str:
    return named(" ".join((one.name, *one.parameters)) for one in modules)
