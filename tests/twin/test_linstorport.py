"""LINSTOR's REST API over HTTPS, as a client with a certificate meets it, and one without."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from harness.twin.apiserver.requestlog import RequestLog
from harness.twin.apiserver.tls import Authority
from harness.twin.engine import EPOCH, Engine
from harness.twin.linstorport import LinstorPort
from harness.twin.process import Endpoint, LinstorAccess, TwinFailed, TwinPower, TwinProcess
from harness.twin.world.linstor_rest import Rest
from harness.twin.world.world import World

UNLIMITED = 9223372036854775807


@dataclass
class Client:
    """Asks one twin's LINSTOR."""

    twin: TwinProcess

    @property
    def access(self) -> LinstorAccess:
        assert self.twin.endpoint.linstor is not None
        return self.twin.endpoint.linstor

    def context(self) -> ssl.SSLContext:
        made = ssl.create_default_context(cafile=str(self.access.ca))
        made.load_cert_chain(self.access.certificate, self.access.key)
        return made

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: str | None = None,
        context: ssl.SSLContext | None = None,
    ) -> tuple[int, Any]:
        where = urlsplit(self.access.url)
        connection = http.client.HTTPSConnection(
            str(where.hostname), where.port, context=context or self.context(), timeout=20
        )
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def advance(self, seconds: float) -> None:
        where = urlsplit(self.twin.endpoint.clock_url)
        connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=20)
        connection.request("GET", "/state")
        now = json.loads(connection.getresponse().read())["now"]
        connection.request("POST", f"/clock/advance?run=all&until={now + seconds}")
        assert connection.getresponse().read()
        connection.close()


@pytest.fixture(scope="module")
def linstor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory: Path = tmp_path_factory.mktemp("twin")
    twin = TwinProcess(directory, seed=1)
    yield Client(twin)
    twin.close()


def test_files_are_for_their_owner_alone(linstor: Client) -> None:
    files = (linstor.access.ca, linstor.access.certificate, linstor.access.key)
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_twin_that_hands_no_linstor_out_is_read_too(linstor: Client, tmp_path: Path) -> None:
    told = json.loads((linstor.access.ca.parent / "twin.json").read_text())
    del told["linstor"]["key"]
    (tmp_path / "twin.json").write_text(json.dumps(told))
    with pytest.raises(TwinFailed, match="it is no twin's"):
        Endpoint.load(tmp_path)
    del told["linstor"]
    (tmp_path / "twin.json").write_text(json.dumps(told))
    assert Endpoint.load(tmp_path).linstor is None


def test_nodes_and_pools_of_a_lab_at_rest(linstor: Client) -> None:
    status, nodes = linstor.ask("/v1/nodes")
    assert status == 200
    assert [one["name"] for one in nodes] == ["hv-1", "hv-2", "hv-3"]
    assert {one["connection_status"] for one in nodes} == {"ONLINE"}
    assert nodes[0]["net_interfaces"][0]["address"] == "192.168.100.11"
    _, pools = linstor.ask("/v1/view/storage-pools?nodes=hv-2&nodes=HV-3")
    shown = [(one["storage_pool_name"], one["node_name"], one["provider_kind"]) for one in pools]
    assert shown == [
        ("data", "hv-2", "ZFS"),
        ("data", "hv-3", "ZFS"),
        ("DfltDisklessStorPool", "hv-2", "DISKLESS"),
        ("DfltDisklessStorPool", "hv-3", "DISKLESS"),
    ]
    assert 0 < pools[0]["free_capacity"] <= pools[0]["total_capacity"] == 200 * 2**20
    assert pools[2]["free_capacity"] == pools[2]["total_capacity"] == UNLIMITED
    assert "reports" not in pools[0]


def test_no_certificate_is_no_connection(linstor: Client) -> None:
    bare = ssl.create_default_context(cafile=str(linstor.access.ca))
    # with TLS 1.3 a client hears of it with its first read
    with pytest.raises(ssl.SSLError, match="certificate required"):
        linstor.ask("/v1/nodes", context=bare)
    bare.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError, match="handshake failure"):
        linstor.ask("/v1/nodes", context=bare)


def test_a_certificate_of_another_authority_is_no_connection(
    linstor: Client, tmp_path: Path
) -> None:
    foreign = ssl.create_default_context(cafile=str(linstor.access.ca))
    pair = tmp_path / "pair.pem"
    pair.write_bytes(b"".join(Authority("linstor-api-ca").client("linstor-client")))
    foreign.load_cert_chain(pair)
    with pytest.raises(ssl.SSLError, match="alert"):
        linstor.ask("/v1/nodes", context=foreign)


