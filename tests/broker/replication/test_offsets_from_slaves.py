"""A master's start: which slaves it asks, what it takes from them, and how long it waits."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio

from rocketpy.broker.replication import offsets_from_slaves
from rocketpy.broker.replication.broker_tables import BrokerTables
from rocketpy.broker.replication.common_log import CommonLog
from rocketpy.broker.replication.offsets_from_slaves import TAKE_SECONDS, OffsetsFromSlaves
from rocketpy.errors import RemotingConnectError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.route import BrokerData, ClusterInfo
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.runner import run_inline
from rocketpy.store.message_store import MessageStore
from tests.broker.replication.scripted_broker import Answer, ScriptedBroker, body_answer
from tests.broker.tables_of_a_broker import Tables, make_tables

OWN = "10.0.0.1:10911"
OFFSETS = RequestCode.GET_ALL_CONSUMER_OFFSET


def nameserver(address: str, brokers: dict[str, dict[int, str]]) -> ScriptedBroker:
    """Return a nameserver that knows these addresses, by broker name and id."""
    table = {name: BrokerData("DefaultCluster", name, addresses) for name, addresses in brokers.items()}
    body = encode_body(ClusterInfo(table, {"DefaultCluster": list(table)}))
    return ScriptedBroker(address, scripts={RequestCode.GET_BROKER_CLUSTER_INFO: body_answer(body)})


def slave(
    address: str, offsets: dict[str, dict[int, int]], committed: dict[str, dict[int, int]] | None = None
) -> ScriptedBroker:
    return ScriptedBroker(address, offsets=offsets, committed=committed or {})


@attrs.define(eq=False)
class Queues:
    """The ends of a master's queues."""

    ends: dict[tuple[str, int], int] = attrs.field(factory=dict)

    def max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        return self.ends.get((topic, queue_id), 1000)


@attrs.define(eq=False)
class Logs:
    """What the logs of slaves have that this one has not, by address: nothing unless it is said here."""

    differences: dict[str, str] = attrs.field(factory=dict)

    async def difference(self, address: str) -> str:
        await trio.lowlevel.checkpoint()
        return self.differences.get(address, "")


@attrs.define(eq=False)
class Master:
    """A master's tables at its start."""

    tables: Tables
    logs: Logs = attrs.field(factory=Logs)
    queues: Queues = attrs.field(factory=Queues)

    async def take(self, *peers: ScriptedBroker) -> int:
        """Take the offsets from these peers, whose nameservers are those at port 9876."""
        by_address = {peer.address: peer for peer in peers}

        class Client:
            async def request(self, address: str, request: RemotingCommand, timeout_s: float) -> RemotingCommand:
                await trio.lowlevel.checkpoint()
                if address not in by_address:
                    raise RemotingConnectError(f"{address}: refused")
                return await by_address[address].request(address, request, timeout_s)

        return await OffsetsFromSlaves(
            config=self.tables.config,
            namesrv_addresses=[peer.address for peer in peers if peer.address.endswith(":9876")],
            broker_addr=OWN,
            client=Client(),
            tables=BrokerTables(Client(), run_inline),
            offsets=self.tables.offsets,
            resets=self.tables.offset_resets,
            store=cast(MessageStore, self.queues),
            common_log=cast(CommonLog, self.logs),
            run_blocking=run_inline,
        ).take()

    def offset(self, queue_id: int = 0, group: str = "G") -> int:
        return self.tables.offsets.query_offset(group, "T", queue_id)

    def commit(self, offset: int, queue_id: int = 0, group: str = "G") -> None:
        self.tables.offsets.commit_offset("peer", group, "T", queue_id, offset)


@pytest.fixture
def master(tmp_path: Path) -> Master:
    tables = make_tables(tmp_path)
    tables.offsets.on_change = tables.offset_resets.changed
    return Master(tables)


NAMESERVER = nameserver("ns:9876", {"broker-a": {0: OWN, 1: "s1:10911", 2: "s2:10911"}, "broker-b": {1: "other:10911"}})


