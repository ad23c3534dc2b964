"""Pulls over bytes from a real store: checks in order, offsets, filters. Those that wait have a file of their own."""

from __future__ import annotations

import pytest

from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.codes import ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.kernels.pull_header import PullForms
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker, pull, send
from tests.broker.pull.pulling import COMMIT, LITE, SUBSCRIPTION, SUSPEND, bodies, offsets, send_tags, subscribe

FAQ = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."


async def refused(broker: MessageBroker, request: RemotingCommand) -> tuple[int, str]:
    answer = await broker.ask(request)
    assert answer.body is None
    assert not answer.ext_fields
    return answer.code, answer.remark or ""


# ---- each row of the table ------------------------------------------------------------------------------------------


async def test_a_broker_that_is_not_readable() -> None:
    async with open_message_broker(broker_permission=2) as broker:
        remark = "the broker[127.0.0.1] pulling message is forbidden"
        assert await refused(broker, pull()) == (ResponseCode.NO_PERMISSION, remark)


async def test_an_unknown_group() -> None:
    async with open_message_broker(auto_create_subscription_group=False) as broker:
        remark = f"subscription group [G] does not exist, {FAQ}"
        assert await refused(broker, pull()) == (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)


async def test_a_group_that_may_not_consume(broker: MessageBroker) -> None:
    broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G", consume_enable=False))
    assert await refused(broker, pull()) == (ResponseCode.NO_PERMISSION, "subscription group no permission, G")


async def test_an_unknown_topic(broker: MessageBroker) -> None:
    code, remark = await refused(broker, pull(topic="Unknown"))
    assert code == ResponseCode.TOPIC_NOT_EXIST
    assert remark == f"topic[Unknown] not exist, apply first please! {FAQ}"
    assert broker.tables.topics.select_topic_config("Unknown") is None


async def test_a_topic_that_is_not_readable(broker: MessageBroker) -> None:
    broker.add_topic("Secret", perm=2)
    remark = "the topic[Secret] pulling message is forbidden"
    assert await refused(broker, pull(topic="Secret")) == (ResponseCode.NO_PERMISSION, remark)


@pytest.mark.parametrize("queue_id", [-1, 4, 99, 2**31 - 1, -(2**31)])
async def test_a_queue_id_out_of_range(broker: MessageBroker, queue_id: int) -> None:
    broker.add_topic(write_queue_nums=200)
    remark = (
        f"queueId[{queue_id}] is illegal, topic:[TopicTest] topicConfig.readQueueNums:[4] consumer:[127.0.0.1:50001]"
    )
    assert await refused(broker, pull(queue_id=queue_id)) == (ResponseCode.SYSTEM_ERROR, remark)


@pytest.mark.parametrize("expression", ["||", "||||"])
async def test_a_subscription_that_cannot_be_parsed(broker: MessageBroker, expression: str) -> None:
    code, remark = await refused(broker, pull(subscription=expression))
    assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert remark.startswith("parse the consumer's subscription failed: ")
    subscribe(broker, SubscriptionData(TOPIC, expression, 5))
    assert (await refused(broker, pull(sys_flag=0)))[0] == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_a_group_that_is_not_connected(broker: MessageBroker) -> None:
    remark = f"the consumer's group info not exist{FAQ}"
    assert await refused(broker, pull(sys_flag=0)) == (ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)


async def test_broadcasting_where_it_is_not_allowed(broker: MessageBroker) -> None:
    subscribe(broker, SubscriptionData(TOPIC), model="BROADCASTING")
    group = SubscriptionGroupConfig("G", consume_broadcast_enable=False)
    broker.tables.groups.update_subscription_group_config(group)
    remark = "the consumer group[G] can not consume by broadcast way"
    assert await refused(broker, pull(sys_flag=0)) == (ResponseCode.NO_PERMISSION, remark)
    broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G"))
    assert (await broker.ask(pull(sys_flag=0))).code == ResponseCode.PULL_NOT_FOUND


async def test_a_topic_that_the_group_does_not_subscribe(broker: MessageBroker) -> None:
    subscribe(broker, SubscriptionData("Other"))
    remark = f"the consumer's subscription not exist{FAQ}"
    assert await refused(broker, pull(sys_flag=0)) == (ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)


async def test_a_subscription_newer_than_the_brokers(broker: MessageBroker) -> None:
    """The heartbeat with the new subscription is on its way: the consumer asks again."""
    subscribe(broker, SubscriptionData(TOPIC, sub_version=5))
    code, remark = await refused(broker, pull(sys_flag=0, sub_version=6))
    assert code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    assert remark.startswith("the consumer's subscription not latest")
    assert (await broker.ask(pull(sys_flag=0, sub_version=5))).code == ResponseCode.PULL_NOT_FOUND


