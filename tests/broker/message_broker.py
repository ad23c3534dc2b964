"""A broker that takes and gives messages: its processors over a real store, frames in, frames out, no sockets.

The disk is simulated unless another is passed in, and the clock stands still. A burst is one call of ``ask``: frames
are served, the store writes, replies are collected, woken pulls are served, tasks run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio.testing

from rocketpy import BUILD
from rocketpy.broker.acl.fast_path_guards import FastPathGuards
from rocketpy.broker.acl.plain_permission import PlainPermissionManager
from rocketpy.broker.context import BrokerContext
from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.hooks import NO_HOOKS, BrokerHooks
from rocketpy.broker.metadata.named_queues import NamedQueues
from rocketpy.broker.pull.feature import PullFeature
from rocketpy.broker.pull.long_polling import PullRequestHoldService
from rocketpy.broker.query.processor import QueryMessageProcessor
from rocketpy.broker.send.fast_batch import READ_BATCH, ReadBatch
from rocketpy.broker.send.feature import SendFeature
from rocketpy.broker.send.put import MessagePut
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.protocol.codes import RequestCode, SerializeType
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.fast_path_headers import DecodeBatch, decode_fast_batch, decode_fast_send
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.pull import PullMessageRequestHeader
from rocketpy.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher, FastPath
from rocketpy.runner import run_inline
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk.interface import Disk
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.broker_on_bytes import Transport, connect_to, received
from tests.broker.tables_of_a_broker import STORE_HOST, Tables, context_of, make_tables

TOPIC = "TopicTest"
SMALL_STORE = {
    "mapped_file_size_commit_log": 1 << 19,
    "mapped_file_size_consume_queue": 20 * 300,
    "max_message_size": 1 << 17,
    "max_hash_slot_num": 100,
    "max_index_num": 1000,
}


class FastPathNote:
    """A fast path that notes whether it took each request."""

    def __init__(self, fast_path: FastPath) -> None:
        self.taken: list[bool] = []
        self._fast_path = fast_path

    def __call__(self, connection: Connection, header: bytes, body: bytes | None) -> int:
        served = self._fast_path(connection, header, body)
        self.taken.append(bool(served))
        return served


@attrs.define(eq=False)
class MessageBroker:
    """What a test of a send, a pull or a query works with."""

    tables: Tables
    store: MessageStore
    hold: PullRequestHoldService
    send_feature: SendFeature
    dispatcher: Dispatcher
    transport: Transport
    puts: list[tuple[object, ...]]
    """The arguments of every ``store.put``."""
    send_path: FastPathNote
    batch_path: FastPathNote
    pull_path: FastPathNote
    context: BrokerContext
    message_put: MessagePut
    _connections: int = 0

    def use_general_path(self) -> None:
        """Serve every request by the general path from now on."""
        self.dispatcher.fast_paths.clear()

    def add_topic(self, topic: str = TOPIC, queue_nums: int = 4, **settings: object) -> TopicConfig:
        config = TopicConfig(topic, queue_nums, queue_nums)
        config = attrs.evolve(config, **settings)  # type: ignore[arg-type]
        self.tables.topics.update_topic_config(config)
        return config

    def connect(self, address: tuple[str, int] | None = None, limits: ConnectionLimits | None = None) -> Connection:
        self._connections += 1
        address = address or ("127.0.0.1", 50_000 + self._connections)
        return connect_to(self.dispatcher, self.transport, address, limits)

    async def ask(self, request: RemotingCommand, connection: Connection | None = None) -> RemotingCommand:
        """Send a request and return its one answer."""
        answers = await self.ask_frames(encode_frame(request), connection)
        assert len(answers) == 1, answers
        assert answers[0].opaque == request.opaque
        assert answers[0].serialize_type == request.serialize_type
        return answers[0]

    async def ask_all(self, request: RemotingCommand, connection: Connection | None = None) -> list[RemotingCommand]:
        """Send a request and return everything that came back over the connection."""
        return await self.ask_frames(encode_frame(request), connection)

    async def ask_frames(self, frames: bytes, connection: Connection | None = None) -> list[RemotingCommand]:
        """Send bytes as one burst and return everything that came back over the connection."""
        connection = connection or self.connect()
        self.serve(frames, connection)
        await self.run_tasks()
        return received(connection)

    def serve(self, frames: bytes, connection: Connection) -> None:
        """Serve bytes as one burst; its replies stay with the connection."""
        connection.receive(frames)
        with self.dispatcher.burst:
            while connection.serve(1000):
                pass

    def end_burst(self) -> None:
        with self.dispatcher.burst:
            pass

    async def settle(self) -> None:
        """Let the store's services do what they have to."""
        await trio.testing.wait_all_tasks_blocked()

    async def run_tasks(self) -> None:
        while self.transport.tasks:
            tasks, self.transport.tasks = self.transport.tasks, []
            for function, arguments in tasks:
                await function(*arguments)

    async def messages(self, topic: str = TOPIC, queue_id: int = 0) -> list[MessageExt]:
        """Return what a queue holds, bodies as they are stored."""
        return decode_messages(await self.records(topic, queue_id), decompress=False)

    async def records(self, topic: str = TOPIC, queue_id: int = 0) -> bytes:
        """Return the stored bytes of a queue's messages."""
        content = b""
        offset, end = 0, self.store.max_offset_in_queue(topic, queue_id)
        while offset < end:
            result = await self.store.get_message(topic, queue_id, offset, 32)
            content += result.body
            offset = result.next_begin_offset
        return content

    @property
    def stored_bytes(self) -> int:
        """How long the log is: what is refused has left it as it was."""
        return self.store.wrote_offset


