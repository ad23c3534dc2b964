"""Message traces of our client and of Java's: mqadmin shows ours, our administration reads Java's, both are alike."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.client import (
    Client,
    ConsumeConcurrentlyStatus,
    LocalTransactionState,
    Message,
    MessageBatch,
    MessageExt,
)
from rocketpy.client.admin import EndTransactionTrace, PubTrace, SubAfterTrace, SubBeforeTrace
from rocketpy.client.trace.trace_data import TraceRecord
from rocketpy.errors import ClientError
from rocketpy.protocol.codes import ResponseCode
from tests.interop.clients import ToSend
from tests.interop.cluster import Cluster
from tests.interop.conftest import BROKERS, chosen_cluster
from tests.interop.mqadmin_session import MqadminSession
from tests.interop.our_client import FROM_FIRST, PATIENT_PRODUCER, open_our_client
from tests.interop.roles import Roles
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.java

TRACED_PRODUCER = attrs.evolve(PATIENT_PRODUCER, enable_msg_trace=True)
TRACED_CONSUMER = attrs.evolve(FROM_FIRST, enable_msg_trace=True)


@pytest.fixture(scope="module", params=BROKERS)
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster under test, and then Java's."""
    return chosen_cluster(request)


async def retry_once(batch: MessageBatch) -> ConsumeConcurrentlyStatus:
    """Give a message back for a second the first time, as the Java consumer of these tests does."""
    batch.delay_level = 1
    is_again = batch.messages[0].reconsume_times > 0
    return ConsumeConcurrentlyStatus.CONSUME_SUCCESS if is_again else ConsumeConcurrentlyStatus.RECONSUME_LATER


@asynccontextmanager
async def our_traced_consumer(client: Client, group: str, topic: str) -> AsyncIterator[None]:
    """Run a member of a group until the block ends."""
    async with client.consumer(group, topic, config=TRACED_CONSUMER) as consumer, trio.open_nursery() as nursery:
        await nursery.start(consumer.run, retry_once)
        yield
        nursery.cancel_scope.cancel()


async def wait_trace(
    client: Client, msg_id: str, wanted: dict[type[TraceRecord], int], topic: str = "RMQ_SYS_TRACE_TOPIC"
) -> list[TraceRecord]:
    """Return the records of a message once there are so many of each type; records are indexed a little later."""
    records: list[TraceRecord] = []
    with trio.move_on_after(PATIENCE_SECONDS):
        while True:
            try:
                found = await client.admin().messages.trace(msg_id, trace_topic=topic)
            except ClientError as failure:
                if failure.response_code not in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.QUERY_NOT_FOUND, 208):
                    raise
            else:
                assert found.unreadable == ()
                records = [each.record for each in found.views]
                if all(sum(isinstance(each, kind) for each in records) >= count for kind, count in wanted.items()):
                    return records
            await trio.sleep(0.1)
    raise AssertionError(f"never: {wanted} of {msg_id}, found {records}")


def without_what_varies(record: TraceRecord) -> TraceRecord:
    """Return a record without its times and ids, and without the group."""
    blank: dict[str, object] = {
        "timestamp_ms": 0,
        "cost_time_ms": 0,
        "msg_id": "",
        "offset_msg_id": "",
        "request_id": "",
        "transaction_id": "",
        "group": "",
    }
    known = {field.name for field in attrs.fields(type(record))}
    return attrs.evolve(record, **{name: value for name, value in blank.items() if name in known})


