"""A member of a group against a scripted broker: every style, from joining to leaving."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
import trio.lowlevel
import trio.testing

from rocketpy.client.client import Client, open_client
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.consumer_stats import ConsumerStatistics
from rocketpy.client.consumer.message_selector import MessageSelector
from rocketpy.client.consumer.statuses import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from rocketpy.errors import BrokerError, ClientError
from rocketpy.protocol.bodies.heartbeat import MessageModel
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import MessageQueue
from tests.client.conftest import FIRST, TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import PATIENCE_SECONDS, until

RETRY = "%RETRY%g"


def put(cluster: FakeCluster, count: int) -> None:
    for number in range(count):
        cluster.broker.put(TOPIC, number % 4, b"%d" % number)


@pytest.fixture
async def client(cluster: FakeCluster) -> AsyncIterator[Client]:
    cluster.add_topic(RETRY, 1)
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_client(cluster.address) as opened:
            yield opened


@asynccontextmanager
async def running(*arguments: object) -> AsyncIterator[None]:
    """Run something while the block does."""
    async with trio.open_nursery() as nursery:
        await nursery.start(*arguments)
        yield
        nursery.cancel_scope.cancel()


def progress(cluster: FakeCluster, topic: str = TOPIC) -> list[int | None]:
    return [cluster.broker.progress.get(("g", topic, each)) for each in range(4)]


async def test_a_batch_is_acknowledged_when_the_loop_has_come_round(cluster: FakeCluster, client: Client) -> None:
    put(cluster, 8)
    seen = []
    async with client.consumer("g", TOPIC, config=FIRST) as consumer:
        async for batch in consumer:
            seen += [each.body for each in batch]
            if len(seen) == 8:
                last = batch.queue
                break
    assert sorted(seen) == [b"%d" % each for each in range(8)]
    expected = [2, 2, 2, 2]
    expected[last.queue_id] = 1
    assert progress(cluster) == expected, "the last one was not acknowledged"


async def test_a_program_may_settle_each_batch_itself(cluster: FakeCluster, client: Client) -> None:
    cluster.broker.put(TOPIC, 0, b"1")
    cluster.broker.put(TOPIC, 0, b"2")
    cluster.broker.put(TOPIC, 0, b"3")
    async with client.consumer("g", TOPIC, config=FIRST) as consumer:
        batches = consumer.batches(acknowledges=False)
        first, second, third = [await anext(batches) for _ in range(3)]
        await second.done()
        await third.dead_letter()
        await until(lambda: cluster.broker.sent_back)
        assert consumer.assigned == [MessageQueue(RETRY, "broker-a", 0)] + [
            MessageQueue(TOPIC, "broker-a", each) for each in range(4)
        ]
    assert progress(cluster)[0] == 0
    assert [each.delay_level for each in cluster.broker.sent_back] == [-1]
    assert not first.is_settled


async def test_handlers_run_concurrently_and_what_fails_goes_back(cluster: FakeCluster, client: Client) -> None:
    put(cluster, 8)
    together = trio.Event()
    seen: list[bytes] = []

    async def handler(batch: MessageBatch) -> ConsumeConcurrentlyStatus | None:
        seen.append(batch.messages[0].body)
        if len(seen) == 8:
            together.set()
        await together.wait()
        if batch.messages[0].body == b"5":
            return ConsumeConcurrentlyStatus.RECONSUME_LATER
        return None

    config = attrs.evolve(FIRST, persist_consumer_offset_interval=10)
    async with client.consumer("g", TOPIC, config=config) as consumer, running(consumer.run, handler):
        await until(lambda: progress(cluster) == [2, 2, 2, 2])
    assert [each.max_reconsume_times for each in cluster.broker.sent_back] == [16]


async def test_a_retry_is_handled_under_its_own_topic_and_counts_on_the_retry_topic(
    cluster: FakeCluster, client: Client
) -> None:
    cluster.broker.put(RETRY, 0, b"again", {"RETRY_TOPIC": TOPIC})
    async with client.consumer("g", TOPIC) as consumer:
        async for batch in consumer:
            assert [each.topic for each in batch] == [TOPIC]
            await batch.done()
            break
    assert progress(cluster, RETRY)[0] == 1


async def test_an_orderly_consumer_locks_its_queues_and_gives_them_back(cluster: FakeCluster, client: Client) -> None:
    put(cluster, 8)
    results = [ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT]
    seen: list[tuple[int, int]] = []

    async def handler(batch: MessageBatch) -> ConsumeOrderlyStatus | None:
        assert cluster.broker.locks[batch.queue] == client.client_id
        batch.suspend_ms = 10
        seen.append((batch.queue.queue_id, batch.messages[0].queue_offset))
        return results.pop() if results else None

    async with client.consumer("g", TOPIC, config=FIRST) as consumer, running(consumer.run_orderly, handler):
        await until(lambda: len(seen) == 9)
    again = seen[0]
    assert seen.count(again) == 2
    for queue_id in range(4):
        offsets = [offset for queue, offset in seen if queue == queue_id]
        assert offsets == sorted(offsets)
    assert progress(cluster) == [2, 2, 2, 2]
    assert cluster.broker.locks == {}


async def test_a_queue_that_another_member_has_locked_is_taken_when_it_is_free(
    cluster: FakeCluster, client: Client
) -> None:
    locked = MessageQueue(TOPIC, "broker-a", 2)
    cluster.broker.locks[locked] = "another client"
    put(cluster, 4)
    seen: set[int] = set()

    async def handler(batch: MessageBatch) -> None:
        seen.add(batch.queue.queue_id)

    async with client.consumer("g", TOPIC, config=FIRST) as consumer, running(consumer.run_orderly, handler):
        await until(lambda: seen == {0, 1, 3})
        assert locked not in consumer.assigned
        del cluster.broker.locks[locked]
        await until(lambda: 2 in seen)


async def test_heartbeats_say_what_is_consumed_before_anything_is_pulled(cluster: FakeCluster, client: Client) -> None:
    async with client.consumer("g", subscriptions={TOPIC: "A || B"}) as consumer:
        await consumer.wait_assigned()
        codes = [each.code for each in cluster.broker.requests]
        assert RequestCode.PULL_MESSAGE not in codes[: codes.index(RequestCode.HEART_BEAT)]
    (data,) = cluster.broker.heartbeats[0].consumer_data_set
    assert (data.group_name, data.consume_type, data.message_model) == ("g", "CONSUME_PASSIVELY", "CLUSTERING")
    assert data.consume_from_where == "CONSUME_FROM_LAST_OFFSET"
    assert {each.topic: each.sub_string for each in data.subscription_data_set} == {TOPIC: "A || B", RETRY: "*"}
    assert len(cluster.broker.asked(RequestCode.UNREGISTER_CLIENT)) == 1


async def test_a_filter_that_no_broker_understands_is_an_error_of_joining(cluster: FakeCluster, client: Client) -> None:
    cluster.broker.refuse(RequestCode.CHECK_CLIENT_CONFIG, ResponseCode.SUBSCRIPTION_PARSE_FAILED)
    async with client.consumer("g", subscriptions={TOPIC: MessageSelector.by_sql("a >")}) as consumer:
        with pytest.raises(BrokerError):
            await consumer.wait_assigned()
        cluster.broker.behave()
        await consumer.wait_assigned()


async def test_topics_come_and_go_while_it_runs(cluster: FakeCluster, client: Client) -> None:
    cluster.add_topic("Other", 1)
    cluster.broker.put("Other", 0, b"other")
    put(cluster, 1)
    seen: list[bytes] = []

    async def handler(batch: MessageBatch) -> None:
        seen.append(batch.messages[0].body)

    async with client.consumer("g", TOPIC, config=FIRST) as consumer, running(consumer.run, handler):
        await until(lambda: seen == [b"0"])
        consumer.subscribe("Other")
        await until(lambda: b"other" in seen)
        consumer.unsubscribe(TOPIC)
        await until(lambda: {each.topic for each in consumer.assigned} == {RETRY, "Other"})
        assert progress(cluster)[0] == 1, "what is given up has been stored"


async def test_a_suspended_consumer_finishes_what_it_has(cluster: FakeCluster, client: Client) -> None:
    seen: list[bytes] = []

    async def handler(batch: MessageBatch) -> None:
        seen.append(batch.messages[0].body)

    async with client.consumer("g", TOPIC, config=FIRST) as consumer, running(consumer.run, handler):
        await until(lambda: len(cluster.broker.waiting) == 5)
        consumer.suspend()
        cluster.broker.put(TOPIC, 0, b"pulled already")
        await until(lambda: seen == [b"pulled already"])
        cluster.broker.put(TOPIC, 0, b"for later")
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert len(seen) == 1
        consumer.resume()
        await until(lambda: len(seen) == 2)


async def test_an_offset_that_does_not_exist_is_corrected(cluster: FakeCluster, client: Client) -> None:
    put(cluster, 40)
    cluster.broker.min_offsets[TOPIC, 0] = 6
    async with client.consumer("g", TOPIC, config=FIRST) as consumer:
        seen = []
        async for batch in consumer:
            seen += [(batch.queue.queue_id, each.queue_offset) for each in batch]
            if len(seen) == 34:
                await batch.done()
                break
    assert [offset for queue, offset in sorted(seen) if queue == 0] == [6, 7, 8, 9]
    assert progress(cluster) == [10, 10, 10, 10]


async def test_a_broadcasting_consumer_takes_every_queue_and_keeps_its_offsets(
    cluster: FakeCluster, client: Client, tmp_path: Path
) -> None:
    put(cluster, 4)
    cluster.broker.other_members = ["0.0.0.0@before"]
    config = attrs.evolve(FIRST, message_model=MessageModel.BROADCASTING, local_offset_store_dir=tmp_path)
    for expected in ([b"0", b"1", b"2", b"3"], [b"0"]):
        async with client.consumer("g", TOPIC, config=config) as consumer:
            seen = []
            async for batch in consumer:
                seen += [each.body for each in batch]
                if len(seen) == len(expected):
                    await batch.done()
                    break
            assert sorted(seen) == expected
        cluster.broker.put(TOPIC, 0, b"0")
    (file,) = tmp_path.rglob("offsets.json")  # noqa: ASYNC240
    assert file.parent.parent.name.endswith("@DEFAULT")
    assert cluster.broker.progress == {}
    assert cluster.broker.heartbeats[0].consumer_data_set[0].message_model == "BROADCASTING"


async def test_a_broadcasting_consumer_is_orderly_without_locks(
    cluster: FakeCluster, client: Client, tmp_path: Path
) -> None:
    """Every member has every queue, so a lock of one would keep the others out."""
    put(cluster, 4)
    cluster.broker.locks.update({MessageQueue(TOPIC, "broker-a", number): "another client" for number in range(4)})
    config = attrs.evolve(FIRST, message_model=MessageModel.BROADCASTING, local_offset_store_dir=tmp_path)
    seen: list[bytes] = []

    async def handler(batch: MessageBatch) -> None:
        seen.extend(each.body for each in batch)

    async with client.consumer("g", TOPIC, config=config) as consumer, running(consumer.run_orderly, handler):
        await until(lambda: sorted(seen) == [b"0", b"1", b"2", b"3"])
    assert not cluster.broker.asked(RequestCode.LOCK_BATCH_MQ)
    assert not cluster.broker.asked(RequestCode.UNLOCK_BATCH_MQ)


async def test_a_group_has_one_consumer_in_a_client_and_one_style(cluster: FakeCluster, client: Client) -> None:
    async def never(batch: MessageBatch) -> None:
        raise AssertionError

    async with client.consumer("g", TOPIC) as first, client.consumer("g", TOPIC) as second:
        await first.wait_assigned()
        with pytest.raises(ClientError, match="created before"):
            await second.wait_assigned()
        with pytest.raises(ClientError, match="cannot be orderly and concurrent"):
            await first.run_orderly(never)


async def test_leaving_is_bounded_when_no_broker_answers(cluster: FakeCluster, client: Client) -> None:
    put(cluster, 4)
    async with client.consumer("g", TOPIC, config=FIRST) as consumer:
        async for batch in consumer:
            await batch.done()
            break
        cluster.broker.be_silent(RequestCode.UPDATE_CONSUMER_OFFSET)
        cluster.broker.be_silent(RequestCode.UNREGISTER_CLIENT)
        begun = trio.current_time()
    assert trio.current_time() - begun < 20


@pytest.mark.parametrize("silent", [RequestCode.HEART_BEAT, RequestCode.QUERY_CONSUMER_OFFSET])
@pytest.mark.parametrize("style", ["run", "run_orderly", "iterate", "wait_assigned"])
async def test_a_style_ends_with_a_block_that_ends_before_it_has_begun(
    cluster: FakeCluster, client: Client, silent: RequestCode, style: str
) -> None:
    """The task of the style outlives the block, and was joining, or waiting for the first queues."""
    cluster.broker.be_silent(silent)
    returned: list[object] = []

    async def handle(batch: MessageBatch) -> None:
        raise AssertionError("no queue has begun")

    async def use() -> None:
        match style:
            case "iterate":
                returned.append([each async for each in consumer])
            case "wait_assigned":
                returned.append(await consumer.wait_assigned())
            case _:
                returned.append(await getattr(consumer, style)(handle))

    async with trio.open_nursery() as nursery, client.consumer("g", TOPIC, config=FIRST) as consumer:
        nursery.start_soon(use)
        await until(lambda: cluster.broker.asked(silent))
    assert len(returned) == 1
    assert not returned[0]
    with pytest.raises(ClientError, match="has ended") if silent is RequestCode.HEART_BEAT else nullcontext():
        await consumer.wait_assigned()
    async with client.consumer("g", TOPIC):
        pass  # the group is free again


async def test_a_style_that_waits_for_its_turn_to_join_ends_with_the_block(
    cluster: FakeCluster, client: Client
) -> None:
    cluster.broker.be_silent(RequestCode.HEART_BEAT)
    returned: list[list[MessageQueue]] = []

    async def use() -> None:
        returned.append(await consumer.wait_assigned())

    async with trio.open_nursery() as nursery, client.consumer("g", TOPIC) as consumer:
        nursery.start_soon(use)
        nursery.start_soon(use)
        await until(lambda: cluster.broker.asked(RequestCode.HEART_BEAT))
    assert returned == [[], []]
    assert len(cluster.broker.asked(RequestCode.UNREGISTER_CLIENT)) == 1


async def test_a_handler_that_cannot_be_awaited_is_refused_before_anything_is_consumed(client: Client) -> None:
    async with client.consumer("g", TOPIC) as consumer:
        for start in (consumer.run, consumer.run_orderly):
            for handler in (None, print):
                with pytest.raises(TypeError, match="function as handler"):
                    await start(handler)  # type: ignore[arg-type]
        assert consumer.assigned == []


@pytest.mark.parametrize("style", ["run", "run_orderly"])
async def test_a_drained_consumer_finishes_commits_and_leaves_without_an_error(
    cluster: FakeCluster, client: Client, style: str
) -> None:
    put(cluster, 12)
    seen: list[MessageQueue] = []
    finish = trio.Event()

    async def handler(batch: MessageBatch) -> None:
        seen.append(batch.queue)
        await finish.wait()

    results: list[bool] = []

    async def drain() -> None:
        results.append(await consumer.drain(PATIENCE_SECONDS))

    async with client.consumer("g", TOPIC, config=FIRST) as consumer:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(getattr(consumer, style), handler, tasks=4))
            await until(lambda: len(seen) == 4)
            nursery.start_soon(drain)
            cluster.broker.let_join("g", "0.0.0.0@another")
            await trio.testing.wait_all_tasks_blocked(0.15)
            assert len(consumer.assigned) == 5, "no queue changes hands while others are finished"
            assert not cluster.broker.asked(RequestCode.UNREGISTER_CLIENT)
            finish.set()
        handled = [seen.count(MessageQueue(TOPIC, "broker-a", number)) for number in range(4)]
        assert (results, sum(handled)) == ([True], 4), "12 were pulled"
        assert [each or 0 for each in progress(cluster)] == handled
        assert (consumer.assigned, cluster.broker.locks) == ([], {})
        assert [each async for each in consumer.batches()] == [] if style == "run" else True
    assert len(cluster.broker.asked(RequestCode.UNREGISTER_CLIENT)) == 1


@pytest.mark.parametrize("style", ["run", "run_orderly"])
async def test_a_drain_whose_time_is_over_cancels_and_leaves(cluster: FakeCluster, client: Client, style: str) -> None:
    put(cluster, 4)
    begun = trio.Event()

    async def never(batch: MessageBatch) -> None:
        begun.set()
        await trio.sleep_forever()

    async with client.consumer("g", TOPIC, config=FIRST) as consumer, trio.open_nursery() as nursery:
        nursery.start_soon(getattr(consumer, style), never)
        await begun.wait()
        assert not await consumer.drain(0.01)
        assert (progress(cluster), cluster.broker.locks) == ([None] * 4, {})


async def test_a_loop_ends_with_a_drain_after_its_batch_and_one_that_never_began_ends_at_once(
    cluster: FakeCluster, client: Client
) -> None:
    put(cluster, 4)
    async with client.consumer("g", TOPIC, config=FIRST) as consumer, trio.open_nursery() as nursery:
        count = 0
        async for batch in consumer:
            count += len(batch)
            nursery.start_soon(consumer.drain, PATIENCE_SECONDS)
            await trio.testing.wait_all_tasks_blocked(0.02)
    assert sum(each or 0 for each in progress(cluster)) == count == 1
    async with client.consumer("g", TOPIC) as consumer:
        assert await consumer.drain(0)
        with pytest.raises(ClientError, match="has ended"):
            await consumer.wait_assigned()
        with pytest.raises(ValueError, match="timeout_s is -1"):
            await consumer.drain(-1)


async def test_the_end_of_a_block_waits_for_the_drain_that_leaves(cluster: FakeCluster, client: Client) -> None:
    async with trio.open_nursery() as nursery:
        async with client.consumer("g", TOPIC) as consumer:
            await consumer.wait_assigned()
            cluster.broker.be_silent(RequestCode.UNREGISTER_CLIENT)
            nursery.start_soon(consumer.drain, 0)
            await until(lambda: cluster.broker.asked(RequestCode.UNREGISTER_CLIENT))
        async with client.consumer("g", TOPIC):
            pass  # the group is free again


@pytest.mark.parametrize("style", ["run", "run_orderly"])
async def test_what_handlers_do_is_logged_by_a_logger_of_the_group(
    cluster: FakeCluster, client: Client, style: str, caplog: pytest.LogCaptureFixture
) -> None:
    put(cluster, 1)

    async def handler(batch: MessageBatch) -> None:
        raise ZeroDivisionError

    async with client.consumer("g", TOPIC, config=FIRST) as consumer, running(getattr(consumer, style), handler):
        await until(lambda: caplog.records)
    assert caplog.records[0].name == "rocketpy.client.group.g"


async def test_statistics_count_what_is_here_and_what_was_done(cluster: FakeCluster, client: Client) -> None:
    put(cluster, 4)
    async with client.consumer("g", TOPIC, config=FIRST) as consumer:
        assert consumer.statistics() == ConsumerStatistics(0, 0, 0, 0, 0, 0)
        batches = consumer.batches(acknowledges=False)
        first, second = await anext(batches), await anext(batches)
        await until(lambda: consumer.statistics().pulled_count == 4)
        await first.done()
        await second.retry_later()
        assert consumer.statistics() == ConsumerStatistics(
            assigned_count=5,
            unacknowledged_count=2,
            unacknowledged_bytes=2,
            pulled_count=4,
            consumed_count=1,
            failed_count=1,
        )
