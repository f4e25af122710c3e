"""Tokens that change while a run goes on: from a file, or from a plugin.

The official client reads `tokenFile` once and never again, keeps its line feed, logs a plugin's
failure and goes on anonymously, and asks a plugin again for every request in a token's last five
minutes (kubernetes 37.0.2, config/kube_config.py). Its hook for refreshing is right, and used.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from harness.clock import WallClock
from harness.reach.errors import KubeconfigUnreadable
from harness.reach.execplugin import Credential, Plugin

if TYPE_CHECKING:
    from kubernetes.client import Configuration

BEARER = "BearerToken"
"""The official client's key for the Authorization header."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """Credentials fetched anew because the API refused the old ones.

    ``source`` is where they come from, ``because`` the request refused, ``fresh`` whether others
    came than those refused, ``at`` the lab's time, epoch seconds.
    """

    source: str
    because: str
    fresh: bool
    at: float


class Credentials(Protocol):
    """Where a client's credentials come from; called before each request, by any thread."""

    @property
    def name(self) -> str:
        """For messages: "exec plugin aws", "token file /run/token"."""

    def __call__(self, configuration: Configuration) -> None:
        """Put the current credentials into the configuration. Raises LabError."""

    def renew(self, spent: str) -> bool:
        """Fetch others than the refused Authorization header; whether there are. LabError."""


class TokenFile:
    """A token in a file that is written anew from time to time, as a service account's is.

    A file that cannot be read leaves the last token in force, as for kubectl: it may be in the
    middle of being replaced. What the API refuses then is told with the file's trouble.
    """

    def __init__(self, path: Path, tried: str) -> None:
        self.name = f"token file {path}"
        self._path = path
        self._tried = tried
        self._last = ""
        self._last = self._read()

    def __call__(self, configuration: Configuration) -> None:
        """Read the file: 40 microseconds, and no guess at whether it changed."""
        try:
            self._last = self._read()
        except KubeconfigUnreadable:
            if not self._last:
                raise
        configuration.api_key[BEARER] = f"Bearer {self._last}"

    def renew(self, spent: str) -> bool:
        """Whether the file now holds another token."""
        self._last = self._read()
        return spent != f"Bearer {self._last}"

    def _read(self) -> str:
        do = "see who writes this file"
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = "not text" if isinstance(error, UnicodeDecodeError) else error.strerror
            saw = f"the {self.name}: {reason}"
            raise KubeconfigUnreadable(self._tried, saw, do) from error
        if not usable(token):
            saw = f"the {self.name} with {'no token' if not token else 'more than a token'} in it"
            raise KubeconfigUnreadable(self._tried, saw, do)
        return token


class PluginCredentials:
    """What an exec plugin gives, kept until it expires. One run of the plugin at a time."""

    def __init__(self, plugin: Plugin) -> None:
        self.name = plugin.name
        self._plugin = plugin
        self._held: Credential | None = None
        self._lock = threading.Lock()
        self._clock = WallClock()  # expiry is told in the runner's own time
        self._files = TemporaryDirectory(prefix="hil-credentials-")
        self._turn = 0

    def __call__(self, configuration: Configuration) -> None:
        """Put the plugin's token, its client certificate, or both in; run it where need be."""
        with self._lock:
            held = self._held
            if held is None or (held.expires is not None and held.expires <= self._clock.now()):
                held = self._fetch()
            configuration.api_key[BEARER] = f"Bearer {held.token}" if held.token else ""
            if held.certificate:
                configuration.cert_file, configuration.key_file = self._written()

    def renew(self, spent: str) -> bool:
        """Run the plugin, unless another thread has done so since ``spent`` was in force."""
        with self._lock:
            held = self._held
            if held is None or not held.token or spent == f"Bearer {held.token}":
                renewed = self._fetch()
                return renewed != held
            return True

    def _fetch(self) -> Credential:
        self._held = None  # a plugin that fails leaves nothing to go on with
        self._held = self._plugin.run()
        if self._held.certificate:
            self._turn += 1
            for path, text in zip(self._written(), self._pair(self._held), strict=True):
                Path(path).touch(mode=0o600)
                Path(path).write_text(text, encoding="utf-8")
        return self._held

    def _written(self) -> tuple[str, str]:
        """A name of its own for each pair, by which a client sees that it has to connect anew."""
        folder = Path(self._files.name)
        return str(folder / f"{self._turn}.crt"), str(folder / f"{self._turn}.key")

    @staticmethod
    def _pair(held: Credential) -> tuple[str, str]:
        return held.certificate, held.key


def usable(token: str) -> bool:
    """Whether a token can stand in a header: visible ASCII, no white space."""
    return re.fullmatch(r"[!-~]+", token) is not None