def test_a_clusters_own_users_are_strangers(linstor: Client, tmp_path: Path) -> None:
    config = yaml.safe_load(linstor.twin.endpoint.kubeconfig.read_text())
    user = config["users"][0]["user"]
    pair = tmp_path / "pair.pem"
    data = [user["client-certificate-data"], user["client-key-data"]]
    pair.write_bytes(b"".join(base64.b64decode(one) for one in data))
    admin = ssl.create_default_context(cafile=str(linstor.access.ca))
    admin.load_cert_chain(pair)
    with pytest.raises(ssl.SSLError, match="alert"):
        linstor.ask("/v1/nodes", context=admin)


def test_a_client_that_trusts_another_authority_leaves(linstor: Client, tmp_path: Path) -> None:
    other = ssl.create_default_context(cadata=Authority().ca_pem.decode())
    other.load_cert_chain(linstor.access.certificate, linstor.access.key)
    with pytest.raises(ssl.SSLCertVerificationError):
        linstor.ask("/v1/nodes", context=other)


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/v1/nodes/hv-9", 404, "Node 'hv-9' not found."),
        ("/v1/resource-definitions/pvc-1", 404, "Resource definition 'pvc-1' not found."),
        ("/v1/resource-groups/none", 404, "Resource group 'none' not found."),
        ("/v1/nodes/hv-1/storage-pools/fast", 404, "Storage pool 'fast' not found."),
        ("/v1/resource-groups/none/query-max-volume-size", 500, "Resource group 'none' not found."),
        ("/v1/view/nothing", 404, "Path '/v1/view/nothing' not found on server."),
        ("/v2/nodes", 404, "Path '/v2/nodes' not found on server."),
        ("/v1/nodes?limit=many", 404, "limit is no number: 'many'"),
    ],
)
def test_refusals_have_linstors_own_form(
    linstor: Client, path: str, status: int, message: str
) -> None:
    told, value = linstor.ask(path)
    (entry,) = value
    assert (told, entry["message"]) == (status, message)
    # a signed 64-bit number whose two highest bits are set: an error
    assert entry["ret_code"] < 0 and (entry["ret_code"] % 2**64) >> 62 == 3


def test_it_only_tells(linstor: Client) -> None:
    status, (entry,) = linstor.ask("/v1/nodes", "POST", "{}")
    assert status == 405 and "POST /v1/nodes" in entry["message"]
    assert linstor.ask("/v1/nodes/hv-1", "DELETE")[0] == 405


def test_a_dead_host_is_missed_after_the_ping_timeout_and_found_after_its_boot(
    linstor: Client,
) -> None:
    power = TwinPower(linstor.twin.endpoint.clock_url, "hv-3")
    power.off()
    linstor.advance(4)
    assert linstor.ask("/v1/nodes/hv-3")[1]["connection_status"] == "ONLINE"
    linstor.advance(3)
    node = linstor.ask("/v1/nodes/hv-3")[1]
    assert node["connection_status"] == "OFFLINE" and "storage_providers" not in node
    for pool in linstor.ask("/v1/nodes/hv-3/storage-pools")[1]:
        assert "free_capacity" not in pool and "total_capacity" not in pool
        assert pool["reports"][0]["message"] == "No active connection to satellite 'hv-3'"
    power.on()
    linstor.advance(300)
    assert linstor.ask("/v1/nodes/hv-3")[1]["connection_status"] == "ONLINE"
    assert "free_capacity" in linstor.ask("/v1/nodes/hv-3/storage-pools/data")[1]


def test_requests_are_logged_and_answers_bear_the_labs_time(tmp_path: Path) -> None:
    engine, log = Engine(), RequestLog()
    world = World(engine)
    port = LinstorPort(Rest(world, world.linstor), engine, log)

    given = port.issue()
    pair = tmp_path / "pair.pem"
    pair.write_bytes(given.certificate + given.key)
    context = ssl.create_default_context(cadata=given.ca.decode())
    context.load_cert_chain(pair)

    def ask() -> str:
        where = urlsplit(port.url)
        connection = http.client.HTTPSConnection(str(where.hostname), where.port, context=context)
        connection.request("GET", "/v1/nodes?limit=1", headers={"User-Agent": "someone"})
        answer = connection.getresponse()
        connection.close()
        return str(answer.headers["Date"])

    async def whole() -> str:
        port.open()
        try:
            return await asyncio.to_thread(ask)
        finally:
            port.close()

    assert engine.now == EPOCH
    assert asyncio.run(whole()) == "Thu, 01 Jan 2026 00:00:00 GMT"
    (entry,) = log.entries(cluster="linstor")
    assert entry == ("linstor", "get", "/v1/nodes", "limit=1", 200, "someone")
