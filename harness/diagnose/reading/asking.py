"""What a command line asked: which kinds, of which namespace, and whether all of them.

Only what is understood to the last word counts as a question for a whole kind: a selector, a name,
a pipe or an option that is not known make it a part.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from harness.diagnose.reading.kinds import Known, by_word

_WRAPPERS = frozenset({"sudo", "time", "watch", "command"})
_KUBECTL = frozenset({"kubectl", "k", "oc", "kubectl.exe"})
_VALUE = frozenset(
    {
        "--kubeconfig",
        "--context",
        "--cluster",
        "--as",
        "--request-timeout",
        "--sort-by",
        "--chunk-size",
        "-v",
        "--user",
        "-L",
        "--label-columns",
    }
)
_FLAGS = frozenset(
    {
        "--no-headers",
        "--show-labels",
        "--show-kind",
        "--ignore-not-found",
        "--insecure-skip-tls-verify",
    }
)
_WHERE = ("--kubeconfig", "--context", "--cluster")
_ASSIGNED = re.compile(r"[A-Z_]+=\S*")
_OWN_PLACE = re.compile(r"(?:\S+ )*?KUBECONFIG=(?P<place>\S+) ")
_CHOSEN = re.compile(
    r"(?:export KUBECONFIG=|kubectl config use-context |kubectx )(?P<place>\S+)\s*"
)
_JOINED = re.compile(r"-[nol][^-=\s]\S*")
_FORMATS = frozenset({"", "wide", "yaml", "json", "name"})
_SHELL = frozenset("|;&<>`$")
_FILTERS = re.compile(r"\|\s*\S|(?:^|\s)(?:grep|egrep|awk|head|tail|sed|cut)\s")


@dataclass(frozen=True, slots=True)
class Asked:
    """What ``kubectl get`` or ``kubectl describe`` was asked.

    ``namespace`` is "" where none was named and ``everywhere`` where all were. ``all`` is whether
    every object of the kinds was asked for. ``place`` tells clusters apart: the kubeconfig or
    context that was named.
    """

    verb: str
    kinds: tuple[Known, ...] = ()
    namespace: str = ""
    everywhere: bool = False
    all: bool = False
    headers: bool = True
    format: str = ""
    place: str = ""


def filtered(command: str) -> bool:
    """Whether what was printed went through something that may have left lines out."""
    return bool(_FILTERS.search(command))


def words_of(command: str) -> list[str]:
    """The words of one simple command without its wrappers; none where it is not one."""
    if _SHELL.intersection(_unredirected(command)):
        return []
    try:
        words = shlex.split(_unredirected(command))
    except ValueError:
        return []
    while words and (words[0] in _WRAPPERS or _ASSIGNED.fullmatch(words[0])):
        words = words[1:]
    return words


def place_chosen(command: str) -> str:
    """The kubeconfig or context that a command chooses for those after it, "" for none."""
    found = _CHOSEN.match(command)
    return found["place"] if found else ""


def _unredirected(command: str) -> str:
    return re.sub(r"\s*2>(?:&1|/dev/null)\s*$", "", command)


def asked_of(command: str) -> Asked | None:
    """What a command line asked of a Kubernetes API; None where it asked none."""
    words = words_of(command)
    if not words or words[0].rsplit("/", 1)[-1] not in _KUBECTL:
        return None
    options, rest, strange = _options(words[1:])
    if len(rest) < 2 or rest[0] not in ("get", "describe"):
        return None
    kinds, named = _kinds(rest[1:])
    if kinds is None:
        return None
    format_ = options.get("-o", "")
    return Asked(
        verb=rest[0],
        kinds=kinds,
        namespace=options.get("-n", ""),
        everywhere="-A" in options,
        all=not named and not strange and rest[0] == "get" and format_ in _FORMATS,
        headers="--no-headers" not in options,
        format=format_,
        place=_place(command, options),
    )


def _place(command: str, options: dict[str, str]) -> str:
    """What tells one cluster from another on a command line, kubeconfig before context."""
    own = _OWN_PLACE.match(command)
    told = [options[key] for key in _WHERE if key in options]
    return " ".join(told) or (own["place"] if own else "")


def _kinds(words: list[str]) -> tuple[tuple[Known, ...] | None, bool]:
    """The kinds asked for and whether objects were named; None where a kind is not known."""
    if any("/" in word for word in words):
        found = [by_word(word.partition("/")[0]) for word in words]
        named = True
    else:
        found = [by_word(word) for word in words[0].split(",")]
        named = len(words) > 1
    known = tuple(one for one in found if one is not None)
    return (known if len(known) == len(found) else None), named


_SAME = {
    "--namespace": "-n",
    "--all-namespaces": "-A",
    "--output": "-o",
    "--selector": "-l",
    "--watch": "-w",
}


def _options(words: list[str]) -> tuple[dict[str, str], list[str], bool]:
    """Options by name, the other words, and whether an option narrows or is not known."""
    options: dict[str, str] = {}
    rest: list[str] = []
    strange = False
    pending = list(words)
    while pending:
        word = pending.pop(0)
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        name, equals, value = word.partition("=")
        if not equals and _JOINED.fullmatch(word):
            name, equals, value = word[:2], "=", word[2:]
        name = _SAME.get(name, name)
        if name in ("-n", "-o") or name in _VALUE:
            options[name] = value if equals else (pending.pop(0) if pending else "")
        elif name in _FLAGS or (name == "-A" and value in ("", "true")):
            options[name] = "true"
        else:
            strange = True
            if name in ("-l", "-c", "--field-selector") and not equals and pending:
                pending.pop(0)
    return options, rest, strange
