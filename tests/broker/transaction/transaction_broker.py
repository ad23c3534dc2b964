"""As much of a broker as transactions need: a real store on a simulated disk, frames, a clock that stands still."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest

from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.send.put import MessageExtBrokerInner, MessagePut, PutMessageResult
from rocketpy.broker.transaction.check import TransactionalMessageCheckService
from rocketpy.broker.transaction.feature import TransactionFeature
from rocketpy.broker.transaction.half_message import half_message
from rocketpy.broker.transaction.replay import queue_ends
from rocketpy.protocol.codes import LanguageCode, RequestCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import CheckTransactionStateRequestHeader, EndTransactionRequestHeader
from rocketpy.protocol.host import pack_host
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_message, decode_messages
from rocketpy.protocol.sysflag import TRANSACTION_COMMIT_TYPE, TRANSACTION_PREPARED_TYPE
from rocketpy.protocol.topic_name import TRANS_CHECK_MAX_TIME_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.runner import RunBlocking, run_inline
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk.interface import Disk
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.broker_on_bytes import Transport, connect_to, received
from tests.broker.tables_of_a_broker import STORE_HOST, Tables, context_of, make_tables
from tests.forged_record import HEAD_SIZE

PRODUCER_HOST = pack_host("10.0.0.1", 4000)
TOPIC, QUEUE_ID, GROUP = "TopicTest", 2, "P"
SMALL_STORE: Mapping[str, object] = {
    "mapped_file_size_commit_log": 1 << 17,
    "mapped_file_size_consume_queue": 20 * 300,
    "max_hash_slot_num": 100,
    "max_index_num": 1000,
    "store_path_root_dir": "/store",
}


@attrs.frozen
class Half:
    """A half message as its producer knows it: where its record is."""

    queue_offset: int
    physical_offset: int


@attrs.frozen
class Check:
    """A question that a producer got."""

    half: Half
    header: CheckTransactionStateRequestHeader
    message: MessageExt


@attrs.define(eq=False)
class TransactionBroker:
    """What a test of transactions works with."""

    tables: Tables
    store: MessageStore
    feature: TransactionFeature
    message_put: MessagePut
    dispatcher: Dispatcher
    transport: Transport
    _connections: int = 0

    @property
    def service(self) -> TransactionalMessageCheckService:
        return self.feature.check_service

    @property
    def open_count(self) -> int:
        """How many transactions are open."""
        return self.service.statistics().open_count

    def connect(self, limits: ConnectionLimits | None = None) -> Connection:
        self._connections += 1
        return connect_to(self.dispatcher, self.transport, ("127.0.0.1", 50_000 + self._connections), limits)

    def put_no_op(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on, fail where an op message is put, as if the process died there."""
        put = self.message_put.put

        def put_others(message: MessageExtBrokerInner) -> PutMessageResult:
            if message.topic == TRANS_OP_HALF_TOPIC:
                pytest.fail("no op")
            return put(message)

        monkeypatch.setattr(self.message_put, "put", put_others)

    def producer(self, group: str = GROUP, limits: ConnectionLimits | None = None) -> Connection:
        """A connection over which a producer of the group is online."""
        connection = self.connect(limits)
        client = ClientChannelInfo(connection, f"c{self._connections}", LanguageCode.JAVA, 400, 0.0)
        self.tables.producers.register_producer(group, client)
        return connection

    def half(self, body: bytes = b"hello", *, group: str | None = GROUP, age_ms: int = 0, **properties: str) -> Half:
        """Store a half message as a send does."""
        own = {"TRAN_MSG": "true", "UNIQ_KEY": f"K{body.decode()}", **properties}
        if group is not None:
            own["PGROUP"] = group
        message = MessageExtBrokerInner(
            topic=TOPIC,
            queue_id=QUEUE_ID,
            body=body,
            properties=own,
            flag=7,
            sys_flag=TRANSACTION_PREPARED_TYPE,
            born_timestamp=self.tables.clock.timestamp_ms() - age_ms,
            born_host=PRODUCER_HOST,
            reconsume_times=1,
        )
        half_message(message)
        result = self.message_put.put(message)
        assert result.is_ok
        self.store.end_burst()
        return Half(result.queue_offset, result.physical_offset)

    def half_messages(self, count: int, *, age_ms: int = 0) -> list[Half]:
        """Store half messages whose bodies are their numbers."""
        return [self.half(b"%d" % number, age_ms=age_ms) for number in range(count)]

    async def end(
        self,
        half: Half,
        how: int = TRANSACTION_COMMIT_TYPE,
        *,
        connection: Connection | None = None,
        **fields: object,
    ) -> RemotingCommand:
        """End a transaction and return the answer."""
        (answer,) = await self.ask_all(end_request(half, how, **fields), connection)
        return answer

    async def end_oneway(self, half: Half, how: int = TRANSACTION_COMMIT_TYPE) -> None:
        """End a transaction by a request that gets no answer."""
        assert await self.ask_all(end_request(half, how, oneway=True)) == []

    async def ask_all(self, request: RemotingCommand, connection: Connection | None = None) -> list[RemotingCommand]:
        connection = connection or self.connect()
        connection.receive(encode_frame(request))
        connection.serve(10)
        self.store.end_burst()
        while self.transport.tasks:
            tasks, self.transport.tasks = self.transport.tasks, []
            for function, arguments in tasks:
                await function(*arguments)
        return received(connection)

    def later(self, seconds: float) -> None:
        """Let wall time pass."""
        self.tables.clock.advance_ms(int(seconds * 1000))

    async def round(self, producer: Connection | None = None, *, after_s: float = 0) -> list[Check]:
        """Let wall time pass and make one check round; return what the producer was asked."""
        self.later(after_s)
        await self.service.check()
        return [] if producer is None else [check_of(command) for command in received(producer)]

    async def asked(self, producer: Connection, *, after_s: float = 60) -> list[bytes]:
        """Return the bodies of what a producer is asked about in the round after a while."""
        return [check.message.body for check in await self.round(producer, after_s=after_s)]

    async def messages(self, topic: str = TOPIC, queue_id: int = 0) -> list[MessageExt]:
        """Return what a queue holds, bodies as they are stored."""
        found: list[MessageExt] = []
        offset, end = self.store.min_offset_in_queue(topic, queue_id), self.store.max_offset_in_queue(topic, queue_id)
        while offset < end:
            result = await self.store.get_message(topic, queue_id, offset, 32)
            found += decode_messages(result.body, decompress=False)
            offset = result.next_begin_offset
        return found

    async def delivered(self) -> list[bytes]:
        """Return the bodies that consumers of the topic can see."""
        return [message.body for message in await self.messages(TOPIC, QUEUE_ID)]

    async def ops(self) -> list[MessageExt]:
        return await self.messages(TRANS_OP_HALF_TOPIC)

    async def halves(self) -> list[MessageExt]:
        return await self.messages(TRANS_HALF_TOPIC)

    async def given_up(self) -> list[MessageExt]:
        return await self.messages(TRANS_CHECK_MAX_TIME_TOPIC)


