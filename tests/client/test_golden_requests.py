"""What our consumers, transactions and replies send is, field by field, what Java's client was recorded to send.

Each test makes the call that Java made in a scenario, with the recorded names, and compares the first request.
Sends are in :mod:`tests.client.producer.test_golden_sends`, calls of an administrator in
:mod:`tests.client.admin.test_golden_calls`. What differs by nature is in ``CHANGING``.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import cache, partial
from pathlib import Path
from random import Random

import attrs
import pytest
import trio

import rocketpy.client
from rocketpy.client import (
    Client,
    ConsumeFromWhere,
    ConsumerConfig,
    LitePullConfig,
    LocalTransactionState,
    Message,
    MessageBatch,
    MessageExt,
    MessageModel,
    MessageQueue,
    MessageSelector,
    PullConfig,
    Transaction,
    open_client,
    reply_to,
)
from rocketpy.client.consumer.send_back import SendBack
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.fastjson import loads
from rocketpy.protocol.properties import decode_properties
from tests.client.admin.test_golden_calls import CALLS
from tests.client.conftest import FIRST
from tests.client.fake_cluster import FakeBroker, FakeCluster, open_fake_cluster
from tests.client.opened import opened
from tests.client.producer.test_golden_sends import CODES as CODES_OF_SENDS
from tests.client.recorded_frames import recorded_frames
from tests.patience import PATIENCE_SECONDS, until

BROKER = "broker-0"
BROADCASTING = attrs.evolve(FIRST, message_model=MessageModel.BROADCASTING)
FROM_TIMESTAMP = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_TIMESTAMP)

CHANGING = {
    "ReqT": "a mark that Java's stream clients set, which no broker reads",
    "clientID": "an address and a process",
    "clientId": "an address and a process",
}
"""Fields that differ from one client to the next, and why."""

VERSION = "subVersion"
"""The field of a subscription's version: a time where it is not 0."""

CHANGING_OF_SENDS = {"e", "g", "i"}
"""Fields of a send that are compared apart: the queue whose turn it is, the time, and properties in Java's order."""

Fields = dict[str, str]


@cache
def frames_of_java() -> dict[tuple[str, int], list[RemotingCommand]]:
    """The requests of clients in the run ``json``, or ``sync-flush``, by scenario and code."""
    found: dict[tuple[str, int], list[RemotingCommand]] = {}
    for each in recorded_frames():
        if each.run in ("json", "sync-flush") and each.sender == "client" and each.kind != "response":
            found.setdefault((each.scenario, each.request_code), []).append(each.command)
    return found


def java(
    scenario: str, code: RequestCode, wanted: Callable[[RemotingCommand], object] = lambda command: True
) -> RemotingCommand:
    """Return the first request of Java's that is of a scenario and a code, and of which ``wanted`` is true."""
    return next(filter(wanted, frames_of_java()[scenario, code]))


def is_of(topic: str) -> Callable[[RemotingCommand], bool]:
    """Return what is true of requests about a topic."""
    return lambda command: fields_of(command)["topic"] == topic


def fields_of(command: RemotingCommand) -> Fields:
    """Return the fields that do not change."""
    found = {name: value for name, value in (command.ext_fields or {}).items() if name not in CHANGING}
    if found.get(VERSION, "0") != "0":
        found[VERSION] = "a time"
    return found


def body_of(command: RemotingCommand) -> dict[str, object]:
    """Return the JSON object of a body."""
    value = loads(command.body or b"")
    assert isinstance(value, dict)
    return value


def assert_same(ours: RemotingCommand, theirs: RemotingCommand, **expected: str) -> None:
    """Compare code, flag and fields; those in ``expected`` have another value here by the test's own doing."""
    assert (ours.code, ours.flag, ours.remark) == (theirs.code, theirs.flag, theirs.remark)
    assert fields_of(ours) == {**fields_of(theirs), **expected}
    assert {"clientID"}.intersection(ours.ext_fields or ()) == {"clientID"}.intersection(theirs.ext_fields or ())


@asynccontextmanager
async def opened_cluster(*topics: str, queues: int = 2) -> AsyncIterator[tuple[FakeCluster, Client]]:
    """A broker of the recorded name with the recorded topics, and a client."""
    async with open_fake_cluster((BROKER,)) as cluster:
        for topic in topics:
            cluster.add_topic(topic, queues)
        with trio.fail_after(PATIENCE_SECONDS):
            async with open_client(cluster.address) as client:
                yield cluster, client


