"""The fast path of sends with kernels: what it takes, and its answers after a change of settings.

Its equivalence with the other paths is tested in ``test_fast_and_general_path``, what its kernels read and write in
``tests/protocol/kernels``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.connection import Connection
from rocketpy.store.config import FlushDiskType
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker, send

JAVA = "KEYS\x01k1 k2\x02UNIQ_KEY\x010A\x02WAIT\x01true\x02TAGS\x01t"


@pytest.fixture
async def broker() -> AsyncIterator[MessageBroker]:
    async with open_message_broker(has_kernels=True) as broker:
        yield broker


def is_read(connection: Connection) -> bool:
    """Whether the kernel has read the last send of a peer."""
    assert connection.last_send is not None
    return connection.last_send.header != b""


async def test_the_kernel_reads_what_the_clients_send(broker: MessageBroker) -> None:
    """Also when the topic, the properties or the peer change."""
    broker.add_topic("Other")
    connection = broker.connect()
    for topic in (TOPIC, TOPIC, "Other", TOPIC):
        for properties in (JAVA, "a\x01b", JAVA):
            for peer in (connection, broker.connect()):
                answer = await broker.ask(send(topic=topic, properties=properties), peer)
                assert answer.code == ResponseCode.SUCCESS
                assert is_read(peer)
    assert broker.send_path.taken == [True] * 24
    assert len(await broker.messages()) == 18


@pytest.mark.parametrize(
    "request_",
    [send(properties="a\x01ü"), send(properties="a\x01\t"), send(reconsume_times=-1), send(born_timestamp=-1)],
)
async def test_other_forms_are_left_to_the_decoder(broker: MessageBroker, request_: RemotingCommand) -> None:
    connection = broker.connect()
    assert (await broker.ask(request_, connection)).code == ResponseCode.SUCCESS
    assert broker.send_path.taken == [True]
    assert not is_read(connection)


async def test_what_it_keeps_of_a_peer_goes_with_the_connection(broker: MessageBroker) -> None:
    connections = broker.connect(), broker.connect()
    for queue_id, connection in enumerate(connections):
        await broker.ask(send(queue_id=queue_id), connection)
    first, second = (connection.last_send for connection in connections)
    assert first is not None
    assert second is not None
    assert (first.queue_id, second.queue_id) == (0, 1)


async def test_it_declines_what_would_wait_beyond_the_limit() -> None:
    settings = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
    async with open_message_broker(has_kernels=True, store=settings) as broker:
        connection = broker.connect(limits=ConnectionLimits(deferred_replies_max=1))
        broker.serve(encode_frame(send()) * 2, connection)
        assert broker.send_path.taken == [True, False]
        (refused,) = received(connection)
        assert refused.code == ResponseCode.SYSTEM_BUSY
