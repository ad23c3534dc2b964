"""A task of a write against a broker: what is stored, what is reported, what is said about rows that cannot be sent."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trio

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from rocketpy.client import blocking
from rocketpy.errors import SettingsError
from rocketpy.protocol.java_hash import java_hash
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.topic_name import BENCHMARK_TOPIC
from rocketpy.spark.sink.failures import SinkError
from rocketpy.spark.sink.report import TaskCommit
from rocketpy.spark.sink.row_keys import TaskRows
from rocketpy.spark.sink.settings import parse_sink_options
from rocketpy.spark.sink.task import NO_TEMPLATE, slices, write_task
from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.client.real_cluster import open_real_cluster
from tests.remoting.certificate_files import client_config, crt, server_config
from tests.spark.sink.encoded import columns_of


def written(broker: BrokerInThread, *batches: dict[str, pa.Array], **options: Any) -> TaskCommit:
    """Write record batches as one task."""
    settings = parse_sink_options(
        {"nameServer": broker.name_server, **{name: str(each) for name, each in options.items()}}
    )
    arrow = [pa.RecordBatch.from_pydict(columns) for columns in batches]
    return write_task(iter(arrow), tuple(batches[0]), TaskRows("w", 3), settings)


def by_queue(messages: list[MessageExt]) -> dict[int, list[bytes]]:
    """Return the bodies of each queue in its order."""
    queues: dict[int, list[bytes]] = {}
    for message in sorted(messages, key=lambda each: each.queue_offset):
        queues.setdefault(message.queue_id, []).append(message.body)
    return queues


def test_rows_are_stored_and_counted_by_queue(rocketmq: BrokerInThread) -> None:
    bodies = [b"%05d" % number for number in range(2500)]
    batches = [columns_of(body=bodies[start : start + 500], tags=["t"] * 500) for start in range(0, 2500, 500)]
    commit = written(rocketmq, *batches, topic=rocketmq.topic("Counted"), batchMaxBytes=10_000)
    stored = rocketmq.messages("Counted")
    assert sorted(each.body for each in stored) == bodies
    assert {each.tags for each in stored} == {"t"}
    assert commit.counts.messages == commit.rows == 2500
    assert {key: count.messages for key, count in commit.counts.queues.items()} == Counter(
        (each.topic, each.broker_name, each.queue_id) for each in stored
    )
    assert {(count.begin_offset, count.end_offset) for count in commit.counts.queues.values()} == {
        (0, count.messages) for count in commit.counts.queues.values()
    }
    keys = {each.properties["SPARK_ROW_KEY"]: each.body for each in stored}
    assert keys == {f"w/3/{number}": body for number, body in enumerate(bodies)}
    assert len({each.properties["UNIQ_KEY"] for each in stored}) == 2500


def test_rows_of_a_sharding_key_lie_in_the_queue_that_java_chooses_in_order(rocketmq: BrokerInThread) -> None:
    keys = [f"order-{number % 7}" for number in range(600)]
    bodies = [f"{key}:{number:03d}".encode() for number, key in enumerate(keys)]
    columns = columns_of(body=bodies, sharding_key=keys)
    written(rocketmq, columns, topic=rocketmq.topic("Ordered"), batchMaxBytes=700)
    queues = by_queue(rocketmq.messages("Ordered"))
    assert sorted(body for each in queues.values() for body in each) == sorted(bodies)
    for queue_id, stored in queues.items():
        assert stored == sorted(stored, key=lambda body: body.partition(b":")[2])
        assert {abs(java_hash(body.partition(b":")[0].decode())) % 4 for body in stored} == {queue_id}


def test_a_queue_id_is_obeyed_and_large_and_delayed_rows_keep_their_place(rocketmq: BrokerInThread) -> None:
    """A delayed message is stored for its queue, in the broker's own topic until its time comes."""
    bodies = [b"a", b"b" * 5000, b"c", b"later", b"d"]
    columns = columns_of(body=bodies, queue_id=[2] * 5, delay_level=[0, 0, 0, 18, 0])
    commit = written(rocketmq, columns, topic=rocketmq.topic("Chosen"), batchMaxBytes=1000)
    assert by_queue(rocketmq.messages("Chosen")) == {2: [b"a", b"b" * 5000, b"c", b"d"]}
    assert commit.counts.messages == 5
    (delayed,) = rocketmq.messages("SCHEDULE_TOPIC_XXXX")
    assert (delayed.body, delayed.properties["REAL_TOPIC"], delayed.properties["REAL_QID"]) == (b"later", "Chosen", "2")


def test_a_large_record_batch_is_encoded_in_parts() -> None:
    """Memory is bounded by the part."""
    bodies = [b"%03d" % number + bytes(1000) for number in range(100)]
    batch = pa.RecordBatch.from_pydict(columns_of(body=bodies))
    parts = list(slices(batch, 10_000))
    assert [body for part in parts for body in part["body"].to_pylist()] == bodies
    assert max(part.num_rows for part in parts) == 9
    assert [part.num_rows for part in slices(batch, 1)] == [1] * 100
    assert list(slices(batch.slice(0, 0))) == []


def test_a_namespace_is_put_before_the_topic(rocketmq: BrokerInThread) -> None:
    rocketmq.topic("NS%Spaced")
    commit = written(rocketmq, columns_of(body=[b"x"], queue_id=[1]), topic="Spaced", namespace="NS")
    (stored,) = rocketmq.messages("NS%Spaced")
    assert (stored.queue_id, stored.properties["INSTANCE_ID"]) == (1, "NS")
    assert [topic for topic, _, _ in commit.counts.queues] == ["Spaced"]


