"""Replies of real machines with DRBD, from the lab's captures, and all captures where they are."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from harness.facts.drbd import DrbdAbsent, DrbdStatus
from harness.facts.drbd8 import read_status8
from harness.facts.drbd9 import read_status9
from harness.facts.drbdproc import DrbdProc, read_proc
from harness.facts.fact import Unread
from harness.facts.reply import Output

CAPTURES = Path(__file__).resolve().parents[2] / "../shared/lab/captures"
MISSING = "the lab's captures are not beside this checkout"

HEAD8 = """\
version: 8.4.11 (api:1/proto:86-101)
srcversion: F73C670A7EC572DB9CF3E5B\x20
"""
PROC9 = """\
version: 9.2.14 (api:2/proto:118-123)
GIT-hash: 4ec72ccf603ed4a473d87ed0d4544bf52f13fc0f build by @builder, 2026-11-30 08:04:22
Transports (api:21): tcp (9.2.14)
"""

# drbd84_04: n1 is Primary, both UpToDate
PROC8_UP = f"""\
{HEAD8} 0: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r-----
    ns:65496 nr:0 dw:0 dr:65496 al:8 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:0
"""
STATUS8_UP = """\
r0 role:Primary suspended:no
    write-ordering:flush
  volume:0 minor:0 disk:UpToDate
      size:65496 read:65496 written:0 al-writes:8 bm-writes:0 upper-pending:0
      lower-pending:0 al-suspended:no blocked:no
  peer connection:Connected role:Secondary congested:no
    volume:0 replication:Established peer-disk:UpToDate resync-suspended:no
        received:0 sent:65496 out-of-sync:0 pending:0 unacked:0

"""
# drbd84_03: the first sync, seen by its source; a line folded where the figure made it too long
PROC8_SYNC = f"""\
{HEAD8} 0: cs:SyncSource ro:Primary/Secondary ds:UpToDate/Inconsistent C r-----
    ns:1232 nr:0 dw:0 dr:1232 al:8 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:64264
\t[>...................] sync'ed:  6.3% (64264/65496)K
\tfinish: 0:00:40 speed: 1,232 (1,232) K/sec
"""
STATUS8_SYNC = """\
r0 role:Primary suspended:no
    write-ordering:flush
  volume:0 minor:0 disk:UpToDate
      size:65496 read:4928 written:0 al-writes:8 bm-writes:0 upper-pending:0
      lower-pending:0 al-suspended:no blocked:no
  peer connection:Connected role:Secondary congested:no
    volume:0 replication:SyncSource peer-disk:Inconsistent done:7.04
        resync-suspended:no
        received:0 sent:4928 out-of-sync:60888 pending:1 unacked:0

"""
# drbd84_07: the cable is cut; n2, which is Primary
PROC8_CUT = f"""\
{HEAD8} 0: cs:WFConnection ro:Primary/Unknown ds:UpToDate/DUnknown C r-----
    ns:1 nr:75849 dw:75853 dr:8270 al:9 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:8
"""
STATUS8_CUT = """\
r0 role:Primary suspended:no
    write-ordering:flush
  volume:0 minor:0 disk:UpToDate
      size:65496 read:8270 written:75853 al-writes:9 bm-writes:0 upper-pending:0
      lower-pending:0 al-suspended:no blocked:no
  peer connection:Connecting role:Unknown congested:no
    volume:0 replication:Off peer-disk:DUnknown resync-suspended:no
        received:75849 sent:1 out-of-sync:8 pending:0 unacked:0

"""
# drbd84_16: split brain; status lists no peer
PROC8_SPLIT = f"""\
{HEAD8} 0: cs:StandAlone ro:Primary/Unknown ds:UpToDate/DUnknown   r-----
    ns:43012 nr:8284 dw:13444 dr:75957 al:3 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:1068
"""
STATUS8_SPLIT = """\
r0 role:Primary suspended:no
    write-ordering:flush
  volume:0 minor:0 disk:UpToDate
      size:65496 read:75957 written:13444 al-writes:3 bm-writes:0
      upper-pending:0 lower-pending:0 al-suspended:no blocked:no

"""
# drbd84_verify_found_out_of_sync: everything UpToDate, and 12 KiB that differ
PROC8_OOS = f"""\
{HEAD8} 0: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C r-----
    ns:8192 nr:0 dw:8192 dr:69592 al:9 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:12
"""
STATUS8_OOS = """\
r0 role:Primary suspended:no
    write-ordering:flush
  volume:0 minor:0 disk:UpToDate
      size:65496 read:69592 written:8192 al-writes:9 bm-writes:0 upper-pending:0
      lower-pending:0 al-suspended:no blocked:no
  peer connection:Connected role:Secondary congested:no
    volume:0 replication:Established peer-disk:UpToDate resync-suspended:no
        received:0 sent:8192 out-of-sync:12 pending:0 unacked:0

"""
NO_SUCH = "r0: No such resource\n"

# drbd9_07, text: n1 has lost its quorum and is Primary
STATUS9_NO_QUORUM = """\
r0 node-id:0 role:Primary suspended:quorum force-io-failures:no
    write-ordering:flush
  volume:0 minor:0 disk:UpToDate backing_dev:/dev/vda quorum:no
      size:65496 read:141438 written:18597 al-writes:7 bm-writes:22
      upper-pending:0 lower-pending:0 al-suspended:no blocked:upper
  n2 node-id:1 connection:Connecting role:Unknown congested:no ap-in-flight:0
      rs-in-flight:0
    volume:0 replication:Off peer-disk:DUnknown resync-suspended:no
        received:0 sent:0 out-of-sync:0 pending:0 unacked:0
  n3 node-id:2 connection:Connecting role:Unknown congested:no ap-in-flight:0
      rs-in-flight:0
    volume:0 replication:Off peer-disk:DUnknown resync-suspended:no
        received:0 sent:0 out-of-sync:0 pending:0 unacked:0

