"""References in documents: resolved where they can be, harmless where they cannot."""

from __future__ import annotations

import pytest

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.fastjson import FrozenBean, dumps, loads
from tests.recorded import BODIES

QUEUE = FrozenBean({"brokerName": "broker-0", "queueId": 0, "topic": "T"})


@pytest.mark.parametrize("form", ["compact", "pretty"])
def test_values_that_java_shared_are_read(form: str) -> None:
    stats = loads(BODIES["BrokerStatsData"][form])
    assert stats["statsMinute"] == stats["statsHour"] == {"avgpt": 1.5, "sum": 3, "tps": 0.05}  # type: ignore[index]


@pytest.mark.parametrize("form", ["compact", "pretty"])
def test_a_key_that_java_shared_is_read(form: str) -> None:
    """Java writes no name for the key in the path, so it is found where its map has one key."""
    status = loads(BODIES["GetConsumerStatusBody"][form])
    assert status == {"consumerTable": {"127.0.0.1@1": {QUEUE: 5}}, "messageQueueTable": {QUEUE: 5}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":[1,{"b":2}],"c":{"$ref":"$.a[1]"}}', {"a": [1, {"b": 2}], "c": {"b": 2}}),
        ('{"a":[1],"c":{"$ref":"$.a[0]"}}', {"a": [1], "c": 1}),
        ('{"a":{7:"x"},"c":{"$ref":"$.a.7"},"d":{"$ref":"$.a[7]"}}', {"a": {7: "x"}, "c": "x", "d": "x"}),
        ('{"a.b":{"c[":1},"d":{"$ref":"$.a\\\\.b.c\\\\["}}', {"a.b": {"c[": 1}, "d": 1}),
        ('[{"a":1},{"$ref":"$[0]"}]', [{"a": 1}, {"a": 1}]),
        # What would make a cycle, or leads nowhere.
        ('{"a":{"$ref":"$"}}', {"a": None}),
        ('{"a":{"b":{"$ref":"$.a"}}}', {"a": {"b": None}}),
        ('{"a":{"$ref":".."},"b":{"$ref":"@"}}', {"a": None, "b": None}),
        ('{"a":{"$ref":"$.b"},"b":1}', {"a": None, "b": 1}),
        ('[{"$ref":"$[1]"},[{"$ref":"$[0]"}]]', [None, [None]]),
        ('{"a":{"$ref":"$x"},"b":{"$ref":"$.a..b"},"c":{"$ref":"$.a[9]"}}', {"a": None, "b": None, "c": None}),
        ('[1,{"$ref":"$[1"},{"$ref":"$[0].a"},{"$ref":"$[5]"}]', [1, None, None, None]),
        ('{"$ref":"$"}', None),
        # What only looks like one.
        ('{"a":{"$ref":"$.b","c":1}}', {"a": {"$ref": "$.b", "c": 1}}),
        ('{"a":{"$ref":1}}', {"a": {"$ref": 1}}),
    ],
)
def test_references_are_resolved_or_null(text: str, value: object) -> None:
    assert loads(text) == value


def test_a_key_that_cannot_be_found_stays_a_reference() -> None:
    text = '{"a":{{"q":1}:1,{"q":2}:2},"b":{{"$ref":"$.a.null"}:3,{"$ref":"$.c.null"}:4}}'
    assert dumps(loads(text)) == text


def test_references_are_ten_thousand_at_most() -> None:
    """Each costs the length of its path, whether it leads somewhere or not, and requests have none at all."""
    for reference in ('{"$ref":"$.a"}', '{"$ref":"$"}'):
        text = '{"a":1,"b":[' + ",".join([reference] * 10_000) + "]}"
        loads(text)
        with pytest.raises(RemoteProtocolError, match="at most 10000 references, found more"):
            loads(text.replace("]}", "," + reference + "]}"))


def test_many_references_to_the_one_key_of_a_map_are_that_key() -> None:
    keys = ",".join(f'{{"$ref":"$.a.null"}}:{number}' for number in range(5000))
    assert loads(f'{{"a":{{{{"q":1}}:1,"other":2}},"b":{{{keys}}}}}') == {
        "a": {FrozenBean({"q": 1}): 1, "other": 2},
        "b": {FrozenBean({"q": 1}): 4999},
    }


def test_our_own_texts_are_read_without_references() -> None:
    text = '{"a":{"$ref":"$.b"},"b":1}'
    assert loads(text, references=False) == {"a": {"$ref": "$.b"}, "b": 1}


def test_references_cannot_stand_for_an_enormous_tree() -> None:
    """Each level refers to the one before it ten times: ten to the power of the levels, in a text of a page."""
    levels = ['"a0":[1,1,1,1,1,1,1,1,1,1]']
    for level in range(1, 12):
        levels.append(f'"a{level}":[' + ",".join([f'{{"$ref":"$.a{level - 1}"}}'] * 10) + "]")
    with pytest.raises(RemoteProtocolError, match="at most 100000 values"):
        loads("{" + ",".join(levels) + "}")
