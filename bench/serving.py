"""What servers of benches have in common: a cluster that runs nothing, a line for each answer."""

from __future__ import annotations

import json
from typing import Any

from harness.twin.apiserver.execresult import ExecResult


class NoBackend:
    """A cluster that runs nothing."""

    def reads_stdin(self, *_: object) -> bool:
        """No program waits for any."""
        return False

    def exec(self, *_: object) -> ExecResult:
        """Ended at once, without a word."""
        return ExecResult(b"", b"", 0)

    def logs(self, *_: object) -> bytes:
        """None."""
        return b""


def say(told: dict[str, Any]) -> None:
    """Tell whoever started this server: a JSON document a line."""
    print(json.dumps(told), flush=True)
