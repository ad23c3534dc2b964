"""Properties of a send; the equivalence of both paths is tested in test_fast_and_general_path."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rocketpy.broker.send.properties import (
    CLIENT_SYS_FLAGS,
    client_columns,
    client_properties,
    is_transactional,
    match_usual,
    plain_properties,
    refuse_special_batch,
    refuse_unreadable_delay,
    stored_batch,
)
from rocketpy.errors import RequestError
from rocketpy.protocol.batch import BatchColumns
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.properties import decode_properties, encode_properties, index_keys_of

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


BROKER_ONLY = "TRAN_PREPARED_QUEUE_OFFSET\x010\x02TRANSACTION_CHECK_TIMES\x0114"


def test_what_only_the_broker_may_say_is_taken_from_what_clients_send() -> None:
    """They send it in good faith when they forward a message that was committed after a check."""
    assert client_properties(f"a\x01b\x02{BROKER_ONLY}\x02{JAVA}") == {"a": "b", **decode_properties(JAVA)}
    assert client_properties(None) == {}
    for name in ("TRAN_PREPARED_QUEUE_OFFSET", "TRANSACTION_CHECK_TIMES", "ROCKETPY_ACCOUNT"):
        assert client_properties(f"{name}\x017") == {}
        assert plain_properties(f"a\x01b\x02{name}\x011") is None, "left to the general path, which removes it"


def test_what_real_clients_send_stays() -> None:
    sent = {
        "TRAN_MSG": "true", "PGROUP": "P", "UNIQ_KEY": "1", "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "0",
        "RECONSUME_TIME": "3", "MAX_RECONSUME_TIMES": "16", "DELAY": "6", "REAL_TOPIC": "T", "REAL_QID": "3",
        "CHECK_IMMUNITY_TIME_IN_SECONDS": "9", "__transactionId__": "x", "MSG_TYPE": "reply", "CORRELATION_ID": "1",
        "REPLY_TO_CLIENT": "c", "TTL": "3000", "MIN_OFFSET": "0", "MAX_OFFSET": "9", "CONSUME_START_TIME": "1",
    }  # fmt: skip
    assert client_properties(encode_properties(sent)) == sent


def test_the_queues_named_by_a_retry_are_removed() -> None:
    text = "INNER_MULTI_DISPATCH\x01a\x02INNER_MULTI_QUEUE_OFFSET\x010\x02a\x01b"
    assert client_properties(text, is_retry=True) == {"a": "b"}
    with pytest.raises(RequestError, match="is the broker's own"):
        client_properties(text)


def test_messages_of_a_batch_keep_their_bytes_but_for_the_brokers_word() -> None:
    own = (b"a\x01b\x02", f"a\x01b\x02{BROKER_ONLY}".encode(), b"", b"TAGS\x01TRAN_PREPARED_QUEUE_OFFSET")
    columns = BatchColumns((1, 2, 3, 4), (b"x",) * 4, own)
    assert client_columns(columns) == columns._replace(properties=(own[0], b"a\x01b", b"", own[3]))
    plain = columns._replace(properties=(JAVA.encode(),) * 4)
    assert client_columns(plain) is plain


def test_a_client_prepares_and_does_not_commit() -> None:
    transactions = [flag & CLIENT_SYS_FLAGS for flag in (0, 4, 8, 12)]
    assert transactions == [0, 4, 0, 4]
    for flag in (0x1, 0x301, 0x5, 0x100, 0x7FFFFFF7, -(1 << 31)):
        assert flag & CLIENT_SYS_FLAGS == flag


@pytest.mark.parametrize("suffix_has_no_tags_or_keys", [True, False])
def test_the_properties_of_a_batch_come_after_a_messages_own(suffix_has_no_tags_or_keys: bool) -> None:
    columns = BatchColumns((1, 2, 3), (b"x", b"y", b"z"), (JAVA.encode(), b"a\x01b\x02", b""))
    batch = stored_batch(columns, b"CLUSTER\x01c", suffix_has_no_tags_or_keys=suffix_has_no_tags_or_keys)
    assert list(zip(*batch, strict=True)) == [
        (1, b"x", JAVA.encode() + b"\x02CLUSTER\x01c", tags_code("t"), (b"0A", b"k1", b"k2")),
        (2, b"y", b"a\x01b\x02CLUSTER\x01c", 0, ()),
        (3, b"z", b"CLUSTER\x01c", 0, ()),
    ]


def as_read_from_the_log(stored: bytes) -> tuple[int, tuple[bytes, ...]]:
    """Return the tags code and index keys of a record, as recovery computes them."""
    properties = decode_properties(stored.decode("utf-8", "replace"))
    keys = [properties["UNIQ_KEY"]] if "UNIQ_KEY" in properties else []
    keys += [key for key in properties.get("KEYS", "").split(" ") if key]
    return tags_code(properties.get("TAGS")), tuple(key.encode() for key in keys)


USUAL = st.builds(
    "{}UNIQ_KEY\x01{}\x02WAIT\x01true{}".format,
    st.sampled_from(["", "", "KEYS\x01k\x02", "KEYS\x01kk\x02", "KEYS\x01k l\x02", "KEYS\x01\x02"]),
    st.sampled_from(["0A", "0B", "0", "", "0\x01", "\x020", "0\U0001f680", "\x02WAIT"]),
    st.sampled_from(["", "\x02TAGS\x01a", "\x02TAGS\x01b", "\x02TAGS\x01", "\x02TAGS\x01aa", "\x02"]),
)


@st.composite
def texts_of_a_batch(draw: st.DrawFn) -> list[str]:
    """Ordinary texts, mostly of one form, with some characters that were exchanged: as near to alike as can be."""
    first = draw(USUAL)
    others = draw(st.lists(st.one_of(st.just(first), USUAL), max_size=4))
    texts = [list(text) for text in [first, *others]]
    for text in texts:
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            text[draw(st.integers(0, len(text) - 1))] = draw(st.sampled_from("\x01\x02A kK"))
    return ["".join(text) for text in texts]


SUFFIXES = (b"CLUSTER\x01c", b"TAGS\x01all\x02KEYS\x01k  l\x02CLUSTER\x01c", b"UNIQ_KEY\x01u\x02CLUSTER\x01c")
"""What the batch adds to each: a cluster alone, or also tags and keys."""


@given(texts_of_a_batch(), st.sampled_from(SUFFIXES))
@example(["UNIQ_KEY\x010A\x02WAIT\x01true", "UNIQ_KEY\x010B\x02WAIT\x01true"], SUFFIXES[0])
@example(["UNIQ_KEY\x010A\x02WAIT\x01true", "UNIQ_KEY\x010\x01\x02WAIT\x01true"], SUFFIXES[0])
@example(["KEYS\x01ab\x02UNIQ_KEY\x01c\x02WAIT\x01true", "KEYS\x01a\x02UNIQ_KEY\x01bc\x02WAIT\x01true"], SUFFIXES[0])
@example(["KEYS\x01a\x02UNIQ_KEY\x01b\x02WAIT\x01true", "KEYS\x01\x02UNIQ_KEY\x01bb\x02WAIT\x01true"], SUFFIXES[0])
@example(["UNIQ_KEY\x01a\x02WAIT\x01true\x02TAGS\x01t", "UNIQ_KEY\x01a\x02WAIT\x01true\x02TAGS\x01u"], SUFFIXES[0])
def test_messages_that_are_nearly_alike_keep_their_own_meaning(texts: list[str], suffix: bytes) -> None:
    """Recovery reads tags and keys from the stored text: it must find the same."""
    own = [text.encode() for text in texts]
    count = len(own)
    batch = stored_batch(
        BatchColumns([0] * count, [b""] * count, own), suffix, suffix_has_no_tags_or_keys=suffix == SUFFIXES[0]
    )
    for text, stored, code, keys in zip(own, batch.properties, batch.tags_codes, batch.keys, strict=True):
        assert stored == text + (b"" if text.endswith(b"\x02") else b"\x02") + suffix
        assert (code, keys) == as_read_from_the_log(stored)


@pytest.mark.parametrize("own", ["UNIQ_KEY\x010A\x02WAIT\x01true", "UNIQ_KEY\x010A\x02WAIT\x01true\x02TAGS\x01t"])
@pytest.mark.parametrize("is_alike", [True, False])
def test_a_message_of_a_batch_has_as_many_keys_as_any_other(own: str, is_alike: bool) -> None:
    """The index counts on it; recovery reads as many from the record."""
    text = f"KEYS\x01{' '.join(map(str, range(200)))}\x02{own}".encode()
    columns = BatchColumns([0, 0], [b"", b""], [text, text if is_alike else b""])
    batch = stored_batch(columns, b"CLUSTER\x01c", suffix_has_no_tags_or_keys=True)
    assert list(batch.keys[0]) == list(index_keys_of(decode_properties(batch.properties[0].decode())))


def test_a_delay_that_is_no_number_is_refused() -> None:
    for readable in ({}, {"DELAY": "0"}, {"DELAY": "-1"}, {"DELAY": "+3"}, {"DELAY": "2147483647"}):
        refuse_unreadable_delay(readable)
    for text in ("x", " 3", "3.0", "\uff13", "2147483648", "9" * 5000):
        with pytest.raises(RequestError, match="property DELAY: expected an integer") as refusal:
            refuse_unreadable_delay({"DELAY": text})
        assert refusal.value.response_code == ResponseCode.SYSTEM_ERROR
        assert len(refusal.value.remark) < 100


def test_a_message_is_transactional_as_java_reads_it() -> None:
    assert all(is_transactional({"TRAN_MSG": text}) for text in ("true", "TRUE", "True"))
    assert not any(is_transactional({"TRAN_MSG": text}) for text in ("false", "1", " true", ""))
    assert not is_transactional({})


def test_a_batch_does_not_wait() -> None:
    for usual in ({}, {"DELAY": "0"}, {"DELAY": "-1"}, {"TRAN_MSG": "false"}):
        refuse_special_batch(usual)
    for shared in ({"DELAY": "1"}, {"TRAN_MSG": "true"}, {"TRAN_MSG": "TRUE", "DELAY": "2"}):
        with pytest.raises(RequestError, match="a batch cannot have the property") as refusal:
            refuse_special_batch(shared)
        assert refusal.value.response_code == ResponseCode.MESSAGE_ILLEGAL
