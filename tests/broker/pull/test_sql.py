"""Pulls that select by SQL92, from a heartbeat or from the request itself, and pulls of retry topics."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketpy.broker.pull import message_filter
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.stored_message import decode_record_properties
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker, pull, send
from tests.broker.pull.pulling import SUSPEND, bodies, offsets, subscribe


@pytest.fixture(params=["fast", "general"])
async def broker(request: pytest.FixtureRequest) -> AsyncIterator[MessageBroker]:
    async with open_message_broker(enable_property_filter=True, has_fast_paths=request.param == "fast") as broker:
        yield broker


async def send_values(broker: MessageBroker, *values: object, topic: str = TOPIC, more: str = "") -> None:
    """Send one burst of messages whose bodies are the value of their property ``a``."""
    frames = [encode_frame(send(str(a).encode(), properties=f"a\x01{a}{more}", topic=topic)) for a in values]
    await broker.ask_frames(b"".join(frames))


def sql(expression: str, version: int = 1, topic: str = TOPIC) -> SubscriptionData:
    return SubscriptionData(topic, expression, version, expression_type="SQL92")


# ---- with a heartbeat ------------------------------------------------------------------------------------------------


async def test_messages_are_selected_by_what_the_heartbeat_says(broker: MessageBroker) -> None:
    subscribe(broker, sql("a > 1"))
    await send_values(broker, 1, 2, "text", 3)
    answer = await broker.ask(pull(sys_flag=0, sub_version=1))
    assert (answer.code, bodies(answer), offsets(answer)) == (0, ["2", "3"], (4, 0, 4))
    answer = await broker.ask(pull(sys_flag=0, sub_version=1, max_msg_nums=1))
    assert (bodies(answer), offsets(answer)) == (["2"], (2, 0, 4))


@pytest.mark.parametrize("expression", ["a > 'x'", "a >", ""])
async def test_an_expression_that_does_not_compile_has_no_filter(broker: MessageBroker, expression: str) -> None:
    subscribe(broker, sql(expression))
    answer = await broker.ask(pull(sys_flag=0))
    assert answer.code == ResponseCode.FILTER_DATA_NOT_EXIST
    assert answer.remark == "The broker's consumer filter data is not exist!Your expression may be wrong!"


async def test_a_filter_older_than_the_pull(broker: MessageBroker) -> None:
    """The heartbeat with the new version has come, and its filter was not registered: as in RocketMQ 28, not 25."""
    subscribe(broker, sql("a > 1", 5))
    group = broker.tables.consumers.get_consumer_group_info("G")
    assert group is not None
    group.subscription_table[TOPIC] = sql("a > 1", 6)
    answer = await broker.ask(pull(sys_flag=0, sub_version=6))
    assert answer.code == ResponseCode.FILTER_DATA_NOT_LATEST
    assert (answer.remark or "").startswith("the consumer's consumer filter data not latest")


# ---- with the pull ---------------------------------------------------------------------------------------------------


async def test_a_pull_may_bring_its_expression_along(broker: MessageBroker) -> None:
    await send_values(broker, 1, 2, 3)
    answer = await broker.ask(pull(subscription="a BETWEEN 2 AND 2", expression_type="SQL92"))
    assert (answer.code, bodies(answer)) == (0, ["2"])


@pytest.mark.parametrize("slave_read_enable", [False, True])
@pytest.mark.parametrize(("expression", "sql"), [("TagA || TagB", "TAGS IN ('TagA', 'TagB')"), ("none", "a > 99")])
async def test_the_fast_path_answers_as_the_general_path(expression: str, sql: str, slave_read_enable: bool) -> None:
    """With the same bytes, whatever was found; and each filter is used for several pulls."""
    async with open_message_broker(enable_property_filter=True, slave_read_enable=slave_read_enable) as broker:
        for number, tag in enumerate(("TagA", "other", "TagB", "TagA", "other")):
            await send_values(broker, number, more=f"\x02TAGS\x01{tag}")
        requests = [
            pull(subscription=text, expression_type=kind, queue_offset=offset, max_msg_nums=count)
            for text, kind in ((expression, "TAG"), (sql, "SQL92"))
            for offset in range(5)
            for count in (1, 2, 32)
        ]
        answers = []
        for _ in range(2):
            connection = broker.connect()
            for request in requests:
                broker.serve(encode_frame(request), connection)
            answers.append([encode_frame(each) for each in received(connection)])
            broker.use_general_path()
        assert len(answers[0]) == len(requests)
        assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("expression", "expression_type", "why"),
    [
        ("a > 'x'", "SQL92", "Value ''x'' cannot be compared."),
        ("a = 1 OR " * 20_000, "SQL92", "expected at most 32768 characters of SQL, found 180000"),
        ("NOT " * 1000 + "a", "SQL92", "expected at most 200 expressions within each other"),
        ("", "SQL92", "expected an expression, found none"),
        (None, "SQL92", "expected an expression, found none"),
        ("a", "XPATH", "expected TAG or SQL92, found XPATH"),
    ],
)
async def test_one_that_is_none_is_refused(
    broker: MessageBroker, expression: str | None, expression_type: str, why: str
) -> None:
    await send_values(broker, 1)
    answer = await broker.ask(pull(subscription=expression, expression_type=expression_type))
    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    remark = answer.remark or ""
    assert remark.startswith("parse the consumer's subscription failed: ")
    assert why in remark
    assert len(remark) < 400


# ---- held ------------------------------------------------------------------------------------------------------------


async def test_a_held_pull_is_woken_by_what_it_selects(broker: MessageBroker) -> None:
    subscribe(broker, sql("a > 1"))
    connection = broker.connect()
    assert await broker.ask_all(pull(sys_flag=SUSPEND, sub_version=1), connection) == []
    await send_values(broker, 0, 1)
    assert received(connection) == []
    await send_values(broker, 2)
    (answer,) = received(connection)
    assert (answer.code, bodies(answer), offsets(answer)) == (0, ["2"], (3, 0, 3))


# ---- bit maps --------------------------------------------------------------------------------------------------------


async def test_bit_maps_spare_records_and_choose_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answers with and without; with them unwanted records are not even looked at."""
    looked_at: list[bytes] = []

    def decoded(record: bytes) -> dict[str, str]:
        looked_at.append(record)
        return decode_record_properties(record)

    monkeypatch.setattr(message_filter, "decode_record_properties", decoded)
    store = {"enable_consume_queue_ext": True}
    for is_noted in (True, False):
        async with open_message_broker(
            store=store, enable_property_filter=True, enable_calc_filter_bit_map=is_noted
        ) as broker:
            subscribe(broker, sql("a > 7"))
            broker.tables.clock.advance_ms(10)  # bit maps from the millisecond of its creation are not trusted
            await send_values(broker, *range(10))
            looked_at.clear()
            answer = await broker.ask(pull(sys_flag=0))
            assert bodies(answer) == ["8", "9"]
            assert len(looked_at) == (2 if is_noted else 10)


# ---- retry topics ----------------------------------------------------------------------------------------------------

RETRY = "%RETRY%G"


@pytest.mark.parametrize(("is_supported", "found"), [(True, ["2", "5"]), (False, ["1", "2", "5"])])
async def test_a_filter_applies_to_what_comes_back(is_supported: bool, found: list[str]) -> None:
    async with open_message_broker(enable_property_filter=True, filter_support_retry=is_supported) as broker:
        broker.add_topic(RETRY)
        subscribe(broker, sql("a > 1"), SubscriptionData(RETRY, "*", 1))
        await send_values(broker, 1, 2, topic=RETRY, more=f"\x02RETRY_TOPIC\x01{TOPIC}")
        await send_values(broker, 5, topic=RETRY, more="\x02RETRY_TOPIC\x01Another")
        answer = await broker.ask(pull(sys_flag=0, topic=RETRY))
        assert bodies(answer) == found
