"""Members of one group, or groups of one topic, that are Java's, Go's and ours: queues, locks, offsets, retries."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.client import (
    AdminClient,
    AllocateAveragely,
    AllocateConsistentHash,
    AllocateMessageQueueStrategy,
    Client,
    ConsumeFromWhere,
    Consumer,
    MessageExt,
    MessageModel,
    MessageQueue,
    MessageSelector,
)
from tests.blackbox.wire import Wire
from tests.interop.clients import Received, ToSend
from tests.interop.cluster import Cluster
from tests.interop.conftest import BROKERS, chosen_cluster
from tests.interop.our_client import (
    FROM_FIRST,
    PATIENT_PRODUCER,
    eventually,
    open_our_client,
    open_our_consumer,
    our_message,
    our_received,
)
from tests.interop.roles import ForeignConsumer, Roles
from tests.patience import PATIENCE_MS

pytestmark = [pytest.mark.java, pytest.mark.go]


@pytest.fixture(scope="module", params=BROKERS)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster under test, and then Java's."""
    return chosen_cluster(request)


def numbered(topic: str, count: int, *, first: int = 0, tags: str = "") -> list[ToSend]:
    """Return messages whose body is their number."""
    return [ToSend(topic=topic, body=b"%d" % number, tags=tags, shard=number) for number in range(first, first + count)]


def bodies(*many: Sequence[object]) -> list[bytes]:
    """Return the bodies of messages of whatever client, sorted."""
    return sorted(each.body for messages in many for each in messages)  # type: ignore[attr-defined]


async def send(client: Client, messages: Sequence[ToSend]) -> None:
    """Send with our producer, one after the other and each to the queue that its shard names.

    Java's broker has several threads for sends, so that of several on the way any may be the first to be stored.
    """
    async with client.producer(config=PATIENT_PRODUCER) as producer:
        queues = sorted(await producer.publish_queues(messages[0].topic))
        for each in messages:
            await producer.send(our_message(each), queue=queues[each.shard % len(queues)])


# ---- who has which queue ---------------------------------------------------------------------------------------------


@attrs.define
class Shares:
    """The queues of a topic that each member of a group has, by what it tells the broker of itself."""

    admin: AdminClient
    group: str
    topic: str
    strategy: AllocateMessageQueueStrategy
    queues: int

    async def wait(self, members: int) -> dict[str, set[int]]:
        """Return the shares, by client id, once there are so many members and each has what our strategy gives it."""
        found: dict[str, set[int]] = {}

        async def is_settled() -> bool:
            nonlocal found
            connection = await self.admin.clients.consumers(self.group)
            found = {each.client_id: await self._share(each.client_id) for each in connection.connection_set}
            return len(found) == members and found == self._expected(sorted(found))

        try:
            await eventually(is_settled, "each member has its share")
        except AssertionError as error:
            error.add_note(f"found {found}, expected {self._expected(sorted(found))}")
            raise
        return found

    async def _share(self, client_id: str) -> set[int]:
        running = await self.admin.clients.running_info(self.group, client_id)
        return {queue.queue_id for queue in running.mq_table if queue.topic == self.topic}

    def _expected(self, client_ids: list[str]) -> dict[str, set[int]]:
        queues = [MessageQueue(self.topic, "broker-0", queue_id) for queue_id in range(self.queues)]
        return {
            each: {queue.queue_id for queue in self.strategy.allocate(self.group, each, queues, client_ids)}
            for each in client_ids
        }


