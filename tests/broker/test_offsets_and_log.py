"""What a group's offsets on disk speak of is on disk before them, so that no loss of power takes a message away."""

from __future__ import annotations

import pytest

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.offset import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from rocketpy.remoting.config import NettyClientConfig, NettyServerConfig
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.testing.broker_world import BrokerWorld
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.message_broker import SMALL_STORE, TOPIC, send
from tests.broker.send.test_send_back import DLQ, send_back


def world(flush: FlushDiskType) -> BrokerWorld:
    """A broker that writes offsets every 5 s, and with ASYNC_FLUSH its log every 7 s."""
    store: dict[str, object] = {"flush_disk_type": flush, "flush_interval_commit_log": 7_000}
    store |= {"flush_commit_log_least_pages": 0, "store_path_root_dir": "/store"}
    settings = BrokerSettings(
        broker=BrokerConfig(broker_name="b", broker_ip1="10.0.0.2", broker_ip2="10.0.0.2"),
        server=NettyServerConfig(),
        client=NettyClientConfig(),
        store=MessageStoreConfig(**(SMALL_STORE | store)),  # type: ignore[arg-type]
        host=None,
        embeds_nameserver=False,
    )
    return BrokerWorld(settings, disk=SimDisk())


@pytest.mark.parametrize("flush", FlushDiskType)
def test_a_group_does_not_advance_past_a_message_whose_copy_is_lost(flush: FlushDiskType) -> None:
    """Its consumer gave it back, and the broker acknowledged that; then power is lost."""
    with world(flush) as broker:
        broker.begin()
        client = broker.connect()

        def ask(request: RemotingCommand) -> None:
            answer = client.ask(request)
            assert answer is not None
            assert answer.code == ResponseCode.SUCCESS

        ask(send(b"mine"))
        broker.pass_time(8)
        ask(send_back(0, delay_level=-1))
        header = UpdateConsumerOffsetRequestHeader(consumer_group="G", topic=TOPIC, queue_id=0, commit_offset=1)
        ask(make_request(RequestCode.UPDATE_CONSUMER_OFFSET, header))
        broker.pass_time(3)
        broker.lose_power(lambda count: 0)
        broker.begin()
        query = QueryConsumerOffsetRequestHeader(consumer_group="G", topic=TOPIC, queue_id=0)
        answer = broker.connect().ask(make_request(RequestCode.QUERY_CONSUMER_OFFSET, query))
        assert answer is not None
        assert answer.ext_fields == {"offset": "1"}
        assert [message.body for message in broker.messages(DLQ, 0)] == [b"mine"]