async def test_the_highest_offsets_of_all_slaves_are_taken(master: Master) -> None:
    master.commit(5)
    master.commit(9, queue_id=1)
    one = slave("s1:10911", {"T@G": {0: 8, 1: 7, 2: 3}, "T@H": {0: 1}})
    two = slave("s2:10911", {"T@G": {0: 7, 2: 4}})
    other = slave("other:10911", {"T@G": {0: 99}})
    assert await master.take(NAMESERVER, one, two, other) >= 3
    assert [master.offset(queue_id) for queue_id in range(3)] == [8, 9, 4]
    assert master.offset(group="H") == 1
    assert other.asked == []


async def test_a_reset_is_not_undone(master: Master) -> None:
    """The slave has the offset from before it; one above is the group's progress since."""
    for queue_id in range(3):
        master.commit(9, queue_id=queue_id)
        master.commit(2, queue_id=queue_id)
    master.commit(5, group="Deleted")
    master.tables.offsets.remove_offset("Deleted")
    await master.take(NAMESERVER, slave("s1:10911", {"T@G": {0: 9, 1: 10, 2: 4}, "T@Deleted": {0: 5}}))
    assert [master.offset(queue_id) for queue_id in range(3)] == [2, 10, 2]
    assert master.offset(group="Deleted") == -1
    assert master.tables.offset_resets.revoked_offset("T@G", 1) == -1, "the group has passed it"


async def test_where_there_was_a_reset_a_commit_to_a_slave_is_left_for_the_slave_to_bring_home(master: Master) -> None:
    """The client may have committed it before the reset, while this broker was away; the slave knows how long ago."""
    for queue_id in range(2):
        master.commit(9, queue_id=queue_id)
        master.commit(2, queue_id=queue_id)
    offsets = {"T@G": {0: 11, 1: 11, 2: 11}, "T@H": {0: 5}}
    await master.take(NAMESERVER, slave("s1:10911", offsets, {"T@G": {0: 11, 2: 11}, "T@H": {0: 5}}))
    assert [master.offset(queue_id) for queue_id in range(3)] == [2, 11, 11]
    assert master.offset(group="H") == 5


async def test_no_offset_exceeds_the_queue(master: Master) -> None:
    """A master that has lost its last messages gives their offsets to others, which nobody has consumed."""
    master.commit(5)
    master.queues.ends = {("T", 0): 7, ("T", 1): 0}
    await master.take(NAMESERVER, slave("s1:10911", {"T@G": {0: 9, 1: 9}}))
    assert [master.offset(0), master.offset(1)] == [7, -1]


async def test_a_slave_whose_log_parts_from_this_one_is_not_believed(
    master: Master, caplog: pytest.LogCaptureFixture
) -> None:
    """Its offsets count messages of its own tail, and other messages have these queue offsets here."""
    master.commit(5)
    master.logs.differences = {"s1:10911": "its log has not the record of this log that ends at 700"}
    with caplog.at_level(logging.WARNING):
        taken = await master.take(NAMESERVER, slave("s1:10911", {"T@G": {0: 9}}), slave("s2:10911", {"T@G": {0: 7}}))
    assert (taken, master.offset()) == (1, 7)
    fields = {
        record.getMessage(): record.__dict__["fields"] for record in caplog.records if "fields" in record.__dict__
    }
    refused = fields["no consumer offsets are taken from a slave"]
    assert (refused["slave"], refused["why"]) == ("s1:10911", master.logs.differences["s1:10911"])
    assert fields["a consumer offset is taken from a slave"] == {
        "slave": "s2:10911", "topic": "T", "group": "G", "queueId": 0, "now": 7, "was": 5,
    }  # fmt: skip


@pytest.mark.parametrize(("allowed", "asked"), [("10.0.0.0/8", 1), ("10.0.0.9", 0), ("", 1)])
async def test_with_an_allow_list_only_those_that_may_replicate_are_asked(
    allowed: str, asked: int, tmp_path: Path
) -> None:
    master = Master(make_tables(tmp_path, ha_allow_list=allowed))
    known, named = slave("10.0.0.2:10911", {"T@G": {0: 9}}), slave("a-name:10911", {"T@G": {1: 9}})
    await master.take(nameserver("ns:9876", {"broker-a": {1: known.address, 2: named.address}}), known, named)
    assert [master.offset(0), master.offset(1)] == [9 if asked else -1, -1 if allowed else 9]
    assert len(known.asked) == asked


async def test_another_master_is_not_asked(master: Master) -> None:
    """It has the same name, and perhaps another log."""
    other = slave("old:10911", {"T@G": {0: 9}})
    assert await master.take(nameserver("ns:9876", {"broker-a": {0: "old:10911"}}), other) == 0
    assert other.asked == []


