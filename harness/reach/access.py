"""From a kubeconfig to a client of one cluster, and from transport failures to lab errors.

The official client gives configuration, authentication, TLS and transport. Its hidden retries are
off: with urllib3's default a reset GET is sent four times (lab/python_kube_stack.md 2.6), which
hides the outage that should be reported.
"""

from __future__ import annotations

import difflib
import ipaddress
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

from harness.reach.errors import (
    BadCertificate,
    KubeconfigMissing,
    KubeconfigUnreadable,
    LabError,
    NoSuchContext,
    Unreachable,
)

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, Configuration

# Kept connections per cluster; explicit, because the library's default depends on the CPU count.
POOL_SIZE = 32


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds on the runner's clock: to connect, and between two pieces of an answer."""

    connect: float = 10.0
    read: float = 30.0


def client_from_file(path: Path, context: str = "") -> ApiClient:
    """A client for one context of a kubeconfig file; "" is the file's current context.

    Relative certificate paths count from the file, as for kubectl. Nothing is sent yet. Raises
    KubeconfigMissing, KubeconfigUnreadable or NoSuchContext.
    """
    tried = f"read the kubeconfig {path}"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise KubeconfigMissing(tried, "no such file", "name an existing file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigUnreadable(tried, str(error), "make it a readable text file") from error
    chosen = _choose(_parse(text, tried), context, tried)

    def load(configuration: Configuration) -> None:
        from kubernetes import config as library

        read: Callable[..., None] = library.load_kube_config
        read(
            config_file=str(path),
            context=chosen,
            client_configuration=configuration,
            persist_config=False,
        )

    return _client(load, tried)


def client_from_text(text: str, context: str = "", *, source: str = "kubeconfig") -> ApiClient:
    """A client from a kubeconfig's text, as a tenant's Secret holds it.

    ``source`` names where the text came from, for messages. Raises KubeconfigUnreadable or
    NoSuchContext.
    """
    tried = f"read the kubeconfig from {source}"
    config = _parse(text, tried)
    chosen = _choose(config, context, tried)

    def load(configuration: Configuration) -> None:
        from kubernetes import config as library

        read: Callable[..., None] = library.load_kube_config_from_dict
        read(
            config_dict=config,
            context=chosen,
            client_configuration=configuration,
            persist_config=False,
        )

    return _client(load, tried)


def transport_error(error: Exception, tried: str) -> LabError:
    """The lab error for what a socket, TLS or HTTP library raised."""
    text = _innermost(error)
    if _speaks_of_certificates(text):
        do = "check the kubeconfig's certificate authority and client certificate"
        return BadCertificate(tried, text, f"{do}, and the server's name")
    return Unreachable(tried, text, "check that the API server is up and the address is right")


def tls_context(configuration: Configuration) -> ssl.SSLContext:
    """TLS as the client's HTTP side does it, for connections made without urllib3."""
    context = ssl.create_default_context(
        cafile=configuration.ssl_ca_cert, cadata=configuration.ca_cert_data
    )
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if configuration.assert_hostname is False or not configuration.verify_ssl:
        context.check_hostname = False
    if not configuration.verify_ssl:
        context.verify_mode = ssl.CERT_NONE
    return context


def auth_headers(client: ApiClient) -> dict[str, str]:
    """Headers that carry the credentials, refreshed if the kubeconfig has a way to."""
    headers: dict[str, str] = {"User-Agent": "hil"}
    client.update_params_for_auth(headers, [], ["BearerToken"], "", "", None)
    return headers


def _client(load: Callable[[Configuration], None], tried: str) -> ApiClient:
    from kubernetes.client import ApiClient, Configuration
    from kubernetes.config import ConfigException

    configuration = Configuration(connection_pool_maxsize=POOL_SIZE)
    configuration.retries = False
    try:
        load(configuration)
    except (ConfigException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # the loader has no error of its own for a malformed entry
        raise KubeconfigUnreadable(tried, _innermost(error), "repair the kubeconfig") from error
    if _is_loopback(configuration.host):
        configuration.proxy = None
    try:
        tls_context(configuration)
    except (OSError, ValueError) as error:
        do = "renew the certificates in the kubeconfig"
        raise BadCertificate(tried, f"unusable certificates ({error})", do) from error
    return ApiClient(configuration)


def _parse(text: str, tried: str) -> dict[str, Any]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        saw = " ".join(str(error).split())
        raise KubeconfigUnreadable(tried, saw, "make it valid YAML") from error
    if not isinstance(found, dict) or not isinstance(found.get("contexts"), list):
        saw = "a document without a list of contexts"
        raise KubeconfigUnreadable(tried, saw, "name a kubeconfig")
    return found


def _choose(config: dict[str, Any], context: str, tried: str) -> str:
    names = [str(c.get("name")) for c in config["contexts"] if isinstance(c, dict)]
    wanted = context or str(config.get("current-context") or "")
    if wanted in names:
        return wanted
    if not wanted:
        raise NoSuchContext(tried, "no current-context", f"name one of: {_listed(names)}")
    near = difflib.get_close_matches(wanted, names, n=1, cutoff=0.5)
    do = f"did you mean {near[0]!r}?" if near else f"name one of: {_listed(names)}"
    raise NoSuchContext(tried, f"no context {wanted!r} in it", do)


def _listed(names: list[str]) -> str:
    return ", ".join(sorted(names)) or "(the file has none)"


def _is_loopback(host: str) -> bool:
    name = urlsplit(host).hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def _innermost(error: BaseException) -> str:
    """What the lowest layer said; the layers above only wrap it."""
    reason: BaseException | None = error
    while reason is not None:
        error = reason
        inner = getattr(reason, "reason", None)
        reason = reason.__cause__ or (inner if isinstance(inner, BaseException) else None)
    return " ".join(str(error).split()) or type(error).__name__


def _speaks_of_certificates(text: str) -> bool:
    lowered = text.lower()
    return "certificate" in lowered or "unknown ca" in lowered or "hostname mismatch" in lowered
