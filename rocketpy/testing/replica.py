"""A store with both sides of replication around it, as a program of a simulated machine.

The store and its services are the product's, composed as the broker composes them: the port for slaves, and on a slave
the comparison of the logs, the client that follows, and the cut of a tail by opening the store again. The requests of a
comparison are answered by the other replica's store after a round trip over the simulated network; there is no remoting
between them, and no nameserver: the driver sets the addresses.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from random import Random
from struct import Struct

import attrs
import trio

from rocketpy.broker.replication.accept_socket import AcceptSocketService
from rocketpy.broker.replication.comparison import LogComparison, client_address_of
from rocketpy.broker.replication.master_addresses import MasterAddresses
from rocketpy.errors import (
    RemotingConnectError,
    RemotingSendRequestError,
    RemotingTimeoutError,
    StoreError,
    single_failures,
)
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.query import (
    CompareRecordRequestHeader,
    CompareRecordResponseHeader,
    ViewMessageRequestHeader,
)
from rocketpy.protocol.stored_message import BLANK_MAGIC_CODE, BLANK_SIZE_MIN, MESSAGE_MAGIC_CODE
from rocketpy.remoting.nowait_stream import NowaitStream, nowait_stream
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.ha.client import HAClient
from rocketpy.store.ha.connection import HATimes
from rocketpy.store.ha.tail_cut import CutReport
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.store.status import StoreReports
from rocketpy.testing.replication_model import Shown
from rocketpy.testing.sim.disk import ProcessDied
from rocketpy.testing.sim.host import SimHost, SimProcess
from rocketpy.testing.sim.network import SimNetwork
from rocketpy.testing.sim.trace import Trace
from rocketpy.testing.store_contents import tags_code_of

REQUEST_PORT = 10_911
HA_PORT = REQUEST_PORT + 1

_TOTAL_AND_MAGIC = Struct(">ii")

Answers = Callable[[RemotingCommand], Awaitable[RemotingCommand | None]]
"""Answers a request about a log, as a master does; None when it has ended."""


class Replica:
    """One machine of the group, and its store through all its lives."""

    def __init__(
        self, address: str, config: MessageStoreConfig, *, network: SimNetwork, nursery: trio.Nursery, number: int
    ) -> None:
        self.config = config
        """How the next life is opened, but for the role; it may be changed between lives."""
        self.host = SimHost(address, network=network, nursery=nursery, trace=Trace(), randomness=Random(number))
        self.host.disk_delay_s = 0.0
        self.addresses = MasterAddresses(own_addr=f"{address}:{REQUEST_PORT}")
        """Where the master is; the driver sets it."""
        self.role = BrokerRole.ASYNC_MASTER
        self.store: MessageStore | None = None
        self.client: HAClient | None = None
        self.life_count = 0
        self.cut_offsets: list[int] = []
        """Where the log was cut, in order; for the driver to take."""
        self.last_durable_end = 0
        self._network = network
        self._asked: Mapping[str, Answers] = {}
        self._failure: BaseException | None = None  # of an answer
        self._has_failed = trio.Event()

    @property
    def address(self) -> str:
        """The address of the machine."""
        return self.host.address

    @property
    def is_open(self) -> bool:
        """Whether the store is open."""
        return self.store is not None

    @property
    def is_slave(self) -> bool:
        """Whether the current life, or the last one, is a slave's."""
        return self.role is BrokerRole.SLAVE

    @property
    def durable_end(self) -> int:
        """The end of the log that the current life, or the last one, has called durable."""
        if self.store is not None:
            self.last_durable_end = self.store.durable_offset
        return self.last_durable_end

    def knows(self, asked: Mapping[str, Answers]) -> None:
        """Take those that can be asked about their logs, by their addresses for requests."""
        self._asked = asked

    async def answer(self, request: RemotingCommand) -> RemotingCommand | None:
        """Answer a question about the log. A failure of the store ends this process, not the one that asks."""
        if self.store is None:
            return None
        try:
            return await _answer(self.store, request)
        except (ProcessDied, StoreError) as failure:
            self._failure = failure
            self._has_failed.set()
            return None

    def follow(self, address: str) -> None:
        """Let this slave follow the master on a machine."""
        self.addresses.take("nameserver", f"{address}:{REQUEST_PORT}", f"{address}:{HA_PORT}")

    def shown(self) -> Shown:
        """Return the log of the open store, its records read from its files."""
        assert self.store is not None, "the store is open"
        begin, end = self.store.min_physical_offset, self.store.max_physical_offset
        return Shown(dict(records_in(self._content(begin, end), begin, self._file_size)), begin, end)

    def left(self) -> dict[int, bytes]:
        """Return the records in the files of a store that is not open, as far as they are whole."""
        begin = self.log_begin
        return dict(records_in(self._content(begin, 1 << 62), begin, self._file_size))

    @property
    def log_begin(self) -> int:
        """The physical offset of the log's first file, 0 without one; an empty slave begins with a later one."""
        files = self.host.disk.list_directory(self.config.commit_log_path)
        return min((int(name) for name in files if name.isdigit()), default=0)

    async def run(self, process: SimProcess) -> None:
        """Live until the process is to stop. A disk call in which the process dies ends it as a kill does."""
        try:
            while await self._live(process):
                pass
        except BaseException as failure:
            if any(isinstance(each, ProcessDied) for each in single_failures(failure)):
                process.is_killed = True
                self._network.end_process(self.address)
            raise
        finally:
            self.store = self.client = None

    # ---- private --------------------------------------------------------------------------------------------------

    @property
    def _file_size(self) -> int:
        return self.config.mapped_file_size_commit_log

    async def _live(self, process: SimProcess) -> bool:
        """Live once; return whether the store must be opened again, to cut its log."""
        is_cut_ordered = trio.Event()
        self._has_failed = trio.Event()
        config = attrs.evolve(self.config, broker_role=self.role)
        async with open_message_store(
            config,
            disk=process.disk,
            clock=process.clock,
            run_blocking=process.run_blocking,
            store_host=bytes(4) + (REQUEST_PORT).to_bytes(4, "big"),
            tags_code=tags_code_of,
            reports=StoreReports(cut=self._note_cut),
            memory_bytes=1 << 40,
        ) as store:
            if store.was_cut:
                await store.tables_were_cut()  # it has none
            async with trio.open_nursery() as nursery:
                listeners = await process.network.listen(None, HA_PORT)
                accept = AcceptSocketService(listeners=listeners, serve=store.ha_service.serve, allowed=())
                await nursery.start(accept.run)
                questions = await process.network.listen(None, REQUEST_PORT)
                nursery.start_soon(AcceptSocketService(listeners=questions, serve=_echo, allowed=()).run)
                client = self._client(process, store, is_cut_ordered) if self.is_slave else None
                self.store, self.client = store, client
                self.life_count += 1
                if client is not None:
                    await nursery.start(client.run)
                process.started()
                nursery.start_soon(self._fail)
                nursery.start_soon(_cancel_after, nursery.cancel_scope, process.stop)
                nursery.start_soon(_cancel_after, nursery.cancel_scope, is_cut_ordered)
            self.store = self.client = None
        return is_cut_ordered.is_set()

    async def _fail(self) -> None:
        await self._has_failed.wait()
        assert self._failure is not None
        raise self._failure

    def _client(self, process: SimProcess, store: MessageStore, is_cut_ordered: trio.Event) -> HAClient:
        async def request_cut(offset: int) -> str | None:
            refusal = await store.order_cut(offset)
            if refusal is None:
                is_cut_ordered.set()
            return refusal

        log = store.following_log
        assert log is not None, "a slave's store has one"
        comparison = LogComparison(
            log=store.recorded_log,
            client=_Questions(process, self._asked),
            client_address=partial(client_address_of, self.addresses),
            request_cut=request_cut if self.config.ha_truncate_diverged_log else None,
        )
        return HAClient(
            log=log,
            address=lambda: self.addresses.ha_server_addr,
            address_changed=self.addresses.wait_changed,
            connect=partial(_connect, process),
            compare=comparison.compare,
            settings=partial(HATimes.of, self.config),
            randomness=process.randomness,
        )

    def _note_cut(self, report: CutReport) -> None:
        if not report.refusal:
            self.cut_offsets.append(report.order.offset)

    def _content(self, begin: int, end: int) -> bytes:
        """Return the bytes of the files between two offsets, the first one being that of a file."""
        disk, path, content = self.host.disk, self.config.commit_log_path, b""
        for name in disk.list_directory(path):
            if name.isdigit() and begin <= int(name) < end:
                file = disk.open(f"{path}/{name}", read_only=True)
                content += file.read(0, min(self._file_size, end - int(name)))
                file.close()
        return content