@pytest.mark.parametrize(
    ("name", "strategy", "has_go"),
    [
        ("AVG", AllocateAveragely(), True),
        # Go's ring is made of CRC-32 sums, Java's and ours of MD5: they cannot be members of one such group.
        ("CONSISTENT_HASH", AllocateConsistentHash(), False),
    ],
    ids=["AVG", "CONSISTENT_HASH"],
)
async def test_members_of_three_clients_divide_the_queues_of_a_group(
    cluster: Cluster,
    java: Roles,
    go: Roles,
    ours: Client,
    name: str,
    strategy: AllocateMessageQueueStrategy,
    has_go: bool,
) -> None:
    topic, group = cluster.create_topic(f"shared_{name}", queues=12), f"shared_{name}_group"
    config = attrs.evolve(FROM_FIRST, allocate_message_queue_strategy=strategy)
    others = [java, go] if has_go else [java, java]
    shares = Shares(ours.admin(), group, topic, strategy, queues=12)
    async with AsyncExitStack() as stack:
        members: list[ForeignConsumer] = []
        async with open_our_consumer(ours, group, topic, config=config) as (consumer, collected):
            for each in others:
                member = each.consumer(cluster.namesrv, group, topic, strategy=name)
                members.append(await stack.enter_async_context(member))
            divided = await shares.wait(members=3)
            owned = Counter(queue_id for share in divided.values() for queue_id in share)
            assert owned == dict.fromkeys(range(12), 1)
            assert divided[ours.client_id] == {each.queue_id for each in consumer.assigned if each.topic == topic}
            await send(ours, numbered(topic, 48))
            await collected.wait(4 * len(divided[ours.client_id]))
            for member in members:
                mine = next(share for client_id, share in divided.items() if client_id.endswith(f"@{member.name}"))
                found = await member.wait_messages(4 * len(mine))
                assert {each.queue_id for each in found} == mine
            assert bodies(collected.messages, *(each.messages() for each in members)) == bodies(numbered(topic, 48))
            if cluster.kind == "java":
                await wait_stored(ours, group, topic, 4)
        await shares.wait(members=2)
        await send(ours, numbered(topic, 24, first=48))

        async def is_everything_there() -> bool:
            return set(bodies(collected.messages, *(each.messages() for each in members))) == set(
                bodies(numbered(topic, 72))
            )

        await eventually(is_everything_there, "each message is there")
    # Java's and Go's members hand a queue over while its progress is still on the way; ours waits for the answer first.
    seen = Counter((each.queue_id, each.queue_offset) for each in members[0].messages() + members[1].messages())
    mine = {(each.queue_id, each.queue_offset) for each in collected.messages}
    assert seen.keys().isdisjoint(mine)
    assert len(mine) == len(collected.messages)
    assert seen.keys() | mine == {(queue_id, offset) for queue_id in range(12) for offset in range(6)}


LOCK_MAX_LIVE, LOCK_MAX_LIVE_MS = "rocketmq.broker.rebalance.lockMaxLiveTime", 30_000

# ---- order -----------------------------------------------------------------------------------------------------------


@contextmanager
def no_lock_expires(cluster: Cluster) -> Iterator[None]:
    """Have the block wait for a lock that was not given back, until it fails: it would expire soon."""
    if cluster.kind == "java":  # that time is no setting of Java's broker
        begun = trio.current_time()
        yield
        assert trio.current_time() - begun < 2 * LOCK_MAX_LIVE_MS / 1000 - 5
        return
    (address,) = cluster.brokers.values()
    with Wire(address) as wire:
        wire.update_config(**{LOCK_MAX_LIVE: 4 * PATIENCE_MS})
        try:
            yield
        finally:
            wire.update_config(**{LOCK_MAX_LIVE: LOCK_MAX_LIVE_MS})


