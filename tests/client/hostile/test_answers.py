"""Every answer that the client reads, wrong in every way: a result, or an error of ours, in time and bounded memory."""

from __future__ import annotations

import tracemalloc

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from rocketpy.errors import RocketpyError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.connection import Connection
from tests.client.fake_cluster import FakeCluster
from tests.client.lying_world import BODIES, WAYS, Spoiling, open_caller, open_lying_world, spoil
from tests.client.public_calls import CALL_SECONDS, CALLS, GROUP, MORE_CALLS, TOPIC, Caller

CALL_OF = {
    RequestCode.ADD_WRITE_PERM_OF_BROKER: "NameServerAdmin.add_write_perm",
    RequestCode.CHECK_CLIENT_CONFIG: "a consumer with SQL92",
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: "CleaningAdmin.clean_expired_consume_queues",
    RequestCode.CLEAN_UNUSED_TOPIC: "CleaningAdmin.clean_unused_topics",
    RequestCode.CLONE_GROUP_OFFSET: "OffsetAdmin.clone",
    RequestCode.CONSUMER_SEND_MSG_BACK: "PullConsumer.send_message_back",
    RequestCode.CONSUME_MESSAGE_DIRECTLY: "MessageAdmin.consume_directly",
    RequestCode.DELETE_ACL_CONFIG: "AccountAdmin.delete",
    RequestCode.DELETE_EXPIRED_COMMITLOG: "CleaningAdmin.delete_expired_commit_logs",
    RequestCode.DELETE_KV_CONFIG: "NameServerAdmin.delete_kv",
    RequestCode.DELETE_SUBSCRIPTIONGROUP: "GroupAdmin.delete",
    RequestCode.DELETE_TOPIC_IN_BROKER: "TopicAdmin.delete_in_brokers",
    RequestCode.DELETE_TOPIC_IN_NAMESRV: "TopicAdmin.delete_in_name_servers",
    RequestCode.GET_ALL_PRODUCER_INFO: "ClientAdmin.all_producers",
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: "GroupAdmin.user_configs",
    RequestCode.GET_ALL_TOPIC_CONFIG: "TopicAdmin.user_configs",
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: "TopicAdmin.names",
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: "AccountAdmin.version",
    RequestCode.GET_BROKER_CLUSTER_INFO: "AdminClient.cluster_info",
    RequestCode.GET_BROKER_CONFIG: "BrokerAdmin.config",
    RequestCode.GET_BROKER_CONSUME_STATS: "OffsetAdmin.progress_of_all",
    RequestCode.GET_BROKER_RUNTIME_INFO: "BrokerAdmin.runtime_info",
    RequestCode.GET_CONSUMER_CONNECTION_LIST: "ClientAdmin.consumers",
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: "Client.consumer",
    RequestCode.GET_CONSUMER_RUNNING_INFO: "ClientAdmin.running_info",
    RequestCode.GET_CONSUME_STATS: "OffsetAdmin.progress",
    RequestCode.GET_EARLIEST_MSG_STORETIME: "OffsetAdmin.earliest_store_time",
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: "TopicAdmin.unit_subscribed_names",
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: "names of topics without units",
    RequestCode.GET_KVLIST_BY_NAMESPACE: "NameServerAdmin.kv_list",
    RequestCode.GET_KV_CONFIG: "NameServerAdmin.kv",
    RequestCode.GET_MAX_OFFSET: "PullConsumer.max_offset",
    RequestCode.GET_MIN_OFFSET: "PullConsumer.min_offset",
    RequestCode.GET_NAMESRV_CONFIG: "NameServerAdmin.config",
    RequestCode.GET_PRODUCER_CONNECTION_LIST: "ClientAdmin.producers",
    RequestCode.GET_ROUTEINFO_BY_TOPIC: "open_producer",
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: "TopicAdmin.user_configs",
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: "TopicAdmin.system_names",
    RequestCode.GET_TOPICS_BY_CLUSTER: "TopicAdmin.names_in_cluster",
    RequestCode.GET_TOPIC_STATS_INFO: "TopicAdmin.stats",
    RequestCode.GET_UNIT_TOPIC_LIST: "TopicAdmin.unit_names",
    RequestCode.HEART_BEAT: "LitePullConsumer.poll",
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: "ClientAdmin.offsets",
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: "ResetAdmin.reset_online",
    RequestCode.LOCK_BATCH_MQ: "Consumer.run_orderly",
    RequestCode.PULL_MESSAGE: "LitePullConsumer.poll",
    RequestCode.PUT_KV_CONFIG: "NameServerAdmin.put_kv",
    RequestCode.QUERY_CONSUMER_OFFSET: "Consumer.run",
    RequestCode.QUERY_CONSUME_QUEUE: "BrokerAdmin.consume_queue",
    RequestCode.QUERY_CONSUME_TIME_SPAN: "OffsetAdmin.time_spans",
    RequestCode.QUERY_CORRECTION_OFFSET: "OffsetAdmin.corrections",
    RequestCode.QUERY_MESSAGE: "MessageAdmin.find_by_unique_key",
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: "TopicAdmin.consumer_groups",
    RequestCode.RESUME_CHECK_HALF_MESSAGE: "MessageAdmin.resume_check",
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: "PullConsumer.search_offset",
    RequestCode.SEND_BATCH_MESSAGE: "BatchingProducer.send",
    RequestCode.SEND_MESSAGE_V2: "TransactionProducer.send_in_transaction",
    RequestCode.SEND_REPLY_MESSAGE_V2: "a reply",
    RequestCode.UNLOCK_BATCH_MQ: "Consumer.run_orderly",
    RequestCode.UNREGISTER_CLIENT: "Producer.send",
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: "AccountAdmin.update",
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: "GroupAdmin.create",
    RequestCode.UPDATE_AND_CREATE_TOPIC: "AdminClient.create_topic",
    RequestCode.UPDATE_BROKER_CONFIG: "BrokerAdmin.update_config",
    RequestCode.UPDATE_CONSUMER_OFFSET: "MessageStream.commit",
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: "AccountAdmin.update_global_white_addresses",
    RequestCode.UPDATE_NAMESRV_CONFIG: "NameServerAdmin.update_config",
    RequestCode.VIEW_BROKER_STATS_DATA: "BrokerAdmin.stats",
    RequestCode.VIEW_MESSAGE_BY_ID: "MessageAdmin.find",
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: "NameServerAdmin.wipe_write_perm",
}
"""A call that sends each request code of the client."""
WITHOUT_ANSWER = {RequestCode.END_TRANSACTION}
"""Codes that the client only sends oneway."""
MEMORY_MAX = 48 << 20


