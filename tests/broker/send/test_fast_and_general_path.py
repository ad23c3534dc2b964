"""Equivalence of the fast and the general path of sends and pulls, byte for byte, unless the fast path declines.

The same frames go to two brokers, one without fast paths. Responses, records, units and index keys must be equal.
Hypothesis generates the headers; a failure that it finds is kept as an example.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence, Set

import msgspec
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from rocketpy.protocol.codes import LanguageCode, RequestCode
from rocketpy.protocol.fast_path_headers import FastSendFields
from rocketpy.protocol.frame import encode_frame
from rocketpy.store.config import FlushDiskType
from rocketpy.store.results import PutMessageStatus
from tests.broker.message_broker import MessageBroker, open_message_broker, pull, send

JAVA = "KEYS\x01k1 k2\x02UNIQ_KEY\x010A\x02WAIT\x01true\x02TAGS\x01t"


def frame_of(code: int, fields: dict[str, object], body: bytes = b"", flag: int = 0, opaque: int = 1) -> bytes:
    """A JSON frame whose ext fields are any JSON values: what a careless client may send."""
    header = msgspec.json.encode(
        {"code": code, "extFields": fields, "flag": flag, "language": "CPP", "opaque": opaque, "version": 1}
    )
    size = 4 + len(header) + len(body)
    return size.to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + body


async def answers_of(broker: MessageBroker, frames: Sequence[bytes]) -> list[bytes]:
    """Send frames one burst each and return the bytes of each answer; of garbage, that the connection ends with it."""
    connection = broker.connect(("10.0.0.1", 5000))
    answers = []
    for frame in frames:
        try:
            broker.serve(frame, connection)
        except RemoteProtocolError as failure:
            answers.append(f"closed: {failure}".encode())
            connection = broker.connect(("10.0.0.1", 5000))
            continue
        await broker.run_tasks()
        answers.append(connection.take_outgoing())
    return answers


async def contents(broker: MessageBroker) -> object:
    """Return everything that sends have changed in a store."""
    queues = sorted(broker.store.queues())
    records = [await broker.records(*queue) for queue in queues]
    broker.tables.stats.empty_counters()
    stats = [
        (name, topic, item.value, item.times)
        for name in ("TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE")
        for topic in sorted({topic for topic, _ in queues})
        if (item := broker.tables.stats.get_stats_item(name, topic)) is not None
    ]
    return queues, records, stats, broker.puts, broker.stored_bytes, dict(broker.tables.topics.topic_config_table)


async def assert_agreement(
    frames: Sequence[bytes], *, put_status: PutMessageStatus | None = None, **settings: object
) -> list[bool]:
    """Serve frames on all paths and compare; return which of them the fast path took, with the kernel and without."""
    seen: list[object] = []
    taken: list[list[bool]] = [[], []]
    for path in (0, 1, None):  # fast path, the same with kernels, general path
        async with open_message_broker(put_status=put_status, has_kernels=path == 1, **settings) as broker:  # type: ignore[arg-type]
            if path is not None:
                broker.send_path.taken = broker.pull_path.taken = broker.batch_path.taken = taken[path]
            else:
                broker.use_general_path()
            prepare_consumers(broker)
            answers = await answers_of(broker, frames)
            offsets = broker.tables.offsets.offset_table
            seen.append((answers, await contents(broker), offsets, broker.hold.statistics()))
    assert seen[0] == seen[1] == seen[2]
    assert taken[0] == taken[1]
    return taken[0]


def prepare_consumers(broker: MessageBroker) -> None:
    """A group with two subscriptions, and topics of several kinds."""
    channel = ClientChannelInfo(broker.connect(), "c1", LanguageCode.JAVA, 409, 0.0)
    subscriptions = [SubscriptionData("TopicTest", "t || u", 5), SubscriptionData("Wide", "*", 5)]
    broker.tables.consumers.register_consumer(channel, ConsumerData("Connected", subscription_data_set=subscriptions))
    broker.add_topic("Multi", topic_filter_type="MULTI_TAG")
    broker.add_topic("Wide", write_queue_nums=1)
    broker.add_topic("%RETRY%Connected", 1)
    broker.add_topic("Secret", perm=2)


# ---- sends ----------------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(
    [
        "KEYS",
        "UNIQ_KEY",
        "TAGS",
        "WAIT",
        "CLUSTER",
        "DELAY",
        "TRAN_MSG",
        "INNER_MULTI_DISPATCH",
        "INNER_MULTI_QUEUE_OFFSET",
        "TRAN_PREPARED_QUEUE_OFFSET",
        "TRANSACTION_CHECK_TIMES",
    ]
    + ["a", "wait", "", "KEYS ", "ключ"]
)
VALUES = st.one_of(
    st.sampled_from(
        ["", "true", "false", "TRUE", "0", "1", "-1", "t", " ", "k1 k2", "  k1   k2 ", "a\x01b", "x" * 300]
    ),
    st.text(max_size=12),
    st.text("\x01\x02 ab\0", max_size=6),
)
ENTRIES = st.one_of(
    st.tuples(NAMES, VALUES).map("\x01".join),
    st.sampled_from(["", "\x01", "novalue", "\x01noname", "WAIT\x01true", "UNIQ_KEY\x010A", "TAGS\x01t", "KEYS\x01k"]),
)
PROPERTIES = st.one_of(
    st.lists(ENTRIES, max_size=6).map("\x02".join),
    st.permutations(JAVA.split("\x02")).map("\x02".join),
    st.tuples(VALUES, VALUES, VALUES).map(
        lambda v: f"KEYS\x01{v[0]}\x02UNIQ_KEY\x01{v[1]}\x02WAIT\x01true\x02TAGS\x01{v[2]}"
    ),
    st.just(JAVA),
    st.text(max_size=20),
)
WHOLE = st.tuples(PROPERTIES, st.sampled_from(["", "", "\x02", "\x01", "\x02\x02"])).map("".join)
INT_TEXTS = st.sampled_from(
    ["0", "1", "3", "4", "-1", "00", "+1", "-0", " 1", "", "x", "2147483647", "2147483648", "-2147483648", "１", "1_0"]
)
"""Without "1.0" and "1e0": the fast decoder reads them as 1, the generic one refuses them."""


def send_fields(**fields: object) -> dict[str, object]:
    usual: dict[str, object] = {"a": "P", "b": "TopicTest", "c": "TBW102", "d": "4", "e": "0", "f": "0"}
    usual |= {"g": "1700000000123", "h": "0", "i": JAVA, "j": "0", "k": "false", "m": "false"}
    return usual | fields


@given(properties=WHOLE)
@example(properties=JAVA)
@example(properties=JAVA + "\x02")
@example(properties="WAIT\x01true\x02" + JAVA)
@example(properties="UNIQ_KEY\x011\x02WAIT\x01true\x02TAGS\x01" + "ü" * 201)
@example(properties="UNIQ_KEY\x011\x02WAIT\x01true\x02TAGS\x01" + "t" * 40_000)
@example(properties="a\x01" + "ü" * 16_400)
@example(properties="UNIQ_KEY\x01\x02WAIT\x01true")
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
async def test_sends_of_any_properties(properties: str) -> None:
    frames = [frame_of(310, send_fields(i=properties), b"body"), frame_of(310, send_fields(i=properties), flag=2)]
    taken = await assert_agreement(frames)
    if properties == JAVA:
        assert taken == [True, True]


HEADER_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.sampled_from(["", "P", "ü"]),
        "b": st.sampled_from(
            ["TopicTest", "Multi", "Wide", "New", "", "a.b", "%RETRY%g", "SELF_TEST_TOPIC", "x" * 128]
        ),
        "c": st.sampled_from(["TBW102", "", "No"]),
        **dict.fromkeys("dehj", INT_TEXTS),
        "f": st.one_of(INT_TEXTS, st.sampled_from(["8", "9", "12", "15", "-8"])),
        "g": st.one_of(
            INT_TEXTS, st.sampled_from(["9223372036854775807", "9223372036854775808", "-9223372036854775808"])
        ),
        "k": st.sampled_from(["true", "false", "TRUE", "", "1", "0", "x"]),
        "l": INT_TEXTS,
        "m": st.sampled_from(["true", "false", "TRUE", "", "1", "0", "x", "tRuE"]),
        "n": st.just("broker-a"),
        "Signature": st.just("x"),
    },
)
UNREAD_BY_SENDS = frozenset("abcdefghijklmn") - set(FastSendFields.__struct_encode_fields__)


def has_nested(fields: dict[str, object], names: Set[str]) -> bool:
    """Whether one of these fields is an object or an array, which a header's must not be."""
    return any(isinstance(fields.get(name), dict | list) for name in names)


