"""Masters as a slave asks them: with RocketMQ's answers and with ours; and histories of two logs with one beginning."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs
import trio

from rocketpy.errors import RemotingConnectError, RemotingSendRequestError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import encode_blank, encode_message
from rocketpy.store.ha.record_digest import RecordDigests
from rocketpy.store.ha.recorded_log import CommitLogRecords
from rocketpy.store.log.commit_log import CommitLog
from rocketpy.testing.sim.disk import SimDisk
from tests.store.ha.test_log_source import run_now
from tests.store.log.test_commit_log import log_at
from tests.store.parts import Place

FILE = 1024
"""mappedFileSizeCommitLog of these logs."""
ADDRESS = "10.0.0.1:10911"
HA_ADDRESS = "10.0.0.1:10912"
FRAME_MAX = 16 << 20
BEGIN_MS = 1_700_000_000_000


def history(content: bytes, body_sizes: Sequence[int], *, who: str = "common", time_ms: int = BEGIN_MS) -> bytes:
    """Return a log continued by records of one writer; each file but the last ends with a BLANK."""
    for size in body_sizes:
        for _ in range(2):
            record = encode_message(
                MessageExt(
                    topic="Topic",
                    body=b"x" * size,
                    properties={"KEYS": who},
                    physical_offset=len(content),
                    born_timestamp=time_ms,
                    born_host="127.0.0.1:1",
                    store_timestamp=time_ms + len(content),
                    store_host="127.0.0.1:10911",
                )
            )
            left = FILE - len(content) % FILE
            if len(record) + 8 <= left:
                break
            content = rolled(content)
        content += record
    return content


def rolled(content: bytes) -> bytes:
    """Return a log whose last file is ended by a BLANK, with what may lie behind its head."""
    left = FILE - len(content) % FILE
    return content + encode_blank(left) + b"\xa5" * (left - 8)


def log_of(content: bytes, *, first_file: int = 0) -> CommitLog:
    """Return a log on a disk of its own, without the files before ``first_file``."""
    disk = SimDisk()
    disk.make_directories("/store")
    log = log_at(Place(disk, "/store"), first_file * FILE, file_size=FILE)
    for begin in range(first_file * FILE, len(content), FILE):
        log.add_file()
        log.write(content[begin : begin + FILE], 1)
    return log


def records_of(content: bytes, *, first_file: int = 0) -> CommitLogRecords:
    """Return the records of such a log, as a slave compares them."""
    return CommitLogRecords(log_of(content, first_file=first_file), run_blocking=run_now)


@attrs.define(kw_only=True)
class Master:
    """A peer with one log. ``fails`` may raise for a request before it is answered, or answer it."""

    content: bytes
    first_file: int = 0
    fails: Callable[[RemotingCommand], RemotingCommand | None] | None = None
    asked: list[RemotingCommand] = attrs.field(factory=list)

    @property
    def min_offset(self) -> int:
        return self.first_file * FILE

    async def request(self, address: str, request: RemotingCommand, timeout_s: float = 3.0) -> RemotingCommand:
        await trio.lowlevel.checkpoint()
        if address != ADDRESS:
            raise RemotingConnectError(f"cannot connect to {address}: refused")
        self.asked.append(request)
        answer = None if self.fails is None else self.fails(request)
        if answer is not None:
            return answer
        if request.code == RequestCode.GET_BROKER_RUNTIME_INFO:
            ends = {"commitLogMinOffset": str(self.min_offset), "commitLogMaxOffset": str(len(self.content))}
            return make_response(request, body=encode_body(KVTable(table=ends)))
        assert request.code == RequestCode.VIEW_MESSAGE_BY_ID
        return await self.view(request, int((request.ext_fields or {})["offset"]))

    async def view(self, request: RemotingCommand, offset: int) -> RemotingCommand:
        raise NotImplementedError

    @property
    def viewed(self) -> list[int]:
        """The offsets of the records that were asked for."""
        return [int((each.ext_fields or {})["offset"]) for each in self.asked if each.code == 33]


class JavaMaster(Master):
    """RocketMQ 4.9.8: whatever lies at the offset, as many bytes as the first four say."""

    async def view(self, request: RemotingCommand, offset: int) -> RemotingCommand:
        file_end = offset - offset % FILE + FILE
        end = min(file_end, len(self.content))
        if offset < self.min_offset or offset + 4 > end:
            return not_found(request, offset)
        size = int.from_bytes(self.content[offset : offset + 4], "big", signed=True)
        if offset + size > end:
            return not_found(request, offset)
        if size < 0:
            return make_response(request, 1, "java.lang.IllegalArgumentException: , java.nio.Buffer.limit")
        if size > FRAME_MAX:
            raise RemotingSendRequestError(f"the connection to {ADDRESS} ended before it answered")
        return make_response(request, body=self.content[offset : offset + size])


class OurMaster(Master):
    """Ours, none of whose records is named by a unit any more."""

    async def view(self, request: RemotingCommand, offset: int) -> RemotingCommand:
        fields = request.ext_fields or {}
        if "recordDigest" not in fields:
            return not_found(request, offset)
        digests = RecordDigests(log_of(self.content, first_file=self.first_file), run_blocking=run_now)
        is_equal = await digests.has(offset, int(fields["recordSize"]), fields["recordDigest"])
        answer = make_response(request)
        answer.ext_fields = {"recordIsEqual": str(is_equal).lower()}
        return answer


def not_found(request: RemotingCommand, offset: int) -> RemotingCommand:
    return make_response(request, 1, f"can not find message by the offset, {offset}")