"""

_RESOURCE9 = """\
[
{
  "name": "r0",
  "node-id": %(id)d,
  "role": "%(role)s",
  "suspended": %(suspended)s,
  "suspended-user": false,
  "suspended-no-data": false,
  "suspended-fencing": false,
  "suspended-quorum": %(suspended)s,
  "force-io-failures": %(failing)s,
  "write-ordering": "flush",
  "devices": [
    {
      "volume": 0,
      "minor": 0,
      "disk-state": "%(disk)s",
      "client": %(client)s,
      "quorum": %(quorum)s,
      "size": 65496,
      "read": 130992,
      "written": 0,
      "al-writes": 0,
      "bm-writes": 21,
      "upper-pending": 0,
      "lower-pending": 0
    } ],
  "connections": [
%(peers)s ]
}
]

"""
_PEER9 = """\
    {
      "peer-node-id": %(id)d,
      "name": "n%(number)d",
      "connection-state": "%(connection)s",\x20
      "congested": false,
      "peer-role": "Secondary",
      "ap-in-flight": 0,
      "rs-in-flight": 0,
      "peer_devices": [
        {
          "volume": 0,
          "replication-state": "%(replication)s",
          "peer-disk-state": "%(disk)s",
          "peer-client": %(client)s,
          "resync-suspended": "no",
          "received": 0,
          "sent": 65496,
          "out-of-sync": %(oos)d,
          "pending": 0,
          "unacked": 0,
          "has-sync-details": false,
          "has-online-verify-details": false,
          "percent-in-sync": 100.00
        } ]
    }"""


def peer9(node_id: int, **said: object) -> str:
    """A connection in the shape of drbd9_03, with what is named said otherwise."""
    usual = {"connection": "Connected", "replication": "Established", "disk": "UpToDate"}
    return _PEER9 % {
        "id": node_id,
        "number": node_id + 1,
        "client": "false",
        "oos": 0,
        **usual,
        **said,
    }


def json9(node_id: int, *peers: str, **said: object) -> str:
    """``drbdsetup status --json`` in the shape of drbd9_03: three nodes, all UpToDate."""
    listed = peers or tuple(peer9(other) for other in range(3) if other != node_id)
    usual = {"role": "Primary", "suspended": "false", "failing": "false", "disk": "UpToDate"}
    return _RESOURCE9 % {
        "id": node_id,
        "client": "false",
        "quorum": "true",
        "peers": ",\n".join(listed),
        **usual,
        **said,
    }


def answer(text: str, exit_code: int | None = 0, stderr: str = "") -> Output:
    return Output(("drbdsetup", "status"), exit_code, text, stderr, "cut off")


def proc(text: str) -> DrbdProc:
    found = read_proc(answer(text), at=1.0, source="guest n1:/proc/drbd")
    assert isinstance(found, DrbdProc), found
    return found


def status8(
    text: str, seen: str | None = PROC8_UP, node: str = "n1", resource: str = "r0"
) -> DrbdStatus | DrbdAbsent | Unread:
    """8.4's status, with /proc/drbd beside it unless that is None."""
    beside = None if seen is None else proc(seen)
    source = f"guest {node}:drbdsetup status"
    return read_status8(answer(text), beside, at=2.0, source=source, node=node, resource=resource)


def status9(
    text: str, node: str = "n1", version: str = "9.2.14", resource: str = "r0"
) -> DrbdStatus | DrbdAbsent | Unread:
    source = f"guest {node}:drbdsetup status"
    return read_status9(
        answer(text), at=2.0, source=source, node=node, version=version, resource=resource
    )


@cache
def captured(name: str) -> dict[str, dict[str, tuple[str, int]]]:
    """A capture: by node, by command, what it said and its exit status."""
    text = next(CAPTURES.glob(f"{name}*")).read_text()
    found: dict[str, dict[str, tuple[str, int]]] = {}
    for block in re.finditer(r"^(n\d)# (.*)\n((?:.*\n)*?)\[exit (\d+)\]\n", text, re.M):
        found.setdefault(block[1], {})[block[2]] = (block[3], int(block[4]))
    return found


def captured_output(name: str, node: str, command: str) -> Output:
    """One reply of a capture; what a failed command said came on stderr."""
    text, code = captured(name)[node][command]
    return Output(tuple(command.split()), code, "" if code else text, text if code else "")


def captured_statuses(name: str) -> list[DrbdStatus | DrbdAbsent | Unread]:
    """What each node of a capture says of r0, as the observer would have read it."""
    found: list[DrbdStatus | DrbdAbsent | Unread] = []
    for node, commands in captured(name).items():
        beside = read_proc(captured_output(name, node, "cat /proc/drbd"), at=1.0, source=node)
        assert isinstance(beside, DrbdProc)
        where = f"guest {node}:drbdsetup status"
        if "drbdsetup status r0 --json" in commands:
            output = captured_output(name, node, "drbdsetup status r0 --json")
            found.append(
                read_status9(
                    output,
                    at=2.0,
                    source=where,
                    node=node,
                    version=beside.version,
                    resource="r0",
                )
            )
        else:
            output = captured_output(name, node, "drbdsetup status r0 --verbose --statistics")
            found.append(
                read_status8(output, beside, at=2.0, source=where, node=node, resource="r0")
            )
    return found