async def test_own_groups_are_left_alone(master: Master) -> None:
    await master.take(NAMESERVER, slave("s1:10911", {"T@CID_RMQ_SYS_TRANS": {0: 9}}))
    assert master.offset(group="CID_RMQ_SYS_TRANS") == -1


async def test_new_offsets_are_bounded_as_those_of_clients(tmp_path: Path) -> None:
    master = Master(make_tables(tmp_path, consumer_offsets_max=2))
    await master.take(NAMESERVER, slave("s1:10911", {"T@G": {0: 1, 1: 1, 2: 1}}))
    assert master.tables.offsets.snapshot() == {"T@G": {0: 1, 1: 1}}


async def test_every_nameserver_may_know_another_slave(master: Master) -> None:
    peers = [
        nameserver("one:9876", {"broker-a": {1: "s1:10911"}}),
        nameserver("two:9876", {"broker-a": {0: OWN, 1: "s1:10911", 2: "s2:10911", 3: OWN}}),
        nameserver("three:9876", {}),
        slave("s1:10911", {"T@G": {0: 8}}),
        slave("s2:10911", {"T@G": {1: 8}}),
    ]
    assert await master.take(*peers) == 2
    assert [len(peer.asked) for peer in peers] == [1, 1, 1, 1, 1]


async def test_a_large_cluster_is_searched(master: Master) -> None:
    many = {f"broker-{number}": {0: "10.0.0.9:10911"} for number in range(2000)} | {"broker-a": {1: "s1:10911"}}
    assert await master.take(nameserver("ns:9876", many), slave("s1:10911", {"T@G": {0: 8}})) == 1


async def silent(request: RemotingCommand) -> RemotingCommand:
    await trio.sleep_forever()
    raise AssertionError


async def forever_failing(request: RemotingCommand) -> RemotingCommand:
    raise ZeroDivisionError


@pytest.mark.parametrize("code", [RequestCode.GET_BROKER_CLUSTER_INFO, OFFSETS])
@pytest.mark.parametrize(
    "script",
    [
        body_answer(b"\xffgarbage"),
        body_answer(None),
        body_answer(None, ResponseCode.SYSTEM_ERROR, "no"),
        body_answer(b'{"offsetTable":{"T":{0:1}},"brokerAddrTable":7}'),
        forever_failing,
    ],
)
async def test_a_bad_peer_does_not_keep_the_master_from_starting(
    master: Master, caplog: pytest.LogCaptureFixture, code: RequestCode, script: Answer
) -> None:
    bad_slave, bad_nameserver = slave("s1:10911", {}), attrs.evolve(NAMESERVER, asked=[])
    bad = bad_slave if code == OFFSETS else attrs.evolve(bad_nameserver, address="bad:9876")
    bad.scripts = {code: script}
    with caplog.at_level(logging.WARNING):
        taken = await master.take(bad, bad_slave, bad_nameserver, slave("s2:10911", {"T@G": {0: 8}}))
    assert taken == 1
    assert master.offset() == 8
    assert bad.asked
    assert any(record.levelno >= logging.WARNING and "s" in record.getMessage() for record in caplog.records)


async def test_a_start_waits_for_a_bounded_time(master: Master, autojump_clock: trio.testing.MockClock) -> None:
    begin = trio.current_time()
    hanging = slave("s1:10911", {})
    hanging.scripts[OFFSETS] = silent
    assert await master.take(NAMESERVER, hanging, slave("s2:10911", {"T@G": {0: 8}})) == 1
    assert trio.current_time() - begin == TAKE_SECONDS
    assert master.offset() == 8


async def test_without_nameservers_nothing_is_asked(master: Master) -> None:
    assert await master.take(slave("s1:10911", {"T@G": {0: 8}})) == 0


async def test_so_many_slaves_are_asked(master: Master, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_from_slaves, "SLAVES_ASKED_MAX", 2)
    slaves = [slave(f"s{number}:10911", {}) for number in range(1, 5)]
    many = nameserver("ns:9876", {"broker-a": {number: f"s{number}:10911" for number in range(1, 5)}})
    await master.take(many, *slaves)
    assert [len(each.asked) for each in slaves] == [1, 1, 0, 0]