async def first(broker: FakeBroker, code: RequestCode, **wanted: str) -> RemotingCommand:
    """Return the first request of ours of a code, whose fields have these values, once it is there."""
    found: list[RemotingCommand] = []

    def is_there() -> bool:
        found[:] = [each for each in broker.asked(code) if wanted.items() <= (each.ext_fields or {}).items()]
        return bool(found)

    await until(is_there)
    return found[0]


@asynccontextmanager
async def running(
    client: Client,
    group: str,
    subscriptions: Mapping[str, str | MessageSelector],
    config: ConsumerConfig = FIRST,
    *,
    is_orderly: bool = False,
) -> AsyncIterator[None]:
    """A member of a group that consumes."""
    async with (
        client.consumer(group, subscriptions=subscriptions, config=config) as consumer,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(consumer.run_orderly if is_orderly else consumer.run, take)
        yield
        nursery.cancel_scope.cancel()


async def take(batch: MessageBatch) -> None:
    """Handle a batch: do nothing, which is success."""


# ---- a member of a group ---------------------------------------------------------------------------------------------


async def test_a_member_asks_for_its_group_its_progress_and_messages() -> None:
    async with opened_cluster("GoldTopic") as (cluster, client):
        broker = cluster.broker
        async with running(client, "GoldGroup", {"GoldTopic": "*"}):
            of_java = java("push-consume", RequestCode.GET_CONSUMER_LIST_BY_GROUP)
            assert_same(await first(broker, RequestCode.GET_CONSUMER_LIST_BY_GROUP), of_java)
            for of_java in (
                java("push-consume", RequestCode.QUERY_CONSUMER_OFFSET, is_of("GoldTopic")),
                java("push-consume", RequestCode.PULL_MESSAGE, is_of("GoldTopic")),
            ):
                queue_id = fields_of(of_java)["queueId"]
                ours = await first(broker, RequestCode(of_java.code), topic="GoldTopic", queueId=queue_id)
                assert_same(ours, of_java)
            broker.put("GoldTopic", 1, b"x")
            # A later pull says how far the group has come; the recorded ones were made at other offsets.
            later = java("push-second-stops", RequestCode.PULL_MESSAGE, lambda each: fields_of(each)["sysFlag"] == "3")
            await first(broker, RequestCode.PULL_MESSAGE, topic="GoldTopic", queueId="1", queueOffset="1")
            broker.put("GoldTopic", 1, b"y")
            ours = await first(broker, RequestCode.PULL_MESSAGE, topic="GoldTopic", queueId="1", queueOffset="2")
            mine = fields_of(ours)
            assert int(mine["commitOffset"]) in (1, 2)
            assert_same(ours, later, queueOffset="2", commitOffset=mine["commitOffset"])
        persisted = java("push-second-consumer", RequestCode.UPDATE_CONSUMER_OFFSET)
        ours = await first(broker, RequestCode.UPDATE_CONSUMER_OFFSET, queueId="1")
        # Java's is oneway; a member of ours that leaves waits until the broker has it.
        assert fields_of(ours) == {**fields_of(persisted), "commitOffset": "2"}
        left = java("push-second-stops", RequestCode.UNREGISTER_CLIENT, lambda each: "consumerGroup" in fields_of(each))
        assert_same(await first(broker, RequestCode.UNREGISTER_CLIENT), left)


async def test_the_locks_of_an_orderly_member() -> None:
    async with opened_cluster("GoldOrder") as (cluster, client):
        cluster.add_topic("%RETRY%GoldOrderGroup", 1)
        async with running(client, "GoldOrderGroup", {"GoldOrder": "*"}, is_orderly=True):
            pass
        for of_java in (java("orderly", RequestCode.LOCK_BATCH_MQ), java("orderly", RequestCode.UNLOCK_BATCH_MQ)):
            asked = cluster.broker.asked(of_java.code)
            assert_same(asked[0], of_java)
            ours, theirs = body_of(asked[0]), body_of(of_java)
            assert list(ours) == list(theirs)
            assert ours["consumerGroup"] == theirs["consumerGroup"]
            queues = [queue for each in asked for queue in body_of(each)["mqSet"]]  # type: ignore[attr-defined]
            for queue in theirs["mqSet"]:  # type: ignore[attr-defined]
                assert queue in queues


async def test_an_sql_filter_is_checked() -> None:
    of_java = java("push-sql-filter", RequestCode.CHECK_CLIENT_CONFIG)
    expression = body_of(of_java)["subscriptionData"]["subString"]  # type: ignore[index]
    async with (
        opened_cluster("GoldFilter") as (cluster, client),
        running(client, "GoldSqlGroup", {"GoldFilter": MessageSelector.by_sql(expression)}),
    ):
        ours = await first(cluster.broker, RequestCode.CHECK_CLIENT_CONFIG)
        pull = await first(cluster.broker, RequestCode.PULL_MESSAGE, topic="GoldFilter")
    assert_same(ours, of_java)
    assert without_changing(body_of(ours)) == without_changing(body_of(of_java))
    of_java = java("push-sql-filter", RequestCode.PULL_MESSAGE, is_of("GoldFilter"))
    assert_same(pull, of_java, queueId=fields_of(pull)["queueId"])


def without_changing(value: object) -> object:
    """Return a JSON value without the names that change, and with the subscriptions of a set in order."""
    if isinstance(value, dict):
        return {
            name: bool(each) if name == VERSION else without_changing(each)
            for name, each in value.items()
            if name not in CHANGING
        }
    if isinstance(value, list):
        return sorted(map(without_changing, value), key=str)
    return value


@pytest.mark.parametrize(
    ("scenario", "group", "subscriptions", "config"),
    [
        ("push-consume", "GoldGroup", {"GoldTopic": "*"}, FIRST),
        ("push-subscribe-change", "GoldGroup", {"GoldTopic": "*", "GoldFilter": "TagA || TagB"}, FIRST),
        ("broadcast", "GoldBroadGroup", {"GoldBroad": "*"}, BROADCASTING),
        ("timestamp-consumer", "GoldTimeGroup", {"GoldTopic": "*"}, FROM_TIMESTAMP),
        ("lite-subscribe", "GoldLiteGroup", {"GoldLite": "TagA"}, LitePullConfig()),
    ],
    ids=["all of a topic", "tags", "broadcasting", "from a time", "lite pull"],
)
async def test_a_heartbeat_says_of_a_consumer_what_java_says(
    scenario: str, group: str, subscriptions: dict[str, str], config: ConsumerConfig | LitePullConfig, tmp_path: Path
) -> None:
    def is_of_group(each: RemotingCommand) -> bool:
        members = body_of(each)["consumerDataSet"]
        topics = {one["topic"] for member in members for one in member["subscriptionDataSet"]}  # type: ignore[attr-defined]
        return [member["groupName"] for member in members] == [group] and subscriptions.keys() <= topics  # type: ignore[attr-defined]

    of_java = java(scenario, RequestCode.HEART_BEAT, is_of_group)
    async with opened_cluster(*subscriptions) as (cluster, client):
        role: AbstractAsyncContextManager[object]
        if isinstance(config, LitePullConfig):
            role = client.lite_pull_consumer(group, subscriptions=subscriptions, config=config)
        else:
            role = running(client, group, subscriptions, attrs.evolve(config, local_offset_store_dir=tmp_path))
        async with role:
            ours = await first(cluster.broker, RequestCode.HEART_BEAT)
    assert_same(ours, of_java)
    mine, theirs = body_of(ours), body_of(of_java)
    assert mine.keys() == theirs.keys()
    assert without_changing(mine["consumerDataSet"]) == without_changing(theirs["consumerDataSet"])
    # Java's clients have a producer of their own for what they send back; ours sends it without a group.
    assert (mine["producerDataSet"], theirs["producerDataSet"]) == ([], [{"groupName": "CLIENT_INNER_PRODUCER"}])


async def test_a_producer_announces_its_group_and_leaves() -> None:
    async with opened_cluster("GoldTopic") as (cluster, client):
        async with client.producer("GoldProducer") as producer:
            await producer.send(Message("GoldTopic", b"x"))
            ours = await first(cluster.broker, RequestCode.HEART_BEAT)
        of_java = java("send-oneway", RequestCode.HEART_BEAT, lambda each: b'"GoldProducer"' in (each.body or b""))
        assert_same(ours, of_java)
        assert body_of(ours)["producerDataSet"] == [{"groupName": "GoldProducer"}]
        assert body_of(ours)["consumerDataSet"] == body_of(of_java)["consumerDataSet"] == []
        left = java("send-compressed-lz4", RequestCode.UNREGISTER_CLIENT)
        ours = await first(cluster.broker, RequestCode.UNREGISTER_CLIENT)
        assert_same(ours, left, producerGroup="GoldProducer")


async def test_a_message_goes_back() -> None:
    of_java = java("retry-dlq", RequestCode.CONSUMER_SEND_MSG_BACK)
    fields = of_java.ext_fields or {}
    message = MessageExt(
        fields["originTopic"],
        b"",
        {"UNIQ_KEY": fields["originMsgId"]},
        physical_offset=int(fields["offset"]),
        broker_name=BROKER,
    )
    async with open_fake_cluster((BROKER,)) as cluster, opened(cluster.address) as instance:
        cluster.add_topic(message.topic)
        back = SendBack(
            instance=instance,
            group=fields["group"],
            max_reconsume_times=int(fields["maxReconsumeTimes"]),
            randomness=Random(1),
        )
        assert await back.send_back(message, int(fields["delayLevel"]))
        assert_same(cluster.broker.asked(RequestCode.CONSUMER_SEND_MSG_BACK)[0], of_java)


# ---- pulls without a group's queues ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["pull-found", "pull-long-poll-arrival"])
async def test_a_pull_of_one_queue(scenario: str) -> None:
    of_java = java(scenario, RequestCode.PULL_MESSAGE)
    fields = of_java.ext_fields or {}
    queue = MessageQueue(fields["topic"], BROKER, int(fields["queueId"]))
    is_held = scenario == "pull-long-poll-arrival"
    async with (
        opened_cluster(queue.topic) as (cluster, client),
        client.pull_consumer(fields["consumerGroup"], config=PullConfig()) as consumer,
    ):
        if not is_held:
            cluster.broker.put(queue.topic, queue.queue_id, b"x")
        suspend_ms = int(fields["suspendTimeoutMillis"]) if is_held else 0
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                partial(consumer.pull, queue, 0, max_msg_nums=int(fields["maxMsgNums"]), suspend_ms=suspend_ms)
            )
            ours = await first(cluster.broker, RequestCode.PULL_MESSAGE)
            nursery.cancel_scope.cancel()
    # A pull that is not to be held has a time for it in Java's frames only; a broker reads it of the others.
    assert_same(ours, of_java, suspendTimeoutMillis=str(suspend_ms))


