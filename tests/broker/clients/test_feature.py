"""Requests of clients about themselves are served, and their state is dropped when they disconnect."""

from __future__ import annotations

import pytest

from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from tests.broker.broker_on_bytes import BrokerOnBytes


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.HEART_BEAT,
        RequestCode.UNREGISTER_CLIENT,
        RequestCode.CHECK_CLIENT_CONFIG,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.UPDATE_CONSUMER_OFFSET,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.LOCK_BATCH_MQ,
        RequestCode.UNLOCK_BATCH_MQ,
    ],
)
async def test_each_processor_has_its_codes(broker: BrokerOnBytes, code: RequestCode) -> None:
    await broker.ask_all(RemotingCommand(code))
    assert broker.unsupported == []


async def test_a_producer_whose_connection_ends_is_forgotten(broker: BrokerOnBytes) -> None:
    connection = broker.connect()
    body = encode_body(HeartbeatData("c", producer_data_set=[ProducerData("P")]))
    await broker.ask(RemotingCommand(RequestCode.HEART_BEAT, body=body), connection)
    assert broker.tables.producers.find_channel("c") is connection
    broker.housekeeping.connection_closed(connection)
    assert broker.tables.producers.find_channel("c") is None
