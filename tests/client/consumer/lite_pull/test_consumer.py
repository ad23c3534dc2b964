"""A lite pull consumer against a scripted broker: polls, commits, seeks, pauses, and what is refused."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from rocketpy.client.client import open_client, open_lite_pull_consumer
from rocketpy.client.consumer.group.assignment_changes import AssignmentChange
from rocketpy.client.consumer.lite_pull.consumer import LitePullConsumer
from rocketpy.client.consumer.message_selector import MessageSelector
from rocketpy.errors import BrokerError, ClientError, LocalProtocolError
from rocketpy.protocol.bodies.heartbeat import MessageModel
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.pull import PullMessageRequestHeader
from rocketpy.protocol.message import MessageQueue
from tests.client.conftest import LITE_FIRST, TOPIC
from tests.client.fake_cluster import STORE_TIMESTAMP, FakeCluster
from tests.patience import PATIENCE_SECONDS, until

QUEUES = [MessageQueue(TOPIC, "broker-a", each) for each in range(4)]
QUEUE = QUEUES[0]


def put(cluster: FakeCluster, count: int, queue_id: int = 0) -> None:
    for _ in range(count):
        number = len(cluster.broker.queues[TOPIC, queue_id])
        cluster.broker.put(TOPIC, queue_id, b"%d" % number)


@asynccontextmanager
async def opened(cluster: FakeCluster, **settings: object) -> AsyncIterator[LitePullConsumer]:
    """A consumer of the group g that begins at the first offset, and a limit for the test."""
    config = attrs.evolve(LITE_FIRST, **settings)  # type: ignore[arg-type]
    with trio.fail_after(PATIENCE_SECONDS):
        async with open_lite_pull_consumer(cluster.address, group="g", consumer=config) as consumer:
            yield consumer


@asynccontextmanager
async def subscribed(cluster: FakeCluster, **settings: object) -> AsyncIterator[LitePullConsumer]:
    """A consumer that has subscribed to the topic, and has its share of the queues."""
    async with opened(cluster, **settings) as consumer:
        await consumer.subscribe(TOPIC)
        await consumer.wait_assigned()
        yield consumer


@asynccontextmanager
async def assigned(cluster: FakeCluster, *queues: MessageQueue, **settings: object) -> AsyncIterator[LitePullConsumer]:
    """A consumer that was assigned queues by its program."""
    async with opened(cluster, **settings) as consumer:
        await consumer.assign(queues or [QUEUE])
        yield consumer


async def bodies(consumer: LitePullConsumer, timeout_s: float = PATIENCE_SECONDS) -> list[int]:
    return [int(each.body) for each in await consumer.poll(timeout_s)]


def progress(cluster: FakeCluster, queue_id: int = 0) -> int | None:
    return cluster.broker.progress.get(("g", TOPIC, queue_id))


def last_pull(cluster: FakeCluster) -> PullMessageRequestHeader:
    return read_header(cluster.broker.asked(RequestCode.PULL_MESSAGE)[-1], PullMessageRequestHeader)


# ---- polls and commits ----------------------------------------------------------------------------------------------


async def test_a_poll_commits_what_the_polls_before_it_have_returned_once_in_an_interval(cluster: FakeCluster) -> None:
    put(cluster, 1)
    async with assigned(cluster, auto_commit_interval=1_000, persist_consumer_offset_interval=20) as consumer:
        assert await bodies(consumer) == [0], "the first poll commits, and there is nothing yet"
        assert await bodies(consumer, 1.1) == [], "this one comes too early"
        assert await consumer.committed(QUEUE) is None
        assert await bodies(consumer, 0) == []
        await until(lambda: progress(cluster) == 1)


async def test_what_is_committed_is_stored_when_the_consumer_ends_and_what_was_only_polled_is_not(
    cluster: FakeCluster,
) -> None:
    put(cluster, 1)
    async with assigned(cluster, auto_commit=False, persist_consumer_offset_interval=1_000_000) as consumer:
        assert await bodies(consumer) == [0]
        await consumer.commit(persist=False)
        put(cluster, 1)
        assert await bodies(consumer) == [1]
        assert progress(cluster) is None
    assert progress(cluster) == 1


async def test_a_commit_stores_all_queues_or_those_that_are_named_or_the_programs_own_offsets(
    cluster: FakeCluster,
) -> None:
    for queue_id in range(3):
        put(cluster, 2, queue_id)
    async with subscribed(cluster, auto_commit=False) as consumer:
        assert [await bodies(consumer) for _ in range(3)] == [[0, 1]] * 3
        await consumer.commit([QUEUES[1]])
        assert [progress(cluster, each) for each in range(3)] == [None, 2, None]
        await consumer.commit()
        assert [progress(cluster, each) for each in range(4)] == [2, 2, 2, None]
        await consumer.commit({QUEUES[2]: 1, MessageQueue("Other", "broker-a", 0): 5})
        assert progress(cluster, 2) == 1
        assert ("g", "Other", 0) not in cluster.broker.progress, "it may be another member's"
        assert await consumer.committed(QUEUES[2]) == 1
        with pytest.raises(ValueError, match=r"expected the next offset to read of .*, found -1"):
            await consumer.commit({QUEUES[2]: -1})


async def test_polls_return_one_pull_each_in_order(cluster: FakeCluster) -> None:
    put(cluster, 70)
    async with assigned(cluster, pull_batch_size=32) as consumer:
        found = [await bodies(consumer) for _ in range(3)]
    assert [len(each) for each in found] == [32, 32, 6]
    assert [each for piece in found for each in piece] == list(range(70))


async def test_a_poll_without_messages_returns_none_in_time(cluster: FakeCluster) -> None:
    async with assigned(cluster, poll_timeout=50) as consumer:
        begun = trio.current_time()
        assert await consumer.poll() == []
        assert await consumer.poll(0) == []
        assert trio.current_time() - begun < PATIENCE_SECONDS / 2
        for wrong in (-1, math.nan):
            with pytest.raises(ValueError, match="Timeout must not be negative"):
                await consumer.poll(wrong)


async def test_a_poll_before_the_first_subscription_waits_for_it(cluster: FakeCluster) -> None:
    put(cluster, 1)
    async with opened(cluster) as consumer, trio.open_nursery() as nursery:
        assert consumer.assigned == []
        nursery.start_soon(consumer.subscribe, TOPIC)
        assert await bodies(consumer) == [0]


async def test_an_iteration_returns_what_polls_do_commits_while_it_waits_and_ends_with_the_consumer(
    cluster: FakeCluster,
) -> None:
    put(cluster, 3)
    found: list[int] = []

    async def iterate(consumer: LitePullConsumer) -> None:
        async for messages in consumer:
            found.extend(int(each.body) for each in messages)

    intervals = {"auto_commit_interval": 1_000, "persist_consumer_offset_interval": 20}
    async with trio.open_nursery() as nursery, assigned(cluster, **intervals) as consumer:
        nursery.start_soon(iterate, consumer)
        await until(lambda: progress(cluster) == 3)
    assert found == [0, 1, 2]


async def test_what_does_not_match_is_passed_and_committed(cluster: FakeCluster) -> None:
    """In Java the offset of such a queue stays where it is until a message matches."""
    cluster.broker.put(TOPIC, 0, b"0", {"TAGS": "B"})
    cluster.broker.put(TOPIC, 0, b"1", {"TAGS": "A"})
    async with opened(cluster, auto_commit=False) as consumer:
        await consumer.assign([QUEUE], expressions={TOPIC: "A"})
        assert await bodies(consumer) == [1]
        await until(lambda: cluster.broker.waiting)
        cluster.broker.put(TOPIC, 0, b"2", {"TAGS": "B"})
        await until(lambda: last_pull(cluster).queue_offset == 3)
        await consumer.commit()
        assert progress(cluster) == 3


# ---- what brokers see -----------------------------------------------------------------------------------------------


async def test_pulls_have_the_flags_and_times_of_java(cluster: FakeCluster) -> None:
    async with subscribed(cluster):
        await until(lambda: cluster.broker.waiting)
    header = last_pull(cluster)
    assert (header.consumer_group, header.sys_flag, header.sub_version, header.commit_offset) == ("g", 22, 0, 0)
    assert (header.max_msg_nums, header.suspend_timeout_millis) == (10, 20_000)
    assert (header.subscription, header.expression_type) == ("*", "TAG")


async def test_a_consumer_with_queues_of_its_choice_announces_no_subscription(cluster: FakeCluster) -> None:
    async with assigned(cluster):
        pass
    assert cluster.broker.heartbeats[-1].consumer_data_set[0].subscription_data_set == []


async def test_an_sql_filter_has_its_version_and_is_checked_by_a_broker(cluster: FakeCluster) -> None:
    selector = MessageSelector.by_sql("a > 5")
    async with open_client(cluster.address) as client:
        async with client.lite_pull_consumer("g", subscriptions={TOPIC: selector}, config=LITE_FIRST) as consumer:
            await consumer.wait_assigned()
            await until(lambda: cluster.broker.asked(RequestCode.PULL_MESSAGE))
            pulled = last_pull(cluster)
            announced = cluster.broker.heartbeats[-1].consumer_data_set[0].subscription_data_set[0]
            assert (pulled.expression_type, pulled.subscription) == ("SQL92", "a > 5")
            assert pulled.sub_version == announced.sub_version > 0
            cluster.broker.refuse(RequestCode.CHECK_CLIENT_CONFIG, ResponseCode.SUBSCRIPTION_PARSE_FAILED, "what")
            with pytest.raises(BrokerError, match="what"):
                await consumer.subscribe(TOPIC, MessageSelector.by_sql("b >"))
            cluster.add_topic("Other", 1)
            await consumer.subscribe("Other")
            announced = cluster.broker.heartbeats[-1].consumer_data_set[0].subscription_data_set
            assert {each.topic: each.sub_string for each in announced} == {TOPIC: "a > 5", "Other": "*"}
        with pytest.raises(BrokerError, match="what"):
            async with client.lite_pull_consumer("g", subscriptions={TOPIC: selector}):
                pass
        async with client.lite_pull_consumer("g", TOPIC):
            pass


# ---- which queues ---------------------------------------------------------------------------------------------------


async def test_topics_come_and_go_while_it_runs(cluster: FakeCluster) -> None:
    cluster.add_topic("Other", 1)
    cluster.broker.put("Other", 0, b"7")
    other = MessageQueue("Other", "broker-a", 0)
    async with subscribed(cluster) as consumer:
        assert consumer.assigned == QUEUES
        await consumer.subscribe("Other")
        assert await bodies(consumer) == [7]
        assert consumer.assigned == [other, *QUEUES]
        await consumer.unsubscribe(TOPIC)
        await until(lambda: consumer.assigned == [other])


async def test_the_program_learns_of_its_queues(cluster: FakeCluster) -> None:
    async with subscribed(cluster) as consumer:
        changes = consumer.assignment_changes()
        assert await anext(changes) == AssignmentChange(TOPIC, tuple(QUEUES), tuple(QUEUES))
        cluster.broker.let_join("g", "0.0.0.0@before")
        assert await anext(changes) == AssignmentChange(TOPIC, tuple(QUEUES), tuple(QUEUES[2:]))
    with pytest.raises(StopAsyncIteration):
        await anext(changes)


async def test_queues_of_the_programs_choice_replace_those_before(cluster: FakeCluster) -> None:
    put(cluster, 1, 0)
    put(cluster, 1, 1)
    async with assigned(cluster, QUEUES[0]) as consumer:
        assert [each.queue_id for each in await consumer.poll(PATIENCE_SECONDS)] == [0]
        consumer.pause([QUEUES[0]])
        await consumer.assign(QUEUES[1:2])
        assert consumer.assigned == QUEUES[1:2]
        assert consumer.paused == []
        assert [each.queue_id for each in await consumer.poll(PATIENCE_SECONDS)] == [1]
        assert await consumer.wait_assigned() == QUEUES[1:2]
        with pytest.raises(ClientError, match=r"is not in assigned list, message queue: .*queue_id=0"):
            await consumer.seek(QUEUES[0], 0)


async def test_nothing_is_polled_of_queues_that_the_program_has_just_given_up(cluster: FakeCluster) -> None:
    put(cluster, 2, 0)
    async with assigned(cluster, QUEUES[0], pull_batch_size=1) as consumer:
        await until(lambda: cluster.broker.waiting)
        await consumer.assign([QUEUES[1]])
        assert await bodies(consumer, 0) == []
        await consumer.assign([QUEUES[0]])
        assert [await bodies(consumer) for _ in range(2)] == [[0], [1]], "they were not lost"


async def test_nothing_is_polled_of_a_topic_that_has_just_been_given_up(cluster: FakeCluster) -> None:
    put(cluster, 2, 0)
    async with subscribed(cluster) as consumer:
        await until(lambda: len(cluster.broker.waiting) == 4)
        await consumer.unsubscribe(TOPIC)
        assert await bodies(consumer, 0) == []
        await consumer.subscribe(TOPIC)
        assert await bodies(consumer) == [0, 1]


async def test_what_a_rebalance_takes_is_neither_polled_nor_committed(cluster: FakeCluster) -> None:
    for queue_id in range(4):
        put(cluster, 2, queue_id)
    async with subscribed(cluster) as consumer:
        await until(lambda: len(cluster.broker.waiting) == 4)
        (first, *_) = await consumer.poll()
        await consumer.commit(persist=False)
        changes = consumer.assignment_changes()
        await anext(changes)
        cluster.broker.let_join("g", "0.0.0.0@before", "0.0.0.1@before")
        (kept,) = (await anext(changes)).assigned
        polled = [each.queue_id for _ in range(4) for each in await consumer.poll(0)]
        assert set(polled) <= {kept.queue_id}
        cluster.broker.progress[("g", TOPIC, first.queue_id)] = 1  # by its new owner
        await consumer.commit(dict.fromkeys(QUEUES, 2))
    assert {queue_id: offset for (_, _, queue_id), offset in cluster.broker.progress.items()} == {
        first.queue_id: 2 if first.queue_id == kept.queue_id else 1,
        kept.queue_id: 2,
    }


async def test_what_waits_when_the_consumer_ends_says_that_it_does_not_run(cluster: FakeCluster) -> None:
    cluster.broker.be_silent(RequestCode.GET_CONSUMER_LIST_BY_GROUP)

    async def wait(call: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(LocalProtocolError, match="The consumer not running"):
            await call()

    async with trio.open_nursery() as nursery, opened(cluster) as consumer:
        await consumer.subscribe(TOPIC)
        nursery.start_soon(wait, consumer.wait_assigned)
        nursery.start_soon(wait, partial(consumer.poll, math.inf))
        await until(lambda: cluster.broker.asked(RequestCode.GET_CONSUMER_LIST_BY_GROUP))
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 2, "both wait"


async def test_the_queues_of_a_topic_are_watched(cluster: FakeCluster) -> None:
    async with opened(cluster, topic_metadata_check_interval=20) as consumer:
        assert await consumer.fetch_message_queues(TOPIC) == QUEUES
        changes = consumer.queue_changes(TOPIC)
        assert await anext(changes) == QUEUES
        cluster.add_topic(TOPIC, 6)
        assert len(await anext(changes)) == 6


async def test_a_group_that_broadcasts_reads_all_queues_and_keeps_its_progress_in_a_file(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    put(cluster, 2)
    cluster.broker.other_members = ["0.0.0.0@before"]
    broadcasting = {"message_model": MessageModel.BROADCASTING, "local_offset_store_dir": tmp_path}
    async with subscribed(cluster, **broadcasting) as consumer:
        assert consumer.assigned == QUEUES
        assert await bodies(consumer) == [0, 1]
        await consumer.commit()
    put(cluster, 1)
    async with subscribed(cluster, **broadcasting) as consumer:
        assert await consumer.committed(QUEUE) == 2
        assert await bodies(consumer) == [2]
    assert cluster.broker.progress == {}
    assert cluster.broker.heartbeats[0].consumer_data_set[0].message_model == "BROADCASTING"


# ---- seek, pause, limits --------------------------------------------------------------------------------------------


async def test_a_seek_goes_back_and_forth_while_a_pull_waits(cluster: FakeCluster) -> None:
    put(cluster, 5)
    async with assigned(cluster, auto_commit=False) as consumer:
        assert await bodies(consumer) == [0, 1, 2, 3, 4]
        await until(lambda: cluster.broker.waiting)
        await consumer.seek(QUEUE, 3)
        assert await bodies(consumer) == [3, 4]
        await consumer.seek_to_begin(QUEUE)
        await consumer.commit()
        assert progress(cluster) == 0, "a seek is committed like a poll"
        assert await bodies(consumer) == [0, 1, 2, 3, 4]
        await consumer.seek_to_end(QUEUE)
        put(cluster, 1)
        assert await bodies(consumer) == [5]
        await consumer.seek(QUEUE, 6)
        put(cluster, 1)
        assert await bodies(consumer) == [6]


async def test_a_seek_is_forgotten_when_its_queue_comes_again(cluster: FakeCluster) -> None:
    """It was chosen, sought before a rebalance took it, given up, and chosen once more."""
    put(cluster, 5)
    cluster.broker.be_silent(RequestCode.HEART_BEAT)  # so that no rebalance takes a queue meanwhile
    async with assigned(cluster, QUEUES[1]) as consumer:
        await consumer.assign([QUEUE, QUEUES[1]])
        await consumer.seek(QUEUE, 4)
        await consumer.assign([QUEUES[1]])
        await consumer.assign([QUEUE, QUEUES[1]])
        cluster.broker.behave()
        assert await bodies(consumer) == [0, 1, 2, 3, 4]


async def test_a_seek_forgets_what_was_pulled_and_not_polled(cluster: FakeCluster) -> None:
    put(cluster, 40)
    async with assigned(cluster, pull_batch_size=32) as consumer:
        await until(lambda: cluster.broker.waiting)
        await consumer.seek(QUEUE, 39)
        assert await bodies(consumer) == [39]
        assert await bodies(consumer, 0.05) == []


async def test_a_seek_that_cannot_be_meant_is_refused_in_the_words_of_java(cluster: FakeCluster) -> None:
    put(cluster, 3)
    cluster.broker.min_offsets[TOPIC, 0] = 1
    async with subscribed(cluster) as consumer:
        for wrong in (0, 4):
            with pytest.raises(
                ClientError, match=f"Seek offset illegal, seek offset = {wrong}, min offset = 1, max offset = 3"
            ):
                await consumer.seek(QUEUE, wrong)
        foreign = MessageQueue("Other", "broker-a", 0)
        for call in (consumer.seek_to_begin(foreign), consumer.seek_to_end(foreign), consumer.seek(foreign, 0)):
            with pytest.raises(
                ClientError, match=r"is not in assigned list, may be rebalancing, message queue: .*Other"
            ):
                await call


async def test_offsets_are_looked_up_by_end_and_time(cluster: FakeCluster) -> None:
    put(cluster, 3)
    cluster.broker.progress["g", TOPIC, 0] = 2
    async with assigned(cluster) as consumer:
        assert (await consumer.min_offset(QUEUE), await consumer.max_offset(QUEUE)) == (0, 3)
        assert await consumer.offset_for_timestamp(QUEUE, STORE_TIMESTAMP + 1000) == 1
        assert await consumer.committed(QUEUE) == 2
        assert await consumer.committed(QUEUES[1]) is None
        cluster.broker.refuse(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_BUSY, "busy")
        with pytest.raises(BrokerError, match="busy"):
            await consumer.committed(QUEUES[1])


async def test_a_paused_queue_is_not_pulled_until_it_goes_on(cluster: FakeCluster) -> None:
    put(cluster, 1, 1)
    async with assigned(cluster, *QUEUES[:2]) as consumer:
        assert len(await consumer.poll(PATIENCE_SECONDS)) == 1
        await until(lambda: len(cluster.broker.waiting) == 2)
        consumer.pause([QUEUES[1], QUEUES[3]])
        assert consumer.paused == [QUEUES[1]]
        put(cluster, 1, 1)
        assert await bodies(consumer) == [1], "the pull was on its way"
        put(cluster, 1, 1)
        put(cluster, 1, 0)
        assert await bodies(consumer) == [0]
        await until(lambda: len(cluster.broker.waiting) == 1)  # the pull after that
        pulls = [read_header(each, PullMessageRequestHeader) for each in cluster.broker.asked(RequestCode.PULL_MESSAGE)]
        assert [each.queue_id for each in pulls].count(1) == 2, "none since then"
        assert await bodies(consumer, 0) == []
        consumer.resume([QUEUES[1]])
        assert await bodies(consumer) == [2]


@pytest.mark.parametrize(
    ("limit", "pulled"),
    [
        ({"pull_threshold_for_queue": 40}, 64),
        ({"pull_threshold_for_all": 64, "pull_batch_size": 32}, 96),
        ({"consume_max_span": 63}, 96),
    ],
)
async def test_a_program_that_does_not_poll_bounds_what_is_pulled(
    cluster: FakeCluster, limit: dict[str, int], pulled: int
) -> None:
    """A pull is repeated while its queue is not above a limit."""
    put(cluster, 300)
    async with assigned(cluster, **{"pull_batch_size": 32, **limit}) as consumer:
        pulls = cluster.broker.asked
        await until(lambda: len(pulls(RequestCode.PULL_MESSAGE)) * 32 >= pulled)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(pulls(RequestCode.PULL_MESSAGE)) * 32 == pulled
        count = 0
        while count < 300:
            count += len(await consumer.poll(PATIENCE_SECONDS))


@pytest.mark.parametrize(("stored", "lowest", "next_offset"), [(2, 5, 5), (50, 0, 8)])
async def test_a_stored_offset_that_does_not_exist_gives_way_to_one_that_does(
    cluster: FakeCluster, stored: int, lowest: int, next_offset: int
) -> None:
    put(cluster, 8)
    cluster.broker.progress["g", TOPIC, 0] = stored
    cluster.broker.min_offsets[TOPIC, 0] = lowest
    async with assigned(cluster) as consumer:
        await until(lambda: cluster.broker.waiting)
        put(cluster, 1)
        found = await bodies(consumer)
        if len(found) < 9 - next_offset:
            found += await bodies(consumer)
        assert found == list(range(next_offset, 9))


# ---- what is refused ------------------------------------------------------------------------------------------------


async def test_to_subscribe_and_to_be_assigned_queues_exclude_each_other(cluster: FakeCluster) -> None:
    async with subscribed(cluster) as consumer:
        with pytest.raises(ClientError, match=r"Subscribe and assign are mutually exclusive\."):
            await consumer.assign([QUEUE])
    async with assigned(cluster) as consumer:
        with pytest.raises(ClientError, match=r"Subscribe and assign are mutually exclusive\."):
            await consumer.subscribe(TOPIC)


async def test_wrong_texts_are_refused_and_change_nothing(cluster: FakeCluster) -> None:
    async with open_client(cluster.address) as client, client.lite_pull_consumer("g") as consumer:
        with pytest.raises(ClientError, match=r"Topic can not be null or empty\."):
            await consumer.subscribe("")
        with pytest.raises(ClientError, match="subString split error"):
            await consumer.subscribe(TOPIC, "||")
        with pytest.raises(ValueError, match=r"Message queues can not be null or empty\."):
            await consumer.assign([])
        with pytest.raises(ClientError, match="subString split error"):
            await consumer.assign([QUEUE], expressions={TOPIC: "||"})
        with pytest.raises(ClientError, match="is not in assigned list, message queue"):
            await consumer.seek(QUEUE, 0)
        for call in (consumer.wait_assigned, consumer.assignment_changes):
            with pytest.raises(LocalProtocolError, match="expected a call of subscribe or assign before"):
                await call()  # type: ignore[misc]
        await consumer.commit()
        await consumer.unsubscribe(TOPIC)
        assert consumer.assigned == []
        await consumer.subscribe(TOPIC)
        with pytest.raises(ClientError, match="the group can not equal DEFAULT_CONSUMER"):
            async with client.lite_pull_consumer("DEFAULT_CONSUMER"):
                pass
        with pytest.raises(ClientError, match=r"The consumer group\[g\] has been created before"):
            async with client.lite_pull_consumer("g", TOPIC):
                pass
        async with client.lite_pull_consumer("g") as second:
            with pytest.raises(ClientError, match=r"The consumer group\[g\] has been created before"):
                await second.assign([QUEUE])


async def test_after_its_block_every_call_says_that_the_consumer_does_not_run(cluster: FakeCluster) -> None:
    async with subscribed(cluster) as consumer:
        pass
    calls = [
        consumer.poll(),
        consumer.commit(),
        consumer.subscribe(TOPIC),
        consumer.unsubscribe(TOPIC),
        consumer.assign([QUEUE]),
        consumer.seek(QUEUE, 0),
        consumer.seek_to_begin(QUEUE),
        consumer.seek_to_end(QUEUE),
        consumer.committed(QUEUE),
        consumer.wait_assigned(),
        consumer.fetch_message_queues(TOPIC),
        consumer.min_offset(QUEUE),
        consumer.max_offset(QUEUE),
        consumer.offset_for_timestamp(QUEUE, 0),
    ]
    for call in calls:
        with pytest.raises(LocalProtocolError, match="The consumer not running, please start it first"):
            await call
    with pytest.raises(LocalProtocolError):
        consumer.assignment_changes()
    assert [each async for each in consumer] == []


@pytest.mark.parametrize("ends", ["loop", "commit", "never"])
async def test_a_drain_waits_until_the_last_poll_is_finished(cluster: FakeCluster, ends: str) -> None:
    put(cluster, 3)
    async with subscribed(cluster) as consumer:
        assert await bodies(consumer) == [0, 1, 2]
        drained: list[bool] = []

        async def drain() -> None:
            drained.append(await consumer.drain(0.05 if ends == "never" else PATIENCE_SECONDS))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(drain)
            await trio.testing.wait_all_tasks_blocked(0.01)
            if ends == "loop":
                assert [each async for each in consumer] == []
            elif ends == "commit":
                await consumer.commit()
        assert drained == [ends != "never"]
        assert progress(cluster) == (None if ends == "never" else 3)
        with pytest.raises(LocalProtocolError):
            await consumer.poll(0)
        assert await consumer.drain(0) is (ends != "never")
    assert len(cluster.broker.asked(RequestCode.UNREGISTER_CLIENT)) == 1
