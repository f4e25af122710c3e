"""What a command on a machine answered, as the parsers take it: text and an exit status."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.facts.fact import Origin, Unread

QUOTED = 160
"""Characters of an offending text that a reason quotes."""

_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # a window's title
    r"|\x1b[ -/]*[0-~]"
)
_LINE_END = re.compile(r"\r+\n|\r")


@dataclass(frozen=True, slots=True)
class Output:
    """A command's answer as text.

    ``exit_code`` is None where the connection closed without a status; ``problem`` then says why,
    and nothing may be concluded from what did arrive. Bytes that are no UTF-8 arrive escaped.
    """

    argv: tuple[str, ...]
    exit_code: int | None
    stdout: str
    stderr: str = ""
    problem: str = ""

    @property
    def text(self) -> str:
        """All that was said, untouched: stdout, then stderr."""
        return self.stdout + self.stderr

    def origin(self, at: float, source: str) -> Origin:
        """An origin whose raw text is this answer; ``at`` in epoch seconds."""
        return Origin(at, source, self.text)


def quote(text: str) -> str:
    """A text as a reason quotes it: one line, cut with its full length told."""
    if len(text) <= QUOTED:
        return repr(text)
    return f"{text[:QUOTED]!r}… ({len(text)} characters)"


def plain(text: str) -> str:
    """A text as if no terminal had touched it: no byte order mark, no colours, LF line ends."""
    return _LINE_END.sub("\n", _CONTROL.sub("", text.removeprefix("\ufeff")))


def unfinished(output: Output, asked: str, origin: Origin) -> Unread | None:
    """Why the answer is not one, or None for an answer with exit status 0.

    No status, or any other status than 0, gives an Unread that quotes stderr, else stdout.
    """
    if output.exit_code == 0:
        return None
    said = quote((output.stderr or output.stdout).strip())
    if output.exit_code is None:
        why = f"no exit status ({output.problem or 'no reason given'}), after {said}"
    else:
        why = f"{' '.join(output.argv)} ended with {output.exit_code}: {said}"
    return Unread(origin, asked, why)


def no_such_file(path: str, said: str) -> bool:
    """Whether ``cat`` said that this very file is not there, in GNU's wording or busybox'."""
    return f"{path}: No such file or directory" in said.replace("'", "")
