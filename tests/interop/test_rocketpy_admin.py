"""Every call of rocketpy's admin client against the Java nameserver and broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import attrs
import pytest
import trio

from rocketpy.client import AdminClient, Message, MessageQueue, open_admin_client, open_producer, open_pull_consumer
from rocketpy.client.admin import TO_END, SubscriptionGroupConfig, TopicConfig, TrackType
from rocketpy.client.diagnosis.doctor import Doctor
from rocketpy.client.diagnosis.finding import Severity
from rocketpy.clock import ManualClock, SystemClock
from rocketpy.errors import BrokerError, ClientError
from rocketpy.protocol.codes import ResponseCode
from tests.interop.cluster import Cluster
from tests.interop.conftest import unique_name
from tests.interop.our_client import eventually

pytestmark = pytest.mark.java


@attrs.frozen
class Scene:
    """An admin client of the Java cluster, one of its brokers, and a topic of two queues."""

    admin: AdminClient
    namesrv: str
    broker_name: str
    broker: str
    topic: str

    def queue(self, queue_id: int = 0) -> MessageQueue:
        return MessageQueue(self.topic, self.broker_name, queue_id)


@pytest.fixture
async def java(java_cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    topic = unique_name(request)
    async with open_admin_client(java_cluster.namesrv) as admin:
        await admin.topics.create(topic, queue_nums=2)
        name, address = next(iter(sorted(java_cluster.brokers.items())))
        scene = Scene(admin, java_cluster.namesrv, name, address, topic)
        await eventually(lambda: admin.topics.publish_queues(topic), "a route")
        # Java's broker has no figures, and refuses to tell them, until it has counted for a second.
        await eventually(lambda: admin.brokers.runtime_info(address), "figures")
        yield scene


async def test_topics_and_groups(java: Scene) -> None:
    topics, groups = java.admin.topics, java.admin.groups
    await topics.update(java.broker, TopicConfig(java.topic, 3, 2, 6))
    found = await topics.config(java.broker, java.topic)
    assert found is not None
    assert (found.read_queue_nums, found.write_queue_nums) == (3, 2)
    assert java.topic in (await topics.user_configs(java.broker)).topic_config_table
    assert "TBW102" in await topics.system_names(java.broker)
    assert java.broker_name in await topics.system_names()
    (cluster,) = await topics.clusters(java.topic)
    assert java.topic in await topics.names_in_cluster(cluster)
    assert java.topic not in await topics.unit_names()
    assert java.topic not in await topics.unit_subscribed_names(outside_unit=True)
    assert java.queue() in (await topics.stats(java.topic)).offset_table
    await topics.create_like(java.topic, java.topic + "-like", queue_nums=1)
    await groups.update(java.broker, SubscriptionGroupConfig(java.topic, retry_max_times=3))
    assert await groups.config(java.broker, java.topic) == SubscriptionGroupConfig(java.topic, retry_max_times=3)
    assert java.topic in (await groups.user_configs(java.broker)).subscription_group_table
    await groups.delete(java.broker, java.topic, remove_offset=True)
    assert await groups.config(java.broker, java.topic) is None
    await topics.delete(java.topic, cluster=cluster)
    assert await topics.route(java.topic) is None


async def test_messages_and_progress(java: Scene, group: str) -> None:
    admin, topic = java.admin, java.topic
    async with open_producer(java.namesrv, group=group) as producer:
        sent = []
        for number in range(4):
            message = Message(topic, b"%d" % number, {"KEYS": f"key both{number}"})
            sent.append(await producer.send(message, queue=java.queue()))
            await trio.sleep(0.002)  # Java finds any of the messages of a millisecond
        assert [each.client_id for each in (await admin.clients.producers(group, topic)).connection_set]
        assert group in (await admin.clients.all_producers(java.broker)).data
    await eventually(lambda: admin.messages.query(topic, "both3"), "the index has the last message")
    assert (await admin.messages.view(sent[1].offset_msg_id)).body == b"1"
    assert (await admin.messages.find(topic, sent[2].offset_msg_id)).body == b"2"
    message = await admin.messages.find(topic, sent[3].msg_id)
    assert message.body == b"3"
    assert len((await admin.messages.query(topic, "key")).messages) == 4
    with pytest.raises(ClientError, match="CODE: 208"):
        await admin.messages.query(topic, "no such key")
    assert (await admin.offsets.min_offset(java.queue()), await admin.offsets.max_offset(java.queue())) == (0, 4)
    earliest = await admin.offsets.earliest_store_time(java.queue())
    assert await admin.offsets.search_offset(java.queue(), earliest) == 0
    units = await admin.brokers.consume_queue(java.broker, topic, 0, index=1, count=2)
    assert (len(units.queue_data or ()), units.max_queue_index) == (2, 4)
    async with open_pull_consumer(java.namesrv, group=group) as consumer:
        async with consumer.open_messages(topic, start="beginning", until_end=True) as messages:
            assert len([each async for each in messages]) == 4
            await messages.commit()
        await eventually(lambda: admin.clients.consumers(group), "the group is online")
        assert (await admin.offsets.progress(group, topic)).offset_table[java.queue()].consumer_offset == 4
        assert [each.track_type for each in await admin.track(message)] == [TrackType.PULL]
        assert len(await admin.offsets.time_spans(topic, group)) == 2
        listed = await admin.offsets.progress_of_all(java.broker)
        assert group in {name for groups in listed.consume_stats_list for name in groups}
        await admin.offsets.clone(group, group + "-clone", topic)
    with pytest.raises(BrokerError) as caught:
        await admin.clients.consumers(group)
    assert caught.value.response_code == ResponseCode.CONSUMER_NOT_ONLINE
    assert [each.track_type for each in await admin.track(message) if each.consumer_group == group] == [
        TrackType.NOT_ONLINE
    ]
    await admin.offsets.commit(java.broker, group, java.queue(1), 0)  # Java resets only what has an offset everywhere
    assert await admin.resets.reset(topic, group, earliest - 1000) == {java.queue(0): 0, java.queue(1): 0}
    assert (await admin.resets.reset(topic, group, TO_END))[java.queue()] == 4
    await admin.offsets.commit(java.broker, group, java.queue(), 2)
    rollbacks = await admin.resets.reset_offline(topic, group, TO_END, force=False)
    assert {each.rollback_offset for each in rollbacks} == {0, 2}
    with pytest.raises(BrokerError, match="not online"):
        await admin.messages.consume_directly(group, "nobody", sent[0].offset_msg_id)


async def test_brokers_and_nameservers(java: Scene) -> None:
    admin, broker, namesrv = java.admin, java.broker, java.namesrv
    assert "bootTimestamp" in await admin.brokers.runtime_info(broker)
    before = (await admin.brokers.config(broker))["flushConsumerOffsetInterval"]
    await admin.brokers.update_config(broker, {"flushConsumerOffsetInterval": before})
    with pytest.raises(BrokerError, match="The stats <TOPIC_PUT_NUMS> <no-such-topic> not exist"):
        await admin.brokers.stats(broker, "TOPIC_PUT_NUMS", "no-such-topic")
    servers = admin.name_servers
    await servers.put_kv("ours", "k", "v")
    assert await servers.kv("ours", "k") == "v"
    assert await servers.kv_list("ours") == {"k": "v"}
    await servers.delete_kv("ours", "k")
    assert await servers.kv("ours", "k") is None
    assert await servers.kv_list("never") == {}
    await servers.put_order_conf(java.topic, f"{java.broker_name}:2", is_cluster=False)
    assert await servers.order_conf(java.topic) == f"{java.broker_name}:2"
    await servers.delete_order_conf(java.topic)
    assert (await servers.wipe_write_perm(java.broker_name))[namesrv] > 0
    assert (await servers.add_write_perm(java.broker_name))[namesrv] > 0
    shown = (await servers.config())[namesrv]
    await servers.update_config({"orderMessageEnable": shown["orderMessageEnable"]})
    for clean in (
        admin.cleaning.clean_expired_consume_queues,
        admin.cleaning.delete_expired_commit_logs,
        admin.cleaning.clean_unused_topics,
    ):
        assert broker in await clean()


async def test_a_java_cluster_that_is_well_has_no_problem_of_its_own(java: Scene) -> None:
    """Groups of other tests may have messages left, and this machine's disk may be full."""
    doctor = Doctor(java.admin, clock=SystemClock(), watch_seconds=0)
    diagnosis = await doctor.diagnose()
    problems = {each.check for each in diagnosis.findings if each.severity is Severity.PROBLEM}
    assert problems <= {"no-consumer", "disk-full"}
    assert diagnosis.broker_count > 0
    hour = ManualClock(SystemClock().timestamp_ms() + 3_600_000)
    late = await Doctor(java.admin, clock=hour, watch_seconds=0).diagnose()
    assert [each.subject for each in late.findings if each.check == "clock-skew"]