def test_mqadmin_shows_what_our_client_has_traced(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.create_topic(f"our_traces_{cluster.kind}")
    own = cluster.create_topic(f"our_trace_topic_{cluster.kind}")

    async def leave_traces() -> tuple[str, str]:
        async with open_our_client(cluster.namesrv) as client:
            async with client.producer("tracing_p", config=TRACED_PRODUCER) as producer:
                sent = await producer.send(Message(topic, b"x", {"KEYS": "one two"}))
            async with our_traced_consumer(client, "tracing_c", topic):
                await wait_trace(client, sent.msg_id, {PubTrace: 1, SubBeforeTrace: 2, SubAfterTrace: 2})
            config = attrs.evolve(TRACED_PRODUCER, customized_trace_topic=own)
            async with client.producer("own_p", config=config) as producer:
                other = await producer.send(Message(topic, b"y"))
            await wait_trace(client, other.msg_id, {PubTrace: 1}, own)
        return sent.msg_id, other.msg_id

    msg_id, other_id = trio.run(leave_traces)
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\d+ms"
    with MqadminSession(cluster, tmp_path / "mqadmin") as mqadmin:
        shown = mqadmin.run(["queryMsgTraceById", "-n", "{namesrv}", "-i", msg_id]).text
        assert re.search(rf"^Pub +tracing_p +127\.0\.0\.1 +{when} +success *$", shown, re.M), shown
        assert re.findall(rf"^Sub +tracing_c +127\.0\.0\.1 +{when} +(\w+) *$", shown, re.M) == ["failed", "success"]
        shown = mqadmin.run(["queryMsgTraceById", "-n", "{namesrv}", "-i", other_id, "-t", own]).text
        assert re.search(rf"^Pub +own_p +127\.0\.0\.1 +{when} +success *$", shown, re.M), shown


async def test_our_records_are_like_javas_and_each_is_read(cluster: Cluster, java: Roles) -> None:
    """The same message, sent by both and consumed by both, the first time in vain."""
    topic = cluster.create_topic(f"both_trace_{cluster.kind}")
    namesrv, groups = cluster.namesrv, {"theirs_c", "ours_c"}
    asked = ToSend(topic=topic, body=b"the same", tags="tag", keys="one two")
    async with (
        open_our_client(namesrv) as client,
        client.producer("ours_p", config=TRACED_PRODUCER) as ours,
        java.producer(namesrv, "theirs_p", trace=True) as theirs,
        our_traced_consumer(client, "ours_c", topic),
        java.consumer(namesrv, "theirs_c", topic, trace=True, fails=1),
    ):
        (answer,) = await theirs.send([asked])
        sent = await ours.send(Message.create(topic, asked.body, tags="tag", keys=["one", "two"]))
        wanted: dict[type[TraceRecord], int] = {PubTrace: 1, SubBeforeTrace: 4, SubAfterTrace: 4}
        of_theirs = await wait_trace(client, answer.msg_id, wanted)
        of_ours = await wait_trace(client, sent.msg_id, wanted)
    for records, producer_group in ((of_theirs, "theirs_p"), (of_ours, "ours_p")):
        (pub,) = (each for each in records if isinstance(each, PubTrace))
        assert pub.group == producer_group
        consumed = {
            group: [without_what_varies(each) for each in records if each.group == group and each is not pub]
            for group in groups
        }
        assert consumed["theirs_c"] == consumed["ours_c"]
        assert len(consumed["ours_c"]) == 4
    assert [without_what_varies(each) for each in of_theirs if isinstance(each, PubTrace)] == [
        without_what_varies(each) for each in of_ours if isinstance(each, PubTrace)
    ]


async def test_transactions_leave_the_same_records(cluster: Cluster, java: Roles) -> None:
    topic = cluster.create_topic(f"transaction_traces_{cluster.kind}")
    asked = ToSend(topic=topic, body=b"the same", keys="key", properties={"first": "commit"})

    async def check(message: MessageExt) -> LocalTransactionState:
        return LocalTransactionState.UNKNOW

    wanted: dict[type[TraceRecord], int] = {PubTrace: 1, EndTransactionTrace: 1}
    async with open_our_client(cluster.namesrv) as client:
        async with java.producer(cluster.namesrv, "theirs_t", trace=True) as theirs:
            (answer,) = await theirs.send([asked], "transaction")
            of_theirs = await wait_trace(client, answer.msg_id, wanted)  # what waits when it closes may be lost
        message = Message.create(topic, asked.body, keys="key", properties={"first": "commit"})
        async with (
            client.transaction_producer("ours_t", check=check, config=TRACED_PRODUCER) as ours,
            ours.transaction(message) as transaction,
        ):
            await transaction.commit()
        of_ours = await wait_trace(client, transaction.transaction_id, wanted)
    assert list(map(without_what_varies, of_theirs)) == list(map(without_what_varies, of_ours))
    for records in (of_theirs, of_ours):
        end = records[-1]
        assert isinstance(end, EndTransactionTrace)
        assert end.transaction_id == end.msg_id