def lie_about(cluster: FakeCluster, code: int, spoiling: Spoiling) -> list[RemotingCommand]:
    """Spoil the answers to one code from now on; return the list of those that were. Queues get something to pull."""
    spoiled: list[RemotingCommand] = []

    def lying(
        connection: Connection, request: RemotingCommand, answer: RemotingCommand
    ) -> RemotingCommand | bytes | None:
        if request.code != code:
            return answer
        spoiled.append(answer)
        return spoil(connection, answer, spoiling)

    for server in (cluster.name_server, *cluster.brokers):
        server.behave()
        server.spoil = lying
    for broker in cluster.brokers:
        for queue_id in (0, 1):
            broker.put(TOPIC, queue_id, b"more", {"TAGS": "a"})
            broker.progress.setdefault((GROUP, TOPIC, queue_id), 0)
    return spoiled


async def outcome(name: str, caller: Caller) -> str:
    """Make a call; return the name of its error, or "a result"."""
    failure: RocketpyError | None = None
    with trio.fail_after(CALL_SECONDS):
        try:
            await (CALLS | MORE_CALLS)[name](caller)
        except RocketpyError as raised:
            failure = raised
    assert len(str(failure)) < 20_000, "of what each of two brokers says it has the beginning"
    return "a result" if failure is None else type(failure).__name__


@pytest.mark.parametrize("code", CALL_OF, ids=lambda code: code.name)
async def test_a_spoiled_answer_is_a_result_or_an_error_of_ours(code: RequestCode, autojump_clock: MockClock) -> None:
    """Twice for each way that has a choice; then the call works again, with the client that has heard all that."""
    name = CALL_OF[code]
    async with open_lying_world() as (cluster, environment), open_caller(cluster, environment) as caller:
        for way in WAYS:
            for seed in (3,) if way in ("no fields", "twice", "silence", "remark") else (3, 8):
                if code == RequestCode.GET_ROUTEINFO_BY_TOPIC or way in ("garbage", "cut frame"):
                    await trio.sleep(1)  # a connection that was spoiled is made anew
                spoiled = lie_about(cluster, code, Spoiling(way, seed, seed))
                await outcome(name, caller)
                assert spoiled, f"{name} sends no {code.name} ({way})"
        for server in (cluster.name_server, *cluster.brokers):
            server.behave()
        await trio.sleep(60)
        assert await outcome(name, caller) == "a result"


async def test_no_request_code_of_the_client_is_missing(autojump_clock: MockClock) -> None:
    """Those that all calls together send."""
    async with open_lying_world() as (cluster, environment), open_caller(cluster, environment) as caller:
        for name in CALLS | MORE_CALLS:
            await outcome(name, caller)
        sent = {each.code for server in (cluster.name_server, *cluster.brokers) for each in server.requests}
    assert sent == CALL_OF.keys() | WITHOUT_ANSWER


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        RequestCode.GET_BROKER_CLUSTER_INFO,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.PULL_MESSAGE,
        RequestCode.LOCK_BATCH_MQ,
    ],
    ids=lambda code: code.name,
)
async def test_no_body_costs_more_memory_than_frames_may_have(code: RequestCode, autojump_clock: MockClock) -> None:
    """Numbers in it, of queues for one, are not lengths of what the client makes of it."""
    async with open_lying_world() as (cluster, environment):
        tracemalloc.start()
        try:
            for number in range(len(BODIES)):
                spoiled = lie_about(cluster, code, Spoiling("body", number, 0))
                async with open_caller(cluster, environment) as caller:
                    await outcome(CALL_OF[code], caller)
                assert spoiled, f"body {number}"
            assert tracemalloc.get_traced_memory()[1] < MEMORY_MAX
        finally:
            tracemalloc.stop()