async def test_orderly_members_of_java_and_ours_keep_the_order_of_each_queue_through_a_handover(
    cluster: Cluster, java: Roles, ours: Client
) -> None:
    """Both lock their queues at the broker; a queue goes on with its next message when its owner has left."""
    topic, group = cluster.create_topic("ordered", queues=4), "ordered_group"
    shares = Shares(ours.admin(), group, topic, AllocateAveragely(), queues=4)
    async with open_our_consumer(ours, group, topic, orderly=True) as (_, collected):
        async with java.consumer(cluster.namesrv, group, topic, listener="orderly") as member:
            with no_lock_expires(cluster):
                await shares.wait(members=2)
            await send(ours, numbered(topic, 80))
            await collected.wait(40)
            theirs = await member.wait_messages(40)
        with no_lock_expires(cluster):
            await shares.wait(members=1)
        async with java.producer(cluster.namesrv, "orderly_java") as producer:
            await producer.send(numbered(topic, 40, first=80), "hash")
        await collected.wait(80)
        async with java.consumer(cluster.namesrv, group, topic, listener="orderly") as again:
            await shares.wait(members=2)
            await send(ours, numbered(topic, 40, first=120))
            theirs += await again.wait_messages(20)
            mine = await collected.wait(100)
    assert bodies(mine, theirs) == bodies(numbered(topic, 160))
    for messages in (mine, theirs):
        along = along_queues(messages)
        assert len(along) >= 2
        assert all(numbers == sorted(numbers) for numbers in along.values())


def along_queues(messages: Sequence[MessageExt | Received]) -> dict[int, list[int]]:
    """Return the numbers of messages by queue, in the order in which a client was given them."""
    along: dict[int, list[int]] = defaultdict(list)
    for each in messages:
        along[each.queue_id].append(int(each.body))
    return along


async def test_an_orderly_member_of_go_goes_on_where_ours_stopped_and_ours_where_go_s_stopped(
    cluster: Cluster, go: Roles, ours: Client
) -> None:
    """Each gives up its locks when it leaves.

    Go's does not unlock a queue that a rebalance takes from it; the lock expires at the broker after a minute. So no
    test has members of both at the same time.
    """
    topic, group = cluster.create_topic("ordered_go", queues=4), "ordered_go_group"
    found: list[list[MessageExt] | list[Received]] = []
    for turn in range(3):
        if turn == 2:
            async with go.producer(cluster.namesrv, "orderly_go") as producer:
                await producer.send(numbered(topic, 40, first=40 * turn), "orderly")
        else:
            await send(ours, numbered(topic, 40, first=40 * turn))
        with no_lock_expires(cluster):
            if turn == 1:
                async with go.consumer(cluster.namesrv, group, topic, listener="orderly") as member:
                    found.append(await member.wait_messages(40))
            else:
                async with open_our_consumer(ours, group, topic, orderly=True) as (_, collected):
                    found.append(await collected.wait(40))
                    await wait_stored(ours, group, topic, 10 * (turn + 1))
    for turn, messages in enumerate(found):
        assert along_queues(messages) == {
            queue_id: list(range(40 * turn + queue_id, 40 * turn + 40, 4)) for queue_id in range(4)
        }


# ---- who gets which message ------------------------------------------------------------------------------------------


async def test_every_broadcast_member_of_three_clients_sees_everything(
    cluster: Cluster, java: Roles, go: Roles, ours: Client, tmp_path: Path
) -> None:
    topic, group = cluster.create_topic("broadcast"), "broadcast_group"
    config = attrs.evolve(FROM_FIRST, message_model=MessageModel.BROADCASTING, local_offset_store_dir=tmp_path)
    async with (
        java.consumer(cluster.namesrv, group, topic, model="BROADCASTING") as of_java,
        go.consumer(cluster.namesrv, group, topic, model="BROADCASTING") as of_go,
        open_our_consumer(ours, group, topic, config=config) as (_, collected),
        java.producer(cluster.namesrv, "broadcaster_java") as java_producer,
        go.producer(cluster.namesrv, "broadcaster_go") as go_producer,
    ):
        await send(ours, numbered(topic, 20))
        await java_producer.send(numbered(topic, 20, first=20))
        await go_producer.send(numbered(topic, 20, first=40))
        for found in (await of_java.wait_messages(60), await of_go.wait_messages(60), await collected.wait(60)):
            assert bodies(found) == bodies(numbered(topic, 60))


