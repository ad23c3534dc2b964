"""Requests as large as a frame lets them be: none of them costs much time, and none spoils an answer to others.

Every code of a broker and of a nameserver, found from the dispatcher, with large bodies of several kinds and with a
large text in each field.
"""

from __future__ import annotations

import time
from pathlib import Path

from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import HEADER_LENGTH_MAX, encode_frame
from tests.broker.fuzz_cases import bases_of, changed, with_field
from tests.broker.whole_broker import Whole, broker_settings, open_whole_broker, open_whole_nameserver

MEGABYTE = 1 << 20
SECONDS_MAX = 10.0
"""Of the processor, whatever else the machine does; most take milliseconds, and what was found here half a minute."""

BODIES = {
    "digits": b'{"a":' + b"9" * (4 * MEGABYTE),
    "numbers": b"[" + b"1," * MEGABYTE + b"1]",
    "keys": b"{" + b",".join(b'"k%d":1' % number for number in range(200_000)) + b"}",
    "text": b'"' + b"x" * (8 * MEGABYTE) + b'"',
    "properties": b"a=b\n" * MEGABYTE,
    "zeros": bytes(12 * MEGABYTE),
    "groups": b'{"clientID":"c","producerDataSet":['
    + b",".join(b'{"groupName":"g%d"}' % number for number in range(100_000))
    + b"]}",
}
FIELD = "9" * (HEADER_LENGTH_MAX - 8192)
"""Beside the other fields of the header; a longer one ends the connection before it is there."""


async def slow_requests(whole: Whole, peer: str) -> list[str]:
    """Ask everything that is large; return what took too long or was not answered once."""
    found = []
    for code in whole.codes:
        base = bases_of(code, peer)[0]
        fields = base.ext_fields or {}
        asked = {f"body of {name}": changed(base, body=body) for name, body in BODIES.items()}
        asked |= {f"field {name}": changed(base, fields=with_field(fields, name, FIELD)) for name in fields}
        for what, command in asked.items():
            began = time.process_time()
            answers = await whole.ask_frame(encode_frame(command), whole.connect())
            seconds = time.process_time() - began
            if seconds > SECONDS_MAX or len(answers) != 1:
                found.append(f"code {code}, {what}: {seconds:.1f} s, {len(answers)} answers")
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
        assert await slow_requests(whole, "namesrv") == []
