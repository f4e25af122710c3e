"""A satellite's shell, as far as somebody leaves a program to itself there and reads later.

``sh -c SCRIPT NAME ARGS...`` with plain commands one after the other (``;``), redirections to
files, one command or one ``( ... )`` in the background (``&``), ``$1`` and ``$?``. Anything else is
refused in words. Files live in the container, and end with it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.twin.apiserver.execresult import ExecResult, Running

Program = Callable[[list[str]], ExecResult | Running]


class NotModelled(Exception):
    """Shell syntax that this shell does not have."""


@dataclass(slots=True)
class _Command:
    """One plain command: its words, and where its output goes ("" is the caller's)."""

    words: list[str] = field(default_factory=list)
    out: str = ""
    adds: bool = False  # >>
    errors_too: bool = False


@dataclass(slots=True)
class Shell:
    """Runs scripts. ``program`` runs one command; ``files`` are the container's own."""

    program: Program
    files: dict[str, bytes]

    def run(self, script: str, arguments: Sequence[str]) -> ExecResult | Running:
        """Run a script; ``arguments`` are $0, $1 and so on.

        A single command may take time; of several each has to end before the next.
        """
        try:
            jobs = _jobs(_words(script, arguments))
        except NotModelled as odd:
            return ExecResult(b"", b"", 1, f"not modelled on this machine: {odd} in {script!r}")
        out, errors, status = b"", b"", 0
        for index, (commands, behind) in enumerate(jobs):
            if behind:
                self._leave(commands)
                continue
            for command in commands:
                ended = self._one(command, status)
                if isinstance(ended, Running):
                    if index == len(jobs) - 1 and len(commands) == 1 and not command.out:
                        return ended
                    return _refused("a command that takes time in a script", script)
                if ended.error or ended.dropped:
                    return ended
                out, errors, status = out + ended.stdout, errors + ended.stderr, ended.exit_code
        return ExecResult(out, errors, status)

    def _one(self, command: _Command, status: int) -> ExecResult | Running:
        words = [word.replace("\0?", str(status)) for word in command.words]
        if command.out and command.out != "/dev/null" and not command.adds:
            self.files[command.out] = b""
        result = self._builtin(words)
        if isinstance(result, Running) or not command.out:
            return result
        self._keep(command, result)
        left = b"" if command.errors_too else result.stderr
        return ExecResult(b"", left, result.exit_code, result.error, result.dropped)

    def _builtin(self, words: list[str]) -> ExecResult | Running:
        if words[0] == "rm":
            for path in words[1:]:
                self.files.pop(path, None)
            return ExecResult(b"", b"", 0)
        return self.program(words)

    def _keep(self, command: _Command, result: ExecResult) -> None:
        if command.out != "/dev/null":
            told = result.stdout + (result.stderr if command.errors_too else b"")
            self.files[command.out] = self.files.get(command.out, b"") + told

    def _leave(self, commands: list[_Command], status: int = 0) -> None:
        """Run commands in the background, one after the other has ended."""
        for index, command in enumerate(commands):
            result = self._one(command, status)
            if isinstance(result, Running):
                self._follow(command, result, commands[index + 1 :])
                return
            status = result.exit_code

    def _follow(self, command: _Command, program: Running, rest: list[_Command]) -> None:
        def heard(data: bytes) -> None:
            self._keep(command, ExecResult(data, b"", 0))

        def ended(result: ExecResult) -> None:
            self._keep(command, result)
            self._leave(rest, result.exit_code)

        program.follow(heard, ended)


def _words(script: str, arguments: Sequence[str]) -> list[str]:
    """The script's words and operators. Parameters are put in, ``$?`` is kept for later."""
    for index, value in enumerate(arguments):
        script = script.replace(f'"${index}"', shlex.quote(value))
    script = script.replace("$?", "\0?")
    if re.search(r"[$`|*?\[{]|&&", script.replace("\0?", "")):
        raise NotModelled("shell syntax")
    reader = shlex.shlex(script, posix=True, punctuation_chars=";&()<>")
    reader.whitespace_split = True
    reader.wordchars += "\0?"
    try:
        return _joined(list(reader))
    except ValueError as unended:
        raise NotModelled("a quote that does not end") from unended


def _joined(tokens: list[str]) -> list[str]:
    """Operators as they are meant: ``2`` ``>&`` ``1`` is one, ``);`` are two."""
    text = "\n".join(tokens)
    text = text.replace("2\n>&\n1", "2>&1")
    found: list[str] = []
    for token in text.split("\n"):
        if token and set(token) <= set(";&()"):
            found += list(token)
        else:
            found.append(token)
    return found


def _jobs(tokens: list[str]) -> list[tuple[list[_Command], bool]]:
    """What is to be run, in order: commands that belong together, and whether in the background."""
    jobs: list[tuple[list[_Command], bool]] = []
    group: list[_Command] = []
    current, depth = _Command(), 0
    queue = list(tokens)
    while queue:
        token = queue.pop(0)
        if token == "(":
            depth += 1
        elif token in (")", ";", "&"):
            group += [current] if current.words else []
            current = _Command()
            if token == ")":
                depth -= 1
                _skip_redirections(queue, group)
            elif depth == 0 and group:
                jobs.append((group, token == "&"))
                group = []
        else:
            _take(token, queue, current)
    group += [current] if current.words else []
    return [*jobs, (group, False)] if group else jobs


def _take(token: str, queue: list[str], command: _Command) -> None:
    if token == "2>&1":
        command.errors_too = True
    elif token in (">", ">>") and queue:
        command.out, command.adds = queue.pop(0), token == ">>"
    elif token == "<" and queue:
        queue.pop(0)
    elif set(token) & set("<>"):
        raise NotModelled(f"redirection {token!r}")
    else:
        command.words.append(token)


def _skip_redirections(queue: list[str], group: list[_Command]) -> None:
    """Redirections of a whole group are those of each command that has none of its own."""
    whole = _Command()
    while queue and (queue[0] == "2>&1" or set(queue[0]) <= set("<>")):
        _take(queue.pop(0), queue, whole)
    for one in group:
        one.adds = one.adds if one.out else whole.adds
        one.out, one.errors_too = one.out or whole.out, one.errors_too or whole.errors_too


def _refused(what: str, script: str) -> ExecResult:
    return ExecResult(b"", b"", 1, f"not modelled on this machine: {what}: {script!r}")
