"""The traps of RocketMQ's client: what its users fall into, and the test that says what happens here instead.

Each is a row of :data:`TRAPS`. Those that no other test file is about are tested below.
"""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from rocketpy.client.client import open_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.statuses import ConsumeConcurrentlyStatus
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.errors import BrokerError, ClientError
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.compression import CompressionType, compression_type, decompress
from rocketpy.protocol.message import Message
from tests.client.conftest import TOPIC
from tests.client.hostile.conftest import World

ROOT = Path(__file__).parents[3]
HERE = "tests/client/hostile/test_traps.py"
FIRST = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)

TRAPS: dict[str, tuple[str, ...]] = {
    "one silent broker takes the time of all attempts": (
        "tests/client/producer/test_pipeline.py::test_a_silent_broker_leaves_time_for_another_one",
        "tests/client/producer/test_retry_rules.py::test_by_default_attempts_share_the_time_that_is_left",
    ),
    "a busy broker is not tried elsewhere; an asynchronous send is not repeated after a refusal": (
        f"{HERE}::test_a_busy_broker_is_not_tried_elsewhere",
        "tests/client/producer/test_retry_rules.py::test_sync_retries_codes_and_async_does_not",
    ),
    "a refusal of a read of progress looks like no progress, and the group jumps": (
        f"{HERE}::test_a_broker_that_refuses_to_tell_progress_moves_no_group",
        "tests/client/consumer/test_pull_consumer.py::test_other_refusals_of_progress_are_errors",
    ),
    "a new group on a young queue begins at its first message, whatever was chosen": (
        "tests/broker/clients/test_group_requests.py::test_a_new_group_on_an_old_queue_must_choose_its_first_offset",
        "tests/client/consumer/test_start.py::test_a_group_begins_where_its_policy_says",
    ),
    "the first offset is 0, which a queue that was trimmed does not have any more": (
        f"{HERE}::test_a_trimmed_queue_is_consumed_from_its_first_message_on",
    ),
    "maps with objects and bare integers as keys are no JSON": (
        "tests/protocol/bodies/test_route.py::test_a_cluster_has_bare_integer_keys",
        "tests/protocol/bodies/test_offset.py::test_a_reset_has_queues_as_keys_and_for_c_a_list",
    ),
    "brokers treat a client of an old version as one that cannot count retries": (
        f"{HERE}::test_requests_have_the_version_of_a_client_that_brokers_trust",
    ),
    "a pull overtakes the heartbeat that announces its subscription": (
        "tests/client/consumer/test_consumer.py::test_heartbeats_say_what_is_consumed_before_anything_is_pulled",
        "tests/broker/pull/test_processor.py::test_a_subscription_newer_than_the_brokers",
    ),
    "members of one group with different subscriptions lose messages": (
        "tests/client/diagnosis/test_doctor.py::test_consumers_of_a_group_with_different_subscriptions",
    ),
    "broadcasting consumers keep offsets under their address, and drop what fails": (
        "tests/client/consumer/offsets/test_opening.py"
        "::test_a_broadcasting_one_has_a_file_that_another_run_of_the_client_finds",
        "tests/client/consumer/test_concurrently.py::test_a_broadcasting_consumer_loses_what_fails",
    ),
    "an orderly consumer that broadcasts takes locks and keeps the next one waiting": (
        "tests/client/consumer/test_consumer.py::test_a_broadcasting_consumer_is_orderly_without_locks",
    ),
    "-1 retries are sixteen, or without end": (
        "tests/client/consumer/test_config.py::test_retries_are_sixteen_but_for_orderly_consumers_without_end",
    ),
    "one pull thread: a broker that does not tell offsets stalls all queues": (
        f"{HERE}::test_a_broker_that_does_not_tell_offsets_stalls_no_queue_of_another",
    ),
    "settings that are read once, and a compression type that changes only the flag": (
        f"{HERE}::test_settings_cannot_be_changed_without_effect",
        f"{HERE}::test_the_compression_type_is_that_of_the_bytes",
    ),
    "an asynchronous send goes on with the caller's object": (
        f"{HERE}::test_a_message_that_is_changed_after_the_call_is_sent_as_it_was",
    ),
    "a message that is sent again keeps its id": (
        "tests/client/producer/test_producer.py::test_repeating_keeps_the_unique_key",
        "tests/client/producer/test_producer.py::test_a_unique_key_of_the_caller_is_kept",
    ),
    "a unique key looks like an offset id, with an address that is none": (
        "tests/client/admin/test_messages.py::test_a_message_is_found_by_each_of_its_ids_and_keys",
        "tests/client/admin/test_messages.py::test_an_address_that_no_broker_has_registered_is_dialled_by_view_only",
    ),
    "the time in a unique key is of a month in local time": (
        "tests/client/admin/test_messages.py::test_a_unique_key_is_looked_for_from_its_time_on_and_then_everywhere",
        "tests/protocol/test_message_id.py"
        "::test_a_clock_that_steps_back_a_little_over_the_start_of_a_month_stands_still",
    ),
    "keys are separated by blanks, found by hash, and at most 64 come": (
        "tests/client/admin/test_messages.py::test_messages_whose_keys_only_have_the_same_hash_are_left_out",
        "tests/protocol/test_properties.py::test_the_unique_key_comes_first_and_blanks_separate_keys",
    ),
    "an answer without fields": (
        "tests/client/hostile/test_sends.py::test_an_answer_that_does_not_say_where_is_a_protocol_error",
        "tests/client/hostile/test_pulls.py::test_a_pull_is_a_protocol_error",
    ),
    "a negative queue id lets the broker choose": (
        "tests/broker/send/test_processor.py::test_a_negative_queue_id_leaves_the_choice_to_the_broker",
    ),
    "the key of a new topic is a topic, not a cluster": (
        "tests/client/admin/test_admin_client.py::test_a_topic_is_created_on_every_master",
    ),
    "every client is a producer of CLIENT_INNER_PRODUCER": (
        "tests/client/test_heartbeats.py::test_a_client_without_groups_is_quiet",
    ),
    "a broker that does not know the requester cannot pass the reply on": (
        f"{HERE}::test_every_broker_knows_the_producer_before_its_first_request_is_sent",
    ),
    "automatic commits are made by polls only": (
        "tests/client/consumer/lite_pull/test_consumer.py"
        "::test_a_poll_commits_what_the_polls_before_it_have_returned_once_in_an_interval",
    ),
    "a tool that fails with status 0, and deletes more than was said": (
        "tests/cli/test_topic.py::test_refusals_are_one_sentence_and_status_1",
        "tests/client/admin/test_groups.py::test_offsets_of_a_deleted_group_go_only_on_demand",
    ),
    "traces need their topic": (f"{HERE}::test_without_a_trace_topic_messages_are_sent_and_the_client_ends",),
    "a property without a value does not arrive": (
        "tests/client/test_validators.py::test_a_blank_name_or_value_is_refused_because_it_would_not_arrive",
    ),
    "a group may have a name whose retry topic is too long": (
        f"{HERE}::test_a_group_whose_retry_topic_is_too_long_loses_nothing",
    ),
}
"""The trap, and the tests of what happens instead, as ``path::name``."""


