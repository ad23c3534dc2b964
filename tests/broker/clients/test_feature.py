"""What is known of a client is dropped when it disconnects."""

from __future__ import annotations

from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from tests.broker.broker_on_bytes import BrokerOnBytes


async def test_a_producer_whose_connection_ends_is_forgotten(broker: BrokerOnBytes) -> None:
    connection = broker.connect()
    body = encode_body(HeartbeatData("c", producer_data_set=[ProducerData("P")]))
    await broker.ask(RemotingCommand(RequestCode.HEART_BEAT, body=body), connection)
    assert broker.tables.producers.find_channel("c") is connection
    broker.housekeeping.connection_closed(connection)
    assert broker.tables.producers.find_channel("c") is None
