"""Questions of a slave about its master's log: where it begins and ends, and whether it has a record.

The questions are requests that any master of RocketMQ answers: GET_BROKER_RUNTIME_INFO for the ends, and
VIEW_MESSAGE_BY_ID for records. A master of ours compares the digest that the second one carries. RocketMQ ignores it,
and answers whatever lies at the offset: the first four bytes there count as the size, also in the middle of a record.
So where the logs differ it may answer an exception about a negative size, or more bytes than a frame may have, which
ends the connection. Both mean that the record is not there, but not what is there instead.

A master that does not answer, or refuses, says nothing about its log: that is an OSError.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

import attrs

from rocketpy.errors import RemoteProtocolError, RemotingError, RemotingSendRequestError
from rocketpy.protocol.bodies.codec import decode_peer_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.codec import read_header, write_header
from rocketpy.protocol.headers.query import (
    CompareRecordRequestHeader,
    CompareRecordResponseHeader,
    ViewMessageRequestHeader,
)
from rocketpy.runner import ON_LOOP_BYTES_MAX
from rocketpy.store.ha.divergence import RecordRange
from rocketpy.store.ha.record_digest import digest_of
from rocketpy.store.log.commit_log import store_timestamp_in

ANSWER_SECONDS = 10.0
"""Time for one answer: a record of some megabytes may be cold, and the line slow."""

_NOT_FOUND = "can not find message by the offset"
_JAVA_EXCEPTION = "java.lang."


class Client(Protocol):
    """Requests by address, as :class:`rocketpy.remoting.client.RemotingClient` sends them."""

    async def request(self, address: str, request: RemotingCommand, timeout_s: float = ...) -> RemotingCommand:
        """Return the answer, whatever its code; RemotingError without one."""
        ...


@attrs.frozen
class LogBounds:
    """Where a log begins and ends, in bytes."""

    min_offset: int
    max_offset: int


class Found(Enum):
    """What a master has in the place of a record."""

    EQUAL = "the same record"
    DIFFERENT = "another one"
    NOTHING = "nothing"
    UNKNOWN = "something that it cannot answer"


class RemoteLog:
    """The log of the master with an address for requests. Every call may raise OSError, which names that address."""

    def __init__(self, client: Client, address: str, *, who: str = "the master") -> None:
        """``who`` stands for the broker in errors."""
        self._client = client
        self._who = who
        self.address = address

    async def bounds(self) -> LogBounds:
        """Return where the log begins and ends now."""
        answer = await self._ask(make_request(RequestCode.GET_BROKER_RUNTIME_INFO))
        if answer.code != ResponseCode.SUCCESS:
            raise self._refused(answer)
        try:
            table = decode_peer_body(answer.body, KVTable, bytes_max=ON_LOOP_BYTES_MAX).table
            # RocketMQ reports -1 as the beginning of a log without files.
            return LogBounds(max(0, int(table["commitLogMinOffset"])), int(table["commitLogMaxOffset"]))
        except (RemoteProtocolError, KeyError, ValueError) as failure:
            raise OSError(
                f"{self._who} {self.address}: expected commitLogMinOffset and commitLogMaxOffset among its runtime "
                f"figures, found {failure!r}"
            ) from failure

    async def find(self, record: RecordRange, content: bytes) -> Found:
        """Return what the master has where the slave has a record, whose compared bytes are ``content``."""
        digest = CompareRecordRequestHeader(record_size=len(content), record_digest=digest_of(content))
        request = _view(record.offset, digest)
        try:
            answer = await self._ask(request)
        except _ConnectionEnded:
            await self.bounds()  # or it does not answer anything, which says nothing about its log
            return Found.UNKNOWN
        if answer.code == ResponseCode.SUCCESS:
            return _compared(answer, record, content)
        remark = answer.remark or ""
        if answer.code == ResponseCode.SYSTEM_ERROR and remark.startswith(_NOT_FOUND):
            return Found.NOTHING
        if answer.code == ResponseCode.SYSTEM_ERROR and remark.startswith(_JAVA_EXCEPTION):
            return Found.UNKNOWN
        raise self._refused(answer)

    async def shows(self, record: RecordRange, content: bytes) -> bool:
        """Whether it has these bytes and returns them, without being told them before."""
        try:
            answer = await self._ask(_view(record.offset))
        except _ConnectionEnded:
            return False
        return answer.code == ResponseCode.SUCCESS and answer.body == content

    async def store_timestamp_ms(self, offset: int) -> int:
        """Return when the master stored the record at an offset, 0 if it does not say."""
        try:
            answer = await self._ask(_view(offset))
        except OSError:
            return 0
        return store_timestamp_in(answer.body or b"") if answer.code == ResponseCode.SUCCESS else 0

    async def _ask(self, request: RemotingCommand) -> RemotingCommand:
        try:
            return await self._client.request(self.address, request, ANSWER_SECONDS)
        except RemotingSendRequestError as failure:
            raise _ConnectionEnded(f"{self._who} cannot be asked about its log: {failure}") from failure
        except RemotingError as failure:
            raise OSError(f"{self._who} cannot be asked about its log: {failure}") from failure

    def _refused(self, answer: RemotingCommand) -> OSError:
        return OSError(
            f"{self._who} {self.address} does not answer questions about its log: code {answer.code}, {answer.remark}"
        )


class _ConnectionEnded(OSError):
    """The connection has ended before the answer."""


def _view(offset: int, digest: CompareRecordRequestHeader | None = None) -> RemotingCommand:
    request = make_request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=offset))
    if digest is not None:
        assert request.ext_fields is not None, "the offset is among them"
        request.ext_fields |= write_header(digest)
    return request


def _compared(answer: RemotingCommand, record: RecordRange, content: bytes) -> Found:
    """Return what a successful answer says: by its field, or by the bytes that it has instead."""
    is_equal = read_header(answer, CompareRecordResponseHeader).record_is_equal
    if is_equal is None:
        body = answer.body or b""
        is_equal = body[: len(content)] == content and (record.is_blank or len(body) == len(content))
    return Found.EQUAL if is_equal else Found.DIFFERENT
