"""Cleaning by command: what is asked of the store."""

from __future__ import annotations

import pytest

from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from tests.broker.broker_on_bytes import BrokerOnBytes


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        (RequestCode.DELETE_EXPIRED_COMMITLOG, "execute_delete_files_manually"),
        (RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, "clean_expired_consumer_queue"),
    ],
)
async def test_the_store_is_asked_to_clean(broker: BrokerOnBytes, code: int, asked: str) -> None:
    answer = await broker.ask(make_request(code))
    assert answer.code == ResponseCode.SUCCESS
    assert broker.store.cleaned == [asked]


async def test_topics_of_the_table_are_in_use(broker: BrokerOnBytes) -> None:
    answer = await broker.ask(make_request(RequestCode.CLEAN_UNUSED_TOPIC))
    assert answer.code == ResponseCode.SUCCESS
    (asked,) = broker.store.cleaned
    assert set(asked.split(" ")) == {"clean_unused_topics", *broker.tables.topics.topic_config_table}
