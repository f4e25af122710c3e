"""Serial consoles: KubeVirt's subresource over WebSocket, one reader a machine."""

from __future__ import annotations

import json
from typing import Any

import pytest
import websocket

GROUP = "/apis/subresources.kubevirt.io"
VMIS = f"{GROUP}/v1/namespaces/default/virtualmachineinstances"
PLAIN = "plain.kubevirt.io"
VMI = {"apiGroups": ["kubevirt.io"], "resources": ["virtualmachineinstances"], "verbs": ["*"]}
CONSOLE = {
    "apiGroups": ["subresources.kubevirt.io"],
    "resources": ["virtualmachineinstances/console"],
    "verbs": ["get"],
}


def attach(cluster: Any, name: str = "vm") -> Any:
    return cluster.socket(f"{VMIS}/{name}/console", PLAIN)


def printed(cluster: Any, data: bytes, number: int = 0) -> None:
    cluster.run(lambda: cluster.backend.lines[number].heard(data))


def test_what_is_printed_is_heard_raw(cluster: Any) -> None:
    connection = attach(cluster)
    assert connection.getsubprotocol() == PLAIN
    printed(cluster, b"\x01\xff\r\n")
    assert connection.recv_data() == (websocket.ABNF.OPCODE_BINARY, b"\x01\xff\r\n")
    assert cluster.server.deliveries == 1
    assert cluster.log.count(path="/console", status=101) == 1


def test_what_is_typed_reaches_the_machine(cluster: Any) -> None:
    connection = attach(cluster)
    connection.send_binary(b"\x03ab")
    connection.send("c")
    connection.ping("here")
    assert connection.recv_data_frame(control_frame=True)[1].data == b"here"
    assert cluster.backend.lines[0].typed == b"\x03abc"


def test_a_ping_is_answered_behind_the_output(cluster: Any) -> None:
    connection = attach(cluster)
    # more than the connection holds: the rest waits in the server
    for megabytes in (16, 2):
        printed(cluster, bytes(megabytes << 20))
    printed(cluster, b"last words")
    connection.ping("now")
    heard = b""
    while True:
        opcode, frame = connection.recv_data_frame(control_frame=True)
        if opcode == websocket.ABNF.OPCODE_PONG:
            break
        heard += frame.data
    assert len(heard) == (18 << 20) + 10
    assert heard.endswith(b"last words")


def test_a_second_reader_ends_the_first_without_a_word(cluster: Any) -> None:
    first, other = attach(cluster), attach(cluster, "other")
    second = attach(cluster)
    with pytest.raises(websocket.WebSocketConnectionClosedException):
        first.recv_data()
    assert cluster.backend.lines[0].left.wait(5)
    printed(cluster, b"mine", 2)
    printed(cluster, b"apart", 1)
    assert (second.recv(), other.recv()) == (b"mine", b"apart")


def test_a_third_reader_ends_the_second(cluster: Any) -> None:
    readers = [attach(cluster) for _ in range(3)]
    for reader in readers[:2]:
        with pytest.raises(websocket.WebSocketConnectionClosedException):
            reader.recv_data()
    printed(cluster, b"x", 2)
    assert readers[2].recv() == b"x"


def test_the_end_of_the_machine_comes_behind_its_last_words(cluster: Any) -> None:
    connection = attach(cluster)

    def end() -> None:
        cluster.backend.lines[0].heard(b"Power down")
        cluster.backend.lines[0].ended()

    cluster.run(end)
    assert connection.recv() == b"Power down"
    with pytest.raises(websocket.WebSocketConnectionClosedException):
        connection.recv_data()
    assert cluster.backend.lines[0].left.wait(5)


def test_a_client_that_leaves_is_forgotten(cluster: Any) -> None:
    connection = attach(cluster)
    connection.close()
    assert cluster.backend.lines[0].left.wait(5)
    again = attach(cluster)
    printed(cluster, b"back", 1)
    assert again.recv() == b"back"


def refused(cluster: Any, path: str, *protocols: str) -> Any:
    with pytest.raises(websocket.WebSocketBadStatusException) as caught:
        cluster.socket(path, *protocols)
    return caught.value.status_code, json.loads(caught.value.resp_body)["message"]


def test_refusals_come_before_the_upgrade(cluster: Any) -> None:
    assert refused(cluster, f"{VMIS}/refused/console", PLAIN) == (400, "VMI is not running")
    assert refused(cluster, f"{VMIS}/vm/console", "v5.channel.k8s.io")[0] == 400
    assert cluster.get(f"{VMIS}/vm/console").status == 400
    assert cluster.post(f"{VMIS}/vm/console", {}).status == 405
    assert cluster.backend.lines == []


def test_nothing_else_is_served_there(cluster: Any) -> None:
    for path in (VMIS, f"{VMIS}/vm", f"{VMIS}/vm/vnc", f"{VMIS}/vm/status"):
        assert cluster.get(path).status == 404, path


def test_the_console_needs_its_own_permission(cluster: Any) -> None:
    cluster.allow("jane", VMI)
    answer = cluster.get(f"{VMIS}/vm/console", user="jane")
    assert answer.status == 403
    assert 'cannot get resource "virtualmachineinstances/console"' in answer.json["message"]
    cluster.allow("ann", CONSOLE)
    assert cluster.get(f"{VMIS}/vm/console", user="ann").status == 400


def test_discovery_lists_the_console_and_no_kind(cluster: Any) -> None:
    listed = cluster.get(f"{GROUP}/v1").json["resources"]
    assert [(r["name"], r["verbs"]) for r in listed] == [
        ("virtualmachineinstances/console", ["get"])
    ]
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = cluster.get("/apis", accept=accept).json["items"]
    (group,) = (g for g in groups if g["metadata"]["name"] == "subresources.kubevirt.io")
    (resource,) = group["versions"][0]["resources"]
    assert resource["responseKind"] == {"group": "", "version": "", "kind": ""}
    assert [s["subresource"] for s in resource["subresources"]] == ["console"]
