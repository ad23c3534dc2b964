"""Pulling queue by queue, offsets, and the stream over a topic against a broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.client.client import open_pull_consumer
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.config import PullConfig
from rocketpy.client.consumer.message_selector import MessageSelector
from rocketpy.client.consumer.pull_consumer import PullConsumer
from rocketpy.client.results import PullStatus
from rocketpy.errors import BrokerError, ClientError, RemotingError, RemotingTimeoutError
from rocketpy.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.pull import PullMessageRequestHeader
from rocketpy.protocol.java_hash import java_hash
from rocketpy.protocol.message import MessageQueue
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import STORE_TIMESTAMP, FakeCluster
from tests.patience import until_blocked

QUEUE = MessageQueue(TOPIC, "broker-a", 0)
SOON = ClientConfig(mq_client_api_timeout=100, poll_name_server_interval=3_600_000)
SOON_PULLED = PullConfig(consumer_pull_timeout=100)
"""For brokers that do not answer, and a clock that stands still; routes are looked up only on request."""
SOON_SECONDS = 0.1


@pytest.fixture
async def consumer(cluster: FakeCluster) -> AsyncIterator[PullConsumer]:
    async with open_pull_consumer(cluster.address, group="g") as opened:
        yield opened


async def test_a_pull_says_what_is_there_and_where_to_go_on(cluster: FakeCluster, consumer: PullConsumer) -> None:
    for number in range(40):
        cluster.broker.put(TOPIC, 0, b"%d" % number)
    found = await consumer.pull(QUEUE, 5)
    assert found.status is PullStatus.FOUND
    assert [each.body for each in found.messages] == [b"%d" % number for number in range(5, 37)]
    assert {each.broker_name for each in found.messages} == {"broker-a"}
    assert (found.next_begin_offset, found.min_offset, found.max_offset) == (37, 0, 40)
    nothing = await consumer.pull(QUEUE, 40)
    assert (nothing.status, nothing.messages, nothing.next_begin_offset) == (PullStatus.NO_NEW_MSG, (), 40)
    beyond = await consumer.pull(QUEUE, 99)
    assert (beyond.status, beyond.next_begin_offset) == (PullStatus.OFFSET_ILLEGAL, 40)
    header = read_header(cluster.broker.asked(RequestCode.PULL_MESSAGE)[0], PullMessageRequestHeader)
    assert (header.consumer_group, header.max_msg_nums, header.sys_flag, header.subscription) == ("g", 32, 4, "*")
    assert (header.expression_type, header.sub_version, header.broker_name) == ("TAG", 0, "broker-a")


async def test_patience_is_the_suspension_and_what_remains_of_the_timeout(cluster: FakeCluster) -> None:
    cluster.broker.be_silent(RequestCode.PULL_MESSAGE)
    begun = trio.current_time()
    config = PullConfig(consumer_pull_timeout=50)
    async with open_pull_consumer(cluster.address, group="g", consumer=config) as consumer:
        with pytest.raises(RemotingTimeoutError, match="request code 11"):
            await consumer.pull(QUEUE, 0, suspend_ms=100)
    assert 0.15 <= trio.current_time() - begun < 20, "the suspension that the time-out includes is not waited for"


async def test_tags_with_the_same_hash_are_distinguished(cluster: FakeCluster, consumer: PullConsumer) -> None:
    assert java_hash("Aa") == java_hash("BB")
    cluster.broker.put(TOPIC, 0, b"wanted", {"TAGS": "Aa"})
    cluster.broker.put(TOPIC, 0, b"same hash", {"TAGS": "BB"})
    cluster.broker.put(TOPIC, 0, b"other", {"TAGS": "other"})
    cluster.broker.put(TOPIC, 0, b"untagged")
    found = await consumer.pull(QUEUE, 0, expression="Aa || C")
    assert [each.body for each in found.messages] == [b"wanted"]
    assert found.next_begin_offset == 4
    unmatched = await consumer.pull(QUEUE, 2, expression="C")
    assert (unmatched.status, unmatched.next_begin_offset) == (PullStatus.NO_MATCHED_MSG, 4)
    with pytest.raises(ValueError, match="subString split error"):
        await consumer.pull(QUEUE, 0, expression="||")


@pytest.mark.parametrize("code", [ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION])
async def test_a_refusal_is_a_broker_error(cluster: FakeCluster, code: ResponseCode, consumer: PullConsumer) -> None:
    cluster.broker.refuse(RequestCode.PULL_MESSAGE, code, "no such thing")
    with pytest.raises(BrokerError, match="no such thing") as caught:
        await consumer.pull(QUEUE, 0)
    assert caught.value.response_code == code


def pair(cluster: FakeCluster, **addresses: str) -> TopicRouteData:
    """Return the route of a topic with one queue, on the brokers of one name."""
    ids = {"master": 0, "slave": 1}
    broker = BrokerData("cluster", "broker-a", {ids[role]: address for role, address in addresses.items()})
    return TopicRouteData(queue_datas=[QueueData("broker-a", 1, 1, 6)], broker_datas=[broker])


async def test_without_a_master_a_slave_is_pulled_from_and_keeps_the_progress(
    two_brokers: FakeCluster, mock_clock: MockClock
) -> None:
    """Also if it suggests the master, as every slave does; and the master again when that is back."""
    master, slave = two_brokers.brokers
    routes = two_brokers.name_server.routes
    both = pair(two_brokers, master=master.address, slave=slave.address)
    routes[TOPIC] = both
    for broker in (master, slave):
        broker.put(TOPIC, 0, b"0")
    async with open_pull_consumer(two_brokers.address, group="g", config=SOON, consumer=SOON_PULLED) as consumer:
        await consumer.pull(QUEUE, 0)
        await consumer.commit(QUEUE, 1)
        routes[TOPIC] = pair(two_brokers, slave=slave.address)
        for code in (RequestCode.PULL_MESSAGE, RequestCode.UPDATE_CONSUMER_OFFSET):
            master.be_silent(code)
        await until_moved(consumer, mock_clock)
        assert [(await consumer.pull(QUEUE, 0)).status for _ in range(3)] == [PullStatus.FOUND] * 3
        await consumer.commit(QUEUE, 7)
        assert await consumer.consumer_offset(QUEUE) == 7
        with pytest.raises(ClientError, match="not exist"):
            await consumer.max_offset(QUEUE)
        routes[TOPIC] = both
        master.behave()
        await consumer.queues(TOPIC)
        await consumer.pull(QUEUE, 0)
        await consumer.commit(QUEUE, 8)
    assert slave.progress[("g", TOPIC, 0)] == 7
    assert master.progress[("g", TOPIC, 0)] == 8
    assert len(slave.asked(RequestCode.PULL_MESSAGE)) >= 3


async def test_a_slave_that_does_not_answer_is_left_for_the_master(
    two_brokers: FakeCluster, mock_clock: MockClock
) -> None:
    master, slave = two_brokers.brokers
    two_brokers.name_server.routes[TOPIC] = pair(two_brokers, master=master.address, slave=slave.address)
    for broker in (master, slave):
        broker.put(TOPIC, 0, b"0")
    slave.be_silent(RequestCode.PULL_MESSAGE)
    async with open_pull_consumer(two_brokers.address, group="g", config=SOON, consumer=SOON_PULLED) as consumer:
        master.suggested_broker_id = 1
        await consumer.pull(QUEUE, 0)

        async def time_out() -> None:
            with pytest.raises(RemotingTimeoutError):
                await consumer.pull(QUEUE, 0)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(time_out)
            await until_blocked(lambda: slave.asked(RequestCode.PULL_MESSAGE))
            mock_clock.jump(SOON_SECONDS)
        assert (await consumer.pull(QUEUE, 0)).status is PullStatus.FOUND
    assert len(master.asked(RequestCode.PULL_MESSAGE)) == 2


async def test_progress_is_asked_of_the_known_slave_if_no_nameserver_answers(
    two_brokers: FakeCluster, mock_clock: MockClock
) -> None:
    _, slave = two_brokers.brokers
    two_brokers.name_server.routes[TOPIC] = pair(two_brokers, slave=slave.address)
    async with open_pull_consumer(two_brokers.address, group="g", config=SOON, consumer=SOON_PULLED) as consumer:
        await consumer.queues(TOPIC)
        two_brokers.name_server.refuse(RequestCode.GET_ROUTEINFO_BY_TOPIC, ResponseCode.SYSTEM_ERROR)
        await consumer.commit(QUEUE, 3)
    assert slave.progress[("g", TOPIC, 0)] == 3


async def until_moved(consumer: PullConsumer, clock: MockClock) -> None:
    """Commit until the master, which no longer answers, has left the client's route; time passes only meanwhile."""
    moved = trio.Event()

    async def commit() -> None:
        while not moved.is_set():
            try:
                await consumer.commit(QUEUE, 2)
            except RemotingError:
                await trio.sleep(SOON_SECONDS)
            else:
                moved.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(commit)
        while not moved.is_set():
            await trio.testing.wait_all_tasks_blocked(0.01)
            clock.jump(SOON_SECONDS)


