"""Sends and the disk: a full one, and what is there after a restart; SYNC_FLUSH is in ``test_outcome``."""

from __future__ import annotations

from pathlib import Path

from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.frame import encode_frame
from rocketpy.store.config import FlushDiskType
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import open_message_broker, pull, send
from tests.broker.send.sending import refused

V1, V2 = RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2


async def test_a_full_disk_refuses_sends_and_serves_reads_until_there_is_space() -> None:
    disk = SimDisk(capacity_bytes=700_000)
    async with open_message_broker(disk=disk) as broker:
        sent, answer = 0, await broker.ask(send(b"x" * 50_000))
        while answer.code == ResponseCode.SUCCESS:
            sent += 1
            answer = await broker.ask(send(b"x" * 50_000))
            assert sent < 100
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert (answer.remark or "").startswith("service not available now: ")
        assert "/store/commitlog" in (answer.remark or "")
        assert "free" in (answer.remark or "")
        for request in (send(), send(code=V1), send(b"", code=RequestCode.SEND_BATCH_MESSAGE)):
            assert (await refused(broker, request)).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert len(await broker.messages()) == sent
        assert (await broker.ask(pull(max_msg_nums=1))).code == ResponseCode.SUCCESS
        disk.capacity_bytes *= 2
        broker.tables.clock.advance_ms(2000)
        assert (await broker.ask(send(b"x" * 50_000))).code == ResponseCode.SUCCESS
        assert len(await broker.messages()) == sent + 1


async def test_on_a_real_disk_what_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    for opened in range(2):
        async with open_message_broker(
            disk=OsDisk(), root=str(tmp_path), store={"flush_disk_type": FlushDiskType.SYNC_FLUSH}
        ) as broker:
            assert len(await broker.messages()) == opened * 2
            for code in (V1, V2):
                connection = broker.connect()
                broker.serve(encode_frame(send(code=code)), connection)
                await broker.settle()
                assert [answer.code for answer in received(connection)] == [ResponseCode.SUCCESS]