FILTERS = {
    "tags": ({"expression": "A || C"}, "A || C", [number for number in range(30) if number % 3 != 1]),
    "sql": (
        {"sql": "number > 9 AND (colour = 'rot' OR TAGS = 'B')"},
        MessageSelector.by_sql("number > 9 AND (colour = 'rot' OR TAGS = 'B')"),
        [number for number in range(30) if number > 9 and (number % 2 or number % 3 == 1)],
    ),
}


@pytest.mark.parametrize("kind", FILTERS)
async def test_a_filter_means_the_same_to_each_client(
    cluster: Cluster, java: Roles, go: Roles, ours: Client, kind: str
) -> None:
    """Ours, Java's and Go's consumers want the same of what ours, Java's and Go's producers send."""
    topic = cluster.create_topic(f"filtered_{kind}")
    foreign, selector, wanted = FILTERS[kind]
    asked = [
        ToSend(
            topic=topic,
            body=b"%d" % number,
            tags="ABC"[number % 3],
            properties={"number": str(number), "colour": "rot" if number % 2 else "blau"},
        )
        for number in range(30)
    ]
    async with (
        java.consumer(cluster.namesrv, f"{topic}_java", topic, **foreign) as of_java,
        go.consumer(cluster.namesrv, f"{topic}_go", topic, **foreign) as of_go,
        open_our_consumer(ours, f"{topic}_ours", topic, selector) as (_, collected),
        java.producer(cluster.namesrv, f"{topic}_java") as java_producer,
        go.producer(cluster.namesrv, f"{topic}_go") as go_producer,
    ):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(java_producer.send, asked)
            nursery.start_soon(go_producer.send, asked)
            nursery.start_soon(send, ours, asked)
        expected = sorted(b"%d" % number for number in wanted * 3)
        for found in (
            await of_java.wait_messages(len(expected)),
            await of_go.wait_messages(len(expected)),
            await collected.wait(len(expected)),
        ):
            assert bodies(found) == expected


async def test_a_new_group_begins_where_java_s_begins(cluster: Cluster, java: Roles, ours: Client) -> None:
    """The topic is so young that its beginning is in memory: a broker then gives new groups offset 0 for progress."""
    topic, policy = cluster.create_topic("begun"), ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    await send(ours, numbered(topic, 12))
    await eventually(lambda: _has_in_each_queue(ours, topic, 3), "all are in the queues, where pulls find them")
    config = attrs.evolve(FROM_FIRST, consume_from_where=policy, consume_message_batch_max_size=16)
    async with (
        java.consumer(cluster.namesrv, f"{topic}_java", topic, **{"from": policy.value}) as of_java,
        open_our_consumer(ours, f"{topic}_ours", topic, config=config) as (_, collected),
    ):
        assert (
            bodies(await collected.wait(12)) == bodies(await of_java.wait_messages(12)) == bodies(numbered(topic, 12))
        )
    assert max(collected.sizes) == 3, "all of a queue in one batch"


async def _has_in_each_queue(client: Client, topic: str, count: int) -> bool:
    """Return whether each queue has that number of messages: Java's broker acknowledges before they are in a queue."""
    stats = await client.admin().topics.stats(topic)
    return {each.max_offset for each in stats.offset_table.values()} == {count}


async def test_topics_come_and_go_while_a_consumer_runs(cluster: Cluster, java: Roles, ours: Client) -> None:
    first, second = cluster.create_topic("come_first"), cluster.create_topic("come_second")
    async with (
        open_our_consumer(ours, "come_and_go", first) as (consumer, collected),
        java.producer(cluster.namesrv, "come_and_go") as producer,
    ):
        await producer.send(numbered(first, 4))
        await collected.wait(4)
        consumer.subscribe(second)
        await producer.send(numbered(second, 4, first=4))
        await producer.send(numbered(first, 4, first=8))
        await collected.wait(12)
        consumer.unsubscribe(first)
        await eventually(lambda: _is_left(consumer, first), "the first topic is left")
        await producer.send(numbered(first, 4, first=90))
        await producer.send(numbered(second, 4, first=12))
        await collected.wait(16)
    assert sorted(int(each.body) for each in collected.messages) == list(range(16))