async def test_an_sql_filter_is_the_brokers_and_has_its_version(cluster: FakeCluster, consumer: PullConsumer) -> None:
    for expression in ("a > 5", "a > 5", "a > 6"):
        await consumer.pull(QUEUE, 0, expression=MessageSelector.by_sql(expression))
    await consumer.pull(QUEUE, 0, expression=MessageSelector.by_tag("A"))
    with pytest.raises(ClientError, match="expression is empty"):
        await consumer.pull(QUEUE, 0, expression=MessageSelector.by_sql(" "))
    pulls = [read_header(each, PullMessageRequestHeader) for each in cluster.broker.asked(RequestCode.PULL_MESSAGE)]
    assert [(each.expression_type, each.subscription) for each in pulls] == [
        ("SQL92", "a > 5"),
        ("SQL92", "a > 5"),
        ("SQL92", "a > 6"),
        ("TAG", "A"),
    ]
    assert 0 < pulls[0].sub_version == pulls[1].sub_version <= pulls[2].sub_version
    assert pulls[3].sub_version == 0


@pytest.mark.parametrize("group", [None, "other"])
async def test_a_message_is_given_back_for_the_consumers_group_or_another(
    cluster: FakeCluster, group: str | None, consumer: PullConsumer
) -> None:
    stored = cluster.broker.put(TOPIC, 0, b"failed")
    (message,) = (await consumer.pull(QUEUE, 0)).messages
    assert await consumer.send_message_back(message, 4, group=group)
    cluster.broker.refuse(RequestCode.CONSUMER_SEND_MSG_BACK, ResponseCode.SYSTEM_ERROR)
    cluster.broker.refuse(RequestCode.SEND_MESSAGE_V2, ResponseCode.SYSTEM_ERROR)
    assert not await consumer.send_message_back(message, group=group)
    (header,) = cluster.broker.sent_back
    assert (header.offset, header.group, header.delay_level) == (stored.physical_offset, group or "g", 4)
    assert header.max_reconsume_times == 16