ANY_JSON = st.one_of(st.none(), st.booleans(), st.integers(-(2**33), 2**33), st.just({}), st.just([1]), st.just(""))


@given(
    fields=HEADER_FIELDS,
    any_json=st.dictionaries(st.sampled_from("abcdefghijklmn"), ANY_JSON, max_size=1),
    missing=st.sets(st.sampled_from("abcdefghijkm"), max_size=1),
    flag=st.sampled_from([0, 0, 2]),
    body=st.sampled_from([b"", b"x", b"\0" * 100, b"y" * 140_000]),
    opaque=st.sampled_from([0, 1, 2**31 - 1, -1]),
)
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
async def test_sends_of_any_header(
    fields: dict[str, object], any_json: dict[str, object], missing: set[str], flag: int, body: bytes, opaque: int
) -> None:
    sent = {name: value for name, value in (send_fields() | fields | any_json).items() if name not in missing}
    assume(not has_nested(sent, UNREAD_BY_SENDS))
    await assert_agreement([frame_of(310, sent, body, flag, opaque), frame_of(310, send_fields())])


@pytest.mark.parametrize("nested", [{}, [1], {"a": {"b": [1]}}])
async def test_a_nested_value_in_an_unread_field_is_skipped_or_garbage(nested: object) -> None:
    """No client writes one. The fast path skips it and builds nothing, the general path closes the connection."""
    async with open_message_broker() as broker:
        frame = frame_of(310, send_fields(n=nested))
        (taken,) = await answers_of(broker, [frame])
        assert taken.startswith(b"\0\0")
        broker.use_general_path()
        (refused,) = await answers_of(broker, [frame])
        assert refused.startswith(b"closed: JSON header: expected a text")


