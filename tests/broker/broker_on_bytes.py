"""The processors of a broker over bytes: frames in, frames out, through real connections and the real dispatcher.

The store is a table of numbers. Time stands still.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence, Set
from pathlib import Path
from typing import cast

import attrs
import trio

from rocketpy.broker.admin.feature import AdminFeature
from rocketpy.broker.clients.channel import ClientChannelInfo
from rocketpy.broker.clients.feature import ClientsFeature
from rocketpy.broker.delay.admin import AdminDelayProcessor
from rocketpy.broker.live_settings import LiveSettings
from rocketpy.broker.monitoring.broker_stats import BrokerStats
from rocketpy.broker.monitoring.lateness import LatenessService
from rocketpy.protocol.bodies.heartbeat import ConsumerData, SubscriptionData
from rocketpy.protocol.codes import LanguageCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import FrameReader, decode_command, encode_frame
from rocketpy.remoting.config import ConnectionLimits, NettyClientConfig, NettyServerConfig
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.task_pool import TaskKind
from rocketpy.runner import RunBlocking, run_inline
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.ha.log_mark import LogMark
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import ListedUnit, QueueListing, QueueTimeSpan, StoreStatistics
from tests.broker.tables_of_a_broker import Tables, context_of, make_tables


@attrs.define(eq=False)
class FakeStore:
    """As much of a store as administration asks for: numbers by queue."""

    min_offsets: dict[tuple[str, int], int] = attrs.field(factory=dict)
    max_offsets: dict[tuple[str, int], int] = attrs.field(factory=dict)
    timestamps: dict[tuple[str, int, int], int] = attrs.field(factory=dict)
    by_time: dict[tuple[str, int, int], int] = attrs.field(factory=dict)
    time_spans: dict[tuple[str, int], QueueTimeSpan] = attrs.field(factory=dict)
    queues_on_disk: set[tuple[str, int]] = attrs.field(factory=set)
    units_are_cold: bool = False
    listings: dict[tuple[str, int], list[ListedUnit]] = attrs.field(factory=dict)
    records: dict[int, bytes] = attrs.field(factory=dict)
    deleted: list[str] = attrs.field(factory=list)
    cleaned: list[str] = attrs.field(factory=list)
    put_count: int = 0
    get_message_count: int = 0

    def min_offset_in_queue(self, topic: str, queue_id: int) -> int:
        return self.min_offsets.get((topic, queue_id), 0)

    def max_offset_in_queue(self, topic: str, queue_id: int) -> int:
        return self.max_offsets.get((topic, queue_id), 0)

    def check_in_disk_by_consume_offset_nowait(self, topic: str, queue_id: int, queue_offset: int) -> bool | None:
        return None if self.units_are_cold else (topic, queue_id) in self.queues_on_disk

    async def check_in_disk_by_consume_offset(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        await trio.lowlevel.checkpoint()
        return (topic, queue_id) in self.queues_on_disk

    async def store_timestamp_of(self, topic: str, queue_id: int, queue_offset: int) -> int:
        return self.timestamps.get((topic, queue_id, queue_offset), -1)

    async def queue_time_span(self, topic: str, queue_id: int, consumer_offset: int) -> QueueTimeSpan:
        return self.time_spans.get((topic, queue_id), QueueTimeSpan(-1, -1, -1, None))

    async def offset_in_queue_by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        return self.by_time.get((topic, queue_id, timestamp_ms), 0)

    async def list_units(self, topic: str, queue_id: int, queue_offset: int, count: int) -> QueueListing | None:
        units = self.listings.get((topic, queue_id))
        if units is None:
            return None
        low, high = self.min_offset_in_queue(topic, queue_id), self.max_offset_in_queue(topic, queue_id)
        return QueueListing(low, high, tuple(units[queue_offset - low : queue_offset - low + count]))

    async def look_message_by_offset(self, physical_offset: int) -> bytes | None:
        return self.records.get(physical_offset)

    min_physical_offset = 0

    @property
    def log_marks(self) -> FakeStore:
        return self

    async def now(self) -> LogMark:
        return LogMark(7, 7, "0" * 64)

    def delete_topic_queues(self, topic: str) -> int:
        self.deleted.append(topic)
        return 7

    async def sync_removed_queues(self, topics: Collection[str]) -> None:
        """Nothing survives a loss of power here anyway."""

    def execute_delete_files_manually(self) -> None:
        self.cleaned.append("execute_delete_files_manually")

    async def clean_expired_consumer_queue(self) -> int:
        self.cleaned.append("clean_expired_consumer_queue")
        return 0

    async def clean_unused_topics(self, topics_in_use: Set[str]) -> dict[str, int]:
        self.cleaned.append(" ".join(["clean_unused_topics", *topics_in_use]))
        return {}

    def statistics(self) -> StoreStatistics:
        nothing = StoreStatistics(*([0] * len(attrs.fields(StoreStatistics))))
        return attrs.evolve(nothing, put_count=self.put_count, get_message_count=self.get_message_count)

    def runtime_info(self) -> dict[str, str]:
        return {"commitLogMaxOffset": "7"}


class Transport:
    """A driver of nothing: keeps tasks until they are run, ends connections as a socket would."""

    def __init__(self, on_close: Callable[[Connection], None]) -> None:
        self.tasks: list[tuple[Callable[..., Awaitable[None]], tuple[object, ...]]] = []
        self.on_close = on_close

    def flush(self, connection: Connection) -> None:
        pass

    def end(self, connection: Connection) -> None:
        connection.mark_closed()
        self.on_close(connection)

    def has_room(self, size: int) -> bool:
        return True

    def start_task(
        self, owner: object, kind: TaskKind, function: Callable[..., Awaitable[None]], *arguments: object
    ) -> bool:
        self.tasks.append((function, arguments))
        return True


def connect_to(
    dispatcher: Dispatcher,
    transport: Transport,
    address: tuple[str, int] = ("127.0.0.1", 50_001),
    limits: ConnectionLimits | None = None,
) -> Connection:
    """Return a connection over which a peer sends to a dispatcher."""
    return Connection(
        address=address, dispatcher=dispatcher, transport=transport, limits=limits or ConnectionLimits(), now=0.0
    )


class BrokerOnBytes:
    """One broker without sends and pulls."""

    def __init__(
        self,
        directory: Path,
        *,
        run_blocking: RunBlocking = run_inline,
        role: BrokerRole = BrokerRole.ASYNC_MASTER,
        **settings: object,
    ) -> None:
        self.tables: Tables = make_tables(directory, run_blocking=run_blocking, **settings)
        self.store = FakeStore()
        self.broker_stats = BrokerStats(statistics=self.store.statistics)
        self.registered_count = 0
        self.unsupported: list[int] = []
        self.dispatcher = Dispatcher(unsupported_log=self.unsupported.append)
        self.live_settings = LiveSettings(
            (self.tables.config, NettyServerConfig(), NettyClientConfig(), MessageStoreConfig()),
            path=str(directory / "broker.conf"),
            unknown={},
            check=self._check_settings,
            disk=OsDisk(),
            run_blocking=run_inline,
            clock=self.tables.clock,
        )
        store = cast(MessageStore, self.store)
        context = context_of(self.tables, store, MessageStoreConfig(broker_role=role))
        clients = ClientsFeature(context, current_time=self.tables.time, is_stopping=lambda: False)
        self.housekeeping = clients.housekeeping
        self.notifications = clients.notifications
        clients.register(self.dispatcher)
        AdminFeature(
            context,
            live_settings=self.live_settings,
            figures_of_all=(self.broker_stats.runtime_info, LatenessService().runtime_info),
            register_all=self._register_topics,
            run_blocking=run_blocking,
        ).register(self.dispatcher)
        AdminDelayProcessor(delay_offset_manager=self.tables.delay_offsets).register(self.dispatcher)
        self.transport = Transport(self._closed)
        self._connections = 0

    def notify_all(self) -> None:
        """Send the notifications that wait."""
        while self.notifications.notify_some():
            pass

    def _closed(self, connection: Connection) -> None:
        self.housekeeping.connection_closed(connection)
        self.notify_all()

    def _check_settings(self, values: Sequence[object]) -> None:
        pass

    async def _register_topics(self) -> None:
        self.registered_count += 1

    def connect(self, address: tuple[str, int] | None = None) -> Connection:
        self._connections += 1
        address = address or ("127.0.0.1", 50_000 + self._connections)
        return connect_to(self.dispatcher, self.transport, address, NettyServerConfig().limits())

    def join(self, group: str, *topics: str, client_id: str = "c", version: int = 407) -> Connection:
        """Return the connection of a new member of a group, which subscribes to topics; no heartbeat is sent."""
        return self.subscribe(group, *map(SubscriptionData, topics), client_id=client_id, version=version)

    def subscribe(
        self, group: str, *subscriptions: SubscriptionData, client_id: str = "c", version: int = 407
    ) -> Connection:
        """The same of a member with these subscriptions."""
        connection = self.connect()
        client = ClientChannelInfo(connection, client_id, LanguageCode.JAVA, version, 0.0)
        self.tables.consumers.register_consumer(client, ConsumerData(group, subscription_data_set=subscriptions))
        return connection

    async def ask(self, request: RemotingCommand, connection: Connection | None = None) -> RemotingCommand:
        """Send a request and return its one answer."""
        answers = await self.ask_frame(encode_frame(request), connection)
        assert len(answers) == 1, answers
        return answers[0]

    async def ask_all(self, request: RemotingCommand, connection: Connection | None = None) -> list[RemotingCommand]:
        """Send a request and return everything that came back over the connection."""
        return await self.ask_frame(encode_frame(request), connection)

    async def ask_frame(self, frame: bytes, connection: Connection | None = None) -> list[RemotingCommand]:
        """Send bytes and return everything that came back over the connection."""
        connection = connection or self.connect()
        connection.receive(frame)
        connection.serve(10)
        self.notify_all()
        tasks, self.transport.tasks = self.transport.tasks, []
        for function, arguments in tasks:
            await function(*arguments)
        return received(connection)


def received(connection: Connection) -> list[RemotingCommand]:
    """Return what the broker has sent over a connection since the last look."""
    reader = FrameReader()
    reader.receive(connection.take_outgoing())
    commands = []
    while (frame := reader.next_frame()) is not None:
        commands.append(decode_command(*frame))
    return commands
