"""What another broker is asked, and which of its answers are taken."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.broker.replication.broker_tables import BrokerTables, MasterState, SlaveOffsets
from rocketpy.clock import ManualClock
from rocketpy.errors import BrokerError, RemoteProtocolError, RemotingError
from rocketpy.protocol import fastjson
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rocketpy.protocol.bodies.topic import (
    DataVersion,
    RecordMark,
    ReplicatedTopics,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.runner import run_inline
from rocketpy.store.disk.os_disk import OsDisk
from tests.broker.replication.scripted_broker import MASTER, ScriptedBroker, body_answer
from tests.broker.tables_of_a_broker import Tables, make_tables
from tests.broker.test_golden_frames import exchanges_by_code
from tests.worst_requests import processor_seconds

TOPICS, GROUPS = RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
OFFSETS, DELAYS = RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_ALL_DELAY_OFFSET


@pytest.fixture
def master() -> ScriptedBroker:
    return ScriptedBroker()


@pytest.fixture
def tables(master: ScriptedBroker) -> BrokerTables:
    return BrokerTables(master, run_inline)


def method_of(tables: BrokerTables, code: RequestCode) -> Callable[..., object]:
    return {
        TOPICS: tables.topics,
        GROUPS: tables.groups,
        OFFSETS: tables.consumer_offsets,
        DELAYS: tables.delay_offsets,
        RequestCode.GET_BROKER_RUNTIME_INFO: tables.state,
    }[code]


async def ask(tables: BrokerTables, code: RequestCode) -> object:
    return await method_of(tables, code)(MASTER)  # type: ignore[misc]


async def test_tables_are_taken_with_their_versions(master: ScriptedBroker, tables: BrokerTables) -> None:
    master.topics = TopicConfigSerializeWrapper({"T": TopicConfig("T", 3, 4, 6)}, DataVersion(7, 2))
    master.groups = SubscriptionGroupWrapper({"G": SubscriptionGroupConfig("G", broker_id=2)}, DataVersion(8, 3))
    master.offsets = {"T@G": {0: 5, 7: 1 << 60}, "T@a@b": {1: 0}}
    master.delay_offsets = {1: 4, 18: 2}
    assert await tables.topics(MASTER) == ReplicatedTopics({"T": TopicConfig("T", 3, 4, 6)}, DataVersion(7, 2))
    assert await tables.groups(MASTER) == master.groups
    assert await tables.consumer_offsets(MASTER) == master.offsets
    assert (await tables.delay_offsets(MASTER)).offsets == master.delay_offsets
    assert await tables.state(MASTER) == MasterState(1, 0)


@pytest.mark.parametrize("code", [TOPICS, GROUPS, OFFSETS, DELAYS])
async def test_javas_requests_and_answers(master: ScriptedBroker, tables: BrokerTables, code: RequestCode) -> None:
    """Recorded between a master and a slave. The requests have neither fields nor body."""
    exchanges = [each for each in exchanges_by_code()[code] if not each.request.ext_fields]
    assert len(exchanges) >= 3
    taken = []
    for exchange in exchanges:
        master.scripts[code] = body_answer(exchange.java.body)
        taken.append(await ask(tables, code))
        asked = master.asked[-1]
        assert (asked.code, asked.ext_fields, asked.body) == (code, None, exchange.request.body)
    assert any(taken)


def test_javas_offsets_are_numbers() -> None:
    exchange = exchanges_by_code()[OFFSETS][-1]
    assert b"{0:" in (exchange.java.body or b""), "the recording has bare integer keys"


@pytest.mark.parametrize("name", ["broker-1.example.com", "the broker", "größe", "b" * 200])
async def test_the_topic_that_is_named_after_a_broker_is_taken(
    master: ScriptedBroker, tables: BrokerTables, name: str, tmp_path: Path
) -> None:
    """RocketMQ checks neither brokerName nor brokerClusterName: a machine's name has dots, and no other topic has."""
    config = BrokerConfig(broker_name=name, broker_cluster_name=f"{name}.")
    manager = TopicConfigManager(
        config=config, path=str(tmp_path / "topics.json"), disk=OsDisk(), run_blocking=run_inline, clock=ManualClock()
    )
    master.topics = manager.wrapper()
    assert {name, f"{name}."} <= (await tables.topics(MASTER)).topic_config_table.keys()


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ('{"topicConfigTable":{"T":{"topicName":"U","perm":77,"readQueueNums":-1,"writeQueueNums":-1}}}', TOPICS),
        *(
            ('{"topicConfigTable":{"NAME":{"topicName":"NAME"}}}'.replace("NAME", name), TOPICS)
            for name in ("", " a", "a/b", "\\n")
        ),
        ('{"subscriptionGroupTable":{"G":{"groupName":"H","retryQueueNums":-1,"brokerId":-1}}}', GROUPS),
        ('{"subscriptionGroupTable":{"G":{"groupName":"G","whichBrokerWhenConsumeSlowly":-1}}}', GROUPS),
        *(
            ('{"subscriptionGroupTable":{"NAME":{"groupName":"NAME"}}}'.replace("NAME", name), GROUPS)
            for name in ("", " ", "\\n")
        ),
        ('{"offsetTable":{"T@G":{0:-1,-1:5},"T":{0:1},"@G":{0:1},"T@":{0:1}}}', OFFSETS),
    ],
)
async def test_slaves_take_whatever_a_master_keeps_of_a_file(
    master: ScriptedBroker,
    tables: BrokerTables,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    file: str,
    code: RequestCode,
) -> None:
    """A master that kept what its slaves refuse would have slaves without any topic, group or offset, for ever."""
    name, load, encode = FILES[code]
    (tmp_path / name).write_text(file)
    of_master = make_tables(tmp_path)
    load(of_master)
    assert name in caplog.text, "what is not taken as it stands has a line"
    master.scripts[code] = body_answer(encode(of_master))
    await ask(tables, code)


