"""Batches made of single sends: never reordered, each message with its own result.

The machine runs the batching producer against a model of brokers without a network: batches are answered, or fail, in
any order in which the answers of one connection may come. Planted bugs show that it would notice.
"""

from __future__ import annotations

import gc
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from types import SimpleNamespace

import pytest
import trio
import trio.testing
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from trio.testing import MockClock

from rocketpy.client.client import open_producer
from rocketpy.client.config import ClientConfig
from rocketpy.client.producer import batching
from rocketpy.client.producer.batching import BatchingProducer
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.delivery import Delivery
from rocketpy.client.producer.encoded_batch import EncodedBatch
from rocketpy.client.producer.pending_send import PendingSend
from rocketpy.client.producer.retry_rules import sync_rules
from rocketpy.client.producer.selectors import queue_by_hash
from rocketpy.client.producer.send_request import SendRequest, SendRequestMaker
from rocketpy.client.producer.send_window import SendWindow
from rocketpy.client.results import SendResult, SendStatus
from rocketpy.client.services.timeouts import Expiring
from rocketpy.clock import ManualClock
from rocketpy.errors import ClientError, RemotingSendRequestError, RemotingTooMuchRequestError
from rocketpy.protocol.batch import decode_batch_body, encode_batch_item
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.message import Message, MessageQueue
from tests.client.cancelled_everywhere import cancelled_everywhere
from tests.client.conftest import TOPIC
from tests.client.fake_cluster import FakeCluster
from tests.patience import until, until_blocked

BATCH = RequestCode.SEND_BATCH_MESSAGE
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
ONE_AT_A_TIME = ProducerConfig(back_pressure_for_async_send_num=1)


@asynccontextmanager
async def batching_of(
    cluster: FakeCluster, config: ProducerConfig | None = None, **settings: float
) -> AsyncIterator[BatchingProducer]:
    """A producer's batches; ``settings`` are those of ``Producer.batching``."""
    async with (
        open_producer(cluster.address, producer=config) as producer,
        producer.batching(**settings) as batches,  # type: ignore[arg-type]
    ):
        yield batches


async def test_messages_share_a_request_and_each_has_its_own_offset(cluster: FakeCluster) -> None:
    async with batching_of(cluster) as batches:
        pending = [batches.send_nowait(Message(TOPIC, b"%d" % n, {"n": str(n)}, flag=n), queue=QUEUE) for n in range(9)]
        results = [await each for each in pending]
    stored = cluster.broker.queues[TOPIC, 0]
    assert [(each.body, each.properties["n"], each.properties["UNIQ_KEY"]) for each in stored] == [
        (b"%d" % n, str(n), results[n].msg_id) for n in range(9)
    ]
    assert [each.queue_offset for each in results] == list(range(9))
    assert [each.offset_msg_id for each in results] == [each.offset_msg_id for each in stored]
    assert len(cluster.broker.asked(BATCH)) == 1


async def test_a_batch_leaves_when_its_time_is_over(cluster: FakeCluster, mock_clock: MockClock) -> None:
    async with batching_of(cluster, batch_max_delay_ms=50) as batches:
        pending = batches.send_nowait(Message(TOPIC, b"x"))
        mock_clock.jump(0.049)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert cluster.broker.asked(BATCH) == []
        mock_clock.jump(0.001)
        await until_blocked(lambda: pending.is_done)
    assert cluster.broker.bodies(TOPIC) == [b"x"]


async def test_a_batch_leaves_when_it_is_full(cluster: FakeCluster) -> None:
    async with batching_of(cluster, batch_max_bytes=1000, batch_max_delay_ms=60_000) as batches:
        for number in range(20):
            batches.send_nowait(Message(TOPIC, b"%d" % number * 50), queue=QUEUE)
        await until(lambda: len(cluster.broker.asked(BATCH)) > 1)
    sizes = [len(each.body or b"") for each in cluster.broker.asked(BATCH)]
    assert max(sizes) <= 1000
    assert [each.body for each in cluster.broker.queues[TOPIC, 0]] == [b"%d" % n * 50 for n in range(20)]


