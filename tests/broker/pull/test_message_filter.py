"""SQL92 filters of pulls, matched by the unit and by the record of a message."""

from __future__ import annotations

import attrs
import pytest

from rocketpy import BUILD
from rocketpy.broker.pull.message_filter import RetryMessageFilter, Sql92MessageFilter
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.selector.sql92 import Sql92Selector, compile_sql92
from rocketpy.protocol.selector.tag import TagFilter, parse_tag_expression
from rocketpy.protocol.stored_message import encode_message
from rocketpy.store.queue.extension import CqExtUnit


def record(**properties: str) -> bytes:
    return encode_message(attrs.evolve(MessageExt(topic="T", body=b"body" * 30), properties=properties))


def test_a_record_is_judged_by_its_properties() -> None:
    wanted = Sql92MessageFilter(compile_sql92("a > 1 AND TAGS = 'x'"))
    assert wanted.needs_record
    assert wanted.is_matched_by_commit_log(record(a="2", TAGS="x"))
    assert not wanted.is_matched_by_commit_log(record(a="2"))
    assert not wanted.is_matched_by_commit_log(record(a="text", TAGS="x"))


@pytest.mark.parametrize("content", [b"", b"short", bytes(87), bytes(84) + b"\xff" * 8])
def test_what_is_no_record_has_no_properties(content: bytes) -> None:
    assert not Sql92MessageFilter(compile_sql92("a > 1")).is_matched_by_commit_log(content)


@pytest.mark.parametrize(
    ("ext", "may_match"),
    [
        (None, True),
        (CqExtUnit(0, 101, b"\x06\x00"), True),
        (CqExtUnit(0, 101, b"\x07\x01"), True),
        (CqExtUnit(0, 101, b"\x02\x00"), False),
        (CqExtUnit(0, 100, b"\x02\x00"), True),
        (CqExtUnit(0, 101, b"\x02"), True),
        (CqExtUnit(0, 101, b""), True),
    ],
    ids=["no map", "its bits", "more bits", "a bit missing", "not younger than the filter", "another size", "empty"],
)
def test_a_unit_is_judged_by_a_bit_map_that_can_be_trusted(ext: CqExtUnit | None, may_match: bool) -> None:
    wanted = Sql92MessageFilter(compile_sql92("a > 1"), bits=0b110, bit_map_size=2, born_timestamp_ms=100)
    assert wanted.is_matched_by_consume_queue(5, ext) is may_match


def test_a_filter_without_bits_looks_at_every_record() -> None:
    wanted = Sql92MessageFilter(compile_sql92("a > 1"), bit_map_size=2)
    assert wanted.is_matched_by_consume_queue(5, CqExtUnit(0, 101, b"\0\0"))


def test_a_message_comes_back_if_the_filter_of_its_own_topic_wants_it() -> None:
    def selector_of(topic: str, group: str) -> Sql92Selector | None:
        return compile_sql92("a > 1") if (topic, group) == ("T", "G") else None

    again = RetryMessageFilter(None, "G", selector_of)
    assert again.is_matched_by_consume_queue(5, None)
    assert again.is_matched_by_commit_log(record(RETRY_TOPIC="T", a="2"))
    assert not again.is_matched_by_commit_log(record(RETRY_TOPIC="T", a="1"))
    assert again.is_matched_by_commit_log(record(RETRY_TOPIC="Other", a="1"))
    assert again.is_matched_by_commit_log(record(a="1"))


def test_the_retry_topic_may_have_tags_of_its_own() -> None:
    subscription = parse_tag_expression("%RETRY%G", "x")
    again = RetryMessageFilter(TagFilter(subscription), "G", lambda topic, group: None)
    (code,) = subscription.code_set
    assert again.is_matched_by_consume_queue(code, None)
    assert not again.is_matched_by_consume_queue(code + 1, None)


def test_an_sql92_filter_has_a_kernel_where_they_are_compiled() -> None:
    assert (Sql92MessageFilter(compile_sql92("a = 1")).judge is not None) == BUILD.has_kernels
    assert Sql92MessageFilter(compile_sql92("a > b")).judge is None
