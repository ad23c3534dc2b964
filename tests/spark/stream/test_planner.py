"""Planning: every message of every queue is in exactly one batch, also when the planner is a new one after a crash."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rocketpy.errors import ClientError
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.cluster import QueueBounds
from rocketpy.spark.live.parts import QueueSpan
from rocketpy.spark.stream.admission import BatchDelay
from rocketpy.spark.stream.offsets import INITIAL, Document, read_offset, spans, write_offset
from rocketpy.spark.stream.planner import StreamPlanner
from tests.spark.stream.fake_cluster import A0, A1, B0, FakeCluster

START = write_offset(INITIAL)


def earliest(bounds: Mapping[MessageQueue, QueueBounds]) -> dict[MessageQueue, int]:
    return {queue: each.earliest for queue, each in bounds.items()}


def latest(bounds: Mapping[MessageQueue, QueueBounds]) -> dict[MessageQueue, int]:
    return {queue: each.latest for queue, each in bounds.items()}


def planner(cluster: FakeCluster, **more: object) -> StreamPlanner:
    arguments = {"starting_positions": earliest, "fail_on_data_loss": True} | more
    return StreamPlanner(watch=cluster.watch(), **arguments)  # type: ignore[arg-type]


def reads(start: Document, end: Document) -> list[QueueSpan]:
    return spans(read_offset(start), read_offset(end))


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({A0: QueueBounds(2, 10), A1: QueueBounds(0, 0)})


def test_the_first_batch_begins_where_the_options_say_and_ends_at_what_is_there(cluster: FakeCluster) -> None:
    end = planner(cluster).latest_offset(START, is_limited=True)
    assert reads(START, end) == [QueueSpan(A0, 2, 10)]


def test_the_first_offset_is_fixed_even_if_it_is_the_end(cluster: FakeCluster) -> None:
    """Else a stream of new messages would begin at another place after each restart."""
    end = planner(cluster, starting_positions=latest).latest_offset(START, is_limited=True)
    assert (read_offset(end).queues, reads(START, end)) == ({A0: 10, A1: 0}, [])
    cluster.bounds[A0] = QueueBounds(2, 14)
    after = planner(cluster, starting_positions=latest).latest_offset(end, is_limited=True)
    assert reads(end, after) == [QueueSpan(A0, 10, 14)]


def test_a_position_outside_the_queue_is_brought_inside(cluster: FakeCluster) -> None:
    """A time is looked up after the bounds, and may be that of a message which came between."""
    wanted = {A0: 11, A1: -1}
    end = planner(cluster, starting_positions=lambda _: wanted).latest_offset(START, is_limited=True)
    assert read_offset(end).queues == {A0: 10, A1: 0}


def test_without_news_the_start_is_returned_as_it_came(cluster: FakeCluster) -> None:
    """For Spark offsets are equal if their texts are."""
    plan = planner(cluster)
    end = plan.latest_offset(START, is_limited=True)
    assert plan.latest_offset(end, is_limited=True) is end


def test_a_limit_bounds_each_batch_unless_spark_wants_everything(cluster: FakeCluster) -> None:
    plan = planner(cluster, offsets_max=3)
    first = plan.latest_offset(START, is_limited=True)
    assert reads(START, first) == [QueueSpan(A0, 2, 5)]
    assert reads(first, plan.latest_offset(first, is_limited=False)) == [QueueSpan(A0, 5, 10)]


def test_a_batch_waits_for_its_minimum_but_the_first_offset_is_fixed(cluster: FakeCluster) -> None:
    delay = BatchDelay(offsets_min=5, delay_max_s=60.0, clock=lambda: cluster.now)
    assert delay.admits(1)  # the first is over
    plan = planner(cluster, starting_positions=lambda _: {A0: 8, A1: 0}, delay=delay)
    first = plan.latest_offset(START, is_limited=True)
    assert read_offset(first).queues == {A0: 8, A1: 0}
    assert plan.latest_offset(first, is_limited=True) is first
    assert reads(first, plan.latest_offset(first, is_limited=False)) == [QueueSpan(A0, 8, 10)]
    cluster.now += 60
    assert reads(first, plan.latest_offset(first, is_limited=True)) == [QueueSpan(A0, 8, 10)]


def test_available_now_ends_at_what_was_there_at_its_start(cluster: FakeCluster) -> None:
    delay = BatchDelay(offsets_min=100, delay_max_s=60.0, clock=lambda: cluster.now)
    plan = planner(cluster, offsets_max=5, delay=delay)
    plan.prepare_for_available_now()
    cluster.bounds |= {A0: QueueBounds(2, 50), B0: QueueBounds(0, 9)}
    cluster.now += 11
    documents = [START]
    while (end := plan.latest_offset(documents[-1], is_limited=True)) is not documents[-1]:
        documents.append(end)
    assert [reads(*pair) for pair in pairwise(documents)] == [
        [QueueSpan(A0, 2, 7)],
        [QueueSpan(A0, 7, 10)],
    ]


def test_the_end_of_the_queues_is_reported_for_the_lag(cluster: FakeCluster) -> None:
    plan = planner(cluster, offsets_max=3)
    assert plan.report_latest_offset() is None
    plan.latest_offset(START, is_limited=True)
    report = plan.report_latest_offset()
    assert report is not None
    assert read_offset(report).queues == {A0: 10, A1: 0}


def test_messages_that_expired_are_an_error_that_names_them(cluster: FakeCluster) -> None:
    plan = planner(cluster)
    first = plan.latest_offset(START, is_limited=True)
    cluster.bounds[A0] = QueueBounds(12, 20)
    words = "data loss: topic T broker a queue 0: offsets 10 to 11 were deleted .*failOnDataLoss=false"
    with pytest.raises(ClientError, match=words):
        plan.latest_offset(first, is_limited=True)


def test_a_stream_that_may_lose_messages_says_so_once_and_continues(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    delay = BatchDelay(offsets_min=9, delay_max_s=60.0, clock=lambda: cluster.now)
    plan = planner(cluster, fail_on_data_loss=False, delay=delay)
    first = plan.latest_offset(START, is_limited=True)
    cluster.bounds[A0] = QueueBounds(12, 20)
    for _ in range(3):  # the batch waits for its minimum
        assert plan.latest_offset(first, is_limited=True) is first
    cluster.now += 60
    second = plan.latest_offset(first, is_limited=True)
    assert reads(first, second) == [QueueSpan(A0, 12, 20)]
    assert plan.latest_offset(second, is_limited=True) is second
    assert len(caplog.records) == 1
    assert "offsets 10 to 11 were deleted before they were read" in caplog.text


def test_a_queue_that_was_set_back_continues_at_its_end(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    plan = planner(cluster, fail_on_data_loss=False)
    first = plan.latest_offset(START, is_limited=True)
    cluster.bounds[A0] = QueueBounds(0, 4)
    second = plan.latest_offset(first, is_limited=True)
    cluster.bounds[A0] = QueueBounds(0, 6)
    third = plan.latest_offset(second, is_limited=True)
    assert (reads(first, second), reads(second, third)) == ([], [QueueSpan(A0, 4, 6)])
    assert "ends at 4" in caplog.text


def test_a_queue_that_loses_as_much_again_is_reported_again(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Its topic is deleted and created again twice, each time when the stream was at the same offset."""
    plan = planner(cluster, fail_on_data_loss=False)
    at = plan.latest_offset(START, is_limited=True)
    for _ in range(2):
        for end in (0, 10):
            cluster.bounds[A0] = QueueBounds(0, end)
            at = plan.latest_offset(at, is_limited=True)
        assert read_offset(at).queues[A0] == 10
    assert caplog.text.count("the stream has read up to offset 10, the broker's queue ends at 0") == 2


