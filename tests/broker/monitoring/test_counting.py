"""Statistics of sends and pulls on the fast and the general path: exactly the records that were stored."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketpy.protocol.batch import encode_batch_body
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import Message
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker, pull, send


@pytest.fixture(params=["fast", "general"])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[MessageBroker]:
    async with open_message_broker(has_fast_paths=request.param == "fast") as broker:
        yield broker


def figures(broker: MessageBroker, name: str, key: str) -> tuple[int, int] | None:
    item = broker.tables.stats.get_stats_item(name, key)
    return None if item is None else (item.value, item.times)


async def test_sends_count_with_the_bytes_of_their_records(broker: MessageBroker) -> None:
    await broker.ask(send(b"one", properties="UNIQ_KEY\x010A\x02WAIT\x01true\x02TAGS\x01ä"))
    await broker.ask(send(None))
    await broker.ask(send(b"two"), broker.connect(("::1", 4711)))
    assert figures(broker, "TOPIC_PUT_NUMS", TOPIC) == (3, 3)
    assert figures(broker, "TOPIC_PUT_SIZE", TOPIC) == (broker.stored_bytes, 3)
    assert figures(broker, "BROKER_PUT_NUMS", "DefaultCluster") == (3, 0)


async def test_a_batch_is_one_request_of_many_messages(broker: MessageBroker) -> None:
    body = encode_batch_body(Message(TOPIC, each) for each in (b"a", b"bb", b"ccc"))
    answer = await broker.ask(send(body, code=RequestCode.SEND_BATCH_MESSAGE, batch=True))
    assert answer.code == ResponseCode.SUCCESS
    assert figures(broker, "TOPIC_PUT_NUMS", TOPIC) == (3, 1)
    assert figures(broker, "TOPIC_PUT_SIZE", TOPIC) == (broker.stored_bytes, 1)


async def test_a_delayed_message_counts_where_it_waits(broker: MessageBroker) -> None:
    await broker.ask(send(properties="DELAY\x012\x02UNIQ_KEY\x010A"))
    assert figures(broker, "TOPIC_PUT_NUMS", "SCHEDULE_TOPIC_XXXX") == (1, 1)
    assert figures(broker, "QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@1") == (1, 1)
    assert figures(broker, "QUEUE_PUT_SIZE", "SCHEDULE_TOPIC_XXXX@1") == (broker.stored_bytes, 1)
    assert figures(broker, "TOPIC_PUT_NUMS", TOPIC) is None


async def test_what_is_refused_is_not_counted(broker: MessageBroker) -> None:
    answer = await broker.ask(send(b"x" * (1 << 18)))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert figures(broker, "TOPIC_PUT_NUMS", TOPIC) in (None, (0, 0))


async def test_pulls_count_what_they_found(broker: MessageBroker) -> None:
    for body in (b"one", b"two"):
        await broker.ask(send(body))
    broker.tables.clock.advance_ms(300)
    answer = await broker.ask(pull())
    assert answer.body is not None
    assert figures(broker, "GROUP_GET_NUMS", f"{TOPIC}@G") == (2, 1)
    assert figures(broker, "GROUP_GET_SIZE", f"{TOPIC}@G") == (len(answer.body), 1)
    assert figures(broker, "GROUP_GET_LATENCY", f"0@{TOPIC}@G") == (0, 1)
    assert figures(broker, "BROKER_GET_NUMS", "DefaultCluster") == (2, 0)
    assert broker.tables.stats.fall_bytes() == {f"0@{TOPIC}@G": broker.stored_bytes // 2}
    assert "Value: 300" in "".join(broker.tables.stats.moment_lines())


async def test_a_pull_that_found_nothing_counts_when_it_is_answered_with_messages(broker: MessageBroker) -> None:
    connection = broker.connect()
    assert await broker.ask_all(pull(sys_flag=4 | 2), connection) == []
    assert figures(broker, "GROUP_GET_NUMS", f"{TOPIC}@G") is None
    await broker.ask(send())
    assert figures(broker, "GROUP_GET_NUMS", f"{TOPIC}@G") == (1, 1)


async def test_a_topic_whose_configuration_changes_goes_on_counting(broker: MessageBroker) -> None:
    await broker.ask(send())
    broker.add_topic(queue_nums=8)
    await broker.ask(send(queue_id=7))
    assert figures(broker, "TOPIC_PUT_NUMS", TOPIC) == (2, 2)