@pytest.mark.parametrize("status", [status for status in PutMessageStatus if status.value > 3])
async def test_refusals_of_the_store(status: PutMessageStatus) -> None:
    frames = [encode_frame(send()), encode_frame(send(oneway=True)), encode_frame(send(properties="a\x01b"))]
    assert await assert_agreement(frames, put_status=status) == [True, True, True]


@pytest.mark.parametrize("properties", [JAVA, "a\x01b\x02WAIT\x01false", "a\x01b\x02WAIT\x01true", "a\x01b"])
async def test_sends_under_sync_flush(properties: str) -> None:
    frames = [encode_frame(send(properties=properties)), encode_frame(send(properties=properties, oneway=True))]
    taken = await assert_agreement(frames, store={"flush_disk_type": FlushDiskType.SYNC_FLUSH})
    assert taken == [properties != "a\x01b\x02WAIT\x01false"] * 2


@pytest.mark.parametrize("names", ["%LMQ%a", "%LMQ%a,%LMQ%b,Audit", "%LMQ%a,%LMQ%c,%LMQ%d", "../x", ",", "TopicTest"])
async def test_sends_to_light_queues(names: str) -> None:
    """The fast path declines messages that name queues; the store addresses those that do not."""
    store = {"enable_lmq": True, "enable_multi_dispatch": True, "max_lmq_consume_queue_num": 2}
    frames = [
        encode_frame(send(properties=f"INNER_MULTI_DISPATCH\x01{names}\x02TAGS\x01t")),
        encode_frame(send(topic="%LMQ%z")),
        encode_frame(send()),
        encode_frame(pull(topic="%LMQ%a", consumer_group="%LMQ%g")),
    ]
    taken = await assert_agreement(frames, store=store)
    assert taken[:3] == [False, False, True]


async def test_sends_while_the_gate_is_closed() -> None:
    async with open_message_broker() as broker:
        answers = []
        for _ in range(2):
            broker.send_feature.gate.close(lambda connection: "[REJECTREQUEST]busy")
            answers.append(await answers_of(broker, [encode_frame(send()), encode_frame(send(oneway=True))]))
            broker.send_feature.gate.open()
            assert broker.send_path.taken in ([], [False, False])
            broker.use_general_path()
        assert answers[0] == answers[1]
        assert answers[0][1] == b""
        assert broker.stored_bytes == 0


async def test_sends_to_a_broker_that_is_not_open() -> None:
    frames = [encode_frame(send())]
    assert await assert_agreement(frames, broker_permission=4) == [False]
    assert await assert_agreement(frames, start_accept_send_request_time_stamp=1_800_000_000_000) == [False]


# ---- batches --------------------------------------------------------------------------------------------------------

BATCH_PROPERTIES = st.one_of(WHOLE, st.just("UNIQ_KEY\x010A\x02WAIT\x01true"), st.just(JAVA))


def batch_body(properties: Sequence[str], cut: int = 0) -> bytes:
    """The body of a batch with a message for each text of properties, cut short at its end."""
    items = []
    for index, text in enumerate(properties):
        body, stored = b"message %d" % index, text.encode("utf-8", "replace")
        head = struct.pack(">iiiii", 22 + len(body) + len(stored), 0, 0, index, len(body))
        items.append(head + body + struct.pack(">h", len(stored)) + stored)
    joined = b"".join(items)
    return joined[: len(joined) - cut]


