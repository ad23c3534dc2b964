"""A whole broker, or nameserver, in this process, asked over bytes: every code that it serves, and all that it keeps.

It is started as ever (``run_broker``), with a real store in a directory of the test; what it is made of is caught on
the way, so that this file need not know how. Requests go through connections of our own, without sockets, one by one.
"""

from __future__ import annotations

import logging
import os.path
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from random import Random
from unittest import mock

import attrs
import trio

import rocketpy.broker.app as broker_app
import rocketpy.broker.wiring as broker_wiring
import rocketpy.nameserver.app as nameserver_app
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.context import BrokerContext
from rocketpy.broker.metadata.ages import Ages
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.broker.tables import Tables
from rocketpy.broker.wiring import Wiring
from rocketpy.clock import SystemClock
from rocketpy.nameserver.config import NamesrvConfig
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import FrameReader, decode_command
from rocketpy.remoting.config import NettyClientConfig, NettyServerConfig
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.server import RemotingServer
from rocketpy.remoting.task_pool import TaskKind
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk.os_disk import OsDisk
from tests.patience import PATIENCE_SECONDS, PATIENT_BROKER, PATIENT_STORE

PROGRESS = {"delayOffset.json", "tableMarks.json"}  # files of what a broker does by itself, whatever it is asked
COUNTERS = {"stats", "accounts", "marks"}  # tables of what was asked, also if it was refused; and of what is written