async def test_filters_other_than_tags_are_not_served(broker: MessageBroker) -> None:
    remark = "The broker does not support consumer to filter message by SQL92"
    assert await refused(broker, pull(expression_type="SQL92", subscription="a > 1")) == (1, remark)
    subscribe(broker, SubscriptionData(TOPIC, "a > 1", 5, expression_type="SQL92"))
    assert await refused(broker, pull(sys_flag=0)) == (1, remark)


async def test_of_several_faults_the_first_of_the_table_is_named() -> None:
    async with open_message_broker(broker_permission=2, auto_create_subscription_group=False) as broker:
        broker.add_topic("Secret", perm=2)
        everything = pull(topic="Unknown", queue_id=99, subscription="||")
        assert "the broker[" in (await refused(broker, everything))[1]
    async with open_message_broker(auto_create_subscription_group=False) as broker:
        assert (await refused(broker, everything))[0] == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G", consume_enable=False))
        assert (await refused(broker, everything))[0] == ResponseCode.NO_PERMISSION
        broker.tables.groups.update_subscription_group_config(
            SubscriptionGroupConfig("G", consume_broadcast_enable=False)
        )
        assert (await refused(broker, everything))[0] == ResponseCode.TOPIC_NOT_EXIST
        broker.add_topic("Unknown", perm=2)
        assert (await refused(broker, everything))[0] == ResponseCode.NO_PERMISSION
        broker.add_topic("Unknown")
        assert "queueId[99]" in (await refused(broker, everything))[1]
        everything = pull(topic="Unknown", subscription="||", sys_flag=0, sub_version=9)
        assert "group info" in (await refused(broker, everything))[1]
        subscribe(broker, SubscriptionData("Other", "a > 1", 5, expression_type="SQL92"), model="BROADCASTING")
        assert "broadcast" in (await refused(broker, everything))[1]
        broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G"))
        assert "subscription not exist" in (await refused(broker, everything))[1]
        subscribe(broker, SubscriptionData("Unknown", "a > 1", 5, expression_type="SQL92"))
        assert (await refused(broker, everything))[0] == ResponseCode.SUBSCRIPTION_NOT_LATEST
        assert (await refused(broker, pull(topic="Unknown", sys_flag=0)))[0] == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("name", ["topic", "consumer_group", "subscription", "expression_type"])
async def test_a_long_text_is_not_sent_back_whole(name: str) -> None:
    async with open_message_broker(auto_create_subscription_group=False) as broker:
        if name != "consumer_group":
            broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G"))
        text = "\x01" * 60_000 if name != "subscription" else "||" * 200_000  # as a header holds
        assert len((await refused(broker, pull(**{name: text})))[1]) < 500


# ---- what is found --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("serialize_type", list(SerializeType))
async def test_messages_from_an_offset_on(broker: MessageBroker, serialize_type: SerializeType) -> None:
    await send_tags(broker, "a", "b", "c", "d")
    answer = await broker.ask(pull(queue_offset=1, max_msg_nums=2, serialize_type=serialize_type))
    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, "FOUND")
    assert bodies(answer) == ["b", "c"]
    assert offsets(answer) == (3, 0, 4)


async def test_both_paths_give_the_same_answers_and_count_the_same() -> None:
    """Every offset in and around the queue, and numbers of messages that are and are not served as they are asked."""
    pulls = [
        pull(queue_offset=offset, max_msg_nums=count, oneway=oneway)
        for offset in (-(2**63), -1, 0, 1, 5, 38, 39, 40, 41, 2**63 - 1)
        for count in (-(2**31), 0, 1, 2, 32, 33, 2**31 - 1)
        for oneway in (False, True)
    ]
    seen = []
    for is_fast in (True, False):
        async with open_message_broker(slave_read_enable=True, has_fast_paths=is_fast) as broker:
            broker.tables.groups.update_subscription_group_config(SubscriptionGroupConfig("G", broker_id=5))
            await send_tags(broker, *"abcdefghij" * 4)
            answers = [await broker.ask_all(request) for request in pulls]
            counted = broker.tables.stats.get_stats_item("GROUP_GET_NUMS", f"{TOPIC}@G")
            sizes = broker.tables.stats.get_stats_item("GROUP_GET_SIZE", f"{TOPIC}@G")
            assert counted is not None
            assert sizes is not None
            figures = (counted.value, counted.times, sizes.value, broker.tables.stats.fall_bytes())
            runtime = broker.store.statistics()
            reads = (runtime.get_count, runtime.get_miss_count, runtime.get_message_count)
            seen.append((answers, figures, reads))
    assert seen[0] == seen[1]