@asynccontextmanager
async def open_message_broker(
    *,
    disk: Disk | None = None,
    root: str = "/store",
    store: Mapping[str, object] | None = None,
    put_status: PutMessageStatus | None = None,
    hooks: BrokerHooks = NO_HOOKS,
    read_batch: ReadBatch | None = READ_BATCH,
    has_kernels: bool = BUILD.has_kernels,
    accounts: PlainPermissionManager | None = None,
    decode_batch: DecodeBatch | None = None,
    has_fast_paths: bool = True,
    **settings: object,
) -> AsyncIterator[MessageBroker]:
    """Open a broker with one topic of four queues, and with access control if there are ``accounts``.

    ``store`` are its store's settings, ``settings`` its own. With ``put_status`` its store refuses every message so.
    With send hooks there is no fast path of sends, without ``has_fast_paths`` none at all. ``read_batch`` is the kernel
    that reads batches, None for none, and ``has_kernels`` says whether the headers of sends and batches are read by
    theirs, or by ``decode_batch``.
    """
    store_config = MessageStoreConfig(**{**SMALL_STORE, **(store or {}), "store_path_root_dir": root})  # type: ignore[arg-type]
    # Fast failure measures real time: a send would be refused because the machine was busy with something else.
    settings = {"broker_fast_failure_enable": False, **settings}
    tables = make_tables(Path("/nowhere"), enable_lmq=store_config.enable_lmq, **settings)
    if accounts is not None:
        tables = attrs.evolve(tables, accounts=accounts)
    hold = PullRequestHoldService()
    async with open_message_store(
        store_config,
        disk=disk or SimDisk(clock=tables.clock),
        clock=tables.clock,
        run_blocking=run_inline,
        store_host=STORE_HOST,
        bit_map_of=tables.filters.bit_map_of if tables.config.enable_calc_filter_bit_map else None,
        may_be_named=NamedQueues(tables.topics).may_be_named,
        message_arriving=hold.message_arriving,
        flush_replies=lambda: dispatcher.burst.flush_replies(),
    ) as opened:
        puts = _note_puts(opened, put_status)
        context = context_of(tables, opened, store_config)
        message_put = MessagePut(store=opened, levels=DelayLevels.parse(store_config.message_delay_level))
        guards = None if accounts is None else FastPathGuards(accounts, has_kernels=has_kernels)
        send_feature = SendFeature(
            context,
            message_put=message_put,
            hooks=hooks,
            decode=decode_fast_send if guards is None else guards.decode_send,
            decode_batch=decode_batch or (decode_fast_batch if guards is None else guards.decode_batch),
            read_batch=read_batch,
            has_kernels=has_kernels,
        )
        dispatcher = Dispatcher(
            end_burst=send_feature.end_burst,
            after_replies=hold.serve_woken,
            authorize=None if accounts is None else accounts.authorize,
            fast_guards=None if guards is None else guards.by_code(),
        )
        send_feature.register(dispatcher)
        PullFeature(context, message_put=message_put, hold_service=hold, hooks=send_feature.consume_hooks).register(
            dispatcher
        )
        QueryMessageProcessor(store=opened, default_query_max_num=store_config.default_query_max_num).register(
            dispatcher
        )
        broker = MessageBroker(
            tables=tables,
            store=opened,
            hold=hold,
            send_feature=send_feature,
            dispatcher=dispatcher,
            transport=Transport(hold.drop_connection),
            puts=puts,
            send_path=_note_fast_path(dispatcher, b'{"code":310,'),
            batch_path=_note_fast_path(dispatcher, b'{"code":320,'),
            pull_path=_note_fast_path(dispatcher, b'{"code":11,"'),
            context=context,
            message_put=message_put,
        )
        broker.add_topic()
        if not has_fast_paths:
            broker.use_general_path()
        yield broker