@given(
    own=st.lists(BATCH_PROPERTIES, max_size=4),
    shared=st.one_of(WHOLE, st.sampled_from(["", "WAIT\x01true", "TAGS\x01all", "DELAY\x011"])),
    fields=HEADER_FIELDS,
    cut=st.sampled_from([0, 0, 0, 1, 30]),
    flag=st.sampled_from([0, 0, 2]),
)
@example(own=["UNIQ_KEY\x010A\x02WAIT\x01true"] * 3, shared="WAIT\x01true", fields={}, cut=0, flag=0)
@example(own=[JAVA, "a\x01b", ""], shared="", fields={}, cut=0, flag=0)
@example(own=[JAVA], shared="", fields={"m": "1"}, cut=0, flag=0)
@example(own=[JAVA], shared="", fields={"m": "TRUE"}, cut=0, flag=0)
@settings(deadline=None, max_examples=250, suppress_health_check=[HealthCheck.too_slow])
async def test_batches_of_any_kind(own: list[str], shared: str, fields: dict[str, object], cut: int, flag: int) -> None:
    sent = send_fields(i=shared, m="true") | fields
    taken = await assert_agreement([frame_of(320, sent, batch_body(own, cut), flag), frame_of(310, send_fields())])
    if not fields and shared == "WAIT\x01true" and own and not cut:
        assert taken[0]


async def test_batches_under_sync_flush() -> None:
    sent = send_fields(i="WAIT\x01true", m="true")
    frames = [frame_of(320, sent, batch_body(["UNIQ_KEY\x010A\x02WAIT\x01true"] * 5), flag) for flag in (0, 2)]
    taken = await assert_agreement(frames, store={"flush_disk_type": FlushDiskType.SYNC_FLUSH})
    assert taken == [True, True]


# ---- pulls ----------------------------------------------------------------------------------------------------------

PULL_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "consumerGroup": st.sampled_from(["G", "Connected", "", "ü"]),
        "topic": st.sampled_from(["TopicTest", "Wide", "Secret", "Unknown", "", "%RETRY%Connected"]),
        "queueId": INT_TEXTS,
        "queueOffset": st.sampled_from(["0", "1", "3", "4", "5", "99", "-1", "9223372036854775807", "x", ""]),
        "maxMsgNums": st.sampled_from(["0", "1", "2", "32", "-1", "2147483647", "x"]),
        "sysFlag": st.sampled_from(["0", "1", "2", "3", "4", "5", "6", "7", "20", "21", "x"]),
        "commitOffset": st.sampled_from(["0", "3", "-7", "x"]),
        "suspendTimeoutMillis": st.sampled_from(["0", "15000", "-1", "9223372036854775807", "x"]),
        "subVersion": st.sampled_from(["0", "5", "6", "x"]),
        "subscription": st.one_of(st.sampled_from(["*", "", "t", "t||u", "none", "||", " "]), st.text(max_size=5)),
        "expressionType": st.sampled_from(["TAG", "", "SQL92", "x"]),
        "bname": st.just("broker-a"),
    },
)


def pull_fields(**fields: object) -> dict[str, object]:
    usual: dict[str, object] = {"consumerGroup": "G", "topic": "TopicTest", "queueId": "0", "queueOffset": "0"}
    usual |= {"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "15000"}
    usual |= {"subVersion": "0", "subscription": "*"}
    return usual | fields


@given(
    fields=PULL_FIELDS,
    any_json=st.dictionaries(st.sampled_from(sorted(pull_fields())), ANY_JSON, max_size=1),
    missing=st.sets(st.sampled_from(sorted(pull_fields())), max_size=1),
    flag=st.sampled_from([0, 0, 2]),
    opaque=st.sampled_from([0, 1, 2**31 - 1, -1]),
)
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
async def test_pulls_of_any_header(
    fields: dict[str, object], any_json: dict[str, object], missing: set[str], flag: int, opaque: int
) -> None:
    frames = [encode_frame(send(properties=f"TAGS\x01{tag}")) for tag in "tuvt"]
    sent = {name: value for name, value in (pull_fields() | fields | any_json).items() if name not in missing}
    frames.append(frame_of(RequestCode.PULL_MESSAGE, sent, flag=flag, opaque=opaque))
    frames.append(encode_frame(send(properties="TAGS\x01t")))  # may wake it
    await assert_agreement(frames)


async def test_the_pulls_of_a_push_consumer_take_the_fast_path() -> None:
    frames = [encode_frame(send()), encode_frame(pull()), encode_frame(pull(sys_flag=6, queue_offset=1))]
    assert await assert_agreement(frames) == [True, True, True]
