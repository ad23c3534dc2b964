"""Offsets of a stream: what the checkpoint holds is enough to run a batch again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import SettingsError
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.parts import QueueSpan
from rocketpy.spark.stream.offsets import (
    INITIAL,
    Document,
    StreamOffset,
    read_offset,
    spans,
    write_offset,
)

A0, A1, B0 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1), MessageQueue("U", "b", 0)

queues = st.builds(
    MessageQueue,
    st.sampled_from(["T", "%RETRY%g", "Заказы", '"{}']),
    st.sampled_from(["a", "b:c", "a-1"]),
    st.integers(0, 20),
)
offsets = st.builds(
    StreamOffset,
    st.dictionaries(queues, st.integers(0, 2**63 - 1), max_size=8),
    st.dictionaries(queues, st.integers(0, 2**63 - 1), max_size=8),
    st.booleans(),
)


@given(offsets)
def test_an_offset_survives_the_checkpoint(offset: StreamOffset) -> None:
    assert read_offset(json.loads(json.dumps(write_offset(offset)))) == offset


@given(offsets, st.randoms(use_true_random=False))
def test_equal_offsets_have_equal_texts(offset: StreamOffset, random: object) -> None:
    """For Spark offsets are equal if their texts are."""
    items = list(offset.queues.items())
    random.shuffle(items)  # type: ignore[attr-defined]
    same = StreamOffset(dict(items), offset.began, offset.is_initial)
    assert json.dumps(write_offset(same)) == json.dumps(write_offset(offset))


def test_the_document_is_as_described() -> None:
    offset = StreamOffset({A1: 4, A0: 17, B0: 1}, {A1: 2})
    assert write_offset(offset) == {
        "version": 1,
        "queues": {"T": {"a": {"0": 17, "1": 4}}, "U": {"b": {"0": 1}}},
        "began": {"T": {"a": {"1": 2}}},
    }
    assert write_offset(INITIAL) == {"version": 1, "queues": {}, "initial": True}


def test_a_batch_reads_from_the_start_to_the_end_of_each_queue() -> None:
    start, end = StreamOffset({A0: 3, A1: 5}), StreamOffset({A1: 5, A0: 9})
    assert spans(start, end) == [QueueSpan(A0, 3, 9)]


def test_the_end_says_where_queues_begin_that_do_not_continue() -> None:
    """So the first batch, a new queue and a gap are the same ranges again after a crash."""
    end = StreamOffset({A0: 9, A1: 5, B0: 7}, {B0: 2, A1: 4})
    assert spans(StreamOffset({A0: 3, A1: 1}), end) == [QueueSpan(A0, 3, 9), QueueSpan(A1, 4, 5), QueueSpan(B0, 2, 7)]
    assert spans(INITIAL, StreamOffset({A0: 9}, {A0: 8})) == [QueueSpan(A0, 8, 9)]


def test_a_queue_that_was_set_back_is_not_read() -> None:
    assert spans(StreamOffset({A0: 9}), StreamOffset({A0: 4}, {A0: 4})) == []


def test_a_queue_without_a_beginning_is_an_error_that_names_it() -> None:
    with pytest.raises(SettingsError, match="expected a beginning of topic T broker a queue 0, found only its end 9"):
        spans(INITIAL, StreamOffset({A0: 9}))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "expected an offset of version 1, found version None"),
        ({"version": 2, "queues": {}}, "expected an offset of version 1, found version 2"),
        ({"version": 1}, "found 'None'"),
        ({"version": 1, "queues": []}, r"expected offsets as \{topic: \{broker: \{queue: offset\}\}\}"),
        ({"version": 1, "queues": {"T": 5}}, "found"),
        ({"version": 1, "queues": {"T": {"a": {"x": 5}}}}, "found"),
        ({"version": 1, "queues": {"T": {"a": {"0": "5"}}}}, "found"),
        ({"version": 1, "queues": {"T": {"a": {"0": True}}}}, "found"),
        ({"version": 1, "queues": {"T": {"a": {"0": -5}}}}, "found"),
        ({"version": 1, "queues": {"T": {"a": {"0": 1 << 63}}}}, "found"),
        ({"version": 1, "queues": {"T": {"a": {"-1": 5}}}}, "found"),
        ({"version": 1, "queues": {"T": {"a": {" 1": 5}}}}, "found"),
        ({"version": 1, "queues": {"T": {"a": {"2147483648": 5}}}}, "found"),
        ({"version": 1, "queues": {}, "began": 5}, "found '5'"),
        ({"version": True, "queues": {}}, "expected an offset of version 1, found version True"),
        ({"version": 1, "queues": {}, "initial": "true"}, "expected true or false in initial, found 'true'"),
        ({"version": 1, "queues": {}, "begun": {}}, "expected began, initial, queues, version, found 'begun'"),
    ],
)
def test_a_foreign_document_is_refused(document: Document, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        read_offset(document)