async def test_a_pull_sees_what_was_sent_before_it_in_the_same_burst(broker: MessageBroker) -> None:
    answers = await broker.ask_frames(encode_frame(send(b"now")) + encode_frame(pull()))
    assert bodies(answers[1]) == ["now"]


@pytest.mark.parametrize("count", [0, -1, 1, 32, 33, 2**31 - 1])
async def test_the_number_of_messages_is_bounded(broker: MessageBroker, count: int) -> None:
    """Compatibility: at least one message, at most maxTransferCountOnMessageInMemory."""
    await send_tags(broker, *"abcdefghij" * 4)
    answer = await broker.ask(pull(max_msg_nums=count))
    assert len(bodies(answer)) == max(1, min(count, 32))
    assert offsets(answer) == (max(1, min(count, 32)), 0, 40)


@pytest.mark.parametrize(
    ("queue_offset", "code", "remark", "next_offset"),
    [
        (4, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 4),
        (5, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 4),
        (2**63 - 1, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", 4),
        (-1, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0),
        (-(2**63), ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 0),
    ],
)
async def test_an_offset_outside_of_the_queue(
    broker: MessageBroker, queue_offset: int, code: int, remark: str, next_offset: int
) -> None:
    await send_tags(broker, "a", "b", "c", "d")
    answer = await broker.ask(pull(queue_offset=queue_offset))
    assert (answer.code, answer.remark, offsets(answer)) == (code, remark, (next_offset, 0, 4))


@pytest.mark.parametrize(
    ("queue_offset", "code"), [(0, ResponseCode.PULL_NOT_FOUND), (7, ResponseCode.PULL_OFFSET_MOVED)]
)
async def test_an_empty_queue(broker: MessageBroker, queue_offset: int, code: int) -> None:
    answer = await broker.ask(pull(queue_offset=queue_offset, queue_id=3))
    assert (answer.code, answer.remark, offsets(answer)) == (code, "NO_MESSAGE_IN_QUEUE", (0, 0, 0))


async def test_oneway_is_never_answered(broker: MessageBroker) -> None:
    await send_tags(broker, "a")
    connection = broker.connect()
    for request in (
        pull(oneway=True),
        pull(oneway=True, topic="Unknown"),
        pull(oneway=True, queue_offset=1, sys_flag=SUBSCRIPTION | SUSPEND),
    ):
        assert await broker.ask_all(request, connection) == []
    await send_tags(broker, "b")
    assert received(connection) == []
    assert connection.deferred_count == 0


# ---- filters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("*", ["a", "b", "c", "a"]),
        ("", ["a", "b", "c", "a"]),
        (None, ["a", "b", "c", "a"]),
        ("a", ["a", "a"]),
        ("a || c", ["a", "c", "a"]),
        (" b ", ["b"]),
    ],
)
async def test_tags_from_the_request_and_from_the_heartbeat(
    broker: MessageBroker, expression: str | None, found: list[str]
) -> None:
    await send_tags(broker, "a", "b", "c", "a")
    answer = await broker.ask(pull(subscription=expression, expression_type=None))
    assert (bodies(answer), offsets(answer)) == (found, (4, 0, 4))
    subscribe(broker, SubscriptionData(TOPIC, expression or "*", 5))
    answer = await broker.ask(pull(sys_flag=0, sub_version=5, subscription="ignored"))
    assert (bodies(answer), offsets(answer)) == (found, (4, 0, 4))


async def test_where_nothing_matches_the_offset_goes_on(broker: MessageBroker) -> None:
    await send_tags(broker, "a", "b", "c")
    answer = await broker.ask(pull(subscription="x", queue_offset=1, sys_flag=SUBSCRIPTION | SUSPEND))
    assert (answer.code, answer.remark) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE")
    assert offsets(answer) == (3, 0, 3)


async def test_a_lite_pull_is_a_pull(broker: MessageBroker) -> None:
    await send_tags(broker, "a", "b")
    assert bodies(await broker.ask(pull(sys_flag=SUBSCRIPTION | LITE, subscription="b"))) == ["b"]


# ---- the offset that comes along ------------------------------------------------------------------------------------