async def test_what_is_longer_than_a_batch_goes_alone_and_in_turn(cluster: FakeCluster) -> None:
    long = bytes(5000) + b"long"
    async with batching_of(cluster, batch_max_bytes=1000) as batches:
        for body in (b"before", long, b"after"):
            batches.send_nowait(Message(TOPIC, body), queue=QUEUE)
    assert [len(each.body) for each in cluster.broker.queues[TOPIC, 0]][::2] == [6, 5]
    (alone,) = cluster.broker.asked(RequestCode.SEND_MESSAGE_V2)
    assert len(alone.body or b"") < 100, "it is compressed as any single message"


async def test_waits_and_topics_do_not_mix(cluster: FakeCluster) -> None:
    cluster.add_topic("Other")
    async with batching_of(cluster) as batches:
        for n in range(4):
            batches.send_nowait(Message(TOPIC, b"%d" % n, {"WAIT": "false"} if n % 2 else {}), queue=QUEUE)
            batches.send_nowait(Message("Other", b"%d" % n))
    assert [each.body for each in cluster.broker.queues[TOPIC, 0]] == [b"0", b"1", b"2", b"3"]
    assert len(cluster.broker.asked(BATCH)) == 5


async def test_a_selector_chooses_the_queue_for_which_a_message_is_collected(cluster: FakeCluster) -> None:
    async with batching_of(cluster) as batches:
        first = await batches.send(Message(TOPIC, b"first"), queue=queue_by_hash(2))
        pending = [batches.send_nowait(Message(TOPIC, b"%d" % n), queue=queue_by_hash(n)) for n in range(8)]
        pending.append(await batches.send_soon(Message(TOPIC, b"8"), queue=QUEUE))
        results = [await each for each in pending]
    assert first.message_queue.queue_id == 2
    assert [each.message_queue.queue_id for each in results] == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert [each.body for each in cluster.broker.queues[TOPIC, 0]] == [b"0", b"4", b"8"]
    assert len(cluster.broker.asked(BATCH)) == 5, "queue and selector share a batch"
    assert cluster.broker.asked(RequestCode.SEND_MESSAGE_V2) == []


async def test_without_known_queues_a_selected_message_goes_alone_after_those_of_its_topic(
    cluster: FakeCluster,
) -> None:
    async with batching_of(cluster, batch_max_delay_ms=60_000) as batches:
        batches.send_nowait(Message(TOPIC, b"before"), queue=QUEUE)
        pending = batches.send_nowait(Message(TOPIC, b"alone"), queue=queue_by_hash(0))
        assert (await pending).message_queue == QUEUE
        await until(lambda: len(cluster.broker.queues[TOPIC, 0]) == 2)
    assert [each.body for each in cluster.broker.queues[TOPIC, 0]] == [b"before", b"alone"]
    assert len(cluster.broker.asked(RequestCode.SEND_MESSAGE_V2)) == 1


@pytest.mark.parametrize("fault", ["no queue", "an exception"])
async def test_a_selector_that_fails_refuses_its_message_and_takes_no_room(cluster: FakeCluster, fault: str) -> None:
    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        if fault == "no queue":
            return None  # type: ignore[return-value]
        raise ZeroDivisionError

    async with batching_of(cluster, ONE_AT_A_TIME) as batches:
        await batches.send(Message(TOPIC, b"the queues are known"))
        with pytest.raises(ClientError, match="select message queue"):
            batches.send_nowait(Message(TOPIC, b"x"), queue=select)
        with pytest.raises(ClientError, match="select message queue"):
            await batches.send(Message(TOPIC, b"x"), queue=select)
        await batches.send(Message(TOPIC, b"there is room"))


async def test_a_selector_of_a_topic_without_route_fails_in_time(cluster: FakeCluster) -> None:
    cluster.name_server.routes.clear()
    async with batching_of(cluster) as batches:
        with pytest.raises(ClientError, match="No route info"):
            await batches.send(Message(TOPIC, b"x"), queue=queue_by_hash(1))


