"""Equivalence of the fast and the general path of sends and pulls, byte for byte, unless the fast path declines.

The same frames go to two brokers, one without fast paths. Responses, records, units and index keys must be equal.
What is known to matter is enumerated, one deviation from a usual request at a time; Hypothesis combines them, several
requests for each broker that is opened, because opening one takes ten times as long as a request. A failure that it
finds is kept as an example.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator, Sequence, Set

import attrs
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
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


FRAMES_OF_A_CONNECTION = 12
"""The kernels read few headers of a connection on which more than 16 in a row are unlike all before."""


async def answers_of(broker: MessageBroker, frames: Sequence[bytes]) -> list[bytes]:
    """Send frames one burst each and return the bytes of each answer; of garbage, that the connection ends with it."""
    connections = []
    answers = []
    for number, frame in enumerate(frames):
        if not connections or number % FRAMES_OF_A_CONNECTION == 0:
            connections.append(broker.connect(("10.0.0.1", 5000)))
        try:
            broker.serve(frame, connections[-1])
        except RemoteProtocolError as failure:
            answers.append(f"closed: {failure}".encode())
            connections[-1] = broker.connect(("10.0.0.1", 5000))
            continue
        await broker.run_tasks()
        serve_all_woken(broker)
        answers.append(b"".join([each.take_outgoing() for each in connections]))
    return answers


def serve_all_woken(broker: MessageBroker) -> None:
    """Serve the rest of the held pulls that a message has woken: how many one burst serves depends on their time."""
    before = None
    while before != (before := broker.hold.statistics()):
        broker.end_burst()


@attrs.define
class TagsCodes:
    """A filter that matches nothing, and keeps the tags code of every unit that it is asked about."""

    needs_record = False
    asked: list[int] = attrs.field(factory=list)

    def is_matched_by_consume_queue(self, tags_code: int, ext: object) -> bool:
        self.asked.append(tags_code)
        return False

    def is_matched_by_commit_log(self, record: bytes) -> bool:
        raise AssertionError("no unit was matched")


async def tags_codes(broker: MessageBroker, topic: str, queue_id: int) -> list[int]:
    """Return the tags codes of a queue's units."""
    units = TagsCodes()
    offset = 0
    while offset < broker.store.max_offset_in_queue(topic, queue_id):
        offset = (await broker.store.get_message(topic, queue_id, offset, 32, units)).next_begin_offset
    return units.asked


async def contents(broker: MessageBroker) -> object:
    """Return everything that sends have changed in a store."""
    queues = sorted(broker.store.queues())
    records = [(await broker.records(*queue), await tags_codes(broker, *queue)) for queue in queues]
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
    seen: list[tuple[list[bytes], object, object, object]] = []
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
    for index, frame in enumerate(frames):
        fast, kernel, general = (answers[index] for answers, *_ in seen)
        assert fast == kernel == general, frame[:4000]
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

USUAL_NAMES = ("KEYS", "UNIQ_KEY", "TAGS", "WAIT", "CLUSTER", "DELAY", "TRAN_MSG")
QUEUE_NAMES = ("INNER_MULTI_DISPATCH", "INNER_MULTI_QUEUE_OFFSET")
TRANSACTION_NAMES = ("TRAN_PREPARED_QUEUE_OFFSET", "TRANSACTION_CHECK_TIMES")
NAMES = (*USUAL_NAMES, *QUEUE_NAMES, *TRANSACTION_NAMES, "a", "wait", "", "KEYS ", "ключ")
VALUES = ("", "true", "false", "TRUE", "0", "1", "-1", "t", " ", "k1 k2", "  k1   k2 ", "a\x01b", "x" * 300)
ENTRIES = ("", "\x01", "novalue", "\x01noname", "WAIT\x01true", "UNIQ_KEY\x010A", "TAGS\x01t", "KEYS\x01k")
ENDS = ("\x02", "\x01", "\x02\x02")


def properties_texts() -> Iterator[str]:
    """Yield each name with each value, alone and beside the usual ones, these in every order, and odd texts."""
    for number, (name, value) in enumerate(itertools.product(NAMES, VALUES)):
        entry = f"{name}\x01{value}"
        yield (entry, f"{entry}\x02{JAVA}", f"{JAVA}\x02{entry}")[number % 3]
    yield from map("\x02".join, itertools.permutations(JAVA.split("\x02")))
    yield from map("\x02".join, itertools.combinations(ENTRIES, 2))
    for end in ("", *ENDS):
        yield from (f"{text}{end}" for text in ("", JAVA, "a\x01b", *ENTRIES))
    for name, value in itertools.product(("KEYS", "UNIQ_KEY", "TAGS"), VALUES):
        yield re.sub(f"{name}\x01[^\x02]*", lambda _: f"{name}\x01{value}", JAVA)  # noqa: B023
    yield "UNIQ_KEY\x011\x02WAIT\x01true\x02TAGS\x01" + "ü" * 201
    yield "UNIQ_KEY\x011\x02WAIT\x01true\x02TAGS\x01" + "t" * 40_000
    yield "a\x01" + "ü" * 16_400
    yield "UNIQ_KEY\x01\x02WAIT\x01true"