FILES: dict[RequestCode, tuple[str, Callable[[Tables], object], Callable[[Tables], bytes]]] = {
    TOPICS: (
        "topics.json",
        lambda tables: tables.topics.load(),
        lambda tables: encode_body(tables.topics.wrapper()),
    ),
    GROUPS: (
        "subscriptionGroup.json",
        lambda tables: tables.groups.load(),
        lambda tables: encode_body(tables.groups.wrapper()),
    ),
    OFFSETS: (
        "consumerOffset.json",
        lambda tables: tables.offsets.load(),
        lambda tables: fastjson.dumps({"offsetTable": tables.offsets.offset_table}).encode(),
    ),
}

BAD = {
    TOPICS: [
        b"{}x",
        b'{"topicConfigTable":7}',
        b'{"topicConfigTable":{"T":{"topicName":"U"}}}',
        b'{"topicConfigTable":{"a/b":{"topicName":"a/b"}}}',
        b'{"topicConfigTable":{"":{"topicName":""}}}',
        b'{"topicConfigTable":{" a":{"topicName":" a"}}}',
        b'{"topicConfigTable":{"a\\nb":{"topicName":"a\\nb"}}}',
        b'{"deletedTopics":{"a b":{"offset":9,"size":5,"digest":""}}}',
        b'{"topicConfigTable":{"T":{"topicName":"T","readQueueNums":65536}}}',
        b'{"topicConfigTable":{"T":{"topicName":"T","writeQueueNums":-1}}}',
        b'{"topicConfigTable":{"T":{"topicName":"T","perm":16}}}',
        b'{"topicConfigTable":{"T":{"topicName":"T"}},"dataVersion":{"counter":"x"}}',
    ],
    GROUPS: [
        b"[]",
        b'{"subscriptionGroupTable":{"G":{"groupName":"H"}}}',
        b'{"subscriptionGroupTable":{" ":{"groupName":" "}}}',
        b'{"subscriptionGroupTable":{"G":{"groupName":"G","retryQueueNums":-1}}}',
        b'{"subscriptionGroupTable":{"G":{"groupName":"G","brokerId":-9223372036854775808}}}',
    ],
    OFFSETS: [
        b"{}",
        b'{"offsetTable":[]}',
        b'{"offsetTable":{"T@G":{0:"x"}}}',
        b'{"offsetTable":{"T@G":{-1:1}}}',
        b'{"offsetTable":{"T@G":{2147483648:1}}}',
        b'{"offsetTable":{"T@G":{0:9223372036854775808}}}',
        b'{"offsetTable":{"T@G":{0:' + b"9" * 5000 + b"}}}",
    ],
    DELAYS: [b"{}", b'{"offsetTable":{"x":1}}', b'{"offsetTable":{1:-1}}', b'{"offsetTable":7}'],
    RequestCode.GET_BROKER_RUNTIME_INFO: [b"x", b'{"table":7}'],
}


@pytest.mark.parametrize(("code", "body"), [(code, body) for code, bodies in BAD.items() for body in bodies])
async def test_a_malformed_answer_is_refused(
    master: ScriptedBroker, tables: BrokerTables, code: RequestCode, body: bytes
) -> None:
    master.scripts[code] = body_answer(body)
    with pytest.raises(RemoteProtocolError):
        await ask(tables, code)


@pytest.mark.parametrize("code", BAD)
async def test_a_refusal_or_no_body_is_an_error(
    master: ScriptedBroker, tables: BrokerTables, code: RequestCode
) -> None:
    master.scripts[code] = body_answer(None, ResponseCode.SYSTEM_ERROR, "No topic in this broker")
    with pytest.raises(BrokerError, match="No topic in this broker"):
        await ask(tables, code)
    master.scripts[code] = body_answer(b"")
    with pytest.raises(RemoteProtocolError, match="expected a body"):
        await ask(tables, code)
    with pytest.raises(RemotingError):
        await method_of(tables, code)("127.0.0.1:1")  # type: ignore[misc]


