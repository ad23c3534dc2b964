"""Our client and Java's in one namespace: they share topics and groups, and neither sees a name with the namespace."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator

import attrs
import pytest
import trio

from rocketpy.client import Client, Message, MessageBatch, reply_to
from tests.interop.clients import ToSend
from tests.interop.cluster import Cluster
from tests.interop.conftest import BROKERS, chosen_cluster
from tests.interop.our_client import FROM_FIRST, PATIENT_PRODUCER, open_our_client, open_our_consumer
from tests.interop.roles import Roles
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.java

NAMESPACE = "tenant"


@pytest.fixture(scope="module", params=BROKERS)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster under test, and then Java's."""
    return chosen_cluster(request)


@pytest.fixture
async def ours(cluster: Cluster) -> AsyncIterator[Client]:
    """A client of ours in the namespace."""
    async with open_our_client(cluster.namesrv, namespace=NAMESPACE) as client:
        yield client


def new_topic(cluster: Cluster, name: str) -> str:
    """Create a topic of the namespace; return its name without it."""
    cluster.create_topic(f"{NAMESPACE}%{name}_{cluster.kind}")
    return f"{name}_{cluster.kind}"


async def test_members_of_one_group_share_its_queues(cluster: Cluster, java: Roles, ours: Client) -> None:
    topic, namesrv = new_topic(cluster, "shared"), cluster.namesrv
    bodies = [b"%d" % number for number in range(16)]
    async with (
        open_our_consumer(ours, "shared_c", topic) as (consumer, collected),
        java.consumer(namesrv, "shared_c", topic, namespace=NAMESPACE) as theirs,
    ):
        with trio.fail_after(PATIENCE_SECONDS):
            while sum(each.topic == topic for each in consumer.assigned) != 2:
                await trio.sleep(0.05)
        queues = [each for each in consumer.assigned if each.topic == topic]
        async with (
            ours.producer("shared_p", config=PATIENT_PRODUCER) as producer,
            java.producer(namesrv, "shared_p", namespace=NAMESPACE) as foreign,
        ):
            for body in bodies[:8]:
                sent = await producer.send(Message(topic, body))
                assert sent.message_queue.topic == topic
            await foreign.send([ToSend(topic=topic, body=each) for each in bodies[8:]])
        with trio.fail_after(PATIENCE_SECONDS):
            while len(collected.messages) + len(theirs.messages()) < len(bodies):
                await trio.sleep(0.05)
    assert sorted([*collected.bodies, *(each.body for each in theirs.messages())]) == sorted(bodies)
    assert {each.topic for each in collected.messages} == {each.topic for each in theirs.messages()} == {topic}
    assert set(collected.queues) <= set(queues)


@pytest.mark.parametrize("consumer", ["ours", "java"])
async def test_what_fails_comes_again_and_is_a_dead_letter_for_both(
    cluster: Cluster, java: Roles, ours: Client, consumer: str
) -> None:
    topic, namesrv, group = new_topic(cluster, f"retry_{consumer}"), cluster.namesrv, f"retry_{consumer}"
    async with ours.producer("retry_p", config=PATIENT_PRODUCER) as producer:
        await producer.send(Message(topic, b"x"))
    if consumer == "ours":
        config = attrs.evolve(FROM_FIRST, max_reconsume_times=1)
        async with open_our_consumer(ours, group, topic, config=config, fails=9) as (_, collected):
            found = [(each.topic, each.reconsume_times) for each in await collected.wait(2)]
            await wait_dead_letter(cluster, group)
    else:
        async with java.consumer(namesrv, group, topic, namespace=NAMESPACE, fails=9, tries=1) as failing:
            found = [(each.topic, each.reconsume_times) for each in await failing.wait_messages(2)]
            await wait_dead_letter(cluster, group)
    assert found == [(topic, 0), (topic, 1)]
    dead_letters = f"%DLQ%{group}"
    async with (
        open_our_consumer(ours, f"{group}_dead", dead_letters) as (_, ours_dead),
        java.consumer(namesrv, f"{group}_java_dead", dead_letters, namespace=NAMESPACE) as javas_dead,
    ):
        (mine,), (theirs,) = await ours_dead.wait(1), await javas_dead.wait_messages(1)
    assert (mine.topic, mine.body) == (theirs.topic, theirs.body) == (dead_letters, b"x")


async def wait_dead_letter(cluster: Cluster, group: str) -> None:
    """Wait until the dead letter queue of a group of the namespace has a route."""
    await trio.to_thread.run_sync(cluster.wait_route, f"%DLQ%{NAMESPACE}%{group}")


async def test_each_answers_the_requests_of_the_other(cluster: Cluster, java: Roles, ours: Client) -> None:
    mine, theirs = new_topic(cluster, "asked_ours"), new_topic(cluster, "asked_java")
    namesrv = cluster.namesrv
    async with (
        java.consumer(namesrv, "java_replies", theirs, namespace=NAMESPACE, replies=True),
        ours.consumer("our_replies", mine, config=FROM_FIRST) as consumer,
        ours.producer("our_requester", config=PATIENT_PRODUCER) as producer,
        java.producer(namesrv, "java_requester", namespace=NAMESPACE) as foreign,
        trio.open_nursery() as nursery,
    ):

        async def answer(batch: MessageBatch) -> None:
            for each in batch:
                await producer.send(reply_to(each, each.body[::-1]))

        await nursery.start(consumer.run, answer)
        reply = await producer.request(Message(theirs, b"hello"), timeout_s=PATIENCE_SECONDS)
        assert (reply.body, reply.topic.endswith("_REPLY_TOPIC"), "%" in reply.topic) == (b"olleh", True, False)
        (line,) = await foreign.request([ToSend(topic=mine, body=b"hello")])
        assert b64decode(str(line["body"])) == b"olleh"
        nursery.cancel_scope.cancel()
