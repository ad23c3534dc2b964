"""fastjson's text, held against what Java's serializer wrote."""

from __future__ import annotations

import json
import math
import tracemalloc
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import LocalProtocolError, RemoteProtocolError
from rocketpy.protocol.fastjson import DEPTH_MAX, FrozenBean, dumps, loads, loads_answer, loads_integer_keys
from rocketpy.protocol.fastjson.codec import ANSWER_CONTAINERS_MAX, ANSWER_VALUES_MAX, BODY_DIALECT_SIZE_MAX
from tests.recorded import VECTORS
from tests.worst_requests import WORST_JSON, processor_seconds, worst_json

QUEUE = FrozenBean({"brokerName": "b", "queueId": 0, "topic": "T"})
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text() | st.floats(allow_nan=False)
# A key never begins a reference; that has its own tests.
KEYS = st.text().filter(lambda key: "$ref" not in key)
KEYS_OF_MAPS = (
    KEYS
    | st.integers(-(2**31), 2**31 - 1)
    | st.builds(FrozenBean, st.dictionaries(KEYS, st.integers(-(10**39), 10**39)))
)
DOCUMENTS = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS_OF_MAPS, inner, max_size=4), max_leaves=12
)


def as_encoded(value: object) -> object:
    """Return ``value`` as it survives Java's UTF-8: halves of surrogate pairs are question marks."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float) and math.isinf(value):
        return None
    if isinstance(value, list):
        return [as_encoded(item) for item in value]
    if isinstance(value, dict):
        return {as_encoded(key): as_encoded(item) for key, item in value.items()}
    if isinstance(value, FrozenBean):
        return FrozenBean({str(as_encoded(key)): as_encoded(item) for key, item in value.items()})
    return value


@pytest.mark.parametrize("vector", VECTORS["json_strings"], ids=lambda vector: vector["utf16_hex"])
def test_text_is_escaped_as_java_escapes_it(vector: dict[str, str]) -> None:
    text = bytes.fromhex(vector["utf16_hex"]).decode("utf-16-be")
    assert dumps({"k": text}).encode().hex() == vector["json_utf8_hex"]
    assert loads(bytes.fromhex(vector["json_utf8_hex"])) == {"k": text}


@pytest.mark.parametrize("vector", VECTORS["json_numbers"], ids=lambda vector: vector["double"])
def test_doubles_are_written_as_java_prints_them(vector: dict[str, str]) -> None:
    assert dumps({"d": float(vector["double"])}) == vector["json"]


@pytest.mark.parametrize(
    ("number", "text"),
    [(1e-3, "0.001"), (9.999e-4, "9.999E-4"), (9999999.5, "9999999.5"), (1e7, "1.0E7"), (-1.5e-10, "-1.5E-10")],
)
def test_doubles_get_an_exponent_where_java_gives_one(number: float, text: str) -> None:
    assert dumps(number) == text
    assert loads(text) == number


def test_empty_containers_have_no_line_breaks() -> None:
    assert dumps({"a": {}, "b": [], "c": ()}, pretty=True) == '{\n\t"a":{},\n\t"b":[],\n\t"c":[]\n}'


def test_keys_that_are_numbers_or_objects_are_written_as_such() -> None:
    assert dumps({0: "a", 10: "b"}) == '{0:"a",10:"b"}'
    assert dumps({QUEUE: 7}) == '{{"brokerName":"b","queueId":0,"topic":"T"}:7}'
    assert dumps({None: 1, True: 2}) == "{null:1,true:2}"


def test_the_standard_form_quotes_and_sorts_all_keys_and_is_ascii() -> None:
    assert dumps({10: 1, 2: QUEUE}, standard=True) == '{"2":{"brokerName":"b","queueId":0,"topic":"T"},"10":1}'
    written = dumps({"é/": "/\U0001f680\x7f", "b": {}, "Z": []}, standard=True)
    assert written == '{"Z":[],"b":{},"\\u00E9\\/":"\\/\\uD83D\\uDE80\\u007F"}'
    assert json.loads(written)["é/"] == "/\U0001f680\x7f"
    assert json.loads(dumps({QUEUE: 1}, standard=True)) == {dumps(QUEUE): 1}


def test_the_standard_form_escapes_all_but_printable_ascii_without_quote_slash_and_backslash() -> None:
    text = "".join(map(chr, range(0x300))) + "\uffff\U0010ffff"
    plain = {chr(code) for code in range(0x20, 0x7F)} - set('"\\/')
    for character in text:
        written = dumps(character, standard=True)
        assert (written == f'"{character}"') == (character in plain), hex(ord(character))
        assert written.isascii()


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert dumps("a\ud83d") == '"a?"'
    assert dumps("\ud83d\ude80") == '"\U0001f680"'


def test_what_json_cannot_express_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="found bytes"):
        dumps({"a": b"x"})


def test_text_without_anything_is_null() -> None:
    assert loads("") is None
    assert loads(b" \n") is None


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    assert loads(b'{"a":"\xff"}') == {"a": "\ufffd"}


@pytest.mark.parametrize("opening", ["[", '{"a":', "{a:", "{{"])
@pytest.mark.parametrize("as_bytes", [False, True])
def test_hostile_nesting_is_refused(opening: str, as_bytes: bool) -> None:
    """Both readers have the same bound, and neither ends in a RecursionError."""
    text = opening * 100_000
    with pytest.raises(RemoteProtocolError, match="levels"):
        loads(text.encode() if as_bytes else text)


def test_nesting_to_the_bound_is_read_by_both_readers() -> None:
    for levels, is_read in ((DEPTH_MAX, True), (DEPTH_MAX + 1, False)):
        for item in ("1", "0,"):  # standard, and with a trailing comma
            text = "[" * levels + item + "]" * levels
            if is_read:
                assert dumps(loads(text)) == "[" * levels + item.rstrip(",") + "]" * levels
            else:
                with pytest.raises(RemoteProtocolError, match="levels"):
                    loads(text)


def test_levels_are_counted_and_not_brackets() -> None:
    wide = '[{"a":[1]},[{}]' + ",{}" * DEPTH_MAX + "]"
    assert dumps(loads(wide)) == wide
    for text in (
        '{"a":' * (DEPTH_MAX + 1) + "1" + "}" * (DEPTH_MAX + 1),
        '[{"a":' * DEPTH_MAX + "1" + "}]" * DEPTH_MAX,
    ):
        with pytest.raises(RemoteProtocolError, match="levels"):
            loads(text)


@given(DOCUMENTS)
def test_what_is_written_is_read_again(document: object) -> None:
    for pretty in (False, True):
        text = dumps(document, pretty=pretty)
        assert text.encode()
        assert loads(text) == as_encoded(document)
        assert loads(text.encode()) == as_encoded(document)


@given(DOCUMENTS)
def test_the_standard_form_is_json_for_anyone(document: object) -> None:
    text = dumps(document, standard=True)
    assert text.isascii()
    json.loads(text)


@given(st.text(alphabet="{}[]:,\"'\\$ref01.eE-truefalsn \n\x08@") | st.binary())
def test_garbage_is_a_value_or_a_clear_error(text: str | bytes) -> None:
    try:
        document = loads(text)
    except RemoteProtocolError:
        return
    dumps(document)


@pytest.mark.parametrize("name", WORST_JSON)
def test_work_is_in_proportion_to_the_text(name: str) -> None:
    """What is quadratic takes many seconds for such a text; the slowest form that is not takes a fifth of one."""
    text = worst_json(name, 1 << 18)

    def load() -> None:
        try:
            loads(text)
        except RemoteProtocolError:
            pass

    assert processor_seconds(load, attempts=2, enough=1.0) < 1.0


def test_beans_that_are_equal_are_one_key_and_none_can_be_made_to_collide() -> None:
    forms = ('{"a":1,"b":{"c":[1,true]}}', '{"b":{"c":[1.0,1]},"a":1}')
    assert loads("{" + ",".join(f"{form}:{number}" for number, form in enumerate(forms)) + "}") == {
        FrozenBean({"a": 1, "b": {"c": [1, 1]}}): 1
    }
    alike = [FrozenBean({"a": number * (2**61 - 1)}) for number in range(100)]
    assert len({hash(bean) for bean in alike}) == 100


@given(DOCUMENTS, st.integers(0))
def test_a_cut_document_is_refused(document: object, cut: int) -> None:
    text = dumps([document], pretty=True)
    with pytest.raises(RemoteProtocolError, match="JSON: expected"):
        loads(text[: 1 + cut % (len(text) - 1)])


def test_what_a_peer_sends_in_a_dialect_or_with_references_is_bounded() -> None:
    dialect, references = b"{a:'" + b"b" * 32_762 + b"'}", b'{"a":[1],"b":{"$ref":"$.a"},"c":"' + b"d" * 131_037 + b'"}'
    assert (len(dialect), len(references)) == (32_768, 131_072)
    for text, rule in ((dialect, "expected standard JSON in more than 32768"), (references, "expected no references")):
        assert loads(text, is_bounded=True) == loads(text)
        longer = text + b" "
        assert loads(longer) == loads(text), "our own files and answers may be longer"
        with pytest.raises(RemoteProtocolError, match=rule):
            loads(longer, is_bounded=True)
    standard = b'{"a":"' + b"b" * 1_000_000 + b'"}'
    assert loads(standard, is_bounded=True) == {"a": "b" * 1_000_000}


# ---- integer keys at the speed of standard JSON ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{"offsetTable":{"T@G":{0:1,1:-2},"U@G":{}}}', {"offsetTable": {"T@G": {"0": 1, "1": -2}, "U@G": {}}}),
        (b'{ 0 :1, -7:"x"}', {"0": 1, "-7": "x"}),
        (b'{"a":[1,2:3]}', None),
        (b'{"a":1}', {"a": 1}),
        (b'{"T@G{0:1,2:":{3:4}}', {"T@G{0:1,2:": {3: 4}}),
        (b'{"T@\\",5:":{3:4}}', {'T@",5:': {3: 4}}),
        (b'{"$ref":{0:1}}', {"$ref": {"0": 1}}),
        (b'{"a":"x,5:y"}', {"a": "x,5:y"}),
        (b"", None),
    ],
)
def test_bare_integer_keys_are_quoted_where_they_are_keys(text: bytes, value: object) -> None:
    """A text that looks like a key is left as it is: the dialect's own reader reads that document."""
    if value is None and text:
        with pytest.raises(RemoteProtocolError):
            loads_integer_keys(text)
    else:
        assert loads_integer_keys(text) == value