async def test_what_no_batch_can_hold_is_refused_and_takes_no_room(cluster: FakeCluster) -> None:
    async with open_producer(cluster.address, producer=ONE_AT_A_TIME) as producer:
        async with producer.batching() as batches:
            for message, fault in (
                (Message(TOPIC, b"x", {"DELAY": "1"}), "TimeDelayLevel"),
                (Message("%RETRY%g", b"x"), "Retry Group"),
                (Message(TOPIC, b""), "length is zero"),
                (Message(TOPIC, b"x", flag=2**31), "int32"),
                (Message(TOPIC, b"x", {"a": "b" * 32767}), "32767 bytes"),
                (Message("Other", b"x"), "not equal"),
            ):
                with pytest.raises(ClientError, match=fault):
                    batches.send_nowait(message, queue=QUEUE)
                with pytest.raises(ClientError, match=fault):
                    await batches.send(message, queue=QUEUE)
            batches.send_nowait(Message(TOPIC, b"x"))
            with pytest.raises(RemotingTooMuchRequestError):
                batches.send_nowait(Message(TOPIC, b"x"))
        with pytest.raises(ClientError, match="closed"):
            batches.send_nowait(Message(TOPIC, b"x"))
        with pytest.raises(ClientError, match="some time and bytes"):
            async with producer.batching(batch_max_delay_ms=0):
                pass


async def test_after_the_producer_has_gone_messages_fail(cluster: FakeCluster) -> None:
    async with open_producer(cluster.address) as producer:
        manager = producer.batching()
        batches = await manager.__aenter__()
    pending = batches.send_nowait(Message(TOPIC, b"x"))
    batches.flush()
    with pytest.raises(ClientError, match="SHUTDOWN_ALREADY"):
        await pending
    await manager.__aexit__(None, None, None)


async def test_the_block_waits_for_every_batch_also_when_one_ends_meanwhile(two_brokers: FakeCluster) -> None:
    slow = two_brokers.brokers[1]
    slow.be_silent(BATCH)
    ended = trio.Event()

    async def fail(pending: PendingSend) -> None:
        with pytest.raises(RemotingSendRequestError):
            await pending

    async def collect() -> None:
        async with open_producer(two_brokers.address) as producer:
            async with producer.batching() as batches:
                sent.extend(
                    batches.send_nowait(Message(TOPIC, b"x"), queue=MessageQueue(TOPIC, broker.name, 0))
                    for broker in two_brokers.brokers
                )
            ended.set()
            await fail(sent[1])

    sent: list[PendingSend] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(collect)
        await until(lambda: sent and sent[0].is_done and slow.asked(BATCH))
        await trio.testing.wait_all_tasks_blocked()
        assert not ended.is_set()
        slow.peers[-1].close()
    assert ended.is_set()


async def test_what_waits_for_room_when_the_block_ends_meanwhile_is_refused(cluster: FakeCluster) -> None:
    """It would be collected after the last batch has left, and nothing would wait for it."""
    cluster.broker.be_silent(BATCH)
    refused: list[str] = []

    async def wait(send: Callable[[], Awaitable[object]]) -> None:
        with pytest.raises(ClientError) as caught:
            await send()
        refused.append(str(caught.value))

    async with open_producer(cluster.address, producer=ONE_AT_A_TIME) as producer, trio.open_nursery() as nursery:
        async with producer.batching() as batches:
            batches.send_nowait(Message(TOPIC, b"in flight"))
            nursery.start_soon(wait, lambda: batches.send_soon(Message(TOPIC, b"late")))
            nursery.start_soon(
                wait, lambda: batches.send_encoded(EncodedBatch(TOPIC, encode_batch_item(0, b"late", {})))
            )
            await until(lambda: cluster.broker.asked(BATCH))
            cluster.broker.behave()
            cluster.broker.peers[-1].close()  # what is in flight is tried again
        await until(lambda: len(refused) == 2)
        await producer.send(Message(TOPIC, b"last"))
    assert all("the batching producer is closed" in each for each in refused)
    assert sorted(cluster.broker.bodies(TOPIC)) == [b"in flight", b"last"]


async def test_a_send_cancelled_anywhere_loses_no_other_message_and_no_room(cluster: FakeCluster) -> None:
    async with batching_of(cluster, batch_max_delay_ms=1) as batches:
        others = 0
        async for _ in cancelled_everywhere(lambda: batches.send(Message(TOPIC, b"maybe"))):
            assert (await batches.send(Message(TOPIC, b"other"))).status is SendStatus.SEND_OK
            others += 1
    assert cluster.broker.bodies(TOPIC).count(b"other") == others > 1


async def test_the_block_cancelled_anywhere_sends_what_it_has_collected(cluster: FakeCluster) -> None:
    async with open_producer(cluster.address) as producer:
        pending: list[PendingSend] = []

        async def scene() -> None:
            async with producer.batching(batch_max_delay_ms=1000) as batches:
                pending.append(batches.send_nowait(Message(TOPIC, b"x")))

        async for _ in cancelled_everywhere(scene):
            await pending[-1]
    assert len(cluster.broker.bodies(TOPIC)) == len(pending) > 1