async def test_an_offset_is_committed_if_the_flag_says_so(broker: MessageBroker) -> None:
    offset_of = broker.tables.offsets.query_offset
    await broker.ask(pull(commit_offset=7))
    assert offset_of("G", TOPIC, 0) == -1
    await broker.ask(pull(commit_offset=7, sys_flag=SUBSCRIPTION | COMMIT))
    assert offset_of("G", TOPIC, 0) == 7
    await broker.ask(pull(commit_offset=9, sys_flag=SUBSCRIPTION | COMMIT, topic="Unknown"))
    assert offset_of("G", "Unknown", 0) == -1  # what is refused commits nothing


async def test_an_offset_that_cannot_be_kept_is_left_out_and_the_pull_served(broker: MessageBroker) -> None:
    """As UPDATE_CONSUMER_OFFSET refuses it: a group at -7 would read that it has no offset."""
    await send_tags(broker, "a")
    manager = broker.tables.offsets
    for commit_offset in (-1, -7, -(2**63)):
        request = pull(commit_offset=commit_offset, sys_flag=SUBSCRIPTION | COMMIT)
        assert bodies(await broker.ask(request)) == ["a"]
        assert manager.offset_table == {}
    await broker.ask(pull(commit_offset=1, sys_flag=SUBSCRIPTION | COMMIT))
    await broker.ask(pull(commit_offset=-1, sys_flag=SUBSCRIPTION | COMMIT))
    assert manager.query_offset("G", TOPIC, 0) == 1


async def test_offsets_of_pulls_are_bounded_as_others_are() -> None:
    async with open_message_broker(consumer_offsets_max=1) as broker:
        for queue_id, offset in ((0, 1), (1, 2), (0, 3)):
            answer = await broker.ask(pull(queue_id=queue_id, commit_offset=offset, sys_flag=SUBSCRIPTION | COMMIT))
            assert answer.code == ResponseCode.PULL_NOT_FOUND
        assert [broker.tables.offsets.query_offset("G", TOPIC, queue_id) for queue_id in (0, 1)] == [3, -1]


async def test_an_offset_is_committed_also_when_the_pull_is_held(broker: MessageBroker) -> None:
    flags = SUBSCRIPTION | COMMIT | SUSPEND
    assert await broker.ask_all(pull(commit_offset=3, sys_flag=flags)) == []
    assert broker.tables.offsets.query_offset("G", TOPIC, 0) == 3


# ---- headers that are like others -----------------------------------------------------------------------------------


async def test_pulls_one_after_the_other_are_answered_as_by_the_general_path() -> None:
    """Whether a header is read by comparison with one before it or decoded, in any order, with whatever outcome."""
    frames = [
        encode_frame(pull(opaque=opaque, queue_id=queue_id, queue_offset=queue_offset, topic=topic, **others))
        for opaque, (queue_id, queue_offset, topic, others) in enumerate(
            (queue_id, queue_offset, topic, others)
            for others in (
                {},
                {"max_msg_nums": 2},
                {"sys_flag": SUBSCRIPTION | COMMIT, "commit_offset": 3},
                {"subscription": "a"},
                {"commit_offset": -1},
            )
            for topic in (TOPIC, "Other", "Unknown")
            for queue_id in (0, 3, 4)
            for queue_offset in (0, 1, 5, 6, 7, 2**40)
        )
    ]
    answers, offsets_after = [], []
    for way in ("kept", "fast", "general"):
        async with open_message_broker() as broker:
            broker.add_topic("Other")
            await send_tags(broker, *"abcabc")
            await send_tags(broker, *"bcd", topic="Other")
            connection = broker.connect()
            if way == "kept":  # whatever build this is
                connection.kept_pulls = PullForms()
            elif way == "general":
                broker.use_general_path()
            answers.append([await broker.ask_frames(frame, connection) for frame in frames])
            answers[-1].append(await broker.ask_frames(b"".join(frames), connection))
            offsets_after.append(broker.tables.offsets.query_offset("G", TOPIC, 3))
    assert answers[0] == answers[1] == answers[2]
    assert offsets_after == [3, 3, 3]


async def test_a_pull_that_waits_keeps_its_own_header() -> None:
    async with open_message_broker() as broker:
        connection = broker.connect()
        connection.kept_pulls = PullForms()
        for opaque in (1, 2, 3):
            flags = SUBSCRIPTION | SUSPEND
            assert await broker.ask_all(pull(opaque=opaque, queue_id=opaque, sys_flag=flags), connection) == []
        frames = [encode_frame(send(b"%d" % queue_id, queue_id=queue_id)) for queue_id in (3, 1)]
        await broker.ask_frames(b"".join(frames))
        assert [(answer.opaque, bodies(answer)) for answer in received(connection)] == [(3, ["3"]), (1, ["1"])]