def test_a_large_document_is_read_fast_or_refused() -> None:
    many = b'{"offsetTable":{%b}}' % b",".join(b'"Topic%d@Group":{0:1,1:2,2:3}' % number for number in range(20_000))
    assert processor_seconds(lambda: loads_integer_keys(many), enough=0.2) < 0.2
    assert len(loads_integer_keys(many)["offsetTable"]) == 20_000  # type: ignore[index]
    with pytest.raises(RemoteProtocolError, match="expected standard JSON"):
        loads_integer_keys(many.replace(b"Topic7@", b"Topic{7:@"))


def test_an_answer_with_objects_as_keys_is_read_as_fast_as_any() -> None:
    """As Java writes the progress of a group: the dialect's own reader takes 13 s for a full frame."""
    entry = b'{"brokerName":"b","queueId":%d,"topic":"a\\"},{{\\"x\\":1"}:{"brokerOffset":%d,"lastTimestamp":0}'
    body = b'{"offsetTable":{' + b",".join(entry % (number, number) for number in range(20_000)) + b"}}"
    table = loads_answer(body)
    assert table == {
        "offsetTable": {
            f'{{"brokerName":"b","queueId":{number},"topic":"a\\"}},{{{{\\"x\\":1"}}': {
                "brokerOffset": number,
                "lastTimestamp": 0,
            }
            for number in range(20_000)
        }
    }
    assert processor_seconds(lambda: loads_answer(body), enough=0.5) < 0.5


