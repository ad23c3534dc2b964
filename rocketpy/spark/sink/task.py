"""One task of a write: its record batches become messages, in the worker of the executor.

Rule: a row that cannot be sent fails the task with one sentence that names it; what was sent before stays. Nothing is
reported then.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import SystemRandom

import attrs
import pyarrow as pa

from rocketpy.client import ClientConfig, MessageQueue, ProducerConfig, blocking
from rocketpy.clock import SystemClock
from rocketpy.errors import (
    ClientError,
    RemotingConnectError,
    RemotingError,
    RocketpyError,
)
from rocketpy.protocol.message_id import UniqKeyFactory
from rocketpy.remoting.config import TlsClientConfig
from rocketpy.remoting.local_address import packed_address
from rocketpy.spark.live.tls import TlsFiles, client_context
from rocketpy.spark.sink.encoding import EncodingRules, encode_rows
from rocketpy.spark.sink.failures import RowFault, SinkError
from rocketpy.spark.sink.pieces import Piece, cut, queue_choices
from rocketpy.spark.sink.property_texts import PropertyRules
from rocketpy.spark.sink.report import TaskCommit
from rocketpy.spark.sink.row_keys import CreateKeys, MessageKeys, TaskRows
from rocketpy.spark.sink.sender import Sender, UnsentError
from rocketpy.spark.sink.settings import SinkSettings

SLICE_BYTES_MAX = 32 * 2**20
"""Bytes of rows that are encoded at once: Spark bounds the rows of a record batch, not always its bytes."""
KEYS_AT_ONCE_MAX = 16_384
NO_TEMPLATE = "rocketpy_spark_creates_no_topics"
"""In place of TBW102, from which brokers with ``autoCreateTopicEnable`` make topics that are sent to: a misspelled name
would become one, with all rows of a write in it."""


@attrs.frozen(eq=False)
class _Opened:
    """What a task works with. Everything is closed with the client."""

    client: blocking.Client
    producer: blocking.Producer
    sender: Sender
    keys: MessageKeys
    rules: EncodingRules


def write_task(
    batches: Iterable[pa.RecordBatch], names: Sequence[str], rows: TaskRows, settings: SinkSettings
) -> TaskCommit:
    """Send the rows of a task, and return what brokers have acknowledged: all of them. ``names`` are the columns'."""
    with _opened(rows, settings) as opened:
        first_row = 0
        try:
            for each in batches:
                for batch in slices(each):
                    columns = dict(zip(names, batch.columns, strict=True))
                    _send_batch(opened, columns, batch.num_rows, first_row, rows, settings)
                    first_row += batch.num_rows
            counts = opened.sender.finish()
        except UnsentError as unsent:
            opened.sender.abandon()
            raise _given_up(unsent) from unsent.__cause__
        except SinkError:
            opened.sender.abandon()
            raise
    return TaskCommit(rows.write, rows.partition, first_row, counts)