def _note_puts(store: MessageStore, status: PutMessageStatus | None) -> list[tuple[object, ...]]:
    puts: list[tuple[object, ...]] = []
    put = store.put

    def noted(*arguments: object) -> object:
        puts.append((*arguments, 0)[:12])  # with prepared_transaction_offset, whose default is 0
        return (status, -1, -1) if status is not None else put(*arguments)  # type: ignore[arg-type]

    store.put = noted  # type: ignore[assignment, method-assign]
    return puts


def _note_fast_path(dispatcher: Dispatcher, prefix: bytes) -> FastPathNote:
    note = FastPathNote(dispatcher.fast_paths.get(prefix, _declined))
    if prefix in dispatcher.fast_paths:
        dispatcher.fast_paths[prefix] = note
    return note


def _declined(connection: Connection, header: bytes, body: bytes | None) -> bool:
    return False


# ---- requests -------------------------------------------------------------------------------------------------------


def send_header(**fields: object) -> SendMessageRequestHeader:
    """A send to queue 0 of the topic, with everything else as a producer fills it in."""
    usual: dict[str, object] = {
        "producer_group": "P",
        "topic": TOPIC,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 1_700_000_000_123,
        "flag": 0,
        "properties": "UNIQ_KEY\x010A\x02WAIT\x01true",
        "reconsume_times": 0,
    }
    return SendMessageRequestHeader(**{**usual, **fields})  # type: ignore[arg-type]


def send(
    body: bytes | None = b"hello",
    *,
    code: int = RequestCode.SEND_MESSAGE_V2,
    oneway: bool = False,
    opaque: int = 7,
    serialize_type: SerializeType = SerializeType.JSON,
    version: int = 409,
    **fields: object,
) -> RemotingCommand:
    """A send request in the header form of its code."""
    header: object = send_header(**fields)
    if code != RequestCode.SEND_MESSAGE:
        assert isinstance(header, SendMessageRequestHeader)
        header = SendMessageRequestHeaderV2.from_v1(header)
    request = make_request(code, header, body, oneway=oneway)
    request.opaque = opaque
    request.serialize_type = serialize_type
    request.version = version
    return request


def pull_header(**fields: object) -> PullMessageRequestHeader:
    """A pull from the beginning of queue 0 with the subscription in the request, not to be held."""
    usual: dict[str, object] = {
        "consumer_group": "G",
        "topic": TOPIC,
        "queue_id": 0,
        "queue_offset": 0,
        "max_msg_nums": 32,
        "sys_flag": 4,
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "subscription": "*",
        "sub_version": 0,
        "expression_type": "TAG",
    }
    return PullMessageRequestHeader(**{**usual, **fields})  # type: ignore[arg-type]


def pull(
    *,
    oneway: bool = False,
    opaque: int = 9,
    serialize_type: SerializeType = SerializeType.JSON,
    **fields: object,
) -> RemotingCommand:
    """A pull, see :func:`pull_header`."""
    request = make_request(RequestCode.PULL_MESSAGE, pull_header(**fields), oneway=oneway)
    request.opaque = opaque
    request.serialize_type = serialize_type
    return request