def test_every_trap_has_a_test_that_exists() -> None:
    assert len(TRAPS) == 29
    for tests in TRAPS.values():
        for path, name in (test.split("::") for test in tests):
            assert f"def {name}(" in (ROOT / path).read_text(), f"{path}::{name}"


# ---- sends ---------------------------------------------------------------------------------------------------------


async def test_a_busy_broker_is_not_tried_elsewhere(world: World, autojump_clock: trio.testing.MockClock) -> None:
    """As in Java: SYSTEM_BUSY, 2, is no code to retry, unlike SYSTEM_ERROR, 1."""
    for code, attempts in ((ResponseCode.SYSTEM_BUSY, 1), (ResponseCode.SYSTEM_ERROR, 3)):
        for broker in world.cluster.brokers:
            broker.refuse(RequestCode.SEND_MESSAGE_V2, code)
            broker.requests.clear()
        async with (
            open_client(world.address, environment=world.environment) as client,
            client.producer("p") as producer,
        ):
            with pytest.raises(BrokerError, match=f"CODE: {code:d}"):
                await producer.send(Message(TOPIC, b"x"))
            sent = [each for broker in world.cluster.brokers for each in broker.asked(RequestCode.SEND_MESSAGE_V2)]
            assert len(sent) == attempts
            with pytest.raises(BrokerError, match=f"CODE: {code:d}"):
                await producer.send_nowait(Message(TOPIC, b"x"))


