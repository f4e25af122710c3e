"""Exec plugins: a program that prints a credential (client.authentication.k8s.io v1 and v1beta1).

What goes in and comes out is in the Kubernetes docs, "Authenticating", client-go credential
plugins. The official client runs such a plugin without a time limit, hands it the terminal, ignores
`interactiveMode` and `installHint`, and only logs what goes wrong (kubernetes 37.0.2,
config/exec_provider.py and config/kube_config.py).
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harness.reach.errors import KubeconfigUnreadable, PluginFailed

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
PLUGIN_SECONDS = 60.0
"""Real seconds that a plugin may take; one that asks a person for something never ends."""

_EXTENSION = "client.authentication.k8s.io/exec"
_PASSED = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
_QUOTED = 300  # characters of a plugin's stderr kept in a message
_SECRETS = re.compile(
    r"eyJ[\w-]{8,}(?:\.[\w-]*)*"
    r"|(?i:bearer)\s+\S+"
    r"|(?<=://)[^/\s@]+(?=@)"
    r"|(?i:(?<=token)|(?<=secret)|(?<=password)|(?<=passwd)|(?<=key))[\"']?\s*[=:]\s*\S+"
    r"|[\w+/=-]{40,}"
)


@dataclass(frozen=True, slots=True)
class Credential:
    """What a plugin printed: a token, a client certificate with its key (PEM), or both.

    ``expires`` is in epoch seconds, None where the plugin named no end.
    """

    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)
    expires: float | None = None


@dataclass(frozen=True, slots=True)
class Plugin:
    """How a kubeconfig says that its credential is got. ``cluster`` is told to the plugin if any.

    ``hint`` is its `installHint`, ``seconds`` how long it may run.
    """

    argv: tuple[str, ...]
    version: str
    env: Mapping[str, str] = field(repr=False)
    hint: str = ""
    cluster: Mapping[str, Any] | None = None
    seconds: float = PLUGIN_SECONDS

    @property
    def name(self) -> str:
        """For messages; without the arguments, which may hold a secret."""
        return f"exec plugin {Path(self.argv[0]).name}"

    def run(self) -> Credential:
        """Run the plugin once, without a terminal. Raises PluginFailed."""
        if shutil.which(self.argv[0]) is None:
            do = " ".join(self.hint.split()) or "install it, or correct the kubeconfig"
            raise PluginFailed(self._tried, f"no program {self.argv[0]!r} to run", do)
        code, output, errors = self._ran()
        if code != 0:
            ending = f"status {code}" if code > 0 else f"signal {-code}"
            raise self._failed(f"an end with {ending}", errors)
        found = read_credential(output, self.version)
        if isinstance(found, str):
            raise self._failed(found, errors)
        return found

    @property
    def _tried(self) -> str:
        return f"get credentials from the {self.name}"

    def _ran(self) -> tuple[int, bytes, bytes]:
        """Exit status, stdout and stderr. A group of its own, so that no child outlives it."""
        try:
            process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **self.env, "KUBERNETES_EXEC_INFO": self._info()},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise self._failed(f"that it cannot be started ({error})", b"") from error
        with process:
            try:
                output, errors = process.communicate(timeout=self.seconds)
            except subprocess.TimeoutExpired as late:
                saw = f"no end within {self.seconds:g} s"
                raise self._failed(saw, late.stderr or b"") from late
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        return process.returncode, output, errors

    def _info(self) -> str:
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        return json.dumps({"apiVersion": self.version, "kind": "ExecCredential", "spec": spec})

    def _failed(self, saw: str, errors: bytes) -> PluginFailed:
        said = self._purged(errors.decode("utf-8", "replace"))
        do = "run `kubectl get nodes` with this kubeconfig: it runs the same plugin"
        return PluginFailed(self._tried, saw + (f"; it said {said!r}" if said else ""), do)

    def _purged(self, text: str) -> str:
        for name, value in self.env.items():
            if value and re.search(r"(?i)token|secret|pass|key|cred", name):
                text = text.replace(value, "(withheld)")
        return _SECRETS.sub("(withheld)", " ".join(text.split()))[-_QUOTED:]


def plugin_of(section: Any, cluster: Mapping[str, Any], tried: str) -> Plugin:
    """The plugin that a user's `exec` section describes. Raises KubeconfigUnreadable."""
    given = section if isinstance(section, dict) else {}
    args, env = given.get("args") or [], given.get("env") or []
    argv = [given.get("command"), *(args if isinstance(args, list) else [None])]
    version = given.get("apiVersion")
    problem = ""
    if not argv[0] or not all(isinstance(part, str) for part in argv):
        problem = "an exec plugin whose command and args are not text"
    elif version not in VERSIONS:
        problem = f"an exec plugin of {version!r}, which is none of {', '.join(VERSIONS)}"
    elif given.get("interactiveMode") == "Always":
        problem = "an exec plugin with interactiveMode Always, and nobody is at a terminal here"
    elif not isinstance(env, list) or not all(map(_is_variable, env)):
        problem = "an exec plugin whose env is no list of name and value"
    if problem:
        raise KubeconfigUnreadable(tried, problem, "correct the user's exec section")
    told = _told(cluster, tried) if given.get("provideClusterInfo") else None
    return Plugin(
        tuple(argv),
        str(version),
        {str(pair["name"]): str(pair["value"]) for pair in env},
        str(given.get("installHint") or ""),
        told,
    )