@pytest.mark.parametrize("creates", [True, False])
def test_a_topic_that_is_not_there_is_named_with_what_to_do_and_not_created(creates: bool) -> None:
    """Also where brokers create topics: a misspelled name would become one."""
    with open_broker_in_thread(BrokerOptions(settings={"autoCreateTopicEnable": creates})) as broker:
        for columns in (columns_of(body=[b"x"] * 3), columns_of(body=[b"x"] * 3, queue_id=[0] * 3)):
            words = r"Missing.*does not exist.*create it first .*: no broker has it \(registered: broker-a\)\)$"
            with pytest.raises(SinkError, match=words):
                written(broker, columns, topic="Missing")
        with blocking.open_admin_client(broker.name_server) as admin:
            assert admin.route("Missing") is None
        broker.crash()
        with pytest.raises(SinkError) as caught:
            written(broker, columns, topic="Missing", retries="0", requestTimeoutMs="1000")
        assert NO_TEMPLATE not in str(caught.value)


def test_a_topic_that_may_not_be_written_is_not_called_missing(rocketmq: BrokerInThread) -> None:
    topic = rocketmq.topic("ReadOnly", 1)
    with blocking.open_admin_client(rocketmq.name_server) as admin:
        admin.create_topic(topic, queue_nums=1, perm=4)
    with pytest.raises(SinkError, match=r"not sent: .*perm 4"):
        written(rocketmq, columns_of(body=[b"x"]), topic=topic)


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        (
            {"body": [b"x", None], "topic": ["A", "B"]},
            {},
            r"row 7 of partition 3 \(B, no body\) cannot be sent: the body is null",
        ),
        (
            {"body": [b"x", bytes(101)]},
            {"topic": "T", "maxMessageSize": 100},
            r"row 7 of partition 3 \(T, 101 bytes\) cannot be sent: the body has 101 bytes, the limit",
        ),
        ({"body": [b"x", b"y"], "topic": ["A", None]}, {}, r"row 7 .*\(no topic, 1 bytes\) .* the topic is null"),
        (
            {"body": [b"x", b"y"], "topic": ["A", "a b"]},
            {},
            r"row 7 of partition 3 .* to topic a b not sent: .*illegal",
        ),
    ],
)
def test_a_row_that_cannot_be_sent_is_named_with_topic_and_size(
    rocketmq: BrokerInThread, values: dict[str, list[Any]], options: dict[str, Any], words: str
) -> None:
    before = columns_of(**{name: [each[0]] * 6 for name, each in values.items()})
    with pytest.raises(SinkError, match=words):
        written(rocketmq, before, columns_of(**values), **options)


def test_a_broker_that_restarts_costs_no_row(rocketmq: BrokerInThread) -> None:
    """A request that fails is sent again; what it may have doubled has the same keys."""
    topic = rocketmq.topic("Restarted")
    bodies = [b"%04d" % number for number in range(1000)]
    schema = list(columns_of(body=[b""], queue_id=[0]))
    settings = parse_sink_options({"nameServer": rocketmq.name_server, "topic": topic, "batchMaxBytes": "2000"})

    def batches() -> Any:
        for start in range(0, 1000, 100):
            if start == 500:
                rocketmq.crash()
                rocketmq.restart()
            columns = columns_of(body=bodies[start : start + 100], queue_id=[number % 4 for number in range(100)])
            yield pa.RecordBatch.from_pydict(columns)

    commit = write_task(batches(), schema, TaskRows("w", 0), settings)
    stored = rocketmq.messages(topic)
    assert {each.body for each in stored} == set(bodies)
    assert {each.properties["SPARK_ROW_KEY"] for each in stored} == {f"w/0/{number}" for number in range(1000)}
    assert commit.counts.messages == 1000


ACCOUNTS = """\
accounts:
- accessKey: an-account
  secretKey: a-secret
  defaultTopicPerm: PUB|SUB
"""


def test_requests_are_signed_with_the_account(tmp_path: Path) -> None:
    (tmp_path / "plain_acl.yml").write_text(ACCOUNTS)
    columns = columns_of(body=[b"x"] * 3, delay_level=[0, 0, 1])
    options = BrokerOptions(settings={"aclEnable": True, "aclDirectory": str(tmp_path)})
    with open_broker_in_thread(options) as broker:
        with pytest.raises(SinkError, match=r"2 rows from 0 to 1 .*not sent: .*Check signature failed"):
            written(broker, columns, topic=BENCHMARK_TOPIC, accessKey="an-account", secretKey="wrong")
        commit = written(broker, columns, topic=BENCHMARK_TOPIC, accessKey="an-account", secretKey="a-secret")
    assert commit.counts.messages == 3


@pytest.mark.parametrize("trust", [{"tlsCaFile": crt("authority")}, {"tlsInsecure": "true"}])
async def test_a_cluster_with_tls_is_written_over_tls(tmp_path: Path, trust: dict[str, str]) -> None:
    server = server_config(server_mode="enforcing")
    known = client_config(enable=True)
    async with open_real_cluster(tmp_path, tls_server=server, tls_client=known) as cluster:
        options = {"nameServer": cluster.address, "topic": BENCHMARK_TOPIC, "tls": "true", **trust}
        batch = pa.RecordBatch.from_pydict(columns_of(body=[b"x"] * 3))

        def write(options: dict[str, str]) -> TaskCommit:
            return write_task(iter([batch]), ("body",), TaskRows("w", 0), parse_sink_options(options))

        commit = await trio.to_thread.run_sync(write, options)
        assert commit.counts.messages == 3
        if "tlsCaFile" in trust:
            with pytest.raises(SettingsError, match=r"option tlsCaFile: expected a PEM file.*nowhere"):
                await trio.to_thread.run_sync(write, {**options, "tlsCaFile": "nowhere"})
