"""The query feature answers messages by key and by id from the store of its broker."""

from __future__ import annotations

from rocketpy.broker.query.feature import QueryFeature
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.query import ViewMessageRequestHeader
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.store.config import MessageStoreConfig
from tests.broker.message_broker import open_message_broker, send
from tests.broker.tables_of_a_broker import context_of


async def test_a_message_is_found_by_its_offset() -> None:
    async with open_message_broker() as broker:
        await broker.ask(send())
        feature = QueryFeature(context_of(broker.tables, broker.store, MessageStoreConfig()))
        broker.dispatcher = Dispatcher()
        feature.register(broker.dispatcher)
        answer = await broker.ask(make_request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(0)))
        assert answer.code == ResponseCode.SUCCESS
        assert answer.body == await broker.records()