class Errors(logging.Handler):
    """What is logged as an error: an unforeseen failure of a processor."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def take(self) -> list[str]:
        """Return what came since the last look, the exceptions with where they were raised."""
        texts = []
        for record in self.records:
            failure = record.exc_info[1] if record.exc_info else None
            trace = failure.__traceback__ if failure is not None else None
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            where = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
            texts.append(f"{record.getMessage()}: {failure!r}{where}")
        self.records.clear()
        return texts


class _Transport:
    """A driver without sockets: the tasks of each connection are kept until they are run."""

    def __init__(self) -> None:
        self.tasks_of: defaultdict[object, list[tuple[Callable[..., Awaitable[None]], tuple[object, ...]]]] = (
            defaultdict(list)
        )

    def flush(self, connection: Connection) -> None:
        pass

    def end(self, connection: Connection) -> None:
        connection.mark_closed()

    def has_room(self, size: int) -> bool:
        return True

    def start_task(
        self, owner: object, kind: TaskKind, function: Callable[..., Awaitable[None]], *arguments: object
    ) -> bool:
        self.tasks_of[owner].append((function, arguments))
        return True


@attrs.define(eq=False)
class Whole:
    """A program that serves."""

    dispatcher: Dispatcher
    errors: Errors
    kept: Callable[[], str]
    """Returns all that the program keeps, as text: equal texts mean that nothing has changed."""
    _transport: _Transport = attrs.field(factory=_Transport)
    _ports: Iterator[int] = attrs.field(factory=lambda: iter(range(1024, 65_000)))

    @property
    def codes(self) -> list[int]:
        """Every request code that has a processor."""
        return sorted(self.dispatcher.needs)

    def connect(self) -> Connection:
        """Return a new connection, from a port of its own."""
        return Connection(
            address=("127.0.0.1", next(self._ports)),
            dispatcher=self.dispatcher,
            transport=self._transport,
            limits=NettyServerConfig().limits(),
            now=trio.current_time(),
        )

    async def ask_frame(self, frame: bytes, connection: Connection) -> list[RemotingCommand]:
        """Send one frame; return everything that came back, slow commands included."""
        connection.receive(frame)
        connection.serve(8)
        await self.finish_tasks(connection)
        with self.dispatcher.burst:
            pass
        return received(connection)

    async def finish_tasks(self, connection: Connection) -> None:
        """Run the slow commands of a connection to their end, one by one."""
        tasks_of = self._transport.tasks_of
        with trio.fail_after(PATIENCE_SECONDS):
            while tasks_of[connection]:
                function, arguments = tasks_of[connection].pop()
                await function(*arguments)
        del tasks_of[connection]


def received(connection: Connection) -> list[RemotingCommand]:
    """Return what was sent over a connection since the last look."""
    reader = FrameReader()
    reader.receive(connection.take_outgoing())
    return [decode_command(*frame) for frame in iter(reader.next_frame, None)]


def broker_settings(directory: Path, **changes: object) -> BrokerSettings:
    """Return settings of a small broker that does nothing by itself for a day; ``changes`` are of its BrokerConfig."""
    config = BrokerConfig(
        broker_name="broker-0",
        broker_ip1="127.0.0.1",
        broker_ip2="127.0.0.1",
        transaction_check_interval=86_400_000,
        **PATIENT_BROKER,
    )
    return BrokerSettings(
        broker=attrs.evolve(config, **changes),  # type: ignore[arg-type]
        server=NettyServerConfig(listen_port=0),
        client=NettyClientConfig(),
        store=MessageStoreConfig(
            store_path_root_dir=str(directory / "store"),
            mapped_file_size_commit_log=1 << 24,
            max_hash_slot_num=1000,
            max_index_num=4000,
            message_delay_level=" ".join(["1d"] * 18),
            **PATIENT_STORE,
        ),
        host="127.0.0.1",
        embeds_nameserver=False,
    )


@asynccontextmanager
async def open_whole_broker(settings: BrokerSettings) -> AsyncIterator[Whole]:
    """Run a broker for the block."""
    made: list[tuple[Wiring, BrokerContext]] = []
    snapshots: dict[str, Callable[[], object]] = {}

    class CaughtWiring(Wiring):
        def __init__(self, context: BrokerContext, **given: object) -> None:
            super().__init__(context, **given)  # type: ignore[arg-type]
            made.append((self, context))

    make_table = StoredTable.__init__

    def table(self: StoredTable, **given: object) -> None:
        make_table(self, **given)  # type: ignore[arg-type]
        snapshots[str(given["path"])] = given["snapshot"]  # type: ignore[assignment]

    stop = trio.Event()

    async def run(*, task_status: trio.TaskStatus[object]) -> None:
        await broker_app.run_broker(
            settings,
            disk=OsDisk(),
            clock=SystemClock(),
            run_blocking=trio.to_thread.run_sync,
            randomness=Random(0),
            stop=stop,
            task_status=task_status,  # type: ignore[arg-type]
        )

    with (
        _caught_servers(broker_wiring) as servers,
        _logged_errors() as errors,
        mock.patch.object(broker_app, "Wiring", CaughtWiring),
        mock.patch.object(StoredTable, "__init__", table),
        # The difference of two clocks may change by a millisecond from one look to the next; a moment does not.
        mock.patch.object(Ages, "timestamp_ms", lambda self, moment_ms: moment_ms),
    ):
        async with trio.open_nursery() as nursery:
            await nursery.start(run)
            ((wiring, context),) = made

            def kept() -> str:
                texts = [
                    f"{path}: {snapshot()!r}"
                    for path, snapshot in snapshots.items()
                    if os.path.basename(path) not in PROGRESS
                ]
                texts += [
                    f"{field.name}: {_text_of(getattr(context.tables, field.name))}"
                    for field in attrs.fields(Tables)
                    if field.name not in COUNTERS
                ]
                accounts = Path(settings.broker.acl_directory or ".")
                texts += [each.read_text() for each in sorted(accounts.glob("*.yml")) if settings.broker.acl_enable]
                settings_file = Path(wiring.live_settings.path)  # has what was accepted, in force or not
                texts += [settings_file.read_text()] if settings_file.exists() else []
                texts += [f"log end: {context.store.wrote_offset}", f"settings: {wiring.live_settings.values}"]
                return "\n".join(texts)

            yield Whole(servers[0], errors, kept)
            stop.set()


@asynccontextmanager
async def open_whole_nameserver(directory: Path) -> AsyncIterator[Whole]:
    """Run a nameserver for the block."""
    configuration = NamesrvConfig(
        kv_config_path=str(directory / "kvConfig.json"), config_store_path=str(directory / "namesrv.properties")
    )
    made: list[object] = []
    make_processor = nameserver_app.DefaultRequestProcessor

    def processor(**given: object) -> object:
        made.extend((given["route_info"], given["kv_config"], given["configuration"]))
        return make_processor(**given)  # type: ignore[arg-type]

    async def run(*, task_status: trio.TaskStatus[int]) -> None:
        await nameserver_app.run_nameserver(
            configuration,
            NettyServerConfig(listen_port=0),
            host="127.0.0.1",
            disk=OsDisk(),
            task_status=task_status,
        )

    with (
        _caught_servers(nameserver_app) as servers,
        _logged_errors() as errors,
        mock.patch.object(nameserver_app, "DefaultRequestProcessor", processor),
    ):
        async with trio.open_nursery() as nursery:
            await nursery.start(run)
            yield Whole(servers[0], errors, lambda: "\n".join(map(_text_of, made)))
            nursery.cancel_scope.cancel()


def _text_of(table: object) -> str:
    """The tables inside an object, as text."""
    inside = vars(table) if hasattr(table, "__dict__") else {}
    return repr({name: value for name, value in sorted(inside.items()) if isinstance(value, dict | list | set)})


@contextmanager
def _caught_servers(module: object) -> Iterator[list[Dispatcher]]:
    """Catch the dispatcher of each server that a module makes."""
    dispatchers: list[Dispatcher] = []

    class Server(RemotingServer):
        def __init__(self, **given: object) -> None:
            super().__init__(**given)  # type: ignore[arg-type]
            dispatcher = given["dispatcher"]
            assert isinstance(dispatcher, Dispatcher)
            dispatchers.append(dispatcher)

    with mock.patch.object(module, "RemotingServer", Server):
        yield dispatchers


@contextmanager
def _logged_errors() -> Iterator[Errors]:
    errors = Errors()
    logger = logging.getLogger("rocketpy")
    logger.addHandler(errors)
    level = logger.level
    logger.setLevel(logging.ERROR)  # bad requests are worth a line each, and these are very many
    try:
        yield errors
    finally:
        logger.setLevel(level)
        logger.removeHandler(errors)
