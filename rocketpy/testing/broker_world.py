"""Deterministic simulation of a whole broker: every processor and table, no sockets, no nameserver.

The broker is put together as in ``rocketpy.broker.app``, over the simulated disk and the virtual time of a
:class:`~rocketpy.testing.store_world.StoreWorld`. Clients are connections without a network: each request is served in
a burst of its own, and requests of the broker (a check, a notification) are queued until the test reads them. Tables
are written to the same simulated disk as the log, so a simulated crash affects them in the same way.

::

    with BrokerWorld(settings) as world:
        world.begin()
        client = world.connect()
        answer = client.ask(make_request(RequestCode.HEART_BEAT, body=...))
        world.pass_time(60)                       check rounds, deliveries, flushes
        world.kill(); world.begin()               the next life; clients connect again

Services that measure the machine (lateness of the loop, fast failure) are left out: they wake every few milliseconds
and measure real time. On a busy machine a slow write would cause sends to be refused, and the test has no retries.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Self, cast

import attrs
import trio

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.hooks import NO_HOOKS
from rocketpy.broker.pull.long_polling import PullRequestHoldService
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.broker.store_opening import open_broker_store
from rocketpy.broker.tables import Tables
from rocketpy.broker.wiring import Wiring
from rocketpy.clock import ManualClock
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import FrameReader, decode_command, encode_frame
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.remoting.network import Network
from rocketpy.remoting.task_pool import TaskKind
from rocketpy.remoting.tls.contexts import ServerTls
from rocketpy.runner import RunBlocking
from rocketpy.store.message_store import MessageStore
from rocketpy.testing.sim.choices import Choose
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.store_world import STORE_HOST, StoreWorld

_FIRST_PORT = 50_000


class BrokerWorld:
    """One broker, the disk it is on, and one life after the other in it."""

    def __init__(
        self, settings: BrokerSettings, *, disk: SimDisk | None = None, clock: ManualClock | None = None
    ) -> None:
        broker = attrs.evolve(settings.broker, broker_fast_failure_enable=False)
        self.settings = settings = attrs.evolve(settings, broker=broker)
        self.life = StoreWorld(settings.store, disk=disk, clock=clock, open_life=self._open_life)
        """Disk, clock and death; its calls about the store serve here too."""
        self._wiring: Wiring | None = None
        self._tables: Tables | None = None
        self._dispatcher: Dispatcher | None = None
        self._nursery: trio.Nursery | None = None
        self._client_count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.life.kill()

    # ---- a life begins and ends -----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether a life is going on."""
        return self.life.is_open

    @property
    def wiring(self) -> Wiring:
        """The broker of this life."""
        assert self._wiring is not None, "the broker is open"
        return self._wiring

    def begin(self) -> None:
        """Begin a life; its connections are those that :meth:`connect` makes from now on."""
        self.life.begin()

    def stop(self) -> None:
        """End the life in order: tables written, log flushed."""
        self.life.stop()

    def kill(self) -> None:
        """End the process: what was written stays."""
        self.life.kill()

    def lose_power(self, choose: Choose) -> None:
        """End the machine; ``choose`` says what the disk has of what was not synced."""
        self.life.lose_power(choose)

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and everything happen in it."""
        self.life.pass_time(seconds * 1000)

    # ---- clients --------------------------------------------------------------------------------------------------

    def connect(self) -> Client:
        """Return a client of this life."""
        assert self._dispatcher is not None, "the broker is open"
        self._client_count += 1
        return Client(self, self._dispatcher, _FIRST_PORT + self._client_count % 10_000)

    @property
    def tables(self) -> Tables:
        """The tables of this life."""
        assert self._tables is not None, "the broker is open"
        return self._tables

    def messages(self, topic: str, queue_id: int) -> list[MessageExt]:
        """Return what a queue holds, bodies as they are stored."""

        async def read(store: MessageStore) -> list[MessageExt]:
            found: list[MessageExt] = []
            offset, end = store.min_offset_in_queue(topic, queue_id), store.max_offset_in_queue(topic, queue_id)
            while offset < end:
                result = await store.get_message(topic, queue_id, offset, 32)
                found += decode_messages(result.body, decompress=False)
                offset = max(result.next_begin_offset, offset + 1)
            return found

        return self.life.ask(read)

    def consumer_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Return where the broker of this life has a group go on, -1 if it does not know."""
        assert self._tables is not None, "the broker is open"
        return self._tables.offsets.query_offset(group, topic, queue_id)

    def start_task(self, function: Callable[..., Awaitable[None]], *arguments: object) -> bool:
        """Run a slow command of a client; for :class:`Client`."""
        assert self._nursery is not None, "the broker is open"
        self._nursery.start_soon(function, *arguments)
        return True

    # ---- private --------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _open_life(self, run_blocking: RunBlocking) -> AsyncIterator[MessageStore]:
        settings, disk, clock = self.settings, self.life.disk, self.life.clock
        tables = Tables.load(settings, disk=disk, clock=clock, run_blocking=run_blocking)
        hold_service = PullRequestHoldService()
        async with open_broker_store(
            settings,
            tables,
            hold_service,
            disk=disk,
            clock=clock,
            run_blocking=run_blocking,
            store_host=STORE_HOST,
            memory_bytes=1 << 40,
        ) as store:
            wiring = Wiring(
                BrokerContext.of(
                    settings,
                    tables,
                    store,
                    port=10_911,
                    ha_port=10_912,
                    store_host=STORE_HOST,
                    clock=clock,
                    randomness=Random(0),
                ),
                server_config=settings.server,
                live_settings=settings.live(disk=disk, run_blocking=run_blocking, clock=clock),
                client=cast("RemotingClient", None),  # for nameservers, of which there are none here
                network=cast("Network", None),  # for slaves, which are none here
                ha_listeners=(),
                hold_service=hold_service,
                stop=trio.Event(),
                tls=ServerTls(settings.tls_server),
                hooks=NO_HOOKS,
                run_blocking=run_blocking,
            )
            async with trio.open_nursery() as services:
                for service in wiring.services:
                    if service is not wiring.monitoring.lateness:
                        await services.start(service.run)
                self._wiring, self._dispatcher, self._nursery = wiring, wiring.dispatcher(), services
                self._tables = tables
                yield store
                services.cancel_scope.cancel()
            await wiring.finish()


