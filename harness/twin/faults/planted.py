"""Secrets where nobody should have put them: what a run sees, and must not write down."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.faults.model import ALL_POOLS, Fault
from harness.twin.faults.requests import MANAGER
from harness.twin.world.linstor import ErrorReport
from harness.twin.world.objects import meta
from harness.twin.world.world import LAB

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest
    from harness.twin.world.world import World

WORD = "h1lplant"
"""What each of them has in it, in clear or encoded."""
TOKEN = f"{WORD}-t0k3n-4711"
BOOTSTRAP = f"{WORD[:6]}.{WORD}01234567"
JWT = f"eyJ{WORD}AAAAAAAA.eyJ{WORD}BBBB.{WORD}CCCC"
KEY = "\n".join(
    ("-----BEGIN PRIVATE KEY-----", *(f"{WORD}{n}" * 6 for n in "abc"), "-----END PRIVATE KEY-----")
)
KUBECONFIG = f"users:\n- name: admin\n  user:\n    token: {TOKEN}\n    client-key-data: {TOKEN}\n"
SPOKEN = (
    f"login failed: password={TOKEN}",
    f"Authorization: Bearer {TOKEN}",
    f"kubeadm join --token {BOOTSTRAP}",
    f"got {JWT}",
    f"connect to https://admin:{TOKEN}@registry.example.org/v2/",
    f"talos.config machine.token: {BOOTSTRAP}",
    f'{{"shared-secret": "{TOKEN}"}}',
)
"""What programs write into their logs."""


def _plant(world: World) -> None:
    namespace = LAB[1]
    encoded = base64.b64encode(KUBECONFIG.encode()).decode()
    for cluster in (world.cluster, *world.tenant_clusters.values()):
        place = namespace if cluster is world.cluster else "default"
        cluster.create(_secret(place, encoded), manager=MANAGER)
        cluster.create(_settings(place), manager=MANAGER)
        pod = cluster.create(_pod(place), manager=MANAGER)
        for number, text in enumerate((*SPOKEN, KEY)):
            cluster.events.warning(pod, f"Planted{number}", text, "planted")
    world.linstor.error_reports.append(
        ErrorReport("Controller", world.engine.now, "StorageException", f"passphrase={TOKEN}")
    )
    world.on_guest.append(_speak)


def _speak(guest: Guest, _: Obj) -> None:
    """A guest writes them to its kernel's log and on its console as soon as it is up."""

    def up(service: str) -> None:
        if service == "kubelet":
            for text in (*SPOKEN, KEY):
                guest.kernel.log(text)

    guest.services.on_up.append(up)


def _secret(namespace: str, kubeconfig: str) -> Obj:
    plain = base64.b64encode(TOKEN.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": meta("planted", namespace),
        "data": {"kubeconfig": kubeconfig, "anything": plain},
    }


def _settings(namespace: str) -> Obj:
    """A ConfigMap that should have been a Secret."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta("planted", namespace),
        "data": {"kubeconfig": KUBECONFIG, "password": TOKEN, "tls.key": KEY},
    }


def _pod(namespace: str) -> Obj:
    container = {
        "name": "app",
        "image": "docker.io/library/busybox:1.37.0",
        "command": ["sleep", "2147483647"],
        "args": [f"--token={TOKEN}", f"--password {TOKEN}"],
        "env": [
            {"name": "AWS_SECRET_ACCESS_KEY", "value": TOKEN},
            {"name": "DB_PASSWORD", "value": TOKEN},
            {"name": "SETTINGS", "value": json.dumps({"apiKey": TOKEN})},
        ],
    }
    annotations = {"example.org/last-applied": json.dumps({"password": TOKEN})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta("planted", namespace, annotations=annotations),
        "spec": {"containers": [container]},
    }


FAULTS = (
    Fault(
        id="secrets-in-plain-sight",
        sentence="Tokens, keys and kubeconfigs stand in Secrets, ConfigMaps, environments, events, "
        "logs and on consoles.",
        seen="what a run keeps says [redacted] in their place",
        wrong_diagnosis="nobody reads the evidence of a test",
        breaks=frozenset(),
        where=ALL_POOLS,
        edit=_plant,
        harmless=True,
        source="field.md section 5 (openshift/must-gather#278)",
    ),
)
