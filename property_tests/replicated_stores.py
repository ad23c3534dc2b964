"""A SYNC_MASTER's store and a slave's, each on a simulated machine, with the services that replicate between them.

The two programs here are what a broker is made of below its requests: a store, and either its HAService behind a port
or an HAClient. The logs are compared directly, and a slave whose log parts from its master's is wiped, as an operator
would do. See ``test_replicated_stores.py`` for the rules.
"""

from __future__ import annotations

from functools import partial
from random import Random

import trio

from rocketpy.errors import RemotingConnectError
from rocketpy.protocol.stored_message import check_message
from rocketpy.store.config import BrokerRole, FlushDiskType, MessageStoreConfig
from rocketpy.store.ha.client import DivergedError, HAClient
from rocketpy.store.ha.connection import HATimes
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.host import SimHost, SimProcess
from rocketpy.testing.sim.network import Link, SimNetwork
from rocketpy.testing.sim.trace import Trace
from rocketpy.testing.store_contents import tags_code_of
from tests.store.ha.two_stores import Producers, config_of, log_of
from tests.store.parts import STORE_HOST, Place

MASTER, SLAVE = "10.0.0.1", "10.0.0.2"
ADDRESS, PORT = f"{MASTER}:10912", 10912
ROOT = "/store"


class StorePair:
    """Both machines and the network between them, and what the producers were answered."""

    def __init__(self, nursery: trio.Nursery, seed: int) -> None:
        self.random = Random(f"pair {seed}")
        self.network = SimNetwork(randomness=Random(f"network {seed}"))
        for source, target in ((MASTER, SLAVE), (SLAVE, MASTER)):
            self.network.set_link(source, target, Link(delay_s=0.001, jitter_s=0.02))
        trace = Trace()
        self.master_host, self.slave_host = (
            SimHost(each, network=self.network, nursery=nursery, trace=trace, randomness=Random(f"host {each} {seed}"))
            for each in (MASTER, SLAVE)
        )
        self.batch_size = self.random.choice((1, 12, 300, 32_768))
        self.flush_types = self.random.choices(list(FlushDiskType), k=2)
        self.has_ext = self.random.random() < 0.3
        self.has_pool = self.random.random() < 0.3  # of the master
        self.master: MessageStore | None = None
        self.slave: MessageStore | None = None
        self.answers: list[PutMessageStatus] = []
        self.is_diverged = False
        self.history_count = 0  # how often the master has lost power: from then on its log may be another one
        self.slave_loss_count = 0  # how often the slave has: it may have lost what it has acknowledged
        self.message_count = 0
        self.deleted_topics: set[str] = set()

    # ---- the two programs -----------------------------------------------------------------------------------------

    def config(self, process: SimProcess, role: BrokerRole) -> MessageStoreConfig:
        return config_of(
            Place(process.disk, ROOT),
            role,
            ha_send_heartbeat_interval=1000,
            ha_housekeeping_interval=4000,
            ha_transfer_batch_size=self.batch_size,
            slave_timeout=3000,
            flush_disk_type=self.flush_types[role is BrokerRole.SLAVE],
            enable_consume_queue_ext=self.has_ext,
            transient_store_pool_enable=self.has_pool,
            transient_store_pool_size=1,
            consume_queue_files_open_max=12,
        )

    async def run_master(self, process: SimProcess) -> None:
        """Serve slaves until the process is to end."""
        async with open_message_store(
            self.config(process, BrokerRole.SYNC_MASTER),
            disk=process.disk,
            clock=process.clock,
            run_blocking=process.run_blocking,
            store_host=STORE_HOST,
            tags_code=tags_code_of,
            memory_bytes=1 << 40,
        ) as store:
            (listener,) = await process.network.listen(None, PORT)
            async with trio.open_nursery() as nursery:
                self.master = store
                try:
                    nursery.start_soon(self._accept, store, listener, nursery)
                    process.started()
                    await process.stop.wait()
                finally:
                    self.master = None
                nursery.cancel_scope.cancel()

    async def _accept(self, store: MessageStore, listener: trio.abc.Listener, nursery: trio.Nursery) -> None:  # type: ignore[type-arg]
        while True:
            stream, (host, port) = await listener.accept()
            nursery.start_soon(store.ha_service.serve, stream, f"{host}:{port}")

    async def run_slave(self, process: SimProcess) -> None:
        """Follow the master until the process is to end."""
        config = self.config(process, BrokerRole.SLAVE)
        async with open_message_store(
            config,
            disk=process.disk,
            clock=process.clock,
            run_blocking=process.run_blocking,
            store_host=STORE_HOST,
            tags_code=tags_code_of,
            memory_bytes=1 << 40,
        ) as store:
            client = HAClient(
                log=log_of(store),
                address=lambda: ADDRESS,
                connect=partial(_connect, process),
                compare=partial(self._compare, store),
                settings=lambda: HATimes.of(config),
                randomness=process.randomness,
            )
            async with trio.open_nursery() as nursery:
                self.slave = store
                try:
                    nursery.start_soon(client.run)
                    process.started()
                    await process.stop.wait()
                finally:
                    self.slave = None
                nursery.cancel_scope.cancel()

    async def _compare(self, slave: MessageStore, address: str) -> None:
        await trio.lowlevel.checkpoint()
        if self.master is None or self.master_host.process.is_killed:
            raise OSError("the master does not answer")
        if not self.is_prefix(slave, self.master):
            self.is_diverged = True
            raise DivergedError("the logs part")

    # ---- producers ------------------------------------------------------------------------------------------------

    def producers(self) -> Producers | None:
        """Return producers that are connected, None while the master is gone."""
        if self.master is None:
            return None
        return Producers(self.master, self.random, number=self.message_count)

    def end_burst(self, producers: Producers) -> None:
        """End the burst, and let a producer wait for the last message."""
        store, self.message_count = producers.store, producers.number
        end = store.wrote_offset
        store.wait_stored(end, partial(self._answered, end, (self.history_count, self.slave_loss_count)))
        store.end_burst()

    def _answered(self, end: int, losses: tuple[int, int], status: PutMessageStatus) -> None:
        self.answers.append(status)
        if status is PutMessageStatus.PUT_OK and losses == (self.history_count, self.slave_loss_count):
            assert self.slave is not None, "PUT_OK without a slave"
            assert log_of(self.slave).end_offset >= end, f"PUT_OK for {end} before the slave had it"

    # ---- the rules ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check what holds at any moment: the slave's log is a part of the master's, and ends with a record."""
        if self.master is None or self.slave is None or self.is_diverged or log_of(self.slave).is_empty:
            return
        if not self.is_prefix(self.slave, self.master):
            # Possible only until the next comparison, after the master has lost the end of its log.
            assert self.history_count, "the slave's log is a part of its master's"
            return
        begin, content = log_on_disk(self.slave, self.slave_host)
        position = 0
        while position < len(content):
            size = check_message(content, position, len(content) - position).size
            assert size, f"a whole record or BLANK at {begin + position}"
            position += size
        assert position == len(content), "it ends with a record, or with a file"

    def is_prefix(self, slave: MessageStore, master: MessageStore) -> bool:
        """Whether the slave's log is a part of its master's, up to its end; as far as both have it."""
        master_begin, masters = log_on_disk(master, self.master_host)
        slave_begin, slaves = log_on_disk(slave, self.slave_host)
        begin = max(master_begin, slave_begin)
        ours = slaves[begin - slave_begin :]
        return masters[begin - master_begin :][: len(ours)] == ours


def log_on_disk(store: MessageStore, host: SimHost) -> tuple[int, bytes]:
    """Return the offset of a log and all its bytes, cold or not."""
    source, place = store.log_source, Place(host.disk, ROOT)
    begin, end = source.min_offset, source.end_offset
    files = [place.read(place.log_file(base)) for base in range(begin, end, source.file_size)]
    return begin, b"".join(files)[: end - begin]


async def _connect(process: SimProcess, address: str) -> trio.abc.Stream:
    try:
        return await process.network.connect(address)
    except RemotingConnectError as failure:
        raise OSError(str(failure)) from failure
