"""The dispatcher of traces: when it sends, how much at once, what it drops, and how it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from rocketpy.client.results import SendResult, SendStatus
from rocketpy.client.trace.trace_data import SubAfterTrace, read_traces
from rocketpy.client.trace.trace_dispatcher import (
    FLUSH_SECONDS,
    GROUP_NAME_PREFIX,
    MESSAGE_BYTES_MAX,
    QUEUE_ENTRIES_MAX,
    QUEUE_RECORDS_MAX,
    SENDERS,
    TraceDispatcher,
    TraceRole,
    TraceStatistics,
    open_trace_dispatcher,
)
from rocketpy.errors import BrokerError, ClientError
from rocketpy.protocol.message import Message, MessageQueue
from tests.client.cancelled_everywhere import cancelled_everywhere
from tests.client.fake_cluster import FakeCluster
from tests.client.opened import opened
from tests.client.trace.records import after
from tests.patience import until

TOPIC = "RMQ_SYS_TRACE_TOPIC"
RESULT = SendResult(SendStatus.SEND_OK, "A", "B", MessageQueue(TOPIC, "b", 0), 0, "region")


class Sender:
    """Stores messages, slowly or not at all if it is told so."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, Message]] = []
        self.under_way = self.under_way_max = 0
        self.seconds = 0.0
        self.failure: Exception | None = None

    async def send(self, message: Message) -> SendResult:
        self.under_way += 1
        self.under_way_max = max(self.under_way, self.under_way_max)
        await trio.sleep(self.seconds)
        self.under_way -= 1
        if self.failure is not None:
            raise self.failure
        self.sent.append((trio.current_time(), message))
        return RESULT

    @property
    def ids(self) -> list[str]:
        return [each.msg_id for _, message in self.sent for each in read_traces(message.body.decode())]


def record(number: int, *, keys: str | None = None) -> SubAfterTrace:
    return after(msg_id=f"id{number}", keys=keys)


@asynccontextmanager
async def running(sender: Sender) -> AsyncIterator[TraceDispatcher]:
    dispatcher = TraceDispatcher(TOPIC)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(dispatcher.run, sender)
        yield dispatcher
        nursery.cancel_scope.cancel()


async def test_records_of_half_a_second_share_a_message(autojump_clock: MockClock) -> None:
    sender = Sender()
    async with running(sender) as dispatcher:
        await trio.sleep(3)
        begun = trio.current_time()
        for number in range(4):
            assert dispatcher.append([record(2 * number, keys="k l"), record(2 * number + 1)])
            await trio.sleep(0.1)
        await trio.sleep(0.2)
        ((sent_at, message),) = sender.sent
        assert sent_at - begun == pytest.approx(0.5)
        assert sender.ids == [f"id{number}" for number in range(8)]
        assert message.topic == TOPIC
        assert message.properties["KEYS"] == "id0 k l " + " ".join(f"id{number}" for number in range(1, 8))
        dispatcher.append([record(8)])
        await trio.sleep(0.6)
        assert len(sender.sent) == 2, "the next round is like the first"
    assert dispatcher.statistics() == TraceStatistics(waiting=0, stored=9, discarded=0, failed=0)


