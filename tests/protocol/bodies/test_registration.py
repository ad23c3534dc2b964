"""Registrations in slices: the same values as at once, whatever the length, and no slice that takes long."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.registration import (
    REGISTRATION_SIZE_MAX,
    WHOLE_SIZE_MAX,
    old_registration_slices,
    registration_slices,
)
from rocketpy.protocol.bodies.topic import (
    TOPICS_MAX,
    DataVersion,
    RegisterBrokerBody,
    Slices,
    TopicConfig,
    TopicConfigSerializeWrapper,
    run_slices,
)
from tests.worst_requests import (
    ATTEMPTS,
    SLICE_SECONDS_MAX,
    WORST_JSON,
    at_full_speed,
    without_collector,
    worst_json,
)


def registration(count: int, name: str = "topic") -> RegisterBrokerBody:
    topics = [TopicConfig(f"{name}{number}", number % 8, 4, 6, topic_sys_flag=number % 3) for number in range(count)]
    wrapper = TopicConfigSerializeWrapper({topic.topic_name: topic for topic in topics}, DataVersion(7, count))
    return RegisterBrokerBody(wrapper, ["f1", "f2"])


def longest(slices: Slices) -> tuple[float, object]:
    """Return the processor seconds of the longest slice, and the value or what it was refused with."""
    seconds = 0.0
    while True:
        begin = time.thread_time()
        try:
            next(slices)
        except StopIteration as end:
            return max(seconds, time.thread_time() - begin), end.value
        except RemoteProtocolError as refusal:
            return max(seconds, time.thread_time() - begin), refusal
        seconds = max(seconds, time.thread_time() - begin)


@pytest.mark.parametrize("count", [0, 1, 50, 249, 250, 251, 3000])
def test_slices_give_the_value_that_is_decoded_at_once(count: int) -> None:
    for name in ("topic", 'na"me\\{}é\U0001f680'):
        body = registration(count, name)
        for encoded in (encode_body(body), json.dumps(json.loads(encode_body(body)), indent=1).encode()):
            assert run_slices(registration_slices(encoded, is_compressed=False)) == body
        wrapper = encode_body(body.topic_config_serialize_wrapper)
        assert run_slices(old_registration_slices(wrapper)) == RegisterBrokerBody(body.topic_config_serialize_wrapper)
        compressed = body.encode_compressed()
        if " " not in name:
            sliced = run_slices(registration_slices(compressed, is_compressed=True))
            assert sliced == RegisterBrokerBody.decode_compressed(compressed)


LONG = "x" * WHOLE_SIZE_MAX


@pytest.mark.parametrize(
    "text",
    [
        '{"topicConfigSerializeWrapper":{}}',
        '{"topicConfigSerializeWrapper":{"topicConfigTable":null,"dataVersion":null},"filterServerList":null}',
        '{"topicConfigSerializeWrapper":{"topicConfigTable": { } }}',
        '{"topicConfigSerializeWrapper":{"topicConfigTable":{"a":null,"t":{"topicName":"t"}}}}',
        '{"topicConfigSerializeWrapper":{"topicConfigTable":{"t":{"topicName":"t","attributes":{"a":"}"}}}}}',
        '{"topicConfigSerializeWrapper":{"topicConfigTable":{"t":{"topicName":"u"},"t":{"topicName":"v"}}}}',
        '{"topicConfigSerializeWrapper":{"topicConfigTable":{"\\u0074":{"topicName":"\\u0074","readQueueNums":"3"}}}}',
        '{"topicConfigSerializeWrapper":{"topicConfigTable":{"t":{"TOPIC_NAME":"t","order":true}}}}',
        '{"topicConfigSerializeWrapper":{"dataVersion":{"counter":5}}}',
    ],
)
def test_long_and_short_bodies_mean_the_same(text: str) -> None:
    """An unknown key makes a body long, so that it is decoded in slices."""
    short = decode_body(text, RegisterBrokerBody)
    long = text[:-1] + f',"unknown":"{LONG}"}}'
    assert run_slices(registration_slices(text.encode(), is_compressed=False)) == short
    assert run_slices(registration_slices(long.encode(), is_compressed=False)) == short


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('{"t":{"readQueueNums":1}}', "TopicConfig.topicName: expected a value"),
        ('{"t":{"topicName":"t","perm":"x"}}', "TopicConfig.perm: expected int32"),
        ('{"t":1}', "expected topics of at most 16384 bytes, found '\"t\":1}' at byte 1"),
        ('[{"topicName":"t"}]', "expected topics"),
        ('{"t":{"topicName":"t","a":{"b":{"c":1}}}}', "expected topics"),
        ('{"t":{"topicName":"' + "x" * 16384 + '"}}', "expected topics of at most 16384 bytes"),
    ],
)
def test_a_wrong_topic_in_a_long_body_is_named(table: str, message: str) -> None:
    body = f'{{"unknown":"{LONG}","topicConfigSerializeWrapper":{{"topicConfigTable":{table}}}}}'.encode()
    with pytest.raises(RemoteProtocolError) as caught:
        run_slices(registration_slices(body, is_compressed=False))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        f"{{'unknown':'{LONG}'}}",
        f'{{"unknown":"{LONG}"}}',
        f'{{"unknown":"{LONG}","topicConfigSerializeWrapper":null}}',
        f'{{"unknown":"{LONG}","topic_config_serialize_wrapper":{{}}}}',
        f'{{"unknown":"{LONG}","topicConfigSerializeWrapper":{{}}',
        "[" * WHOLE_SIZE_MAX * 2,
    ],
)
def test_a_long_body_is_as_rocketmq_writes_it(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="expected standard JSON as RocketMQ writes it"):
        run_slices(registration_slices(text.encode(), is_compressed=False))


def test_what_is_not_compressed_has_a_length() -> None:
    """One pass over it cannot be sliced."""
    text = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{}}}'
    for size in (REGISTRATION_SIZE_MAX, REGISTRATION_SIZE_MAX + 1):
        slices = registration_slices(text.ljust(size), is_compressed=False)
        if size == REGISTRATION_SIZE_MAX:
            assert run_slices(slices) == RegisterBrokerBody()
        else:
            with pytest.raises(RemoteProtocolError, match=rf"at most {REGISTRATION_SIZE_MAX} bytes, or compressed"):
                run_slices(slices)


def test_filter_servers_and_versions_are_short() -> None:
    for name, text in (
        ("filterServerList", f'{{"filterServerList":["{LONG}"],"topicConfigSerializeWrapper":{{}}}}'),
        ("dataVersion", f'{{"topicConfigSerializeWrapper":{{"dataVersion":"{LONG}"}}}}'),
    ):
        with pytest.raises(RemoteProtocolError, match=f"{name}: expected at most 16384 bytes"):
            run_slices(registration_slices(text.encode(), is_compressed=False))
    content = len(LONG).to_bytes(4, "big") + LONG.encode()
    with pytest.raises(RemoteProtocolError, match="expected at most"):
        run_slices(registration_slices(zlib.compress(b"\0\0\x40\x01" + content), is_compressed=True))


@pytest.mark.parametrize("count", [10, 1000])
def test_more_topics_than_allowed_are_refused(count: int) -> None:
    body = registration(count)
    for slices in (registration_slices, old_registration_slices):
        for bound in (count, count - 1):
            if slices is registration_slices:
                made = [
                    registration_slices(encode_body(body), is_compressed=False, topics_max=bound),
                    registration_slices(body.encode_compressed(), is_compressed=True, topics_max=bound),
                ]
            else:
                made = [old_registration_slices(encode_body(body.topic_config_serialize_wrapper), topics_max=bound)]
            for each in made:
                if bound == count:
                    run_slices(each)
                else:
                    with pytest.raises(RemoteProtocolError, match=f"at most {bound} topics, found {count}"):
                        run_slices(each)


@given(st.binary(max_size=300), st.booleans())
def test_garbage_is_refused_or_a_value(content: bytes, is_compressed: bool) -> None:
    for body in (content, b'{"topicConfigSerializeWrapper":{"topicConfigTable":{' + content + LONG.encode()):
        try:
            run_slices(registration_slices(body, is_compressed=is_compressed))
        except RemoteProtocolError:
            pass


SIZE = 16_000_000
TEXT_SIZE = REGISTRATION_SIZE_MAX - 100


def topics_without_end() -> bytes:
    version, topic = encode_body(DataVersion()), b"\0\0\0\x13T 4 4 6 SINGLE_TAG "
    return zlib.compress(len(version).to_bytes(4, "big") + version + (1 << 20).to_bytes(4, "big") + topic * (1 << 20))


def zeros_without_end() -> bytes:
    bomb = zlib.compressobj()
    return b"".join([*(bomb.compress(bytes(1 << 20)) for _ in range(70)), bomb.flush()])


LARGEST: dict[str, tuple[Callable[[], bytes], bool]] = {
    "45,000 topics": (lambda: encode_body(registration(45_000)), False),
    "100,000 topics, compressed": (lambda: registration(TOPICS_MAX).encode_compressed(), True),
    "zeros without end": (zeros_without_end, True),
    "topics without end": (topics_without_end, True),
    "bytes that do not compress": (lambda: zlib.compress(bytes(SIZE), 0), True),
}


def check_slices(body: bytes, *, is_compressed: bool = False) -> None:
    seconds = float("inf")
    for _ in range(ATTEMPTS):
        with without_collector():
            took = longest(registration_slices(body, is_compressed=is_compressed))[0]
            seconds = min(seconds, took if took < SLICE_SECONDS_MAX else at_full_speed(took))
        if seconds < SLICE_SECONDS_MAX:
            break
    assert seconds < SLICE_SECONDS_MAX


@pytest.mark.parametrize("name", LARGEST)
def test_no_slice_of_a_large_registration_takes_long(name: str) -> None:
    make, is_compressed = LARGEST[name]
    check_slices(make(), is_compressed=is_compressed)


@pytest.mark.parametrize("name", WORST_JSON)
def test_no_slice_of_another_text_takes_long(name: str) -> None:
    text = worst_json(name, TEXT_SIZE)
    check_slices(text)
    check_slices(text[:WHOLE_SIZE_MAX])
    check_slices(b'{"topicConfigSerializeWrapper":{"topicConfigTable":' + text + b"}}")
