"""The generic codec: types, names, limits, and refusals that name class, field, expectation and finding."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.headers.codec import Int32, Int64, read_header, wire, wire_names, write_header


@attrs.frozen(kw_only=True)
class ExampleRequestHeader:
    topic: str
    queue_id: Int32
    queue_offset: Int64
    order: bool
    note: str | None = None
    retry_times: Int32 | None = None
    born_timestamp: Int64 = 7
    is_force: bool = False
    accept: bool | None = None
    client_id: str | None = attrs.field(default=None, metadata=wire("clientID"))
    state: Int32 = attrs.field(default=0, metadata=wire(choices=(0, 8, 12)))
    kind: str = attrs.field(default="ONE", metadata=wire("type", choices=("ONE", "TWO")))


MINIMAL = {"topic": "T", "queueId": "1", "queueOffset": "2", "order": "true"}
FULL = MINIMAL | {
    "note": "n",
    "retryTimes": "3",
    "bornTimestamp": "4",
    "isForce": "true",
    "accept": "false",
    "clientID": "c",
    "state": "8",
    "type": "TWO",
}


def read(**changes: str) -> ExampleRequestHeader:
    return read_header(MINIMAL | changes, ExampleRequestHeader)


def test_every_field_both_ways() -> None:
    header = ExampleRequestHeader(
        topic="T",
        queue_id=1,
        queue_offset=2,
        order=True,
        note="n",
        retry_times=3,
        born_timestamp=4,
        is_force=True,
        accept=False,
        client_id="c",
        state=8,
        kind="TWO",
    )
    assert read_header(FULL, ExampleRequestHeader) == header
    assert write_header(header) == FULL
    assert wire_names(ExampleRequestHeader) == tuple(FULL)


def test_missing_optional_fields_take_their_defaults() -> None:
    header = ExampleRequestHeader(topic="T", queue_id=1, queue_offset=2, order=True)
    assert read() == header
    assert write_header(header) == MINIMAL | {"bornTimestamp": "7", "isForce": "false", "state": "0", "type": "ONE"}


def test_a_header_is_read_from_a_command_too() -> None:
    assert read_header(RemotingCommand(code=1, ext_fields=MINIMAL), ExampleRequestHeader) == read()


@pytest.mark.parametrize("source", [None, {}, RemotingCommand(code=1)])
def test_no_ext_fields_at_all(source: RemotingCommand | dict[str, str] | None) -> None:
    with pytest.raises(RequestError, match=r"ExampleRequestHeader\.topic: expected text, found nothing"):
        read_header(source, ExampleRequestHeader)


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("TRUE", True), ("tRuE", True), ("false", False), ("1", False), ("yes", False), ("", False)],
)
def test_bool_is_true_only_for_the_word_in_any_case(text: str, value: bool) -> None:
    assert read(order=text).order is value


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("+5", 5), ("-5", -5), ("007", 7), ("2147483647", 2**31 - 1), ("-2147483648", -(2**31))],
)
def test_numbers_that_java_parses(text: str, value: int) -> None:
    assert read(queueId=text).queue_id == value


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1_0", "1.0", "0x1", "١", "null", "--1", "+", "2147483648", "-2147483649", "9" * 5000, "1\n"],
)
def test_numbers_that_java_does_not_parse_are_refused(text: str) -> None:
    """Python's int() would take some of these."""
    with pytest.raises(RequestError) as refusal:
        read(queueId=text)
    shown = text if len(text) <= 64 else "9" * 64 + "..."
    assert refusal.value.response_code == ResponseCode.SYSTEM_ERROR
    assert refusal.value.remark == f"ExampleRequestHeader.queueId: expected int32, found {shown}"


def test_int64_has_its_own_range() -> None:
    assert read(queueOffset="9223372036854775807").queue_offset == 2**63 - 1
    assert read(queueOffset="-9223372036854775808").queue_offset == -(2**63)
    with pytest.raises(RequestError, match=r"queueOffset: expected int64, found 9223372036854775808"):
        read(queueOffset="9223372036854775808")


def test_a_malformed_optional_number_is_refused_and_not_taken_for_absent() -> None:
    with pytest.raises(RequestError, match=r"ExampleRequestHeader\.retryTimes: expected int32, found x"):
        read(retryTimes="x")


def test_choices_are_held_in_both_directions() -> None:
    with pytest.raises(RequestError, match=r"ExampleRequestHeader\.state: expected one of 0, 8, 12, found 4"):
        read(state="4")
    with pytest.raises(RequestError, match=r"ExampleRequestHeader\.type: expected one of ONE, TWO, found one"):
        read(type="one")
    with pytest.raises(LocalProtocolError, match=r"ExampleRequestHeader\.state: expected one of 0, 8, 12, found 4"):
        write_header(attrs.evolve(read(), state=4))
    with pytest.raises(LocalProtocolError, match=r"ExampleRequestHeader\.type: expected one of ONE, TWO, found 'X'"):
        write_header(attrs.evolve(read(), kind="X"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queue_id": 2**31}, "queueId: expected int32, found 2147483648"),
        ({"queue_offset": -(2**63) - 1}, "queueOffset: expected int64, found -9223372036854775809"),
        ({"queue_id": "1"}, "queueId: expected int32, found '1'"),
        ({"topic": b"T"}, "topic: expected text, found b'T'"),
    ],
)
def test_a_value_that_does_not_fit_its_type_is_not_written(change: dict[str, object], message: str) -> None:
    with pytest.raises(LocalProtocolError) as error:
        write_header(attrs.evolve(read(), **change))
    assert str(error.value) == f"ExampleRequestHeader.{message}"


@given(
    st.builds(
        ExampleRequestHeader,
        topic=st.text(),
        queue_id=st.integers(-(2**31), 2**31 - 1),
        queue_offset=st.integers(-(2**63), 2**63 - 1),
        order=st.booleans(),
        note=st.none() | st.text(),
        retry_times=st.none() | st.integers(-(2**31), 2**31 - 1),
        accept=st.none() | st.booleans(),
        state=st.sampled_from((0, 8, 12)),
        kind=st.sampled_from(("ONE", "TWO")),
    )
)
def test_round_trip(header: ExampleRequestHeader) -> None:
    assert read_header(write_header(header), ExampleRequestHeader) == header


@given(st.dictionaries(st.sampled_from(list(FULL)), st.text(max_size=12)))
def test_any_text_is_read_or_refused(fields: dict[str, str]) -> None:
    try:
        read_header(fields, ExampleRequestHeader)
    except RequestError:
        pass
