"""The codec of bodies: what it writes, how loosely it reads, and what it says of what it cannot read."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.bodies import codec
from rocketpy.protocol.bodies.codec import (
    JavaEnum,
    JavaSet,
    decode_body,
    decode_peer_body,
    decode_value,
    encode_body,
    encode_pieces,
    encode_text,
    encode_value,
    named,
)
from rocketpy.protocol.bodies.connection import (
    ConsumerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from rocketpy.protocol.bodies.group import ConsumerOffsetSerializeWrapper
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.bodies.stats import TopicOffset, TopicStatsTable
from rocketpy.protocol.fastjson import FrozenBean, dumps
from rocketpy.protocol.headers.codec import Int32, Int64
from rocketpy.protocol.message import MessageQueue


class Colour(StrEnum):
    RED = "RED"
    GREEN = "GREEN"


ColourName = Annotated[str, JavaEnum.of(Colour)]


@attrs.frozen
class Part:
    name: str
    size_bytes: Int32 = 0


@attrs.frozen
class Whole:
    """One of everything."""

    text: str
    client_id: str = attrs.field(default="", metadata=named("clientID"))
    count: Int32 = 7
    offset: Int64 | None = None
    rate: float = 0.0
    is_open: bool = False
    colour: ColourName = Colour.RED.value
    colours: Sequence[ColourName] = attrs.field(factory=list)
    part: Part | None = None
    parts: Sequence[Part] = attrs.field(factory=list)
    names: JavaSet[str] = attrs.field(factory=list)
    parts_by_name: dict[str, Part] = attrs.field(factory=dict)
    offsets: dict[Int32, Int64] = attrs.field(factory=dict)
    queues: dict[MessageQueue, Int64] = attrs.field(factory=dict)
    groups: Sequence[dict[str, Sequence[Part]]] = attrs.field(factory=list)


QUEUE = MessageQueue("T", "b", 0)
FULL = Whole(
    text="t",
    client_id="c",
    count=-1,
    offset=2**63 - 1,
    rate=1e-7,
    is_open=True,
    colour=Colour.GREEN,
    colours=["RED", "GREEN"],
    part=Part("p", 1),
    parts=[Part("q")],
    names=["n", "m"],
    parts_by_name={"k": Part("r")},
    offsets={3: 4},
    queues={QUEUE: 5},
    groups=[{"g": [Part("s")]}],
)
FULL_TEXT = (
    '{"clientID":"c","colour":"GREEN","colours":["RED","GREEN"],"count":-1,'
    '"groups":[{"g":[{"name":"s","sizeBytes":0}]}],"isOpen":true,"names":["n","m"],"offset":9223372036854775807,'
    '"offsets":{3:4},"part":{"name":"p","sizeBytes":1},"parts":[{"name":"q","sizeBytes":0}],'
    '"partsByName":{"k":{"name":"r","sizeBytes":0}},"queues":{{"brokerName":"b","queueId":0,"topic":"T"}:5},'
    '"rate":1.0E-7,"text":"t"}'
)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=8)
PARTS = st.builds(Part, TEXT, INT32)
COLOURS = st.sampled_from(["RED", "GREEN"])
WHOLES = st.builds(
    Whole,
    text=TEXT,
    client_id=TEXT,
    count=INT32,
    offset=st.none() | INT64,
    rate=st.floats(allow_nan=False, allow_infinity=False),
    is_open=st.booleans(),
    colour=COLOURS,
    colours=st.lists(COLOURS, max_size=3),
    part=st.none() | PARTS,
    parts=st.lists(PARTS, max_size=3),
    names=st.lists(TEXT, max_size=3),
    parts_by_name=st.dictionaries(TEXT, PARTS, max_size=3),
    offsets=st.dictionaries(INT32, INT64, max_size=3),
    queues=st.dictionaries(st.builds(MessageQueue, TEXT, TEXT, INT32), INT64, max_size=3),
    groups=st.lists(st.dictionaries(TEXT, st.lists(PARTS, max_size=2), max_size=2), max_size=2),
)


def test_a_body_is_written_in_alphabetical_order_without_nulls() -> None:
    assert encode_body(FULL).decode() == encode_text(FULL) == FULL_TEXT
    assert b"".join(encode_pieces(FULL)).decode() == FULL_TEXT
    assert encode_text(Whole("t")) == (
        '{"clientID":"","colour":"RED","colours":[],"count":7,"groups":[],"isOpen":false,"names":[],"offsets":{},'
        '"parts":[],"partsByName":{},"queues":{},"rate":0.0,"text":"t"}'
    )


def test_the_value_of_a_body_distinguishes_sets_and_keys() -> None:
    value = encode_value(FULL)
    assert isinstance(value, dict)
    assert value["names"] == ("n", "m")
    assert value["colours"] == ["RED", "GREEN"]
    assert list(value["queues"]) == [FrozenBean({"brokerName": "b", "queueId": 0, "topic": "T"})]


def test_a_body_is_read() -> None:
    assert decode_body(FULL_TEXT, Whole) == FULL
    assert decode_body(FULL_TEXT.encode(), Whole) == FULL
    assert decode_value(encode_value(FULL), Whole) == FULL


@given(WHOLES)
def test_what_is_written_is_read_again(body: Whole) -> None:
    assert decode_body(encode_body(body), Whole) == body
    assert decode_body(encode_body(body, standard=True), Whole) == body
    assert decode_body(dumps(encode_value(body), pretty=True), Whole) == body


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ('{text:"t",unknown:{a:[1]},}', {}),
        ('{"TEXT":"t"}', {}),
        ('{"text":"t","clientId":"c"}', {"client_id": "c"}),
        ('{"text":"t","client_id":"c","IS-OPEN":true}', {"client_id": "c", "is_open": True}),
        ('{"text":5}', {"text": "5"}),
        ('{"text":true}', {"text": "true"}),
        ('{"text":{"a":[1.0]}}', {"text": '{"a":[1.0]}'}),
        ('{"text":"t","count":null,"parts":null,"colour":null,"names":null}', {}),
        ('{"text":"t","count":"12","offset":"-3"}', {"count": 12, "offset": -3}),
        ('{"text":"t","count":9998.0}', {"count": 9998}),
        ('{"text":"t","rate":3,"isOpen":"TRUE"}', {"rate": 3.0, "is_open": True}),
        ('{"text":"t","rate":"2.5","isOpen":1}', {"rate": 2.5, "is_open": True}),
        ('{"text":"t","isOpen":0}', {"is_open": False}),
        ('{"text":"t","colour":"green"}', {"colour": "GREEN"}),
        ('{"text":"t","colour":1}', {"colour": "GREEN"}),
        ('{"text":"t","colour":"BLUE"}', {}),
        ('{"text":"t","names":[1,null,"a"]}', {"names": ["1", "a"]}),
        ('{"text":"t","offsets":{"3":"4",5:6,7:null}}', {"offsets": {3: 4, 5: 6}}),
        (
            '{"text":"t","queues":{"{\\"brokerName\\":\\"b\\",\\"queueId\\":0,\\"topic\\":\\"T\\"}":5}}',
            {"queues": {QUEUE: 5}},
        ),
        ('{"text":"t","queues":{{topic:"T",queue_id:"0",BrokerName:"b"}:5,null:6}}', {"queues": {QUEUE: 5}}),
        ('{"text":"t","part":"{\\"name\\":\\"p\\"}"}', {"part": Part("p")}),
        ('{"text":"t","parts":[{"name":"p"},{"$ref":"$.parts[0]"}]}', {"parts": [Part("p"), Part("p")]}),
    ],
)
def test_reading_is_as_loose_as_in_java(text: str, changes: dict[str, object]) -> None:
    assert decode_body(text, Whole) == attrs.evolve(Whole("t"), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "Whole.text: expected a value, found nothing"),
        ('{"text":null}', "Whole.text: expected a value, found nothing"),
        ("[]", "Whole: expected an object, found []"),
        ("null", "Whole: expected an object, found None"),
        ("5", "Whole: expected an object, found 5"),
        ('{"text":"t","count":"x"}', "Whole.count: expected int32, found 'x'"),
        ('{"text":"t","count":true}', "Whole.count: expected int32, found True"),
        ('{"text":"t","count":2147483648}', "Whole.count: expected int32, found 2147483648"),
        ('{"text":"t","count":1e300}', "Whole.count: expected int32, found 1e+300"),
        ('{"text":"t","offset":9223372036854775808}', "Whole.offset: expected int64, found 9223372036854775808"),
        ('{"text":"t","offset":[]}', "Whole.offset: expected int64, found []"),
        ('{"text":"t","rate":"fast"}', "Whole.rate: expected a number, found 'fast'"),
        ('{"text":"t","rate":true}', "Whole.rate: expected a number, found True"),
        ('{"text":"t","isOpen":"perhaps"}', "Whole.isOpen: expected true or false, found 'perhaps'"),
        ('{"text":"t","colour":2}', "Whole.colour: expected one of RED, GREEN, found 2"),
        ('{"text":"t","names":{}}', "Whole.names: expected an array, found {}"),
        ('{"text":"t","offsets":[]}', "Whole.offsets: expected an object, found []"),
        ('{"text":"t","offsets":{"a":1}}', "Whole.offsets: expected int32, found 'a'"),
        ('{"text":"t","part":[]}', "Whole.part: expected an object, found []"),
        ('{"text":"t","parts":[{"name":"p","sizeBytes":[]}]}', "Part.sizeBytes: expected int32, found []"),
        ('{"text":"t","queues":{"a":1}}', "JSON: expected an object, or the text of one, found 'a'"),
        ('{"text":"t","queues":{{"topic":"T"}:1}}', "MessageQueue.brokerName: expected a value, found nothing"),
        (
            '{"text":"t","queues":{{"topic":"T","brokerName":"b","queueId":"x"}:1}}',
            "MessageQueue.queueId: expected int32, found 'x'",
        ),
        ("{", "JSON: expected a key or '}', found the end at character 1"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, message: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_body(text, Whole)
    assert str(caught.value) == message


def test_long_values_are_not_repeated_in_full() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode_body(f'{{"text":"t","count":"{"x" * 1000}"}}', Whole)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("body", [None, b"", ""])
def test_no_body_is_an_error(body: bytes | None) -> None:
    with pytest.raises(RemoteProtocolError, match="Whole: expected a body, found none"):
        decode_body(body, Whole)


def test_a_value_of_another_type_is_not_written() -> None:
    with pytest.raises(LocalProtocolError, match=r"Whole\.parts: cannot write 5"):
        encode_body(Whole("t", parts=5))  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="found bytes"):
        encode_body(Whole(b"t"))  # type: ignore[arg-type]


@given(st.text(alphabet='{}[]:,"tex01aulsnmoqp'))
def test_garbage_is_a_body_or_a_clear_error(text: str) -> None:
    for wrapped in (text, f'{{"text":"t",{text}}}'):
        try:
            decode_body(wrapped, Whole)
        except RemoteProtocolError:
            continue


@attrs.frozen
class Careless:
    number: int


def test_integers_of_a_body_have_a_range() -> None:
    """A forgotten range would let numbers through that no Java peer can read."""
    with pytest.raises(AssertionError, match="Int32 or Int64"):
        decode_body('{"number":1}', Careless)


def test_a_large_body_comes_in_small_pieces() -> None:
    """The encoder of a table of thousands of entries lets other tasks run between the pieces."""
    many_tags = ["a"] * (codec.PIECE_ITEMS_MAX + 1)
    many_groups = {f"t@g{number}": {0: number, 7: 1} for number in range(50)}
    bodies = [
        ConsumerOffsetSerializeWrapper(offset_table=many_groups),
        ConsumerOffsetSerializeWrapper(committed_offsets=many_groups, offset_table={}),
        ConsumerOffsetSerializeWrapper(offset_table={"t@g": dict.fromkeys(range(codec.PIECE_ITEMS_MAX + 1), 1)}),
        ConsumerOffsetSerializeWrapper(offset_table={}),
        ProducerTableInfo(
            {f"g{group}": [ProducerInfo(f"c{each}", "/a:1") for each in range(50)] for group in range(2)}
        ),
        ProducerTableInfo({"g": []}),
        ConsumerConnection(subscription_table={"t": SubscriptionData("t", tags_set=many_tags)}),
        TopicStatsTable({MessageQueue("t", "b", number): TopicOffset(1, 2, 3) for number in range(50)}),
    ]
    for body in bodies:
        pieces = list(encode_pieces(body))
        assert b"".join(pieces) == encode_body(body)
        assert max(map(len, pieces)) < 200


def test_an_answer_of_a_peer_costs_little_whatever_it_is() -> None:
    """Bare integers as keys are read fast; more of fastjson's dialect only if it is short."""
    many = ",".join(f'"T{number}@G":{{0:1,1:2}}' for number in range(20_000))
    table = decode_peer_body(f'{{"offsetTable":{{{many}}}}}'.encode(), ConsumerOffsetSerializeWrapper).offset_table
    assert table["T7@G"] == {0: 1, 1: 2}
    short = "{offsetTable:{'T@G':{0:1}}}"
    assert decode_peer_body(short.encode(), ConsumerOffsetSerializeWrapper).offset_table == {"T@G": {0: 1}}
    with pytest.raises(RemoteProtocolError, match="JSON: expected standard JSON in more than"):
        decode_peer_body((short + " " * 40_000).encode(), ConsumerOffsetSerializeWrapper)
    with pytest.raises(RemoteProtocolError, match="expected a body, found none"):
        decode_peer_body(b"", ConsumerOffsetSerializeWrapper)
