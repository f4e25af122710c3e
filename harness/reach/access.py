"""From a kubeconfig, or from inside a cluster, to a client; from transport failures to lab errors.

The official client gives configuration, TLS and transport. Its hidden retries are off: with
urllib3's default a reset GET is sent four times (lab/python_kube_stack.md 2.6), which hides the
outage that should be reported. Tokens that change and proxies are ours: see `credentials` and
`proxies` for what the library gets wrong there.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import urllib3

from harness.reach import kubeconfigs, proxies
from harness.reach.credentials import (
    BEARER,
    Credentials,
    PluginCredentials,
    Renewal,
    TokenFile,
    usable,
)
from harness.reach.errors import (
    BadCertificate,
    KubeconfigMissing,
    KubeconfigUnreadable,
    LabError,
    Refused,
    Unreachable,
)
from harness.reach.execplugin import plugin_of
from harness.reach.kubeconfigs import Entry

if TYPE_CHECKING:
    from kubernetes.client import ApiClient, Configuration

Answer = TypeVar("Answer")

# Kept connections per cluster; explicit, because the library's default depends on the CPU count.
POOL_SIZE = 32

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds its service account's token and the cluster's CA (Kubernetes docs,
"Accessing the Kubernetes API from a Pod")."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds on the runner's clock: to connect, and between two pieces of an answer."""

    connect: float = 10.0
    read: float = 30.0


def client_from_file(path: Path, context: str = "") -> ApiClient:
    """A client for one context of a kubeconfig file; "" is the file's current context.

    Relative paths count from the file, as for kubectl. Nothing is sent yet, and no plugin is run.
    Raises KubeconfigMissing, KubeconfigUnreadable or NoSuchContext.
    """
    return client_from_files((path,), context)


def client_from_files(paths: Sequence[Path], context: str = "") -> ApiClient:
    """As `client_from_file`, of several files as KUBECONFIG lists them: the first to name wins."""
    return _client(kubeconfigs.from_files(paths, context))


def client_from_text(
    text: str, context: str = "", *, source: str = "kubeconfig", foreign: bool = False
) -> ApiClient:
    """A client from a kubeconfig's text, as a variable or a tenant's Secret holds it.

    ``source`` names where the text came from, for messages. A ``foreign`` text comes from a
    cluster: one that would start a program or read a file here is refused. Raises
    KubeconfigUnreadable or NoSuchContext.
    """
    entry = kubeconfigs.from_text(text, context, source=source)
    asked = kubeconfigs.outward(entry)
    if foreign and asked:
        saw = f"{', '.join(asked)} in it, which would be read or run on this machine"
        raise KubeconfigUnreadable(entry.tried, saw, "use a kubeconfig that holds its own data")
    return _client(entry)


def client_in_cluster(
    environ: Mapping[str, str] | None = None, directory: Path = SERVICE_ACCOUNT
) -> ApiClient:
    """A client with the service account of the pod that this runs in.

    The token is read anew for each request, as the kubelet replaces it about hourly. Raises
    KubeconfigMissing where this is no pod, KubeconfigUnreadable or BadCertificate otherwise.
    """
    given = os.environ if environ is None else environ
    tried = "use the service account of this pod"
    host, port = given.get("KUBERNETES_SERVICE_HOST"), given.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        saw = "no KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT"
        raise KubeconfigMissing(tried, saw, "run it in a pod, or name a kubeconfig")
    token, ca = directory / "token", directory / "ca.crt"
    for path in (token, ca):
        if not path.is_file():
            do = "give the pod a service account (automountServiceAccountToken)"
            raise KubeconfigMissing(tried, f"no file {path}", do)
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    cluster = {"server": server, "certificate-authority": str(ca)}
    return _client(Entry(cluster, {"tokenFile": str(token)}, tried))


def transport_error(error: Exception, tried: str) -> LabError:
    """The lab error for what a socket, TLS or HTTP library raised; a LabError as it is."""
    if isinstance(error, LabError):
        return error
    text = _innermost(error)
    if isinstance(_unwrapped(error), urllib3.exceptions.ProxyError):
        return Unreachable(tried, f"trouble with the proxy in the way: {text}", _CHECK_PROXY)
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
    """Headers that carry the credentials in force, fetched where they have expired.

    Call it before connecting: a plugin may have given another client certificate, and the client
    then gets connections of its own for it. Raises LabError.
    """
    from kubernetes.client.rest import RESTClientObject

    configuration = client.configuration
    told = configuration.get_api_key_with_prefix(BEARER)
    kept = client.rest_client.pool_manager.connection_pool_kw
    if kept.get("cert_file") != configuration.cert_file:
        client.rest_client = RESTClientObject(configuration)
    return {"User-Agent": "hil", **({"Authorization": told} if told else {})}


