"""Statuses are RocketMQ's, in RocketMQ's order, and answers are values: equal by content, never changed."""

from __future__ import annotations

import attrs

from rocketpy.store.results import GetMessageResult, GetMessageStatus, PutMessageStatus

# org.apache.rocketmq.store.PutMessageStatus and GetMessageStatus of 4.9.8, in the order of their constants.
JAVA_PUT = """
    PUT_OK FLUSH_DISK_TIMEOUT FLUSH_SLAVE_TIMEOUT SLAVE_NOT_AVAILABLE SERVICE_NOT_AVAILABLE CREATE_MAPEDFILE_FAILED
    MESSAGE_ILLEGAL PROPERTIES_SIZE_EXCEEDED OS_PAGECACHE_BUSY UNKNOWN_ERROR LMQ_CONSUME_QUEUE_NUM_EXCEEDED
"""
JAVA_GET = """
    FOUND NO_MATCHED_MESSAGE MESSAGE_WAS_REMOVING OFFSET_FOUND_NULL OFFSET_OVERFLOW_BADLY OFFSET_OVERFLOW_ONE
    OFFSET_TOO_SMALL NO_MATCHED_LOGIC_QUEUE NO_MESSAGE_IN_QUEUE
"""


def test_a_put_ends_as_in_java() -> None:
    assert [(each.name, each.value) for each in PutMessageStatus] == [
        (name, at) for at, name in enumerate(JAVA_PUT.split())
    ]


def test_a_read_ends_as_in_java_or_with_an_offset_that_was_reset() -> None:
    """OFFSET_RESET is of later versions; nothing of 4.9 says it."""
    names = [*JAVA_GET.split(), "OFFSET_RESET"]
    assert {each.name: each.value for each in GetMessageStatus} == {name: at for at, name in enumerate(names)}


def test_two_reads_of_the_same_messages_are_equal_on_either_path() -> None:
    """Only the fast path tracks the size of the last record, for the statistics."""
    found = GetMessageResult(GetMessageStatus.FOUND, 1, 0, 1, b"record", 1)
    assert found == attrs.evolve(found, last_record_size=6)
    assert found != attrs.evolve(found, body=b"other!")