def _is_variable(pair: Any) -> bool:
    return isinstance(pair, dict) and {"name", "value"} <= pair.keys()


def read_credential(raw: bytes, version: str) -> Credential | str:
    """The credential in a plugin's output, or what is wrong with it; never quotes it."""
    try:
        told: Any = json.loads(raw)
    except ValueError:
        return f"{len(raw)} bytes of output that are no JSON (withheld)"
    status = told.get("status") if isinstance(told, dict) else None
    if not isinstance(status, dict) or told.get("kind") != "ExecCredential":
        return "output that is no ExecCredential with a status"
    if told.get("apiVersion") != version:
        return f"a credential of another apiVersion than {version}"
    keys = ("token", "clientCertificateData", "clientKeyData")
    token, certificate, key = (str(status.get(name) or "") for name in keys)
    if bool(certificate) != bool(key):
        return "a client certificate without its key, or a key without its certificate"
    if not token and not certificate:
        return "a credential with neither a token nor a client certificate"
    if re.search(r"[^!-~]", token):
        return "a token with characters that no header can hold"
    expires = _moment(status.get("expirationTimestamp"))
    if isinstance(expires, str):
        return expires
    if certificate and not _loads(certificate, key):
        return "a client certificate and key that cannot be used"
    return Credential(token, certificate, key, expires)


def _moment(text: Any) -> float | str | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return f"an expirationTimestamp that is no time, {str(text)[:40]!r}"
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _loads(certificate: str, key: str) -> bool:
    with TemporaryDirectory(prefix="hil-credentials-") as folder:
        pair = Path(folder) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_text(f"{certificate}\n{key}\n", encoding="utf-8")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(pair)
        except (ssl.SSLError, OSError):
            return False
    return True


def _told(cluster: Mapping[str, Any], tried: str) -> dict[str, Any]:
    """The cluster as a plugin is told of it: the CA always as data, the plugin's own part apart."""
    told = {key: cluster[key] for key in _PASSED if key in cluster}
    data = cluster.get("certificate-authority-data")
    if data is None and "certificate-authority" in cluster:
        try:
            data = base64.b64encode(Path(cluster["certificate-authority"]).read_bytes()).decode()
        except OSError as error:
            raise KubeconfigUnreadable(tried, str(error), "repair the kubeconfig") from error
    if data is not None:
        told["certificate-authority-data"] = data
    for extension in cluster.get("extensions") or []:
        if isinstance(extension, dict) and extension.get("name") == _EXTENSION:
            told["config"] = extension.get("extension")
    return told
