"""Requests as large as a frame lets them be: none of them costs much time, and none spoils an answer to others.

Every code of a broker and of a nameserver, found from the dispatcher, with large bodies of several kinds and with
large texts in each field, full of what separates parts of such a field.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import HEADER_LENGTH_MAX, encode_frame
from tests.broker.fuzz_cases import bases_of, changed, with_field
from tests.broker.whole_broker import Whole, broker_settings, open_whole_broker, open_whole_nameserver
from tests.worst_requests import at_full_speed

MEGABYTE = 1 << 20
SECONDS_MAX = 0.2
"""Of the processor, whatever else the machine does; nearly all take milliseconds."""
NAMESERVER_SECONDS_MAX = 10.0
"""Its table of keys and values, which these requests fill, is written whole after each change."""
ATTEMPTS = 3
"""A processor that is shared runs the same code at half its speed now and then: the least of them counts."""


def listed(begin: bytes, item: bytes, end: bytes) -> bytes:
    """Return a megabyte of JSON with numbered items."""
    count = MEGABYTE // (len(item) + 5)
    return begin + b",".join([item % number for number in range(count)]) + end


BODIES = {
    "digits": b'{"a":' + b"9" * (4 * MEGABYTE),
    "numbers": b"[" + b"1," * MEGABYTE + b"1]",
    "keys": listed(b"{", b'"k%d":1', b"}"),
    "text": b'"' + b"x" * (8 * MEGABYTE) + b'"',
    "properties": b"a=b\n" * MEGABYTE,
    "zeros": bytes(12 * MEGABYTE),  # half a million empty messages of a batch, among others
    "producers": listed(b'{"clientID":"c","producerDataSet":[', b'{"groupName":"g%d"}', b"]}"),
    "consumers": listed(b'{"clientID":"c","consumerDataSet":[', b'{"groupName":"g%d"}', b"]}"),
    "subscriptions": listed(
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[', b'{"topic":"t%d"}', b"]}]}"
    ),
    "queues": listed(
        b'{"consumerGroup":"g","clientId":"c","mqSet":[', b'{"brokerName":"b","queueId":%d,"topic":"t"}', b"]}"
    ),
    "topics": listed(b'{"topicConfigTable":{', b'"t%d":{}', b"}}"),
}
FIELD_SIZE = HEADER_LENGTH_MAX - 8192
"""Beside the other fields of the header; a longer one ends the connection before it is there."""
FIELDS = {
    "digits": "9" * FIELD_SIZE,
    "properties": "a\1b\2" * (FIELD_SIZE // 14),  # a separator takes six bytes of JSON
    "tags": "a||" * (FIELD_SIZE // 3),
    "separators of tags": "||" * (FIELD_SIZE // 2),
    "names": "a," * (FIELD_SIZE // 2),
}


async def slow_requests(
    whole: Whole, peer: str, texts: Mapping[str, str] = FIELDS, seconds_max: float = SECONDS_MAX
) -> list[str]:
    """Ask everything that is large; return what took too long or was not answered once."""
    found = []
    for code in whole.codes:
        base = bases_of(code, peer)[0]
        fields = base.ext_fields or {}
        asked = {f"body of {name}": changed(base, body=body) for name, body in BODIES.items()}
        asked |= {
            f"field {name} of {what}": changed(base, fields=with_field(fields, name, field))
            for name in fields
            for what, field in texts.items()
        }
        for what, command in asked.items():
            frame, seconds = encode_frame(command), float("inf")
            for _ in range(ATTEMPTS):
                began = time.thread_time()
                answers = await whole.ask_frame(frame, whole.connect())
                took = time.thread_time() - began
                seconds = min(seconds, took if took <= seconds_max else at_full_speed(took))
                if seconds <= seconds_max:
                    break
            if seconds > seconds_max or len(answers) != 1:
                found.append(f"code {code}, {what}: {seconds:.2f} s, {len(answers)} answers")
    return found


async def test_a_broker_answers_large_requests_soon_and_others_as_before(tmp_path: Path) -> None:
    async with open_whole_broker(broker_settings(tmp_path, enable_property_filter=True)) as whole:
        assert await slow_requests(whole, "broker") == []
        for code in (
            RequestCode.GET_ALL_TOPIC_CONFIG,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
            RequestCode.GET_ALL_CONSUMER_OFFSET,
            RequestCode.GET_BROKER_CONFIG,
        ):
            (answer,) = await whole.ask_frame(encode_frame(RemotingCommand(code=code, ext_fields={})), whole.connect())
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            assert len(answer.body or b"") < MEGABYTE


async def test_a_nameserver_answers_large_requests_soon(tmp_path: Path) -> None:
    async with open_whole_nameserver(tmp_path) as whole:
        found = await slow_requests(whole, "namesrv", {"digits": FIELDS["digits"]}, NAMESERVER_SECONDS_MAX)
        assert found == []