def authorized(
    client: ApiClient,
    send: Callable[[Mapping[str, str]], Answer],
    note: Callable[[Renewal], None],
    now: Callable[[], float],
) -> Answer:
    """What ``send`` gives for headers with the credentials in force.

    Refused with 401, it is tried once more with others if there are any; a second 401 is final.
    ``note`` is told of each try to get others, with the lab's time, which ``now`` tells.
    """
    headers = auth_headers(client)
    try:
        return send(headers)
    except Refused as refused:
        credentials: Credentials | None = client.configuration.refresh_api_key_hook
        if refused.code != 401 or credentials is None:
            raise
        fresh = False
        try:
            fresh = credentials.renew(headers.get("Authorization", ""))
        finally:
            note(Renewal(credentials.name, refused.tried, fresh, now()))
        if not fresh:
            raise
    return send(auth_headers(client))


def _client(entry: Entry) -> ApiClient:
    from kubernetes.client import ApiClient, Configuration
    from kubernetes.config import ConfigException

    configuration = Configuration(connection_pool_maxsize=POOL_SIZE)
    configuration.retries = False
    try:
        _load(entry, configuration)
    except (ConfigException, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        # the loader has no error of its own for a malformed entry
        saw = _innermost(error)
        raise KubeconfigUnreadable(entry.tried, saw, "repair the kubeconfig") from error
    hooked: Any = configuration  # the library's own hook would load all of it before each request
    hooked.refresh_api_key_hook = _credentials(entry)
    proxies.settle(configuration, str(entry.cluster.get("proxy-url") or ""), entry.tried)
    try:
        tls_context(configuration)
    except (OSError, ValueError) as error:
        do = "renew the certificates in the kubeconfig"
        raise BadCertificate(entry.tried, f"unusable certificates ({error})", do) from error
    return ApiClient(configuration)


def _load(entry: Entry, configuration: Configuration) -> None:
    """The official loader, for all of the entry that it does right."""
    from kubernetes import config as library

    user = {key: value for key, value in entry.user.items() if key not in _OURS}
    cluster = {key: value for key, value in entry.cluster.items() if key not in _OURS}
    if "token" in user:
        user["token"] = _static(user["token"], entry.tried)
    read: Callable[..., None] = library.load_kube_config_from_dict
    read(
        config_dict={
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": "it", "user": user}],
        },
        context="it",
        client_configuration=configuration,
        persist_config=False,
    )


def _static(token: Any, tried: str) -> str:
    text = token.strip() if isinstance(token, str) else ""
    if not usable(text):
        raise KubeconfigUnreadable(tried, "a token that no header can hold", "write it again")
    return text


def _credentials(entry: Entry) -> Credentials | None:
    """Those that can change. kubectl's order: a token file, a token, then a plugin."""
    user = entry.user
    if any(key == "as" or str(key).startswith("as-") for key in user):
        saw = "an impersonation (`as`), which is not done here"
        raise KubeconfigUnreadable(entry.tried, saw, "use a context of that very user")
    if "tokenFile" in user:
        return TokenFile(Path(str(user["tokenFile"])), entry.tried)
    if "token" not in user and "exec" in user:
        return PluginCredentials(plugin_of(user["exec"], entry.cluster, entry.tried))
    if "auth-provider" in user:
        saw = "an auth-provider, which Kubernetes gave up for exec plugins"
        raise KubeconfigUnreadable(entry.tried, saw, "use the provider's exec plugin")
    return None


_OURS = frozenset({"tokenFile", "exec", "auth-provider", "proxy-url"})
_CHECK_PROXY = "check the proxy, its user and password, or name the API server's host in NO_PROXY"


def _innermost(error: BaseException) -> str:
    """What the lowest layer said; the layers above only wrap it."""
    reason: BaseException | None = error
    while reason is not None:
        error = reason
        inner = getattr(reason, "reason", None)
        reason = reason.__cause__ or (inner if isinstance(inner, BaseException) else None)
    return " ".join(str(error).split()) or type(error).__name__


def _unwrapped(error: BaseException) -> BaseException:
    reason = getattr(error, "reason", None)
    return reason if isinstance(reason, BaseException) else error


def _speaks_of_certificates(text: str) -> bool:
    lowered = text.lower()
    return "certificate" in lowered or "unknown ca" in lowered or "hostname mismatch" in lowered
