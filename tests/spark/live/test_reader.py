"""The reader of a live cluster without Spark: every wanted message once, from whichever broker can give it."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

import attrs
import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, InputPartition, StringContains
from pyspark.sql.types import StructType

from rocketpy.client import Message, MessageQueue, blocking
from rocketpy.errors import BrokerError, ClientError, RemoteProtocolError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from rocketpy.spark.filters import MessageFilter, Range
from rocketpy.spark.live import reader as module
from rocketpy.spark.live.access import ClusterAccess
from rocketpy.spark.live.parts import QueueSpan
from rocketpy.spark.live.planning import QueuePart
from rocketpy.spark.live.reader import LiveReader, read_parts
from rocketpy.spark.live.settings import PullSettings, settings_of
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse
from rocketpy.spark.schema import ARROW_SCHEMA, SPARK_SCHEMA, projection, spark_schema
from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.spark.live.fake_cluster import Answer, FakeBroker, record, served

NARROW_ROWS = spark_schema(["queue_offset", "body"])
NARROW = projection(NARROW_ROWS)


# ---- a broker of ours -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerInThread]:
    """Topic T: 80 messages in two queues; the tag and the property n tell their number."""
    options = BrokerOptions(settings={"enablePropertyFilter": True})
    with open_broker_in_thread(options) as broker, blocking.open_producer(broker.name_server) as producer:
        broker.topic("T", 2)
        for number in range(80):
            body = b"%d" % number * (1 + number * 50)  # the last ones need an answer each
            message = Message.create("T", body, tags=f"t{number % 3}", keys=f"k{number}", properties={"n": str(number)})
            producer.send(message, queue=MessageQueue("T", "broker-a", number % 2))
        yield broker


def reader_of(broker: BrokerInThread, schema: StructType = SPARK_SCHEMA, **options: str) -> LiveReader:
    return LiveReader(
        settings_of(parse({"nameServer": broker.name_server, "topic": "T", **options}, Mode.LIVE)), schema
    )


def read(broker: BrokerInThread, **options: str) -> list[dict[str, object]]:
    """Return what a query would get, through the processes that it would go through."""
    reader = reader_of(broker, **options)
    travelled = pickle.loads(pickle.dumps(reader))
    partitions = pickle.loads(pickle.dumps(list(reader.partitions())))
    return [row for each in partitions for batch in travelled.read(each) for row in batch.to_pylist()]


@contextmanager
def broker_with(bodies: list[bytes], **settings: object) -> Iterator[BrokerInThread]:
    """A broker with these messages in the one queue of topic T."""
    with open_broker_in_thread(BrokerOptions(settings=settings)) as broker:
        broker.topic("T", 1)
        with blocking.open_producer(broker.name_server) as producer:
            for body in bodies:
                producer.send(Message("T", body))
        yield broker


def numbers(rows: list[dict[str, object]]) -> list[int]:
    return [int(dict(row["properties"])["n"]) for row in rows]  # type: ignore[call-overload]


def test_each_message_comes_once_in_the_order_of_its_queue_as_it_was_sent(broker: BrokerInThread) -> None:
    rows = read(broker)
    assert numbers(rows) == [*range(0, 80, 2), *range(1, 80, 2)]
    assert {row["broker_name"] for row in rows} == {"broker-a"}
    stored = {message.offset_msg_id: message for message in broker.messages("T")}
    assert len(stored) == 80
    for row in rows:
        message = stored[str(row["message_id"])]
        assert (row["body"], dict(row["properties"])) == (message.body, message.properties)  # type: ignore[call-overload]
        assert (row["queue_id"], row["queue_offset"]) == (message.queue_id, message.queue_offset)


@pytest.mark.parametrize(
    "options", [{"minPartitions": "9"}, {"maxRecordsPerPartition": "7"}, {"pullBatchSize": "1"}, {"pullBatchSize": "7"}]
)
def test_however_it_is_cut_and_pulled(broker: BrokerInThread, options: dict[str, str]) -> None:
    assert sorted(numbers(read(broker, **options))) == list(range(80))


def test_tags_and_sql_are_chosen_by_the_broker(broker: BrokerInThread) -> None:
    assert sorted(numbers(read(broker, tags="t0 || t2"))) == [n for n in range(80) if n % 3 != 1]
    assert sorted(numbers(read(broker, sql="n BETWEEN 50 AND 59"))) == list(range(50, 60))
    assert sorted(numbers(read(broker, tags="t1", minPartitions="9"))) == list(range(1, 80, 3))
    assert read(broker, tags="nothing") == []


def test_filters_of_a_query_shrink_what_is_pulled(broker: BrokerInThread) -> None:
    """Without those that were taken, Spark compares nothing again: they must be decided here, exactly."""
    reader = reader_of(broker)
    taken = [EqualTo(("queue_id",), 1), GreaterThanOrEqual(("queue_offset",), 30)]
    kept = [StringContains(("tags",), "t")]
    assert list(reader.pushFilters([*taken, *kept])) == kept
    [partition] = reader.partitions()
    [part] = partition.value
    span = part.span
    assert (span.queue.queue_id, span.start, span.end) == (1, 30, 40)
    rows = [row for batch in reader.read(partition) for row in batch.to_pylist()]
    assert [row["queue_offset"] for row in rows] == list(range(30, 40))


def test_a_broker_that_is_gone_while_it_is_read_fails_with_one_sentence() -> None:
    with broker_with([b"x"] * 3) as broker:
        reader, impatient = reader_of(broker), reader_of(broker, requestTimeoutMs="1000")
        [partition] = reader.partitions()
        broker.crash()
        with pytest.raises(
            ClientError,
            match=rf"topic T broker broker-a queue 0 offset 0 cannot be read: connect to {broker.address} failed: .*"
            rf"nameserver {broker.name_server} advertises",
        ):
            list(impatient.read(partition))
        broker.restart()
        assert sum(batch.num_rows for batch in reader.read(partition)) == 3


def test_a_broker_that_restarts_in_the_middle_of_a_part_costs_no_row_and_doubles_none() -> None:
    chance = random.Random(1)
    bodies = [chance.randbytes(60_000) for _ in range(200)]  # a few to an answer
    with broker_with(bodies) as broker, ThreadPoolExecutor() as threads:
        reader = reader_of(broker, NARROW_ROWS)
        [partition] = reader.partitions()
        batches = reader.read(partition)
        found = next(batches).column("body").to_pylist()
        assert 0 < len(found) < len(bodies)
        broker.crash()
        restarting = threads.submit(broker.restart)
        found += [body for batch in batches for body in batch.column("body").to_pylist()]
        restarting.result()
        assert found == bodies


# ---- brokers that do what a test wants ------------------------------------------------------------------------------


PATIENT, IMPATIENT = (PullSettings(access=ClusterAccess(name_servers=(), timeout_s=each)) for each in (60, 0.5))


@attrs.define
class Brokers:
    exits: ExitStack

    def batches(
        self,
        *answers: Answer,
        slaves: int = 0,
        span: tuple[int, int] = (0, 10),
        settings: PullSettings = PATIENT,
        columns: pa.Schema = NARROW,
        queues: int = 1,
    ) -> Iterator[pa.RecordBatch]:
        """Read a part of each queue from brokers, of which the first so many are slaves."""
        addresses = tuple(self.exits.enter_context(served(answer)) for answer in answers)
        spans = [QueueSpan(MessageQueue("T", "b", number), *span) for number in range(queues)]
        parts = [QueuePart(each, addresses, frozenset(addresses[:slaves]), "127.0.0.1:2") for each in spans]
        return read_parts(tuple(parts), settings, columns)

    def read(self, *answers: Answer, **how: Any) -> list[int]:
        """Return the queue offsets of what is read."""
        return [offset for batch in self.batches(*answers, **how) for offset in batch.column(0).to_pylist()]


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    with ExitStack() as exits:
        yield Brokers(exits)


def answering(body: bytes, next_offset: int = 10) -> Answer:
    """Answer every pull with the same records."""
    header = PullMessageResponseHeader(
        suggest_which_broker_id=0, next_begin_offset=next_offset, min_offset=0, max_offset=10
    )
    return lambda request: make_response(request, header=header, body=body)


def dying(broker: FakeBroker, after: int) -> Answer:
    """Answer so many pulls, and close each connection afterwards."""
    return lambda request: broker.answer(request) if len(broker.pulls) < after else None


def test_the_next_broker_goes_on_where_the_first_has_died(brokers: Brokers) -> None:
    first, second = FakeBroker({0: (0, 10)}), FakeBroker({0: (0, 10)})
    assert brokers.read(dying(first, 2), second.answer, slaves=1) == list(range(10))
    assert second.pulls[0].queue_offset > 0


def test_a_slave_that_lags_is_read_as_far_as_it_goes(brokers: Brokers) -> None:
    slave, master = FakeBroker({0: (0, 4)}), FakeBroker({0: (0, 10)})
    assert brokers.read(slave.answer, master.answer, slaves=1) == list(range(10))
    assert master.pulls[0].queue_offset == 4


def test_a_connection_that_breaks_again_and_again_is_used_as_long_as_something_comes(brokers: Brokers) -> None:
    broker = FakeBroker({0: (0, 10)})
    calls = count()
    other = FakeBroker({0: (0, 10)}, refusal=ResponseCode.SYSTEM_BUSY)
    assert brokers.read(lambda request: None if next(calls) % 2 else broker.answer(request), other.answer) == [
        *range(10)
    ]


def test_when_all_have_failed_each_is_named_with_its_failure(brokers: Brokers) -> None:
    busy = FakeBroker({0: (0, 10)}, refusal=ResponseCode.SYSTEM_BUSY)
    with pytest.raises(ClientError, match=r"queue 0 offset 0 cannot be read: .*closed by the peer.*; .*refused"):
        brokers.read(lambda request: None, busy.answer, settings=IMPATIENT)
    with pytest.raises(BrokerError, match="refused"):
        brokers.read(busy.answer, settings=IMPATIENT)
    noisy = FakeBroker({0: (0, 10)}, refusal=ResponseCode.NO_PERMISSION)
    with pytest.raises(BrokerError, match="refused"):
        brokers.read(noisy.answer)
    assert len(noisy.pulls) == 1, "a refusal is asked for once"


def test_a_broker_that_is_away_is_tried_again_until_it_answers(brokers: Brokers) -> None:
    """Where every broker is away: the one that lags is not asked again, it has answered."""
    slave, master = FakeBroker({0: (0, 4)}), FakeBroker({0: (0, 10)})
    calls = count()
    away = brokers.read(slave.answer, lambda request: None if next(calls) < 2 else master.answer(request), slaves=1)
    assert away == list(range(10))
    assert [pull.queue_offset for pull in slave.pulls].count(4) == 2, "behind what it gave, and on a new connection"


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize("given", [b"", record(0, 6)], ids=["nothing", "the third"])
def test_messages_that_a_broker_leaves_out_without_a_word_are_lost(
    brokers: Brokers, given: bytes, allowed: bool
) -> None:
    """Both brokers do so where the file of some units is deleted and the queue is not yet cut."""
    broker = FakeBroker({0: (0, 10)}, messages_max=lambda start: 4 if start == 0 else 6)
    without_three = answering(given, next_offset=7)

    def answer(request: RemotingCommand) -> RemotingCommand | bytes | None:
        made = broker.answer(request)
        return without_three(request) if broker.pulls[-1].queue_offset == 4 else made

    if allowed:
        left = brokers.read(answer, settings=attrs.evolve(PATIENT, fail_on_data_loss=False))
        assert left == [0, 1, 2, 3, *([6] if given else []), 7, 8, 9]
    else:
        words = r"messages [45] to [56] of topic T broker b queue 0 are no longer there: .*failOnDataLoss=false"
        with pytest.raises(ClientError, match=words):
            brokers.read(answer)


def test_a_message_that_was_not_asked_for_is_named(brokers: Brokers) -> None:
    with pytest.raises(RemoteProtocolError, match="queue 0 offset 1 with the message at offset 0"):
        brokers.read(answering(record(0, 0) * 2))


TORN = record(0, 0).replace(b"0/0", b"0/1")  # the CRC is of the body


@pytest.mark.parametrize("garbage", [b"no records at all, but long enough for one" * 3, record(0, 0)[:-1], TORN])
def test_garbage_instead_of_records_names_the_queue(brokers: Brokers, garbage: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="pull of topic T broker b queue 0 with bytes that are no records"):
        brokers.read(answering(garbage))


def test_messages_from_beyond_the_part_are_left_out(brokers: Brokers) -> None:
    """A broker that filters goes on until it has found enough."""
    settings = settings_of(parse({"nameServer": "n:1", "topic": "T", "tags": "even"}, Mode.LIVE)).pull
    broker = FakeBroker({0: (0, 50)}, messages_max=lambda _: 7)
    assert brokers.read(broker.answer, span=(3, 20), settings=settings) == list(range(4, 20, 2))


def test_conditions_of_the_query_are_compared_in_each_row(brokers: Brokers) -> None:
    broker = FakeBroker({0: (0, 10)}, stored_at=lambda offset: 100 + offset)
    wants = MessageFilter(store_timestamps_ms=Range(103, 106), tags=frozenset({"odd"}))
    assert brokers.read(broker.answer, settings=attrs.evolve(PATIENT, wants=wants)) == [3, 5]


def test_batches_are_bounded(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH_SIZE", 1)
    batches = list(brokers.batches(FakeBroker({0: (0, 10)}).answer, columns=ARROW_SCHEMA))
    assert [batch.num_rows for batch in batches] == [3, 3, 3, 1]
    assert all(batch.schema == ARROW_SCHEMA for batch in batches)


def test_the_parts_of_a_task_are_read_one_after_the_other_over_one_connection(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    connect = ClusterAccess.connect_broker
    monkeypatch.setattr(ClusterAccess, "connect_broker", lambda *way: opened.append(way) or connect(*way))
    broker = FakeBroker(dict.fromkeys(range(5), (0, 10)))
    assert brokers.read(broker.answer, queues=5) == [*range(10)] * 5
    assert len(opened) == 1


def test_the_rows_of_short_queues_come_in_common_batches_that_are_bounded(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = FakeBroker(dict.fromkeys(range(5), (0, 10)))
    [batch] = brokers.batches(broker.answer, queues=5, columns=ARROW_SCHEMA)
    assert (batch.schema, batch.column("queue_id").to_pylist()) == (ARROW_SCHEMA, [n // 10 for n in range(50)])
    monkeypatch.setattr(module, "BATCH_SIZE", 1)
    assert [each.num_rows for each in brokers.batches(broker.answer, queues=2)] == [3, 3, 3, 1] * 2


def test_a_broker_that_restarted_between_two_parts_is_asked_again_before_another_one(brokers: Brokers) -> None:
    broker, other = FakeBroker({0: (0, 10), 1: (0, 10)}), FakeBroker({1: (0, 10)})
    has_gone = count()

    def answer(request: RemotingCommand) -> RemotingCommand | None:
        is_of_second = read_header(request, PullMessageRequestHeader).queue_id == 1
        return None if is_of_second and next(has_gone) == 0 else broker.answer(request)

    assert brokers.read(answer, other.answer, queues=2) == [*range(10)] * 2
    assert other.pulls == []


def test_the_partition_that_spark_makes_of_an_empty_plan_holds_nothing() -> None:
    reader = LiveReader(settings_of(parse({"nameServer": "127.0.0.1:1", "topic": "T"}, Mode.LIVE)), SPARK_SCHEMA)
    assert list(reader.read(InputPartition(None))) == []