# ---- the machine ---------------------------------------------------------------------------------------------------


class ManualTimer:
    """Expires what the machine chooses."""

    def __init__(self) -> None:
        self.entries: dict[Expiring, float] = {}

    def start(self, entry: Expiring, duration_s: float) -> None:
        self.entries[entry] = duration_s

    def stop(self, entry: Expiring, duration_s: float) -> None:
        self.entries.pop(entry, None)


QUEUES = [None, QUEUE, MessageQueue(TOPIC, "broker-a", 1), MessageQueue("Other", "broker-a", 0)]


def bodies_of(request: SendRequest) -> list[bytes]:
    """Return the bodies of the messages that a request sends."""
    return [each.body for each in decode_batch_body(request.body)] if request.batch else [request.message.body]


class BatchingMachine(RuleBasedStateMachine):
    """Random sends, expiries, answers and failures."""

    producer_class: type[BatchingProducer] = BatchingProducer

    def __init__(self) -> None:
        super().__init__()
        self.timer = ManualTimer()
        self.leaving: list[Delivery] = []  # in the order in which they left, unanswered
        self.left: dict[MessageQueue | None, list[bytes]] = defaultdict(list)
        self.stored: dict[MessageQueue | None, list[bytes]] = defaultdict(list)
        self.passed: dict[MessageQueue | None, list[bytes]] = defaultdict(list)
        self.results: list[tuple[MessageQueue | None, bytes, PendingSend]] = []
        self.failed: set[bytes] = set()
        self.count = 0
        instance = SimpleNamespace(
            config=ClientConfig(),
            namespace="",
            clock=ManualClock(),
            randomness=Random(1),
            address="127.0.0.1",
            process_id=1,
            client_id="c",
        )
        config = ProducerConfig()
        self.window = SendWindow(count_max=100_000, size_max=1 << 30)
        self.producer = self.producer_class(
            maker=SendRequestMaker(instance=instance, group="g", config=config),  # type: ignore[arg-type]
            known_queues=lambda topic: [each for each in QUEUES if each is not None and each.topic == topic],
            find_queues=trio.sleep_forever,  # type: ignore[arg-type]
            start=self._leave,
            timer=self.timer,
            window=self.window,
            rules=sync_rules(config),
            max_delay_ms=5,
            max_bytes=500,
        )

    def _leave(self, delivery: Delivery) -> None:
        self.left[delivery.queue] += bodies_of(delivery.request)
        self.leaving.append(delivery)

    @rule(
        queue=st.sampled_from(QUEUES), size=st.sampled_from([1, 1, 100, 600]), wait=st.booleans(), selects=st.booleans()
    )
    def send(self, queue: MessageQueue | None, size: int, wait: bool, selects: bool) -> None:
        body = b"%d " % self.count + bytes(size)
        self.count += 1
        message = Message(queue.topic if queue else TOPIC, body, {} if wait else {"WAIT": "false"})
        self.passed[queue].append(body)
        selector = (lambda queues, message: queues[queues.index(queue)]) if selects and queue else queue
        self.results.append((queue, body, self.producer.send_nowait(message, queue=selector)))

    @precondition(lambda self: self.timer.entries)
    @rule(which=st.integers(0, 9))
    def expire(self, which: int) -> None:
        entry = list(self.timer.entries)[which % len(self.timer.entries)]
        self.timer.stop(entry, 0)
        entry.expire()

    @rule()
    def flush(self) -> None:
        self.producer.flush()

    @precondition(lambda self: self.leaving)
    @rule(which=st.integers(0, 9), fails=st.integers(0, 4).map(lambda n: n == 0))
    def answer(self, which: int, fails: bool) -> None:
        queues = list(dict.fromkeys(each.queue for each in self.leaving))
        queue = queues[which % len(queues)]
        delivery = next(each for each in self.leaving if each.queue == queue)
        self.leaving.remove(delivery)
        bodies = bodies_of(delivery.request)
        assert delivery.on_end is not None
        delivery.on_end(delivery)
        if fails:
            self.failed.update(bodies)
            delivery.pending.fail(RemotingSendRequestError("lost"), TOPIC)
            return
        stored = self.stored[queue]
        ids = ",".join(f"{len(stored) + index}" for index in range(len(bodies)))
        result = SendResult(SendStatus.SEND_OK, delivery.request.msg_id, ids, queue or QUEUE, len(stored), "r")
        stored += bodies
        delivery.pending.succeed(result)

    @invariant()
    def what_has_left_is_the_beginning_of_what_was_passed(self) -> None:
        for queue, passed in self.passed.items():
            assert self.left[queue] == passed[: len(self.left[queue])]

    @invariant()
    def each_acknowledgement_names_its_own_message(self) -> None:
        for queue, body, pending in self.results:
            if pending.is_done and body not in self.failed:
                result = pending.result()
                assert self.stored[queue][result.queue_offset] == body
                assert result.offset_msg_id == str(result.queue_offset)

    @invariant()
    def the_window_holds_what_is_not_answered(self) -> None:
        assert self.window.count == sum(not pending.is_done for _, _, pending in self.results)

    def teardown(self) -> None:
        self.producer.flush()
        self.what_has_left_is_the_beginning_of_what_was_passed()
        assert self.left == {queue: passed for queue, passed in self.passed.items() if passed} or not self.count
        while self.leaving:
            delivery = self.leaving.pop(0)
            assert delivery.on_end is not None
            delivery.on_end(delivery)
            delivery.pending.fail(RemotingSendRequestError("lost"), TOPIC)
        assert all(pending.is_done for _, _, pending in self.results)
        assert (self.window.count, self.window.size) == (0, 0)
        for _, _, pending in self.results:
            with suppress(RemotingSendRequestError):
                pending.result()


