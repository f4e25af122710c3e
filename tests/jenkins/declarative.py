"""A declarative Jenkinsfile as a tree of blocks, and what the controller would refuse in it.

The controller's own validator needs a controller; a linter of Groovy passes a section that is
misspelt. The sections and steps are those of the pipeline syntax reference and of the plugins that
docs/jenkins.md names. Names are checked, not types. Inside `script` is Groovy:
there only the arguments of steps that are known are checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\""
    r"|[A-Za-z_][\w.]*|\d+|\n|[^\S\n]+|.",
    re.S,
)
_CHOICES = frozenset({"steps", "stages", "parallel", "matrix"})
SECTIONS = {
    "pipeline": {"agent", "options", "triggers", "parameters", "environment", "stages", "post",
                 "tools"},
    "stages": {"stage"},
    "stage": {"when", "agent", "options", "environment", "input", "post", "tools", *_CHOICES},
    "post": {"always", "success", "failure", "unstable", "aborted", "changed", "fixed", "cleanup",
             "regression", "unsuccessful", "notBuilt"},
    "options": {"timestamps", "buildDiscarder", "disableRestartFromStage", "timeout", "lock",
                "disableConcurrentBuilds", "skipDefaultCheckout", "parallelsAlwaysFailFast"},
    "triggers": {"cron", "pollSCM", "upstream"},
    "parameters": {"string", "choice", "booleanParam", "text", "password"},
    "when": {"beforeAgent", "expression", "branch", "triggeredBy", "not", "allOf", "anyOf"},
    "agent": {"label", "node", "docker"},
}  # fmt: skip
STEPS = {
    "sh": {"script", "returnStatus", "returnStdout", "label"},
    "lock": {"resource", "label", "quantity", "variable", "extra", "priority", "skipIfLocked"},
    "timeout": {"time", "unit", "activity"},
    "junit": {"testResults", "allowEmptyResults", "keepProperties", "skipMarkingBuildUnstable"},
    "archiveArtifacts": {"artifacts", "allowEmptyArchive", "excludes", "fingerprint"},
    "allure": {"results", "commandline", "jdk", "report", "reportBuildPolicy", "configPath"},
    "script": set[str](),
    "echo": {"message"},
}


@dataclass
class Block:
    """A name with its words, and what stands between its braces."""

    name: str
    line: int
    words: list[str] = field(default_factory=list)
    inner: list[Block] | None = None
    text: str = ""
    """All between the braces, as it is written."""

    def find(self, name: str) -> Iterator[Block]:
        """Every block of a name, this one included."""
        if self.name == name:
            yield self
        for one in self.inner or ():
            yield from one.find(name)


class Malformed(Exception):
    """Braces that do not match."""


def parse(text: str) -> list[Block]:
    """The statements of a file. Raises Malformed."""
    return _statements(text, list(_TOKEN.finditer(text)), 0, 0)[0]


def _statements(
    text: str, tokens: list[re.Match[str]], at: int, depth: int
) -> tuple[list[Block], int]:
    found: list[Block] = []
    current: Block | None = None
    nested = 0  # in parentheses or square brackets a line goes on
    while at < len(tokens):
        token = tokens[at]
        word = token[0]
        if word.startswith(("//", "/*")) or (word.isspace() and ("\n" not in word or nested)):
            at += 1
        elif word in ("\n", ";"):
            current, at = None, at + 1
        elif word == "{" and current is not None and current.inner is None:
            begin = token.end()
            current.inner, at = _statements(text, tokens, at + 1, depth + 1)
            current.text = text[begin : tokens[at - 1].start()]
            current = None
        elif word == "}":
            if not depth:
                raise Malformed(f"line {_line(text, token)}: a brace that opens nothing")
            return found, at + 1
        else:
            nested += (word in "([") - (word in ")]") if len(word) == 1 else 0
            if current is None:
                current = Block(word, _line(text, token))
                found.append(current)
            else:
                current.words.append(word)
            at += 1
    if depth or nested:
        raise Malformed("the end of the file: something is not closed")
    return found, at


def _line(text: str, token: re.Match[str]) -> int:
    return text.count("\n", 0, token.start()) + 1


def mistakes(text: str) -> list[str]:
    """What the controller would refuse, or do nothing with: a sentence each."""
    try:
        found = parse(text)
    except Malformed as malformed:
        return [str(malformed)]
    if [block.name for block in found] != ["pipeline"]:
        return ["a file holds one pipeline and nothing else"]
    told = list(_section(found[0]))
    names = {one.name for one in found[0].inner or ()}
    return told + [
        f"the pipeline has no {name}" for name in ("agent", "stages") if name not in names
    ]


def _section(block: Block) -> Iterator[str]:
    inner, known = block.inner or [], SECTIONS[block.name]
    seen: set[str] = set()
    for one in inner:
        if one.name not in known:
            yield f"line {one.line}: {one.name!r} is not of {block.name}"
            continue
        if one.name in seen and block.name in ("pipeline", "stage", "post"):
            yield f"line {one.line}: a second {one.name} in {block.name}"
        seen.add(one.name)
        if block.name == "post" or one.name == "steps":
            yield from _steps(one)
        elif one.name in SECTIONS and one.inner is not None and block.name != "parameters":
            yield from _section(one)
        elif one.name in STEPS:
            yield from _arguments(one)
    if block.name == "stage" and len(seen & _CHOICES) != 1:
        yield f"line {block.line}: a stage has one of {', '.join(sorted(_CHOICES))}"


def _steps(block: Block) -> Iterator[str]:
    for one in block.inner or []:
        if one.name not in STEPS:
            yield f"line {one.line}: no such step: {one.name}"
            continue
        yield from _arguments(one)
        if one.name == "script":
            yield from (told for step in STEPS for it in one.find(step) for told in _arguments(it))
        elif one.inner is not None:
            yield from _steps(one)


def _arguments(step: Block) -> Iterator[str]:
    nested = 0
    for word, after in pairwise(step.words):
        nested += (word in ("[",)) - (word in ("]",))
        if after == ":" and not nested and word.isidentifier() and word not in STEPS[step.name]:
            yield f"line {step.line}: {step.name} knows no argument {word!r}"
