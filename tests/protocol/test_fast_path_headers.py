"""The fast path and the general path decode every recorded Java frame to the same values."""

from __future__ import annotations

import json

import pytest

from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.fast_path_headers import (
    FAST_HEADER_ERRORS,
    access_key_of,
    decode_fast_batch,
    decode_fast_pull,
    decode_fast_send,
)
from rocketpy.protocol.frame import decode_command
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.pull import PullMessageRequestHeader
from rocketpy.protocol.headers.send import SendMessageRequestHeaderV2
from tests.recorded import requests_with_fields

SEND_FIELDS = (
    *("producer_group", "topic", "default_topic", "default_topic_queue_nums", "queue_id"),
    *("sys_flag", "born_timestamp", "flag", "unit_mode", "batch"),
)
PULL_FIELDS = (
    *("consumer_group", "topic", "queue_id", "queue_offset", "max_msg_nums", "sys_flag", "commit_offset"),
    *("suspend_timeout_millis", "subscription", "sub_version", "expression_type"),
)


def test_sends_agree() -> None:
    count = 0
    for header in requests_with_fields(RequestCode.SEND_MESSAGE_V2):
        fast = decode_fast_send(header)
        command = decode_command(0, header, None)
        generic = read_header(command, SendMessageRequestHeaderV2)
        assert (fast.opaque, fast.flag) == (command.opaque, command.flag)
        for name in SEND_FIELDS:
            assert getattr(fast.ext_fields, name) == getattr(generic, name), name
        assert fast.ext_fields.properties == (generic.properties or "")
        assert fast.ext_fields.reconsume_times == (generic.reconsume_times or 0)
        count += 1
    assert count > 20


def test_pulls_agree() -> None:
    count = 0
    for header in requests_with_fields(RequestCode.PULL_MESSAGE):
        fast = decode_fast_pull(header)
        generic = read_header(decode_command(0, header, None), PullMessageRequestHeader)
        for name in PULL_FIELDS:
            assert getattr(fast.ext_fields, name) == getattr(generic, name), name
        count += 1
    assert count > 20


FIELDS = {"a": "g", "b": "T", "c": "TBW102", "d": "8", "e": "0", "f": "0", "g": "1", "h": "0"}


def header(**changes: object) -> bytes:
    fields = {name: value for name, value in (FIELDS | changes).items() if value is not None}
    return json.dumps({"code": 310, "extFields": fields, "flag": 0, "opaque": 1}).encode()


def test_the_plain_form_is_taken() -> None:
    fields = decode_fast_send(header()).ext_fields
    assert (fields.topic, fields.born_timestamp, fields.properties, fields.batch) == ("T", 1, "", False)


@pytest.mark.parametrize(
    "content",
    [
        header(b=None),
        header(e="x"),
        header(e=""),
        header(e=str(1 << 31)),
        header(g=str(1 << 63)),
        header(m="perhaps"),
        header()[:-1],
        b"{code:310}",
        b"\xff\xfe",
        b"null",
        b'{"code":310,"extFields":null,"opaque":1}',
        b'{"code":310,"extFields":{}}',
    ],
)
def test_a_doubtful_header_is_left_to_the_general_path(content: bytes) -> None:
    with pytest.raises(FAST_HEADER_ERRORS):
        decode_fast_send(content)


DECODERS = {310: decode_fast_send, 320: decode_fast_batch, 11: decode_fast_pull}
PULL = {
    "consumerGroup": "g", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "0",
    "commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0",
}  # fmt: skip


@pytest.mark.parametrize("code", DECODERS)
def test_a_decoder_takes_headers_of_its_code_only(code: int) -> None:
    text = json.dumps({"code": code, "extFields": PULL if code == 11 else FIELDS, "opaque": 7})
    for other, decode in DECODERS.items():
        if other == code:
            assert decode(text.encode()).opaque == 7
        else:
            with pytest.raises(FAST_HEADER_ERRORS):
                decode(text.encode())
    decode = DECODERS[code]
    assert decode(f'{text[:-1]},"code":{code}}}'.encode()).opaque == 7
    for member in (
        '"code":999',
        '"Code":999',
        f'"Code":{code}',
        '"code":null',
        '"code":""',
        '"other":1',
        '"opaque":""',
    ):
        for header in (f"{text[:-1]},{member}}}", f"{{{member},{text[1:]}"):
            if not member.startswith('"opaque"') or header.endswith('"opaque":""}'):
                with pytest.raises(FAST_HEADER_ERRORS):
                    decode(header.encode())


@pytest.mark.parametrize(
    ("fields", "access_key"),
    [
        (b'{"AccessKey":"an-account","queueId":0}', "an-account"),
        (b'{"AccessKey":"one","AccessKey":"tw\\u006f"}', "two"),
        (b'{"queueId":"0"}', None),
        (b'{"AccessKey":7}', None),
        (b"{}", None),
    ],
)
def test_the_account_of_a_header(fields: bytes, access_key: str | None) -> None:
    assert access_key_of(b'{"code":11,"extFields":' + fields + b',"flag":0}') == access_key