def slices(batch: pa.RecordBatch, bytes_max: int = SLICE_BYTES_MAX) -> Iterator[pa.RecordBatch]:
    """Yield a record batch in parts of about so many bytes, at least a row each; nothing of one without rows."""
    step = max(1, batch.num_rows * bytes_max // max(1, batch.nbytes))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)


@contextmanager
def _opened(rows: TaskRows, settings: SinkSettings) -> Iterator[_Opened]:
    config = ClientConfig(
        name_servers=settings.name_servers,
        credentials=settings.credentials,
        namespace=settings.namespace,
        use_tls=settings.tls is not None,
        tls=TlsClientConfig() if settings.tls is None else _tls_config(settings.tls),
    )
    producing = ProducerConfig(
        send_msg_timeout=settings.request_timeout_ms,
        max_message_size=settings.max_message_size,
        create_topic_key=NO_TEMPLATE,
    )
    with (
        blocking.open_client(settings.name_servers, config=config) as client,
        client.producer(settings.producer_group, config=producing) as producer,
        producer.batching() as batching,
    ):
        keys = MessageKeys(rows, settings.row_key, _unique_keys(client.client_id))
        namespace = client.with_namespace("T").removesuffix("T").removesuffix("%")
        rules = EncodingRules(
            settings.topic, settings.max_message_size, PropertyRules(settings.drops_reserved, namespace)
        )
        yield _Opened(
            client, producer, Sender(producer, batching, repeats=settings.retries, pause=time.sleep), keys, rules
        )


def _tls_config(files: TlsFiles) -> TlsClientConfig:
    """Return the client's settings of TLS; :class:`~rocketpy.errors.SettingsError` names the option of a wrong file."""
    client_context(files)  # the client would name its own settings, which the user does not know
    return TlsClientConfig(
        test_mode_enable=False,
        auth_server=not files.is_insecure,
        trust_cert_path=files.ca_file or "",
        cert_path=files.cert_file or "",
        key_path=files.key_file or "",
        key_password=files.key_password or "",
    )


def _unique_keys(client_id: str) -> CreateKeys:
    """Return a function that makes unique keys as the client does."""
    clock = SystemClock()
    factory = UniqKeyFactory(
        address=packed_address(client_id.partition("@")[0]),
        process_id=SystemRandom().getrandbits(16),
        constant=SystemRandom().getrandbits(32),
    )

    def create(count: int) -> list[str]:
        keys: list[str] = []
        while len(keys) < count:  # a new time for each part, so that a time has fewer than the factory's counter can
            keys += factory.create_many(clock.timestamp_ms(), min(count - len(keys), KEYS_AT_ONCE_MAX))
        return keys

    return create


def _send_batch(
    opened: _Opened,
    columns: dict[str, pa.Array],
    count: int,
    first_row: int,
    rows: TaskRows,
    settings: SinkSettings,
) -> None:
    describe = partial(_described, first_row=first_row, partition=rows.partition)
    try:
        encoded = encode_rows(columns, count, first_row, rules=opened.rules, keys=opened.keys)
        choices = queue_choices(columns.get("queue_id"), columns.get("sharding_key"))
        queues_of = partial(_queues_of, opened.producer)
        for piece in cut(encoded, choices, queues_of, batch_max_bytes=settings.batch_max_bytes):
            opened.sender.send(piece, describe)
    except RowFault as fault:
        where = _where(columns, fault.position, settings.topic)
        raise SinkError(
            f"row {first_row + fault.position} of partition {rows.partition}{where} cannot be sent: {fault.fault}"
        ) from None


def _queues_of(producer: blocking.Producer, topic: str) -> Sequence[MessageQueue]:
    """Return the queues of a topic, in RocketMQ's order."""
    try:
        return producer.publish_queues(topic)
    except (ClientError, RemotingError) as failure:
        raise SinkError(f"rows to topic {topic} cannot be sent: {_reason(failure)}") from failure


def _where(columns: dict[str, pa.Array], position: int, topic: str | None) -> str:
    """Return what is known of a row: its topic and the size of its body."""
    named = columns["topic"][position].as_py() if "topic" in columns else None
    body = columns["body"][position].as_py()
    size = "no body" if body is None else f"{len(body if isinstance(body, bytes) else body.encode())} bytes"
    return f" ({named or topic or 'no topic'}, {size})"


def _described(piece: Piece, *, first_row: int, partition: int) -> str:
    first, last = first_row + int(piece.rows[0]), first_row + int(piece.rows[-1])
    which = f"row {first}" if first == last else f"{piece.count} rows from {first} to {last}"
    target = f"topic {piece.topic}"
    if piece.queue is not None:
        target = f"queue {piece.queue.queue_id} of {target} at {piece.queue.broker_name}"
    return f"{which} of partition {partition} ({piece.size} bytes) to {target}"


def _given_up(unsent: UnsentError) -> SinkError:
    failure = unsent.__cause__
    assert isinstance(failure, RocketpyError)
    times = "" if unsent.attempts == 1 else f" in {unsent.attempts} attempts"
    return SinkError(f"{unsent.sent_as} not sent{times}: {_reason(failure)}")


def _reason(failure: RocketpyError) -> str:
    """Return what the client said, with what to do where that is known."""
    if isinstance(failure, RemotingConnectError):
        return (
            f"{failure} (executors must reach the nameservers and, at the addresses that those have from brokerIP1, "
            "the brokers)"
        )
    text = str(failure)
    if NO_TEMPLATE in text:
        reason = text.replace(f", nor {NO_TEMPLATE}: none creates topics on its own", "")
        return f"the topic does not exist, and a write creates none; create it first ({reason})"
    return text