async def _is_left(consumer: Consumer, topic: str) -> bool:
    return all(queue.topic != topic for queue in consumer.assigned)


async def test_what_is_sent_over_the_vip_channel_arrives(cluster: Cluster, java: Roles) -> None:
    """It is the second port of a broker, which takes no pulls."""
    topic = cluster.create_topic("vip")
    async with (
        java.consumer(cluster.namesrv, "vip_java", topic) as taking,
        open_our_client(cluster.namesrv, vip_channel_enabled=True) as client,
    ):
        await send(client, numbered(topic, 4))
        assert bodies(await taking.wait_messages(4)) == bodies(numbered(topic, 4))


# ---- failures --------------------------------------------------------------------------------------------------------


async def test_a_message_that_failed_comes_again_with_the_properties_that_java_gives_it(
    cluster: Cluster, java: Roles, ours: Client
) -> None:
    topic = cluster.create_topic("failing")
    async with (
        java.consumer(cluster.namesrv, "failing_java", topic, fails=2) as of_java,
        open_our_consumer(ours, "failing_ours", topic, fails=2) as (_, collected),
        java.producer(cluster.namesrv, "failing") as producer,
    ):
        sent = await producer.send([ToSend(topic=topic, body=b"again", tags="kept", keys="k")])
        theirs, mine = await of_java.wait_messages(3), await collected.wait(3)
    assert [each.reconsume_times for each in mine] == [each.reconsume_times for each in theirs] == [0, 1, 2]
    assert [queue.topic for queue in collected.queues] == [topic, *["%RETRY%failing_ours"] * 2]
    for one, other in zip(mine, theirs, strict=True):
        assert (one.topic, one.tags, one.body) == (other.topic, other.tags, other.body) == (topic, "kept", b"again")
        for name in ("ORIGIN_MESSAGE_ID", "RETRY_TOPIC", "UNIQ_KEY", "KEYS"):
            assert one.properties.get(name) == other.properties.get(name)
        retry_topics = (one.properties.get("REAL_TOPIC"), other.properties.get("REAL_TOPIC"))
        is_retry = one.reconsume_times > 0
        assert retry_topics == (("%RETRY%failing_ours", "%RETRY%failing_java") if is_retry else (None, None))
    assert mine[2].properties["ORIGIN_MESSAGE_ID"] == sent[0].offset_msg_id


async def test_what_a_member_gave_back_another_client_s_member_gets(
    cluster: Cluster, java: Roles, go: Roles, ours: Client
) -> None:
    topic = cluster.create_topic("given_back")

    async def from_ours(others: Roles, group: str) -> None:
        async with open_our_consumer(ours, group, topic, fails=99) as (_, collected):
            await collected.wait(1)
            await eventually(lambda: _retries(ours, group), "the message is given back")
        async with others.consumer(cluster.namesrv, group, topic) as member:
            message = (await member.wait_messages(1))[0]
        assert (message.topic, message.body) == (topic, b"hot")
        assert message.reconsume_times >= 1

    async def to_ours(others: Roles, group: str) -> None:
        async with others.consumer(cluster.namesrv, group, topic, fails=99) as member:
            await member.wait_messages(1)
            await eventually(lambda: _retries(ours, group), "the message is given back")
        async with open_our_consumer(ours, group, topic) as (_, collected):
            message = (await collected.wait(1))[-1]
        assert (message.topic, message.body) == (topic, b"hot")
        assert message.reconsume_times >= 1

    await send(ours, [ToSend(topic=topic, body=b"hot")])
    async with trio.open_nursery() as nursery:
        for others in (java, go):
            nursery.start_soon(from_ours, others, f"given_back_to_{others.language}")
            nursery.start_soon(to_ours, others, f"given_back_by_{others.language}")