async def test_requests_have_the_version_of_a_client_that_brokers_trust(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    async with (
        open_client(world.address, environment=world.environment) as client,
        client.consumer("g", TOPIC) as consumer,
    ):
        await consumer.wait_assigned()
        await trio.sleep(1)
    for server in (world.cluster.name_server, *world.cluster.brokers):
        assert server.requests
        assert {each.version >= 409 for each in server.requests} == {True}


async def test_settings_cannot_be_changed_without_effect() -> None:
    for config in (ClientConfig(), ProducerConfig(), ConsumerConfig()):
        for field in attrs.fields(type(config)):
            with pytest.raises(attrs.exceptions.FrozenInstanceError):
                setattr(config, field.name, getattr(config, field.name))


@pytest.mark.parametrize("kind", CompressionType)
async def test_the_compression_type_is_that_of_the_bytes(
    world: World, autojump_clock: trio.testing.MockClock, kind: CompressionType
) -> None:
    async with (
        open_client(world.address, environment=world.environment) as client,
        client.producer("p", config=ProducerConfig(compress_type=kind)) as producer,
    ):
        await producer.send(Message(TOPIC, b"x" * 10_000))
    (stored,) = (each for broker in world.cluster.brokers for each in broker.messages(TOPIC))
    assert compression_type(stored.sys_flag) is kind
    assert decompress(stored.body, kind) == b"x" * 10_000


async def test_a_message_that_is_changed_after_the_call_is_sent_as_it_was(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    """And a send changes nothing of it: not with compression, nor with a namespace."""
    world.cluster.add_topic(f"MQ_INST%{TOPIC}", 1)
    message = Message(TOPIC, b"x" * 10_000, {"a": "before"})
    config = ClientConfig(namespace="MQ_INST")
    async with (
        open_client(world.address, environment=world.environment, config=config) as client,
        client.producer("p") as producer,
    ):
        pending = producer.send_nowait(message)
        assert (message.topic, message.body, message.properties) == (TOPIC, b"x" * 10_000, {"a": "before"})
        message.properties["a"] = "after"
        await pending
    (stored,) = (each for broker in world.cluster.brokers for each in broker.messages(f"MQ_INST%{TOPIC}"))
    assert stored.properties["a"] == "before"
    assert (message.topic, message.properties) == (TOPIC, {"a": "after"})


async def test_every_broker_knows_the_producer_before_its_first_request_is_sent(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    async with (
        open_client(world.address, environment=world.environment) as client,
        client.producer("p") as producer,
    ):
        with pytest.raises(ClientError, match="10006"):
            await producer.request(Message(TOPIC, b"x"), timeout_s=1.0)
        for broker in world.cluster.brokers:
            codes = [each.code for each in broker.requests]
            assert codes[0] == RequestCode.HEART_BEAT
            assert [each.group_name for each in broker.heartbeats[0].producer_data_set] == ["p"]


async def test_without_a_trace_topic_messages_are_sent_and_the_client_ends(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    """No broker creates it either."""
    begun = trio.current_time()
    async with (
        open_client(world.address, environment=world.environment) as client,
        client.producer("p", config=ProducerConfig(enable_msg_trace=True)) as producer,
    ):
        for _ in range(20):
            await producer.send(Message(TOPIC, b"x"))
    assert trio.current_time() - begun < 30
    assert sum(len(broker.bodies(TOPIC)) for broker in world.cluster.brokers) == 20


# ---- consumers -----------------------------------------------------------------------------------------------------


async def test_a_broker_that_refuses_to_tell_progress_moves_no_group(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    broker = world.cluster.broker
    for number in range(4):
        broker.put(TOPIC, 0, b"%d" % number)
    broker.progress["g", TOPIC, 0] = 2
    broker.refuse(RequestCode.QUERY_CONSUMER_OFFSET, ResponseCode.SYSTEM_ERROR)
    handled: list[bytes] = []

    async def handler(batch: MessageBatch) -> None:
        handled.extend(each.body for each in batch)

    async with (
        open_client(world.address, environment=world.environment) as client,
        client.consumer("g", TOPIC, config=FIRST) as consumer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(consumer.run, handler)
        await trio.sleep(30)
        assert handled == []
        broker.behave()
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert sorted(handled) == [b"2", b"3"]


@pytest.mark.parametrize("is_orderly", [False, True])
async def test_a_trimmed_queue_is_consumed_from_its_first_message_on(
    world: World, autojump_clock: trio.testing.MockClock, is_orderly: bool
) -> None:
    """Within half a minute: the queue is given up and taken again."""
    broker = world.cluster.broker
    for number in range(8):
        broker.put(TOPIC, 0, b"%d" % number)
    broker.min_offsets[TOPIC, 0] = 5
    handled: list[bytes] = []

    async def handler(batch: MessageBatch) -> None:
        handled.extend(each.body for each in batch)

    async with (
        open_client(world.address, environment=world.environment) as client,
        client.consumer("g", TOPIC, config=FIRST) as consumer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(consumer.run_orderly if is_orderly else consumer.run, handler)
        await trio.sleep(35)
        nursery.cancel_scope.cancel()
    assert sorted(handled) == [b"5", b"6", b"7"]


@pytest.mark.parametrize("is_orderly", [False, True])
async def test_a_broker_that_does_not_tell_offsets_stalls_no_queue_of_another(
    world: World, autojump_clock: trio.testing.MockClock, is_orderly: bool
) -> None:
    silent, good = world.cluster.brokers
    silent.be_silent(RequestCode.QUERY_CONSUMER_OFFSET)
    silent.be_silent(RequestCode.GET_MAX_OFFSET)
    handled: list[float] = []

    async def handler(batch: MessageBatch) -> None:
        handled.append(trio.current_time())

    async with (
        open_client(world.address, environment=world.environment) as client,
        client.consumer("g", TOPIC, config=FIRST) as consumer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(consumer.run_orderly if is_orderly else consumer.run, handler)
        for _ in range(60):
            sent_at = trio.current_time()
            good.put(TOPIC, 0, b"x")
            await trio.sleep(1)
            late = handled[-1] - sent_at if handled else 1.0
            assert sent_at < 10 or late < 0.5
        nursery.cancel_scope.cancel()


async def test_a_group_whose_retry_topic_is_too_long_loses_nothing(
    world: World, autojump_clock: trio.testing.MockClock
) -> None:
    """No broker stores its retries: they are made here."""
    group = "g" * 255
    broker = world.cluster.broker
    broker.put(TOPIC, 0, b"x")
    for each in world.cluster.brokers:
        for code in (RequestCode.CONSUMER_SEND_MSG_BACK, RequestCode.SEND_MESSAGE_V2):
            each.refuse(code, ResponseCode.MESSAGE_ILLEGAL, "the topic is too long")
    handled: list[float] = []

    async def handler(batch: MessageBatch) -> ConsumeConcurrentlyStatus:
        handled.append(trio.current_time())
        return ConsumeConcurrentlyStatus("CONSUME_SUCCESS" if len(handled) == 3 else "RECONSUME_LATER")

    async with (
        open_client(world.address, environment=world.environment) as client,
        client.consumer(group, TOPIC, config=FIRST) as consumer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(consumer.run, handler)
        await trio.sleep(8)
        assert broker.progress.get((group, TOPIC, 0), 0) == 0
        await trio.sleep(60)
        nursery.cancel_scope.cancel()
    assert len(handled) == 3
    assert broker.progress[group, TOPIC, 0] == 1
