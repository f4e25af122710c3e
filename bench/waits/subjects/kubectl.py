"""kubectl wait: one process a wait, as every shell script has it.

``kubectl.py BINARY CACHE``: the binary, and a folder for its discovery cache (its default is one
in the home folder, kept between runs as well).
"""

from __future__ import annotations

import subprocess
import sys

from protocol import NOT_MET, Told, Wait, serve

_FOR = {
    "phase": "jsonpath={{.status.phase}}={}",
    "misspelt": "jsonpath={{.status.phse}}={}",
    "ready": "condition=Ready",
}


def answer(wait: Wait) -> None:
    """Run it."""
    binary, cache = sys.argv[1:]
    done = subprocess.run(
        [binary, "wait", f"pod/{wait.name}", f"--namespace={wait.namespace}",
         f"--kubeconfig={wait.kubeconfig}", f"--cache-dir={cache}", f"--timeout={wait.limit}s",
         "--for=" + _FOR[wait.want].format(wait.value)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        return
    said = done.stderr.decode("utf-8", "replace").strip()
    if "timed out waiting for the condition" in said:
        raise Told(NOT_MET, said)
    raise RuntimeError(said)


if __name__ == "__main__":
    serve(answer)