def evict_log(disk: SimDisk) -> None:
    """Make every record cold."""
    for name in disk.list_directory("/store/commitlog"):
        disk.evict(f"/store/commitlog/{name}")


def damage(disk: SimDisk, physical_offset: int, *, body_size: int, topic: str = TRANS_HALF_TOPIC) -> None:
    """Change the length of a record's properties: its head, and so its unit, stay right."""
    (name, *_) = disk.list_directory("/store/commitlog")
    file = disk.open(f"/store/commitlog/{name}")
    file.write(physical_offset + HEAD_SIZE + body_size + 1 + len(topic), b"\x7f\x00")
    file.close()


def check_of(command: RemotingCommand) -> Check:
    """Return what a CHECK_TRANSACTION_STATE asks."""
    assert command.code == RequestCode.CHECK_TRANSACTION_STATE, command
    assert command.is_oneway
    header = read_header(command, CheckTransactionStateRequestHeader)
    assert command.body is not None
    message = decode_message(command.body, decompress=False)
    return Check(Half(header.tran_state_table_offset, header.commit_log_offset), header, message)


def end_request(
    half: Half, how: int = TRANSACTION_COMMIT_TYPE, *, oneway: bool = False, **fields: object
) -> RemotingCommand:
    """The request that ends a transaction named by one of its records."""
    usual: dict[str, object] = {
        "producer_group": GROUP,
        "tran_state_table_offset": half.queue_offset,
        "commit_log_offset": half.physical_offset,
        "commit_or_rollback": how,
        "msg_id": "K",
    }
    header = EndTransactionRequestHeader(**{**usual, **fields})  # type: ignore[arg-type]
    return make_request(RequestCode.END_TRANSACTION, header, oneway=oneway)


@asynccontextmanager
async def open_transaction_broker(
    *,
    disk: Disk | None = None,
    tables: Tables | None = None,
    store: Mapping[str, object] | None = None,
    load: bool = True,
    run_blocking: RunBlocking = run_inline,
    **settings: object,
) -> AsyncIterator[TransactionBroker]:
    """Open a broker; ``tables`` of an earlier life keep its offsets and its clock."""
    tables = tables or make_tables(Path("/nowhere"), **settings)
    store_config = MessageStoreConfig(**{**SMALL_STORE, **(store or {})})  # type: ignore[arg-type]
    levels = DelayLevels.parse(store_config.message_delay_level)
    async with open_message_store(
        store_config,
        disk=disk or SimDisk(clock=tables.clock),
        clock=tables.clock,
        run_blocking=run_blocking,
        store_host=STORE_HOST,
        tags_code=levels.tags_code,
    ) as opened:
        message_put = MessagePut(store=opened, levels=levels)
        feature = TransactionFeature(context_of(tables, opened, store_config), message_put=message_put)
        if load:
            await feature.check_service.load(queue_ends(opened))
        dispatcher = Dispatcher(end_burst=opened.end_burst)
        feature.register(dispatcher)
        yield TransactionBroker(tables, opened, feature, message_put, dispatcher, Transport(lambda _: None))