async def test_negative_offsets_are_none(master: ScriptedBroker, tables: BrokerTables) -> None:
    """RocketMQ stores what a client sends, and answers then that the group has no offset."""
    master.offsets = {"T@G": {0: -1, 1: 4}, "U@G": {0: -7}}
    assert await tables.consumer_offsets(MASTER) == {"T@G": {1: 4}, "U@G": {}}


async def test_offsets_that_are_no_groups_are_left_out(master: ScriptedBroker, tables: BrokerTables) -> None:
    """Any client may commit one; a slave that refused the table for it would take no offset any more."""
    master.offsets = {"T@G": {0: 4}, "@type@G": {0: 1}, "@G": {0: 1}, "T@": {0: 1}, "T": {0: 1}}
    assert await tables.consumer_offsets(MASTER) == {"T@G": {0: 4}}


async def test_a_slave_tells_what_clients_have_committed_to_it(master: ScriptedBroker, tables: BrokerTables) -> None:
    master.offsets = {"T@G": {0: 5, 1: 4}}
    assert await tables.slave_offsets(MASTER) == SlaveOffsets({"T@G": {0: 5, 1: 4}}, {})
    master.committed = {"T@G": {1: 4}}
    assert await tables.slave_offsets(MASTER) == SlaveOffsets({"T@G": {0: 5, 1: 4}}, {"T@G": {1: 4}})


@pytest.mark.parametrize(
    "body",
    [b"7", b'{"committedOffsets":7,"offsetTable":{}}',
     b'{"committedOffsets":{"T@G":{0:"x"}},"offsetTable":{}}'],
)  # fmt: skip
async def test_a_malformed_answer_of_a_slave_is_refused(
    master: ScriptedBroker, tables: BrokerTables, body: bytes
) -> None:
    master.scripts[OFFSETS] = body_answer(body)
    with pytest.raises(RemoteProtocolError):
        await tables.slave_offsets(MASTER)


async def test_figures_that_are_missing_or_no_numbers_are_unknown(master: ScriptedBroker, tables: BrokerTables) -> None:
    for text in (b'{"table":{}}', b'{"table":{"bootTimestamp":"soon","commitLogMaxOffset":"-1"}}'):
        master.scripts[RequestCode.GET_BROKER_RUNTIME_INFO] = body_answer(text)
        assert await tables.state(MASTER) == MasterState(None, None)


async def test_questions_about_one_group(master: ScriptedBroker, tables: BrokerTables) -> None:
    master.offsets = {"T@G": {0: 5}}
    master.queue_ends[("T", 0)] = 9
    assert await tables.consumer_offset(MASTER, "G", "T", 0) == 5
    assert await tables.consumer_offset(MASTER, "G", "T", 1) == -1
    assert await tables.max_offset(MASTER, "T", 0) == 9
    assert await tables.commit(MASTER, "G", "T", 0, 8, ago_ms=None)
    assert master.offsets == {"T@G": {0: 8}}
    master.scripts[RequestCode.QUERY_CONSUMER_OFFSET] = body_answer(None, ResponseCode.SYSTEM_ERROR, "busy")
    with pytest.raises(BrokerError, match="busy"):
        await tables.consumer_offset(MASTER, "G", "T", 0)
    master.scripts[RequestCode.GET_MAX_OFFSET] = body_answer(None)
    with pytest.raises(RemoteProtocolError):
        await tables.max_offset(MASTER, "T", 0)


async def test_a_full_frame_is_decoded_beside_the_loop(master: ScriptedBroker) -> None:
    """In a worker thread, and in little time, although Java writes a dialect that standard readers refuse."""
    master.offsets = {f"Topic{number}@Group{number % 100}": {0: number, 1: 7, 2: 8} for number in range(20_000)}
    in_thread = []

    async def run_blocking(decode: Callable[[bytes], object], body: bytes) -> object:
        in_thread.append(processor_seconds(partial(decode, body), enough=1.0))
        return await trio.to_thread.run_sync(decode, body)

    tables = BrokerTables(master, run_blocking)  # type: ignore[arg-type]
    assert await tables.consumer_offsets(MASTER) == master.offsets
    assert len(in_thread) == 1
    assert in_thread[0] < 1.0


@pytest.mark.parametrize(
    ("topic", "mark"),
    [
        ("../T", RecordMark(200, 100, "0" * 64)),
        ("T", RecordMark(50, 100, "0" * 64)),
        ("T", RecordMark(200, 0, "0" * 64)),
        ("T", RecordMark(-200, 100, "0" * 64)),
        ("T", RecordMark(200, 100, "0" * 63)),
        ("T", RecordMark(200, 100, "Z" * 64)),
    ],
)
async def test_a_deletion_that_cannot_be_is_refused(
    master: ScriptedBroker, tables: BrokerTables, topic: str, mark: RecordMark
) -> None:
    master.scripts[TOPICS] = body_answer(encode_body(ReplicatedTopics({}, DataVersion(7, 2), {topic: mark})))
    with pytest.raises(RemoteProtocolError, match="deletedTopics: "):
        await tables.topics(MASTER)
