"""What travels, in both encodings; ``test_producer`` has what is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.send_request import SendRequestMaker
from rocketpy.errors import ClientError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.compression import CompressionType, compression_type, decompress
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.message import Message, MessageQueue
from tests.client.opened import opened

QUEUE = MessageQueue("T", "broker-é", 3)


@pytest.fixture
async def maker() -> AsyncIterator[SendRequestMaker]:
    async with opened("127.0.0.1:1") as instance:
        yield SendRequestMaker(instance=instance, group="g", config=ProducerConfig(compress_level=9))


@pytest.mark.parametrize(
    "message",
    [
        Message("T", b"x"),
        Message("T", b"x", {"TAGS": "a", "KEYS": 'k"1', "ключ": "значение\n"}, flag=-1),
        Message("T", b"x" * 5000, {"DELAY": "3", "WAIT": "false"}),
    ],
)
async def test_the_frame_and_the_command_are_the_same(maker: SendRequestMaker, message: Message) -> None:
    for request in (maker.message(message), maker.message(message, sys_flag=4, properties={"TRAN_MSG": "true"})):
        command = request.command(QUEUE)
        command.opaque = 77
        assert request.frame(QUEUE, 77) == encode_frame(command)


async def test_so_are_those_of_a_batch(maker: SendRequestMaker) -> None:
    request = maker.batch([Message("T", b"%d" % number, flag=number + 1) for number in range(3)])
    command = request.command(QUEUE)
    command.opaque = 1
    assert command.code == RequestCode.SEND_BATCH_MESSAGE
    assert request.frame(QUEUE, 1) == encode_frame(command)
    assert [each.body for each in request.hook_messages()] == [b"0", b"1", b"2"]
    assert {len(each.properties["UNIQ_KEY"]) for each in request.hook_messages()} <= {32, 56}


async def test_no_attempt_shares_a_command_with_another(maker: SendRequestMaker) -> None:
    request = maker.message(Message("T", b"x"))
    first, second = request.command(QUEUE), request.command(QUEUE)
    assert first is not second
    assert first.ext_fields is not second.ext_fields


async def test_a_large_body_is_left_to_a_thread(maker: SendRequestMaker) -> None:
    body = b"x" * 100_000
    request = maker.message(Message("T", body))
    assert request.needs_thread
    assert request.body is body
    await request.compress_in_thread()
    assert not request.needs_thread
    assert decompress(request.body, CompressionType.ZLIB) == body
    assert (compression_type(request.sys_flag), request.size) == (CompressionType.ZLIB, 100_000)


async def test_hooks_see_the_properties_that_travel(maker: SendRequestMaker) -> None:
    (seen,) = maker.message(Message("T", b"x", {"a": "b"})).hook_messages()
    assert seen.properties.keys() == {"a", "WAIT", "UNIQ_KEY"}


async def test_a_flag_beyond_int32_and_half_a_character_are_refused(maker: SendRequestMaker) -> None:
    with pytest.raises(ClientError, match="expected an int32"):
        maker.message(Message("T", b"x", flag=2**31))
    with pytest.raises(ClientError, match="UTF-8"):
        maker.batch([Message("T", b"x", {"a": "\ud800"})])