ANY_VALUE = st.one_of(st.sampled_from(VALUES), st.text(max_size=12), st.text("\x01\x02 ab\0", max_size=6))
ANY_ENTRY = st.one_of(st.tuples(st.sampled_from(NAMES), ANY_VALUE).map("\x01".join), st.sampled_from(ENTRIES))
PROPERTIES = st.one_of(
    st.lists(ANY_ENTRY, max_size=6).map("\x02".join),
    st.tuples(ANY_VALUE, ANY_VALUE, ANY_VALUE).map(
        lambda v: f"KEYS\x01{v[0]}\x02UNIQ_KEY\x01{v[1]}\x02WAIT\x01true\x02TAGS\x01{v[2]}"
    ),
    st.just(JAVA),
    st.text(max_size=20),
)
WHOLE = st.tuples(PROPERTIES, st.sampled_from(["", "", *ENDS])).map("".join)
SMALL_INT_TEXTS = ("0", "1", "3", "4", "-1", "00", "+1", "-0", " 1", "1_0", "１", "x", "")
INT_TEXTS = (*SMALL_INT_TEXTS, "2147483647", "2147483648", "-2147483648")
"""Without "1.0" and "1e0": the fast decoder reads them as 1, the generic one refuses them."""


def send_fields(**fields: object) -> dict[str, object]:
    usual: dict[str, object] = {"a": "P", "b": "TopicTest", "c": "TBW102", "d": "4", "e": "0", "f": "0"}
    usual |= {"g": "1700000000123", "h": "0", "i": JAVA, "j": "0", "k": "false", "m": "false"}
    return usual | fields


def sends_of_properties(texts: Sequence[str]) -> list[bytes]:
    """Each text of properties in a send with a body and in a oneway one without."""
    return [
        frame
        for text in texts
        for frame in (frame_of(310, send_fields(i=text), b"body"), frame_of(310, send_fields(i=text), flag=2))
    ]


async def test_sends_of_each_property() -> None:
    assert await assert_agreement(sends_of_properties([JAVA])) == [True, True]
    await assert_agreement(sends_of_properties(list(properties_texts())))


@given(texts=st.lists(WHOLE, min_size=10, max_size=20))
@settings(deadline=None, max_examples=10, suppress_health_check=[HealthCheck.too_slow])
async def test_sends_of_any_properties(texts: list[str]) -> None:
    await assert_agreement(sends_of_properties(texts))


HEADER_FIELDS: dict[str, Sequence[str]] = {
    "a": ("", "P", "ü"),
    "b": ("TopicTest", "Multi", "Wide", "New", "", "a.b", "%RETRY%g", "SELF_TEST_TOPIC", "x" * 128),
    "c": ("TBW102", "", "No"),
    **dict.fromkeys("dehj", INT_TEXTS),
    "f": (*INT_TEXTS, "8", "9", "12", "15", "-8"),
    "g": (*INT_TEXTS, "9223372036854775807", "9223372036854775808", "-9223372036854775808"),
    "k": ("true", "false", "TRUE", "", "1", "0", "x"),
    "l": INT_TEXTS,
    "m": ("true", "false", "TRUE", "", "1", "0", "x", "tRuE"),
    "n": ("broker-a",),
    "Signature": ("x",),
}
UNREAD_BY_SENDS = frozenset("abcdefghijklmn") - set(FastSendFields.__struct_encode_fields__)
JSON_VALUES: Sequence[object] = (None, True, False, 0, 1, 3, -1, 2**31, 2**33, {}, [1], "")
BODIES = (b"", b"x", b"\0" * 100, b"y" * 140_000)
OPAQUES = (0, 1, 2**31 - 1, 2**31, -1)


def has_nested(fields: dict[str, object], names: Set[str]) -> bool:
    """Whether one of these fields is an object or an array, which a header's must not be."""
    return any(isinstance(fields.get(name), dict | list) for name in names)


def deviations(usual: dict[str, object], values: dict[str, Sequence[str]]) -> Iterator[dict[str, object]]:
    """Yield the usual fields with one of another value, then of another kind of JSON, then without one."""
    for name, texts in values.items():
        yield from (usual | {name: text} for text in texts)
    for name in sorted(usual):
        yield from (usual | {name: value} for value in JSON_VALUES)
        yield {other: value for other, value in usual.items() if other != name}