class Client:
    """One peer of the broker. It ends with the life that it was made in."""

    def __init__(self, world: BrokerWorld, dispatcher: Dispatcher, port: int) -> None:
        self._world = world
        self._reader = FrameReader()
        self._answers: dict[int, RemotingCommand] = {}
        self._requests: list[RemotingCommand] = []
        self._opaque = 0
        self._burst = dispatcher.burst
        self.is_reset = False
        """The peer has reset its connection: the next send finds that out and ends it, as a socket's would."""
        self.on_flush: Callable[[], None] | None = None
        """Called when the broker sends something by itself."""
        self.connection = Connection(
            address=("10.0.0.1", port),
            dispatcher=dispatcher,
            transport=self,
            limits=world.settings.server.limits(),
            now=0.0,
        )

    def ask(self, request: RemotingCommand, *, settle: bool = True) -> RemotingCommand | None:
        """Send a request as a burst of its own; return the answer if it comes without time passing, None if not.

        Without ``settle`` nothing happens after the burst, as when the machine goes down in that moment: then there is
        no answer either, unless it needs no other task. LifeEnded when the broker fails because of it.
        """
        self._opaque += 1
        request.opaque = self._opaque
        world, connection = self._world, self.connection
        with world.life.failing():
            connection.receive(encode_frame(request))
            with self._burst:
                while connection.serve(1000):
                    pass
        if settle:
            world.pass_time(0)
        self._read()
        return self._answers.pop(request.opaque, None)

    def answer(self, request: RemotingCommand) -> RemotingCommand | None:
        """Return the answer to a request that was asked before, None if it has not come yet."""
        self._read()
        return self._answers.pop(request.opaque, None)

    def requests(self) -> list[RemotingCommand]:
        """Return what the broker has asked since the last look."""
        self._read()
        requests, self._requests = self._requests, []
        return requests

    def close(self) -> None:
        """Go offline."""
        self.connection.close()

    # ---- what the connection asks of its driver -------------------------------------------------------------------

    def flush(self, connection: Connection) -> None:
        """Nothing to send; a connection that was reset ends."""
        if self.is_reset:
            connection.close()
        elif self.on_flush is not None:
            self.on_flush()

    def end(self, connection: Connection) -> None:
        """End the connection, and tell the broker."""
        connection.mark_closed()
        if self._world.is_open:
            with self._world.life.failing():
                self._world.wiring.connection_closed(connection)

    def has_room(self, size: int) -> bool:
        """Always: a client of this world reads everything at once."""
        return True

    def start_task(
        self, owner: object, kind: TaskKind, function: Callable[..., Awaitable[None]], *arguments: object
    ) -> bool:
        """Run a slow command."""
        return self._world.start_task(function, *arguments)

    def _read(self) -> None:
        if self.connection.outgoing_size:
            self._reader.receive(self.connection.take_outgoing())
        while (frame := self._reader.next_frame()) is not None:
            command = decode_command(*frame)
            if command.is_response:
                self._answers[command.opaque] = command
            else:
                self._requests.append(command)