@pytest.mark.parametrize("text", ['{"a":"x,{y}:z"', '{"a":"{{}:5"', '{"a":"{5:6}"'])
def test_what_looks_like_a_key_inside_a_text_is_none(text: str) -> None:
    """Beside a bare key such a text is refused, for it cannot be told apart; it is never read as something else."""
    padding = f'"b":"{" " * BODY_DIALECT_SIZE_MAX}"'
    body = f"{text},{padding}}}".encode()
    assert loads_answer(body) == loads(body)
    with pytest.raises(RemoteProtocolError, match="expected standard JSON in more than 32768"):
        loads_answer(f'{text},{padding},"c":{{1:2}}}}'.encode())


def test_references_in_an_answer_are_resolved() -> None:
    body = b'{"a":{{"t":1}:5},"b":{"$ref":"$.a"}}'
    assert loads_answer(body) == loads(body)


@pytest.mark.parametrize("what", WORST_JSON)
def test_the_worst_answer_takes_seconds_at_most(what: str) -> None:
    """Of a worker, for a full frame; without bounds on values it was 8 s, and half a gigabyte."""
    body = worst_json(what, 16 << 20)
    assert processor_seconds(lambda: _read(body), attempts=3, enough=3.0) < 3.0


def _read(body: bytes) -> None:
    with suppress(RemoteProtocolError):
        loads_answer(body)


@pytest.mark.parametrize(
    "body",
    [b"[" + b"[]," * ANSWER_CONTAINERS_MAX + b"[]]", b"[" + b"1," * ANSWER_VALUES_MAX + b"1]"],
    ids=["arrays", "numbers"],
)
@pytest.mark.parametrize("read", [loads_answer, loads_integer_keys])
def test_an_answer_of_too_many_values_is_refused_before_it_is_read(
    read: Callable[[bytes], object], body: bytes
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError, match=r"expected at most (500000 arrays and objects|2000000 values)"):
            read(body)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(body)
    finally:
        tracemalloc.stop()
