"""A broker in a world where nothing happens by itself: requests, what the broker says by itself, lives and deaths."""

from __future__ import annotations

import itertools

import pytest

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.send.overload import FastFailureService
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import ConsumerData, HeartbeatData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rocketpy.remoting.config import NettyClientConfig, NettyServerConfig
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.testing.broker_world import BrokerWorld, Client
from rocketpy.testing.store_world import LifeEnded

SYNC, ASYNC = FlushDiskType.SYNC_FLUSH, FlushDiskType.ASYNC_FLUSH


def world(flush: FlushDiskType = ASYNC) -> BrokerWorld:
    settings = BrokerSettings(
        broker=BrokerConfig(broker_name="b", broker_ip1="10.0.0.2", broker_ip2="10.0.0.2"),
        server=NettyServerConfig(),
        client=NettyClientConfig(),
        store=MessageStoreConfig(
            store_path_root_dir="/store",
            flush_disk_type=flush,
            mapped_file_size_commit_log=1 << 16,
            mapped_file_size_consume_queue=600,
            max_hash_slot_num=8,
            max_index_num=100,
        ),
        host=None,
        embeds_nameserver=False,
    )
    return BrokerWorld(settings)


def send(client: Client, body: bytes, *, settle: bool = True) -> int | None:
    """Send a message; return the code of the answer."""
    header = SendMessageRequestHeader(
        producer_group="P",
        topic="T",
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties="",
        reconsume_times=0,
    )
    request = make_request(RequestCode.SEND_MESSAGE_V2, SendMessageRequestHeaderV2.from_v1(header), body)
    answer = client.ask(request, settle=settle)
    return None if answer is None else answer.code


def bodies(of: BrokerWorld) -> list[bytes]:
    return [message.body for message in of.messages("T", 0)]


def test_a_machine_that_is_busy_with_something_else_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fast failure reads a clock that no world can hold: here every write takes an hour by it."""
    hours = itertools.count(step=3600)
    monkeypatch.setitem(FastFailureService.__init__.__kwdefaults__, "monotonic", lambda: next(hours))
    with world() as broker:
        broker.begin()
        broker.pass_time(5)
        client = broker.connect()
        assert [send(client, b"%d" % number) for number in range(5)] == [ResponseCode.SUCCESS] * 5


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_what_was_sent_is_there_in_the_next_life(end: str) -> None:
    with world() as broker:
        broker.begin()
        assert send(broker.connect(), b"1") == ResponseCode.SUCCESS
        broker.pass_time(2)  # the topic is in its file
        (broker.stop if end == "stop" else broker.kill)()
        assert not broker.is_open
        broker.begin()
        assert bodies(broker) == [b"1"]
        assert broker.consumer_offset("G", "T", 0) == -1


def test_an_answer_that_waits_for_the_disk_does_not_come_before_it_is_released() -> None:
    with world(SYNC) as broker:
        broker.begin()
        client = broker.connect()
        assert send(client, b"1", settle=False) is None
        broker.lose_power(lambda count: 0)
        broker.begin()
        assert bodies(broker) == []
        assert send(broker.connect(), b"2") == ResponseCode.SUCCESS
        broker.lose_power(lambda count: 0)
        broker.begin()
        assert bodies(broker) == [b"2"]


def test_a_client_receives_notifications_of_the_broker() -> None:
    with world() as broker:
        broker.begin()
        first, second = broker.connect(), broker.connect()
        for client in (first, second):
            heartbeat = HeartbeatData(client_id=client.connection.peer, consumer_data_set=[ConsumerData("G")])
            answer = client.ask(make_request(RequestCode.HEART_BEAT, body=encode_body(heartbeat)))
            assert answer is not None
            assert answer.code == ResponseCode.SUCCESS
        broker.pass_time(1)
        assert RequestCode.NOTIFY_CONSUMER_IDS_CHANGED in [request.code for request in first.requests()]
        second.close()
        broker.pass_time(1)
        assert [request.code for request in first.requests()] == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]
        assert first.requests() == []


def test_a_death_that_was_arranged_ends_the_life() -> None:
    with world() as broker:
        broker.begin()
        client = broker.connect()
        broker.life.disk.die_at_call(1)
        with pytest.raises(LifeEnded):
            for _ in range(100):
                send(client, b"x" * 1000)
                broker.pass_time(1)
        assert not broker.is_open
        broker.begin()
        assert send(broker.connect(), b"2") == ResponseCode.SUCCESS