async def test_the_offsets_and_the_progress_of_a_pull_consumer() -> None:
    of_java = [
        java("pull-search-offset", RequestCode.GET_MIN_OFFSET),
        java("pull-search-offset", RequestCode.GET_MAX_OFFSET),
        java("pull-search-offset", RequestCode.SEARCH_OFFSET_BY_TIMESTAMP),
        java("pull-offsets", RequestCode.UPDATE_CONSUMER_OFFSET),
        java("pull-offsets", RequestCode.QUERY_CONSUMER_OFFSET),
    ]
    search, update = fields_of(of_java[2]), fields_of(of_java[3])
    queue = MessageQueue(update["topic"], BROKER, int(update["queueId"]))
    async with (
        opened_cluster(queue.topic) as (cluster, client),
        client.pull_consumer(update["consumerGroup"]) as consumer,
    ):
        assert await consumer.min_offset(queue) == 0
        assert await consumer.max_offset(queue) == 0
        assert await consumer.search_offset(queue, int(search["timestamp"])) == 0
        await consumer.commit(queue, int(update["commitOffset"]))
        assert await consumer.consumer_offset(queue) == int(update["commitOffset"])
    for theirs in of_java:
        (ours,) = cluster.broker.asked(theirs.code)
        # Java's commit is oneway; ours returns once the broker has it.
        assert_same(ours, attrs.evolve(theirs, flag=0) if theirs.is_oneway else theirs)