# ---- offsets -------------------------------------------------------------------------------------------------------


async def test_offsets_of_a_queue(cluster: FakeCluster, consumer: PullConsumer) -> None:
    for number in range(10):
        cluster.broker.put(TOPIC, 0, b"%d" % number)
    cluster.broker.min_offsets[TOPIC, 0] = 2
    assert await consumer.min_offset(QUEUE) == 2
    assert await consumer.max_offset(QUEUE) == 10
    assert await consumer.search_offset(QUEUE, STORE_TIMESTAMP + 4100) == 4
    assert await consumer.consumer_offset(QUEUE) is None
    await consumer.commit(QUEUE, 7)
    assert await consumer.consumer_offset(QUEUE) == 7
    assert cluster.broker.progress == {("g", TOPIC, 0): 7}


async def test_other_refusals_of_progress_are_errors(cluster: FakeCluster, consumer: PullConsumer) -> None:
    cluster.broker.refuse(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR, "broken")
    with pytest.raises(BrokerError, match="broken"):
        await consumer.consumer_offset(QUEUE)


async def test_reading_goes_on_where_the_group_stopped(cluster: FakeCluster, consumer: PullConsumer) -> None:
    cluster.broker.progress["g", TOPIC, 0] = 5
    assert await consumer.start_offset(QUEUE, "stored") == 5
    with pytest.raises(ValueError, match="'middle', expected"):
        await consumer.start_offset(QUEUE, "middle")


