"""A pull from an offset that is no longer stored: the correction, and the event about it."""

from __future__ import annotations

import json

import pytest
import trio
import trio.testing

from rocketpy.broker.pull import offset_moved
from rocketpy.broker.pull.offset_moved import EVENT_SECONDS
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.config import BrokerRole
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker, pull
from tests.broker.pull.pulling import COMMIT, SUBSCRIPTION, SUSPEND, offsets, send_tags


async def events(broker: MessageBroker) -> list[tuple[dict[str, object], str | None, str | None]]:
    """Return body, tags and keys of every event."""
    answer = await broker.ask(pull(topic="OFFSET_MOVED_EVENT", consumer_group="TOOLS_CONSUMER"))
    messages = decode_messages(answer.body or b"")
    return [
        (json.loads(each.body or b""), each.properties.get("TAGS"), each.properties.get("KEYS")) for each in messages
    ]


@pytest.mark.parametrize("path", ["fast", "general"])
async def test_a_moved_offset_is_reported_in_a_message(path: str, caplog: pytest.LogCaptureFixture) -> None:
    async with open_message_broker(has_fast_paths=path == "fast") as broker:
        await send_tags(broker, "a", "b")
        answer = await broker.ask(pull(queue_offset=99))
        assert (answer.code, answer.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY")
        assert offsets(answer) == (2, 0, 2)
        java = (
            b'{"consumerGroup":"G","messageQueue":{"brokerName":"broker-a","queueId":0,"topic":"TopicTest"},'
            b'"offsetNew":2,"offsetRequest":99}'
        )
        assert [each.body for each in await broker.messages("OFFSET_MOVED_EVENT")] == [java], "byte for byte"
        assert await events(broker) == [(json.loads(java), "G", "G")]
        (record,) = [record for record in caplog.records if record.getMessage() == "offset moved"]
        located = {"group": "G", "topic": TOPIC, "queueId": 0}
        assert record.__dict__["fields"] == {**located, "asked": 99, "new": 2, "event": "PUT_OK"}


async def test_pulls_that_wait_for_events_are_woken() -> None:
    async with open_message_broker() as broker:
        connection = broker.connect()
        held = pull(topic="OFFSET_MOVED_EVENT", sys_flag=SUBSCRIPTION | SUSPEND)
        assert await broker.ask_all(held, connection) == []
        await broker.ask(pull(queue_offset=5))
        (answer,) = received(connection)
        assert answer.code == ResponseCode.SUCCESS


async def test_no_event_without_a_moved_offset() -> None:
    async with open_message_broker() as broker:
        await send_tags(broker, "a")
        for queue_offset in (0, 1):
            await broker.ask(pull(queue_offset=queue_offset))
        assert await events(broker) == []


@pytest.mark.parametrize(("checks", "code", "broker_id"), [(False, 20, 3), (True, 21, 0)])
async def test_a_slave_corrects_offsets_only_if_configured(checks: bool, code: int, broker_id: int) -> None:
    store = {"broker_role": BrokerRole.SLAVE, "offset_check_in_slave": checks}
    async with open_message_broker(store=store) as broker:
        broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G", broker_id=3))
        answer = await broker.ask(pull(queue_offset=5, sys_flag=SUBSCRIPTION | COMMIT, commit_offset=4))
        assert answer.code == code
        assert (answer.ext_fields or {})["suggestWhichBrokerId"] == str(broker_id)
        assert broker.tables.offsets.query_offset("G", TOPIC, 0) == -1, "a slave's offsets are its master's"


async def test_a_group_and_queue_have_one_event_in_a_minute(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A consumer that keeps pulling from a lost offset fills neither the store nor the log file."""
    async with open_message_broker() as broker:
        for queue_id in (0, 1):
            for _ in range(20):
                answer = await broker.ask(pull(queue_offset=9, queue_id=queue_id))
                assert (answer.code, offsets(answer)) == (ResponseCode.PULL_OFFSET_MOVED, (0, 0, 0))
        await broker.ask(pull(queue_offset=9, consumer_group="Other"))
        assert [(body["messageQueue"]["queueId"], tags) for body, tags, _ in await events(broker)] == [  # type: ignore[index]
            (0, "G"), (1, "G"), (0, "Other"),
        ]  # fmt: skip
        await trio.sleep(EVENT_SECONDS - 1)
        await broker.ask(pull(queue_offset=9))
        assert len(await events(broker)) == 3
        await trio.sleep(1)
        await broker.ask(pull(queue_offset=7))
        assert (await events(broker))[-1][0]["offsetRequest"] == 7
        lines = [record.getMessage() for record in caplog.records]
        assert (lines.count("offset moved"), lines.count("more offsets have moved")) == (4, 3)
        suppressed = [
            record.__dict__["fields"] for record in caplog.records if record.getMessage() == "more offsets have moved"
        ]
        assert suppressed == [{"pulls": 19}, {"pulls": 19}, {"pulls": 1}]


async def test_all_groups_together_have_so_many_events_in_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number is bounded by nothing else: any pull makes a group."""
    monkeypatch.setattr(offset_moved, "EVENTS_MAX", 5)
    async with open_message_broker() as broker:
        for number in range(20):
            await broker.ask(pull(queue_offset=9, consumer_group=f"G{number}"))
        assert [tags for _, tags, _ in await events(broker)] == [f"G{number}" for number in range(5)]