MACHINE = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_batches_never_reorder_and_lose_no_acknowledgement() -> None:
    run_state_machine_as_test(BatchingMachine, settings=MACHINE)


def _long_ones_overtake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchingProducer, "_send_others", lambda self, topic, queue: None)


def _every_result_is_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "enumerate", lambda each: [(0, one) for one in each], raising=False)


def _a_failed_batch_tells_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PendingSend, "fail", lambda self, failure, topic: None)


def _failures_keep_their_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SendWindow, "leave", lambda self, size, count=1: None)


def _the_newest_batch_leaves_first(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SendRequestMaker.batch_of

    def reversed_batch(self, keyed, items):  # type: ignore[no-untyped-def]
        return real(self, keyed[::-1], items[::-1])

    monkeypatch.setattr(SendRequestMaker, "batch_of", reversed_batch)


PLANTS = [
    _long_ones_overtake,
    _every_result_is_the_first_ones,
    _a_failed_batch_tells_nobody,
    _failures_keep_their_room,
    _the_newest_batch_leaves_first,
]
SCRIPT: Sequence[Callable[[BatchingMachine], None]] = [
    lambda machine: machine.send(QUEUE, 1, wait=True, selects=False),
    lambda machine: machine.send(QUEUE, 1, wait=True, selects=False),
    lambda machine: machine.send(QUEUE, 600, wait=False, selects=False),  # too long for a batch with others
    lambda machine: machine.answer(0, fails=False),
    lambda machine: machine.answer(0, fails=False),
    lambda machine: machine.send(QUEUE, 1, wait=True, selects=False),
    lambda machine: machine.send(QUEUE, 1, wait=True, selects=False),
    lambda machine: machine.expire(0),
    lambda machine: machine.answer(0, fails=True),
]
"""Two messages and a long one, and then two whose batch fails."""


def play_script() -> None:
    machine = BatchingMachine()
    for step in SCRIPT:
        step(machine)
        machine.what_has_left_is_the_beginning_of_what_was_passed()
        machine.each_acknowledgement_names_its_own_message()
        machine.the_window_holds_what_is_not_answered()
    machine.teardown()


def test_the_script_finds_nothing_without_a_bug() -> None:
    play_script()


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_the_script_finds_each_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(logging.getLogger("rocketpy.client"), "disabled", True)
    with pytest.raises(AssertionError):
        play_script()
    gc.collect()  # what failed unread


@pytest.mark.by_chance
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_the_machine_finds_each_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(logging.getLogger("rocketpy.client"), "disabled", True)
    unshrunk = settings(MACHINE, max_examples=1000, database=None, print_blob=False, phases=[Phase.generate])
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(BatchingMachine, settings=unshrunk)
    gc.collect()  # what failed unread