def records_in(content: bytes, begin_offset: int, file_size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the records and BLANKs of a log that begins at an offset, as far as they are whole."""
    position = 0
    while position + BLANK_SIZE_MIN <= len(content):
        offset = begin_offset + position
        size, magic = _TOTAL_AND_MAGIC.unpack_from(content, position)
        if magic == BLANK_MAGIC_CODE:
            size = file_size - offset % file_size
        elif magic != MESSAGE_MAGIC_CODE:
            return
        if not BLANK_SIZE_MIN <= size <= len(content) - position:
            return
        yield offset, content[position : position + size]
        position += size


class _Questions:
    """Requests of one process about the logs of others."""

    def __init__(self, process: SimProcess, asked: Mapping[str, Answers]) -> None:
        self._process = process
        self._asked = asked

    async def request(self, address: str, request: RemotingCommand, timeout_s: float = 3.0) -> RemotingCommand:
        with trio.move_on_after(timeout_s):
            stream = await self._process.network.connect(address)
            async with stream:
                try:
                    await stream.send_all(b"?")
                    has_answer = await stream.receive_some(1)
                except trio.BrokenResourceError:
                    has_answer = b""
            answer = await self._asked[address](request) if has_answer else None
            if answer is None:
                raise RemotingSendRequestError(f"the connection to {address} has ended")
            return answer
        raise RemotingTimeoutError(f"no answer of {address} within {timeout_s:g} s")


async def _answer(store: MessageStore, request: RemotingCommand) -> RemotingCommand:
    """Answer as a broker does."""
    store.end_burst()
    if request.code == RequestCode.GET_BROKER_RUNTIME_INFO:
        bounds = {"commitLogMinOffset": store.min_physical_offset, "commitLogMaxOffset": store.max_physical_offset}
        return make_response(request, body=encode_body(KVTable({name: str(each) for name, each in bounds.items()})))
    header = read_header(request, ViewMessageRequestHeader)
    compared = read_header(request, CompareRecordRequestHeader)
    if compared.record_size is not None and compared.record_digest is not None:
        is_equal = await store.record_digests.has(header.offset, compared.record_size, compared.record_digest)
        return make_response(request, header=CompareRecordResponseHeader(record_is_equal=is_equal))
    record = await store.look_message_by_offset(header.offset)
    if record is None:
        return make_response(request, ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.offset}")
    return make_response(request, body=record)


async def _echo(stream: trio.abc.Stream, peer: str) -> None:
    async with stream:
        try:
            while data := await stream.receive_some(64):
                await stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


async def _connect(process: SimProcess, address: str) -> NowaitStream:
    try:
        return nowait_stream(await process.network.connect(address))
    except RemotingConnectError as failure:
        raise OSError(str(failure)) from failure


async def _cancel_after(scope: trio.CancelScope, event: trio.Event) -> None:
    await event.wait()
    scope.cancel()
