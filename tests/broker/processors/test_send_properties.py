"""What is made of the properties of a send; that both roads agree on it is tested in test_two_roads."""

from __future__ import annotations

import pytest

from rocketpy.broker.processors.send_properties import (
    batch_records,
    match_usual,
    plain_properties,
    refuse_unsupported,
)
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.java_hash import tags_code

JAVA = "KEYS\x01k1 k2\x02UNIQ_KEY\x010A\x02WAIT\x01true\x02TAGS\x01t"


def test_a_java_producers_message_is_recognised_in_one_step() -> None:
    match = match_usual(JAVA)
    assert match is not None
    assert match.groups() == ("k1 k2", "0A", "t")
    assert match_usual("UNIQ_KEY\x010A\x02WAIT\x01true") is not None
    for other in ("", "UNIQ_KEY\x010A", JAVA + "\x02a\x01b", JAVA.replace("true", "false"), "DELAY\x011\x02" + JAVA):
        assert match_usual(other) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x01b", ("a\x01b", (), None)),
        ("a\x01b\x02", ("a\x01b", (), None)),
        ("WAIT\x01true\x02TAGS\x01t\x02KEYS\x01x", ("TAGS\x01t\x02KEYS\x01x", (b"x",), "t")),
        ("WAIT\x01true", None),
        ("WAIT\x01false\x02a\x01b", None),
        ("DELAY\x013", None),
        ("a\x01", None),
        ("a\x01b\x02a\x01c", None),
        ("\x01b", None),
        ("", None),
        ("TAGS\x01" + "t" * 201, None),
    ],
)
def test_plain_properties_in_any_order(text: str, expected: object) -> None:
    assert plain_properties(text) == expected


@pytest.mark.parametrize("suffix_says_nothing", [True, False])
def test_the_properties_of_a_batch_come_after_a_messages_own(suffix_says_nothing: bool) -> None:
    items = [(1, b"x", JAVA.encode()), (2, b"y", b"a\x01b\x02"), (3, b"z", b"")]
    records = batch_records(items, b"CLUSTER\x01c", suffix_says_nothing=suffix_says_nothing)
    assert records == [
        (1, b"x", JAVA.encode() + b"\x02CLUSTER\x01c", tags_code("t"), (b"0A", b"k1", b"k2")),
        (2, b"y", b"a\x01b\x02CLUSTER\x01c", 0, ()),
        (3, b"z", b"CLUSTER\x01c", 0, ()),
    ]


def test_tags_of_the_whole_batch_count() -> None:
    ((_, _, stored, code, keys),) = batch_records(
        [(0, b"", JAVA.encode())], b"TAGS\x01all\x02KEYS\x01k", suffix_says_nothing=False
    )
    assert stored.endswith(b"\x02TAGS\x01all\x02KEYS\x01k")
    assert (code, keys) == (tags_code("all"), (b"0A", b"k"))


@pytest.mark.parametrize(
    ("properties", "code", "says"),
    [
        ({"TRAN_MSG": "TRUE"}, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "TRAN_MSG"),
        ({"DELAY": "3"}, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "DELAY=3"),
        ({"DELAY": "x" * 5000}, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "DELAY="),
        ({"INNER_MULTI_QUEUE_OFFSET": "0"}, ResponseCode.MESSAGE_ILLEGAL, "INNER_MULTI_QUEUE_OFFSET"),
    ],
)
def test_what_the_broker_would_keep_without_doing_is_refused(
    properties: dict[str, str], code: ResponseCode, says: str
) -> None:
    with pytest.raises(RequestError, match=says) as refusal:
        refuse_unsupported(properties)
    assert refusal.value.response_code == code
    assert len(refusal.value.remark) < 300


@pytest.mark.parametrize("properties", [{}, {"DELAY": "0"}, {"DELAY": "-1"}, {"TRAN_MSG": "false"}, {"a": "b"}])
def test_everything_else_passes(properties: dict[str, str]) -> None:
    refuse_unsupported(properties)