async def test_what_comes_while_the_last_answer_is_awaited_is_flushed_too(autojump_clock: MockClock) -> None:
    """The answer to what is in flight comes meanwhile, before the flush or during it; records that come again count."""
    sender = Sender()
    sender.seconds = 1.0
    async with running(sender) as dispatcher:
        dispatcher.append([record(0)])
        await trio.sleep(1.2)  # it left after half a second
        dispatcher.append([record(1)])
        await trio.sleep(0.4)  # its answer has come, and the next message waits for more records
        assert sender.ids == ["id0"]
        await dispatcher.flush()
        assert sender.ids == ["id0", "id1"]
        dispatcher.append([record(2)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(dispatcher.flush)
            await trio.sleep(0.9)
            dispatcher.append([record(3)])
        assert sender.ids == ["id0", "id1", "id2", "id3"]
        await dispatcher.flush()
    assert dispatcher.statistics() == TraceStatistics(waiting=0, stored=4, discarded=0, failed=0)


async def test_a_flush_that_is_cancelled_here_leaves_the_dispatcher_as_it_was(autojump_clock: MockClock) -> None:
    """Records share messages again, and the next flush sends them all."""
    sender = Sender()
    sender.seconds = 1.0
    async with running(sender) as dispatcher:
        dispatcher.append([record(0)])
        with trio.move_on_after(0.3):
            await dispatcher.flush()
        await trio.sleep(2)
        for number in (1, 2):
            dispatcher.append([record(number)])
            await trio.sleep(0.1)
        await dispatcher.flush()
        assert [len(read_traces(message.body.decode())) for _, message in sender.sent] == [1, 2]


async def test_a_queue_that_is_half_full_is_sent_at_once(autojump_clock: MockClock) -> None:
    sender = Sender()
    async with running(sender) as dispatcher:
        for number in range(QUEUE_ENTRIES_MAX // 2):
            dispatcher.append([record(number)])
        await trio.sleep(0.01)
        assert len(sender.ids) == QUEUE_ENTRIES_MAX // 2


async def test_a_message_is_full_by_its_body_or_its_keys(autojump_clock: MockClock) -> None:
    sender = Sender()
    async with running(sender) as dispatcher:
        dispatcher.append([record(number, keys="x" * 10_000) for number in range(4)])
        await trio.sleep(1)
        assert [len(message.properties["KEYS"]) for _, message in sender.sent] == [10_016], "the same key counts once"
        dispatcher.append([record(number, keys=f"{number:05d}" * 2000) for number in range(4)])
        await trio.sleep(1)
        keys = [len(message.properties["KEYS"].encode()) for _, message in sender.sent[1:]]
        assert len(keys) == 2
        assert max(keys) < 32_000
        dispatcher.append([record(number, keys="ü" * 1000) for number in range(100)])
        await trio.sleep(1)
        bodies = [len(message.body) for _, message in sender.sent[3:]]
        assert len(bodies) == 2
        assert max(bodies) <= 128_000
    assert len(sender.ids) == 108


async def test_no_keys_are_too_long_for_a_message(autojump_clock: MockClock) -> None:
    """Those that do not fit beside others go to the next message; of a single record as many as fit, its id first."""
    sender = Sender()
    async with running(sender) as dispatcher:
        dispatcher.append([record(number, keys=f"{number}" * 20_000) for number in range(3)])
        dispatcher.append([record(3, keys=f"{'x' * 32_000} short")])
        await trio.sleep(1)
    keys = [message.properties["KEYS"].split() for _, message in sender.sent]
    assert keys == [*([f"id{number}", f"{number}" * 20_000] for number in range(3)), ["id3", "short"]]
    assert sender.ids == ["id0", "id1", "id2", "id3"]


async def test_a_long_record_does_not_make_a_message_too_long(autojump_clock: MockClock) -> None:
    sender = Sender()
    async with running(sender) as dispatcher:
        dispatcher.append([record(number, keys="x" * 27_000) for number in range(6)])
        await trio.sleep(1)
    bodies = [len(message.body) for _, message in sender.sent]
    assert len(bodies) == 2
    assert max(bodies) <= MESSAGE_BYTES_MAX


async def test_what_has_no_room_is_dropped_and_counted(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    sender = Sender()
    async with running(sender) as dispatcher:
        taken = [dispatcher.append([record(number)]) for number in range(QUEUE_ENTRIES_MAX + 2)]
        assert taken == [True] * QUEUE_ENTRIES_MAX + [False] * 2
        assert dispatcher.statistics().discarded == 2
        await trio.sleep(1)
        assert dispatcher.append([record(0)] * QUEUE_RECORDS_MAX)
        assert not dispatcher.append([record(0)])
        await trio.sleep(1)
        dispatcher.log_losses()
    assert sender.ids[:QUEUE_ENTRIES_MAX] == [f"id{number}" for number in range(QUEUE_ENTRIES_MAX)]
    assert dispatcher.statistics() == TraceStatistics(
        waiting=0, stored=QUEUE_ENTRIES_MAX + QUEUE_RECORDS_MAX, discarded=3, failed=0
    )
    assert caplog.text.count("traces are dropped") == 1
    assert "3 were dropped" in caplog.text


async def test_a_broker_that_does_not_answer_has_ten_messages_and_no_more_memory_is_used(
    autojump_clock: MockClock,
) -> None:
    sender = Sender()
    sender.seconds = 5
    async with running(sender) as dispatcher:
        refused = 0
        for _ in range(30):
            refused += not dispatcher.append([record(number, keys=f"{number:05d}" * 200) for number in range(1000)])
            await trio.sleep(0.1)
        assert refused
        assert sender.under_way_max == SENDERS
        assert dispatcher.statistics().waiting <= QUEUE_RECORDS_MAX + (SENDERS + 1) * 1000


async def test_a_failure_is_counted_and_the_next_message_is_sent(
    autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    sender = Sender()
    async with running(sender) as dispatcher:
        for failure in (BrokerError(1, "no", "127.0.0.1:1"), ClientError(10005, "No route"), None):
            sender.failure = failure
            dispatcher.append([record(0)])
            await trio.sleep(1)
        await dispatcher.flush()
        dispatcher.log_losses()
    assert dispatcher.statistics() == TraceStatistics(waiting=0, stored=1, discarded=0, failed=2)
    assert caplog.text.count("1 traces were not sent") == 2
    assert "2 failed" in caplog.text


async def test_a_flush_sends_at_once_and_waits_for_the_answers(autojump_clock: MockClock) -> None:
    sender = Sender()
    sender.seconds = 0.2
    async with running(sender) as dispatcher:
        await dispatcher.flush()
        dispatcher.append([record(0)])
        await trio.sleep(0.1)
        begun = trio.current_time()
        await dispatcher.flush()
        assert trio.current_time() - begun == pytest.approx(0.2)
        dispatcher.append([record(1)])
        await trio.sleep(0.6)
        dispatcher.append([record(2)])
        await dispatcher.flush()
    assert sender.ids == ["id0", "id1", "id2"]


# ---- with a client --------------------------------------------------------------------------------------------------


def stored(cluster: FakeCluster, topic: str = TOPIC) -> list[str]:
    return [each.msg_id for body in cluster.broker.bodies(topic) for each in read_traces(body.decode())]


async def test_records_that_come_while_a_flush_waits_are_flushed_too(autojump_clock: MockClock) -> None:
    """Those of a role's last hooks may come just before the answer to the ones before."""
    sender = Sender()
    async with running(sender) as dispatcher:
        send = sender.send

        async def send_and_record(message: Message) -> SendResult:
            result = await send(message)
            if len(sender.sent) == 1:
                dispatcher.append([record(1)])
            return result

        sender.send = send_and_record  # type: ignore[method-assign]
        dispatcher.append([record(0)])
        await dispatcher.flush()
        assert dispatcher.statistics().stored == 2


async def test_what_waits_is_sent_when_it_closes(cluster: FakeCluster) -> None:
    cluster.add_topic(TOPIC, 1)
    async with opened(cluster.address, namespace="NS") as instance:
        async with open_trace_dispatcher(instance, "g", TraceRole.CONSUME) as dispatcher:
            dispatcher.append([record(0)])
        assert stored(cluster) == ["id0"]
        async with open_trace_dispatcher(instance, "g" * 255, TraceRole.PRODUCE, "Mine") as dispatcher:
            cluster.add_topic("Mine", 1)
            dispatcher.append([record(1)])
        assert stored(cluster, "Mine") == ["id1"]
    groups = {group.group_name for each in cluster.broker.heartbeats for group in each.producer_data_set}
    assert f"{GROUP_NAME_PREFIX}-g-CONSUME-1" in groups, "without a namespace"


async def test_the_end_is_bounded_in_time_and_says_what_is_lost(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.add_topic(TOPIC, 1)
    async with opened(cluster.address) as instance:
        begun = trio.current_time()
        async with open_trace_dispatcher(instance, "g", TraceRole.CONSUME) as dispatcher:
            cluster.broker.be_silent(310)
            dispatcher.append([record(0)])
        assert trio.current_time() - begun < 3 * FLUSH_SECONDS
    assert "1 had no answer" in caplog.text


async def test_cancelled_anywhere_it_stores_all_and_leaves_nothing(cluster: FakeCluster) -> None:
    cluster.add_topic(TOPIC, 1)
    appended = 0
    async with opened(cluster.address) as instance:

        async def scene() -> None:
            nonlocal appended
            async with open_trace_dispatcher(instance, "g", TraceRole.CONSUME) as dispatcher:
                for _ in range(3):
                    dispatcher.append([record(appended)])
                    appended += 1
                    await trio.lowlevel.checkpoint()

        attempts = [each async for each in cancelled_everywhere(scene)]
        assert len(attempts) > 3
        assert not attempts[-1].was_cancelled
        await until(lambda: len(stored(cluster)) == appended)
    assert sorted(stored(cluster)) == sorted(f"id{number}" for number in range(appended))