# ---- transactions and replies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "number"),
    [(LocalTransactionState.COMMIT_MESSAGE, "8"), (LocalTransactionState.ROLLBACK_MESSAGE, "12")],
)
async def test_a_transaction_is_half_sent_and_ended(verdict: LocalTransactionState, number: str) -> None:
    half = java("transaction", RequestCode.SEND_MESSAGE_V2)
    fields = fields_of(half)
    properties = decode_properties(fields["i"])
    end = java("transaction", RequestCode.END_TRANSACTION, lambda each: fields_of(each)["commitOrRollback"] == number)

    async def end_it(transaction: Transaction) -> LocalTransactionState:
        return verdict

    async with opened_cluster(fields["b"]) as (cluster, client):
        cluster.broker.answer(RequestCode.END_TRANSACTION)
        async with client.transaction_producer(fields["a"], check=never_asked) as producer:
            own = without(properties, {"UNIQ_KEY", "WAIT", "TRAN_MSG", "PGROUP"})
            sent = await producer.send_in_transaction(Message(fields["b"], half.body or b"", own), end_it)
            ended = await first(cluster.broker, RequestCode.END_TRANSACTION)
    ours = cluster.broker.asked(RequestCode.SEND_MESSAGE_V2)[0]
    assert without(ours.ext_fields, CHANGING_OF_SENDS) == without(half.ext_fields, CHANGING_OF_SENDS)
    mine = decode_properties(fields_of(ours)["i"])
    assert without(mine, {"UNIQ_KEY"}) == without(properties, {"UNIQ_KEY"})
    assert_same(ended, end, commitLogOffset="0", msgId=mine["UNIQ_KEY"], tranStateTableOffset="0")
    assert sent.local_transaction_state is verdict