def any_fields(usual: dict[str, object], values: dict[str, Sequence[str]]) -> st.SearchStrategy[dict[str, object]]:
    """The usual fields with several of other values, and perhaps one of another kind of JSON and one missing."""
    names = st.sampled_from(sorted(usual))
    return st.builds(
        lambda fields, others, missing: {
            name: value for name, value in (usual | fields | others).items() if name not in missing
        },
        st.fixed_dictionaries({}, optional={name: st.sampled_from(texts) for name, texts in values.items()}),
        st.dictionaries(names, st.sampled_from(JSON_VALUES), max_size=1),
        st.sets(names, max_size=1),
    )


def between_usual_sends(frames: Sequence[bytes]) -> list[bytes]:
    """Each frame, and a usual send after it: a header is also read by comparison with the one before it."""
    return [each for frame in frames for each in (frame, frame_of(310, send_fields()))]


async def test_sends_of_each_header() -> None:
    headers = [each for each in deviations(send_fields(), HEADER_FIELDS) if not has_nested(each, UNREAD_BY_SENDS)]
    frames = [frame_of(310, fields, b"x") for fields in headers]
    for name in "bef":  # what is refused of a oneway send, too
        frames += [frame_of(310, send_fields(**{name: text}), b"x", flag=2) for text in HEADER_FIELDS[name]]
    frames += [frame_of(310, send_fields(), *each) for each in itertools.product(BODIES, (0, 2), OPAQUES)]
    taken = await assert_agreement(between_usual_sends(frames))
    assert taken[1::2] == [True] * len(frames), "the usual ones"


SENDS = st.builds(
    frame_of,
    st.just(310),
    any_fields(send_fields(), HEADER_FIELDS).filter(lambda fields: not has_nested(fields, UNREAD_BY_SENDS)),
    st.sampled_from(BODIES),
    st.sampled_from([0, 0, 2]),
    st.sampled_from(OPAQUES),
)


@given(frames=st.lists(SENDS, min_size=10, max_size=20))
@settings(deadline=None, max_examples=10, suppress_health_check=[HealthCheck.too_slow])
async def test_sends_of_any_header(frames: list[bytes]) -> None:
    await assert_agreement(between_usual_sends(frames))


@pytest.mark.parametrize("nested", [{}, [1], {"a": {"b": [1]}}])
async def test_a_nested_value_in_an_unread_field_is_skipped_or_garbage(broker: MessageBroker, nested: object) -> None:
    """No client writes one. The fast path skips it and builds nothing, the general path closes the connection."""
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


async def test_sends_to_a_broker_that_is_not_open() -> None:
    frames = [encode_frame(send())]
    assert await assert_agreement(frames, broker_permission=4) == [False]
    assert await assert_agreement(frames, start_accept_send_request_time_stamp=1_800_000_000_000) == [False]


# ---- batches --------------------------------------------------------------------------------------------------------


def batch_body(properties: Sequence[str], cut: int = 0) -> bytes:
    """The body of a batch with a message for each text of properties, cut short at its end."""
    items = []
    for index, text in enumerate(properties):
        body, stored = b"message %d" % index, text.encode("utf-8", "replace")
        head = struct.pack(">iiiii", 22 + len(body) + len(stored), 0, 0, index, len(body))
        items.append(head + body + struct.pack(">h", len(stored)) + stored)
    joined = b"".join(items)
    return joined[: len(joined) - cut]


def batch(own: Sequence[str], shared: str = "", cut: int = 0, flag: int = 0, **fields: object) -> bytes:
    return frame_of(320, send_fields(i=shared, m="true") | fields, batch_body(own, cut), flag)


OWN = "UNIQ_KEY\x010A\x02WAIT\x01true"
SHARED = ("", "WAIT\x01true", "TAGS\x01all", "DELAY\x011")


def batches_of_each_kind() -> list[bytes]:
    """Return each text of properties in a message and of the whole batch, each header, and bodies cut short."""
    frames = [batch([OWN, text, OWN]) for text in properties_texts() if len(text.encode()) < 1 << 15]
    frames += [batch([OWN] * 3, text) for text in (*SHARED, *itertools.islice(properties_texts(), 0, None, 3))]
    for name, texts in HEADER_FIELDS.items():
        frames += [batch([JAVA], **{name: text}) for text in texts]
    frames += [
        batch(own, shared, cut, flag)
        for own in ([], [JAVA], [OWN] * 3, [JAVA, "a\x01b", ""])
        for shared, cut, flag in itertools.product(SHARED, (0, 1, 30), (0, 2))
    ]
    return frames


async def test_batches_of_each_kind() -> None:
    taken = await assert_agreement(between_usual_sends(batches_of_each_kind()))
    assert all(taken[1::2]), "the usual sends"
    assert await assert_agreement([batch([OWN] * 3, "WAIT\x01true")]) == [True]


