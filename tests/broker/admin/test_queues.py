"""The units of a queue by command."""

from __future__ import annotations

import pytest

from rocketpy.broker.admin.queues import UNITS_MAX
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.queue import ConsumeQueueData, QueryConsumeQueueResponseBody
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.query import QueryConsumeQueueRequestHeader
from rocketpy.protocol.java_hash import java_hash
from rocketpy.protocol.selector.tag import parse_tag_expression
from rocketpy.store.queue.extension import CqExtUnit
from rocketpy.store.results import ListedUnit
from tests.broker.broker_on_bytes import BrokerOnBytes

TAG_A = java_hash("TagA")
ADDRESS = -(1 << 63) + 40


def query(
    index: int = 0, count: int = 10, *, topic: str = "T", queue: int = 0, group: str | None = None
) -> RemotingCommand:
    header = QueryConsumeQueueRequestHeader(topic=topic, queue_id=queue, index=index, count=count, consumer_group=group)
    return make_request(RequestCode.QUERY_CONSUME_QUEUE, header)


def fill(broker: BrokerOnBytes, *units: ListedUnit, first: int = 0) -> None:
    broker.store.listings["T", 0] = list(units)
    broker.store.min_offsets["T", 0] = first
    broker.store.max_offsets["T", 0] = first + len(units)


async def units_of(broker: BrokerOnBytes, request: RemotingCommand) -> QueryConsumeQueueResponseBody:
    answer = await broker.ask(request)
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)
    return decode_body(answer.body, QueryConsumeQueueResponseBody)


PLAIN = [ListedUnit(100 * index, 100, TAG_A, None) for index in range(5)]
SHOWN = [ConsumeQueueData(100 * index, 100, TAG_A) for index in range(5)]


async def test_units_from_an_index_on(broker: BrokerOnBytes) -> None:
    fill(broker, *PLAIN, first=7)
    body = await units_of(broker, query(8, 3))
    assert body == QueryConsumeQueueResponseBody(None, None, SHOWN[1:4], 12, 7)


async def test_what_a_group_wants_stands_beside_them(broker: BrokerOnBytes) -> None:
    fill(broker, *PLAIN)
    subscription = parse_tag_expression("T", "TagA || TagB", sub_version=5)
    broker.subscribe("g", subscription)
    body = await units_of(broker, query(group="g"))
    assert (body.subscription_data, body.filter_data) == (subscription, "null")
    assert body.queue_data == SHOWN, "RocketMQ judges only what has more in an extension"
    body = await units_of(broker, query(group="nobody"))
    assert (body.subscription_data, body.filter_data) == (None, "nobody@T is not online!")


async def test_extensions_are_shown_and_judged(broker: BrokerOnBytes) -> None:
    matching = CqExtUnit(TAG_A, 1700000000123, bytes([1, 128]))
    other = CqExtUnit(java_hash("TagC"), 1700000000124)
    units = [ListedUnit(index, 100, ADDRESS + index, ext) for index, ext in enumerate((matching, other, None))]
    fill(broker, *units)
    broker.subscribe("g", parse_tag_expression("T", "TagA", sub_version=5))
    shown = (await units_of(broker, query(group="g"))).queue_data
    assert shown is not None
    assert [unit.eval for unit in shown] == [True, False, False]
    assert shown[0].extend_data_json == (
        f'{{"filterBitMap":"AYA=","msgStoreTime":1700000000123,"size":22,"tagsCode":{TAG_A}}}'
    )
    assert (shown[0].bit_map, shown[1].bit_map) == ("1000000000000001\n", None)
    assert shown[2].msg == f"Cq extend not exist!addr: {ADDRESS + 2}"
    without = (await units_of(broker, query())).queue_data
    assert without is not None
    assert not without[0].eval, "without a group"


@pytest.mark.parametrize("index", [0, 12])
async def test_an_index_outside_the_queue_is_said_with_success(broker: BrokerOnBytes, index: int) -> None:
    fill(broker, *PLAIN, first=7)
    answer = await broker.ask(query(index))
    assert (answer.code, answer.body) == (ResponseCode.SUCCESS, None)
    assert answer.remark == f"Index {index} of 0@T is not exist!"


async def test_a_queue_that_does_not_exist(broker: BrokerOnBytes) -> None:
    answer = await broker.ask(query(topic="nobody", queue=3))
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "3@nobody is not exist!")


@pytest.mark.parametrize(
    ("fields", "name"), [({"queue": -1}, "queueId"), ({"index": -1}, "index"), ({"count": -1}, "count")]
)
async def test_negative_numbers_are_refused(broker: BrokerOnBytes, fields: dict[str, int], name: str) -> None:
    answer = await broker.ask(query(**fields))  # type: ignore[arg-type]
    assert answer.remark == f"QueryConsumeQueueRequestHeader.{name}: expected 0 or more, found -1"


async def test_an_answer_is_bounded(broker: BrokerOnBytes) -> None:
    fill(broker, *[PLAIN[0]] * (UNITS_MAX + 5))
    body = await units_of(broker, query(count=1 << 30))
    assert len(body.queue_data or ()) == UNITS_MAX