def without(fields: Fields | None, names: Collection[str]) -> Fields:
    """Return fields but for some."""
    return {name: value for name, value in (fields or {}).items() if name not in names}


async def never_asked(message: MessageExt) -> LocalTransactionState:
    raise AssertionError(f"asked about {message}")


async def test_a_request_and_its_reply() -> None:
    asked = java("request-reply", RequestCode.SEND_MESSAGE_V2)
    answered = java("request-reply", RequestCode.SEND_REPLY_MESSAGE_V2)
    fields, reply_fields = asked.ext_fields or {}, answered.ext_fields or {}
    async with opened_cluster(fields["b"], reply_fields["b"]) as (cluster, client):
        cluster.broker.answer(RequestCode.SEND_REPLY_MESSAGE_V2)
        async with client.producer(fields["a"]) as producer, trio.open_nursery() as nursery:
            message = Message(fields["b"], asked.body or b"", {"KEYS": "rq", "TAGS": "TagQ"})
            nursery.start_soon(partial(producer.request, message, timeout_s=8))
            ours = await first(cluster.broker, RequestCode.SEND_MESSAGE_V2)
            nursery.cancel_scope.cancel()
        assert without(ours.ext_fields, CHANGING_OF_SENDS) == without(asked.ext_fields, CHANGING_OF_SENDS)
        properties = decode_properties((ours.ext_fields or {})["i"])
        assert properties.keys() == decode_properties(fields["i"]).keys()
        assert properties["TTL"] == decode_properties(fields["i"])["TTL"]

        request = MessageExt(
            fields["b"], b"", {**properties, "CLUSTER": reply_fields["b"].removesuffix("_REPLY_TOPIC")}
        )
        async with client.producer(reply_fields["a"]) as producer:
            with suppress(RemoteProtocolError):  # the scripted answer is empty
                await producer.send(reply_to(request, answered.body or b""))
        ours = cluster.broker.asked(RequestCode.SEND_REPLY_MESSAGE_V2)[0]
        assert ours.body == answered.body
        assert without(ours.ext_fields, CHANGING_OF_SENDS) == without(answered.ext_fields, CHANGING_OF_SENDS)
        replied = decode_properties((ours.ext_fields or {})["i"])
        assert without(replied, {"UNIQ_KEY"}) == {
            "MSG_TYPE": "reply",
            "REPLY_TO_CLIENT": client.client_id,
            "TTL": "8000",
            "CORRELATION_ID": properties["CORRELATION_ID"],
        }
        assert replied.keys() == decode_properties(reply_fields["i"]).keys()


# ---- all of them -----------------------------------------------------------------------------------------------------

SERVED = {
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
}
"""Codes that brokers send, and the client serves."""


def test_every_request_of_the_client_is_compared_with_java_s() -> None:
    """By one of the tests of recorded frames; GET_ROUTEINFO_BY_TOPIC by those of nameservers."""
    sources = "".join(each.read_text() for each in Path(rocketpy.client.__file__).parent.rglob("*.py"))
    sent = {RequestCode[name] for name in re.findall(r"RequestCode\.(\w+)", sources)} - SERVED
    here = re.findall(r"java\(\s*\"[\w-]+\", RequestCode\.(\w+)", Path(__file__).read_text())
    compared = {RequestCode[name] for name in here} | CALLS.keys() | set(CODES_OF_SENDS)
    assert sent == compared | {RequestCode.GET_ROUTEINFO_BY_TOPIC}