BATCHES = st.builds(
    lambda own, shared, cut, flag, fields: batch(own, shared, cut, flag, **fields),
    st.lists(st.one_of(WHOLE, st.just(OWN), st.just(JAVA)), max_size=4),
    st.one_of(WHOLE, st.sampled_from(SHARED)),
    st.sampled_from([0, 0, 0, 1, 30]),
    st.sampled_from([0, 0, 2]),
    st.fixed_dictionaries({}, optional={name: st.sampled_from(texts) for name, texts in HEADER_FIELDS.items()}),
)


@given(frames=st.lists(BATCHES, min_size=10, max_size=20))
@settings(deadline=None, max_examples=10, suppress_health_check=[HealthCheck.too_slow])
async def test_batches_of_any_kind(frames: list[bytes]) -> None:
    await assert_agreement(between_usual_sends(frames))


async def test_batches_under_sync_flush() -> None:
    sent = send_fields(i="WAIT\x01true", m="true")
    frames = [frame_of(320, sent, batch_body(["UNIQ_KEY\x010A\x02WAIT\x01true"] * 5), flag) for flag in (0, 2)]
    taken = await assert_agreement(frames, store={"flush_disk_type": FlushDiskType.SYNC_FLUSH})
    assert taken == [True, True]


# ---- pulls ----------------------------------------------------------------------------------------------------------

PULL_FIELDS: dict[str, Sequence[str]] = {
    "consumerGroup": ("G", "Connected", "", "ü"),
    "topic": ("TopicTest", "Wide", "Secret", "Unknown", "", "%RETRY%Connected"),
    "queueId": INT_TEXTS,
    "queueOffset": ("0", "1", "3", "4", "5", "99", "-1", "9223372036854775807", "x", ""),
    "maxMsgNums": ("0", "1", "2", "32", "-1", "2147483647", "x"),
    "sysFlag": ("0", "1", "2", "3", "4", "5", "6", "7", "20", "21", "x"),
    "commitOffset": ("0", "3", "-7", "x"),
    "suspendTimeoutMillis": ("0", "15000", "-1", "9223372036854775807", "x"),
    "subVersion": ("0", "5", "6", "x"),
    "subscription": ("*", "", "t", "t||u", "none", "||", " ", "ü", "t\x01", "a b"),
    "expressionType": ("TAG", "", "SQL92", "x"),
    "bname": ("broker-a",),
}


def pull_fields(**fields: object) -> dict[str, object]:
    usual: dict[str, object] = {"consumerGroup": "G", "topic": "TopicTest", "queueId": "0", "queueOffset": "0"}
    usual |= {"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "15000"}
    usual |= {"subVersion": "0", "subscription": "*"}
    return usual | fields


def between_sends(pulls: Sequence[bytes]) -> list[bytes]:
    """Pulls of a queue with four messages, and a fifth one that wakes those which are held."""
    return [
        *(encode_frame(send(properties=f"TAGS\x01{tag}")) for tag in "tuvt"),
        *pulls,
        encode_frame(send(properties="TAGS\x01t")),
    ]


async def test_pulls_of_each_header() -> None:
    headers = list(deviations(pull_fields(), PULL_FIELDS))
    held = pull_fields(consumerGroup="Connected", sysFlag="2", queueOffset="4", subVersion="5")
    headers += deviations(held, PULL_FIELDS)
    for offset, flag in itertools.product(PULL_FIELDS["queueOffset"], PULL_FIELDS["sysFlag"]):
        headers.append(pull_fields(queueOffset=offset, sysFlag=flag, subscription="t", commitOffset="3"))
    frames = [frame_of(RequestCode.PULL_MESSAGE, fields) for fields in headers]
    frames += [
        frame_of(RequestCode.PULL_MESSAGE, fields, b"", flag, opaque)
        for fields in (pull_fields(), held)
        for flag, opaque in itertools.product((0, 2), OPAQUES)
    ]
    await assert_agreement(between_sends(frames))


PULLS = st.builds(
    frame_of,
    st.just(RequestCode.PULL_MESSAGE),
    any_fields(pull_fields(), PULL_FIELDS),
    st.just(b""),
    st.sampled_from([0, 0, 2]),
    st.sampled_from(OPAQUES),
)


@given(pulls=st.lists(PULLS, min_size=10, max_size=20))
@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.too_slow])
async def test_pulls_of_any_header(pulls: list[bytes]) -> None:
    await assert_agreement(between_sends(pulls))


async def test_the_pulls_of_a_push_consumer_take_the_fast_path() -> None:
    frames = [encode_frame(send()), encode_frame(pull()), encode_frame(pull(sys_flag=6, queue_offset=1))]
    assert await assert_agreement(frames) == [True, True, True]