# ---- the stream ----------------------------------------------------------------------------------------------------


async def drain(consumer: PullConsumer, **options: object) -> list[bytes]:
    async with consumer.open_messages(TOPIC, until_end=True, **options) as messages:  # type: ignore[arg-type]
        found = [message.body async for message in messages]
        await messages.commit()
    return found


async def test_a_topic_is_read_to_its_end_and_progress_recorded(two_brokers: FakeCluster) -> None:
    first, second = two_brokers.brokers
    for number in range(100):
        broker = (first, second)[number % 2]
        broker.put(TOPIC, number // 2 % 2, b"%d" % number)
    async with open_pull_consumer(two_brokers.address, group="g") as consumer:
        found = await drain(consumer)
        assert sorted(map(int, found)) == list(range(100))
        assert await drain(consumer) == [], "stored is where it begins"
        first.put(TOPIC, 0, b"later")
        assert await drain(consumer) == [b"later"]
        assert len(await drain(consumer, start="beginning")) == 101
    assert first.progress == {("g", TOPIC, 0): 26, ("g", TOPIC, 1): 25}


async def test_tags_are_chosen(cluster: FakeCluster, consumer: PullConsumer) -> None:
    cluster.broker.put(TOPIC, 0, b"a", {"TAGS": "A"})
    cluster.broker.put(TOPIC, 0, b"b", {"TAGS": "B"})
    assert await drain(consumer, expression="B") == [b"b"]
    assert await drain(consumer, expression="B || A", start="beginning") == [b"a", b"b"]
    announced = [each.consumer_data_set[0] for each in cluster.broker.heartbeats]
    assert {each.consume_type for each in announced} == {"CONSUME_ACTIVELY"}
    assert announced[-1].subscription_data_set[0].tags_set == ["B", "A"]


async def test_invalid_arguments_are_refused_before_any_request(cluster: FakeCluster, consumer: PullConsumer) -> None:
    with pytest.raises(ValueError, match="start is 'middle', expected 'beginning', 'end'"):
        await drain(consumer, start="middle")
    with pytest.raises(ValueError, match="split error"):
        await drain(consumer, expression="||")
    with pytest.raises(ValueError, match="consumer_offset is -1, expected at least 0"):
        await consumer.commit(MessageQueue(TOPIC, "broker-a", 0), -1)
    with pytest.raises(ClientError, match="subscription of b'T': expected the name of a topic"):
        await consumer.pull(MessageQueue(b"T", "broker-a", 0), 0)  # type: ignore[arg-type]
    with pytest.raises(ClientError, match=r"10005.*Nowhere"):
        async with consumer.open_messages("Nowhere"):
            raise AssertionError("entered")
    with pytest.raises(ClientError, match="group"):
        async with open_pull_consumer(cluster.address, group="not legal"):
            raise AssertionError("entered")
    assert cluster.broker.requests == []