@pytest.mark.parametrize("is_available_now", [False, True])
def test_a_queue_of_the_checkpoint_that_is_in_no_route_is_a_loss(
    cluster: FakeCluster, caplog: pytest.LogCaptureFixture, is_available_now: bool
) -> None:
    first = planner(cluster).latest_offset(START, is_limited=True)
    cluster.hidden = {A0}
    after = [planner(cluster), planner(cluster, fail_on_data_loss=False)]
    for plan in after:
        if is_available_now:
            plan.prepare_for_available_now()
    with pytest.raises(ClientError, match="queue 0: the stream is at offset 10, and no route"):
        after[0].latest_offset(first, is_limited=True)
    assert after[1].latest_offset(first, is_limited=True) is first
    assert after[1].latest_offset(first, is_limited=True) is first
    assert len(caplog.records) == 1


class Query(RuleBasedStateMachine):
    """A query as Spark runs it: the end of a batch goes to the checkpoint, then the batch runs; both may be cut off."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = FakeCluster({A0: QueueBounds(0, 0)})
        self.checkpoint: list[str] = []  # ends of batches, as texts
        self.done = 0  # batches
        self.read: Counter[tuple[MessageQueue, int]] = Counter()
        self.first: dict[MessageQueue, int] = {}  # the model: where each queue begins to count
        self.plan: StreamPlanner

    @initialize(before=st.integers(0, 5))
    def start(self, before: int) -> None:
        self.cluster.bounds[A0] = QueueBounds(0, before)
        self.restart()

    def restart(self) -> None:
        self.plan = planner(self.cluster, starting_positions=latest, offsets_max=4)

    @rule(queue=st.sampled_from([A0, A1, B0]), count=st.integers(1, 9))
    def messages_come(self, queue: MessageQueue, count: int) -> None:
        old = self.cluster.bounds.get(queue, QueueBounds(0, 0))
        self.cluster.bounds[queue] = QueueBounds(old.earliest, old.latest + count)

    @rule()
    def time_passes(self) -> None:
        self.cluster.now += 11

    @rule(down=st.sampled_from([set(), {"b"}, {"a"}]))
    def brokers_go_and_come(self, down: set[str]) -> None:
        self.cluster.down = set(down) if self.checkpoint else set()

    @precondition(lambda self: self.done == len(self.checkpoint))
    @rule()
    def a_batch_is_planned(self) -> None:
        start = json.loads(self.checkpoint[-1]) if self.checkpoint else START
        end = json.dumps(self.plan.latest_offset(start, is_limited=True))
        if end != json.dumps(start):
            self.checkpoint.append(end)
            for queue in read_offset(json.loads(end)).queues:
                at_first = self.cluster.bounds[queue].latest if len(self.checkpoint) == 1 else 0
                self.first.setdefault(queue, at_first)

    @precondition(lambda self: self.done < len(self.checkpoint))
    @rule()
    def a_batch_is_done(self) -> None:
        texts = [json.dumps(START), *self.checkpoint]
        for span in reads(json.loads(texts[self.done]), json.loads(texts[self.done + 1])):
            self.read.update((span.queue, offset) for offset in range(span.start, span.end))
        self.done += 1

    @rule()
    def the_driver_is_killed(self) -> None:
        self.restart()

    @invariant()
    def each_message_is_read_once(self) -> None:
        assert set(self.read.values()) <= {1}
        assert all(offset >= self.first[queue] for queue, offset in self.read)

    def teardown(self) -> None:
        if not hasattr(self, "plan"):
            return
        self.cluster.down = set()
        self.time_passes()
        while True:
            if self.done < len(self.checkpoint):
                self.a_batch_is_done()
            count = len(self.checkpoint)
            self.a_batch_is_planned()
            if len(self.checkpoint) == count:
                break
        assert set(self.read) == {
            (queue, offset)
            for queue, bounds in self.cluster.bounds.items()
            for offset in range(self.first[queue], bounds.latest)
        }


TestQuery = Query.TestCase
TestQuery.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