async def _retries(client: Client, group: str) -> bool:
    """Return whether there has been a message in a group's retry topic."""
    stats = await client.admin().topics.stats(f"%RETRY%{group}")
    return any(each.max_offset for each in stats.offset_table.values())


async def test_a_dead_letter_of_each_client_is_read_by_the_others(
    cluster: Cluster, java: Roles, go: Roles, ours: Client
) -> None:
    topic = cluster.create_topic("deadly")
    cluster.create_topic("%RETRY%deadly_go", queues=1)  # Go sees a topic that is made after its start 20 seconds later
    config = attrs.evolve(FROM_FIRST, max_reconsume_times=1)
    async with (
        java.consumer(cluster.namesrv, "deadly_java", topic, fails=99, tries=1) as of_java,
        go.consumer(cluster.namesrv, "deadly_go", topic, fails=99, tries=1) as of_go,
        open_our_consumer(ours, "deadly_ours", topic, config=config, fails=99) as (_, collected),
    ):
        await send(ours, [ToSend(topic=topic, body=b"never good", keys="k")])
        assert [each.reconsume_times for each in await collected.wait(2)] == [0, 1]
        for member in (of_java, of_go):
            assert [each.reconsume_times for each in await member.wait_messages(2)] == [0, 1]

        async def read(owner: str, others: Roles | None) -> None:
            reader = others.language if others else "ours"
            letters = f"%DLQ%deadly_{owner}"
            await trio.to_thread.run_sync(cluster.wait_route, letters, abandon_on_cancel=True)
            if others is None:
                async with open_our_consumer(ours, f"{reader}_reads_{owner}", letters) as (_, found):
                    letter = our_received((await found.wait(1))[0])
            else:
                async with others.consumer(cluster.namesrv, f"{reader}_reads_{owner}", letters) as taking:
                    (letter,) = await taking.wait_messages(1)
            assert (letter.body, letter.keys, letter.reconsume_times) == (b"never good", "k", 2)
            assert letter.properties["RETRY_TOPIC"] == topic

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, "java", None)
            nursery.start_soon(read, "go", None)
            nursery.start_soon(read, "ours", java)
            nursery.start_soon(read, "ours", go)


# ---- offsets ---------------------------------------------------------------------------------------------------------


async def test_a_group_goes_on_where_another_client_s_member_stopped(
    cluster: Cluster, java: Roles, go: Roles, ours: Client
) -> None:
    topic, group = cluster.create_topic("handed_over"), "handed_over_group"
    for turn, others in enumerate((java, None, go, None, java)):
        asked = numbered(topic, 20, first=20 * turn)
        if others is None:
            async with open_our_consumer(ours, group, topic) as (_, collected):
                await send(ours, asked)
                found = bodies(await collected.wait(20))
                await wait_stored(ours, group, topic, 5 * (turn + 1))
        else:
            async with others.consumer(cluster.namesrv, group, topic) as member:
                await send(ours, asked)
                found = bodies(await member.wait_messages(20))
                if others is go:  # it does not wait for its threads when it leaves
                    await wait_stored(ours, group, topic, 5 * (turn + 1))
            await wait_stored(ours, group, topic, 5 * (turn + 1))
        assert found == bodies(asked)
    assert await _is_at(ours, group, topic, 25)


async def wait_stored(client: Client, group: str, topic: str, consumer_offset: int) -> None:
    """Wait until a group's progress is this in each queue.

    To leave at once is not enough with Java's broker: its threads may lose some of a group's first offsets that come
    together, and may store the offset of an earlier pull last.
    """
    await eventually(lambda: _is_at(client, group, topic, consumer_offset), "the offsets are stored")


async def _is_at(client: Client, group: str, topic: str, consumer_offset: int) -> bool:
    """Return whether a group's progress is this in each queue."""
    progress = await client.admin().offsets.progress(group, topic)
    return {each.consumer_offset for each in progress.offset_table.values()} == {consumer_offset}
