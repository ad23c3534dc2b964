"""A SYNC_MASTER's store and a slave's, each a :class:`~rocketpy.testing.replica.Replica`, and their producers.

The logs and what readers find are compared directly, byte by byte. A slave whose log parts from its master's is wiped,
as an operator would do. See ``test_replicated_stores.py`` for the rules.
"""

from __future__ import annotations

from functools import partial
from random import Random

import trio

from rocketpy.protocol.stored_message import check_message
from rocketpy.store.config import BrokerRole, FlushDiskType, MessageStoreConfig
from rocketpy.store.message_store import MessageStore
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.replica import REQUEST_PORT, Replica
from rocketpy.testing.sim.host import SimHost
from rocketpy.testing.sim.network import Link, SimNetwork
from tests.store.ha.two_stores import Producers, config_of, log_of
from tests.store.parts import Place

MASTER, SLAVE = "10.0.0.1", "10.0.0.2"
ROOT = "/store"
DISK_DELAY_SECONDS = 0.0005


class StorePair:
    """Both machines and the network between them, and what the producers were answered."""

    def __init__(self, nursery: trio.Nursery, seed: int) -> None:
        self.random = Random(f"pair {seed}")
        self.network = SimNetwork(randomness=Random(f"network {seed}"))
        for source, target in ((MASTER, SLAVE), (SLAVE, MASTER)):
            self.network.set_link(source, target, Link(delay_s=0.001, jitter_s=0.02))
        self._replica_of_master = self._replica(MASTER, BrokerRole.SYNC_MASTER, nursery)
        self._replica_of_slave = self._replica(SLAVE, BrokerRole.SLAVE, nursery)
        both = (self._replica_of_master, self._replica_of_slave)
        batch_size = self.random.choice((1, 12, 300, 32_768))
        has_ext, has_pool = self.random.random() < 0.3, self.random.random() < 0.3
        for replica in both:
            replica.knows({f"{each.address}:{REQUEST_PORT}": each.answer for each in both})
            replica.config = config_of(
                Place(replica.host.disk, ROOT),
                replica.role,
                ha_send_heartbeat_interval=1000,
                ha_housekeeping_interval=4000,
                ha_transfer_batch_size=batch_size,
                slave_timeout=3000,
                flush_disk_type=self.random.choice(list(FlushDiskType)),
                enable_consume_queue_ext=has_ext,
                transient_store_pool_enable=has_pool,  # only a master has it
                transient_store_pool_size=1,
                consume_queue_files_open_max=12,
            )
        self._replica_of_slave.follow(MASTER)
        self.answers: list[PutMessageStatus] = []
        self.history_count = 0  # how often the master has lost power: from then on its log may be another one
        self.slave_loss_count = 0  # how often the slave has: it may have lost what it has acknowledged
        self.message_count = 0
        self._acknowledged: tuple[int, tuple[int, int]] = (0, (0, 0))  # the last end that was PUT_OK, and the losses
        self.deleted_topics: set[str] = set()

    def _replica(self, address: str, role: BrokerRole, nursery: trio.Nursery) -> Replica:
        config = MessageStoreConfig(store_path_root_dir=ROOT)
        number = self.random.randrange(1 << 32)
        replica = Replica(address, config, network=self.network, nursery=nursery, number=number)
        replica.host.disk_delay_s = DISK_DELAY_SECONDS
        replica.role = role
        return replica

    # ---- the two machines -----------------------------------------------------------------------------------------

    @property
    def master(self) -> MessageStore | None:
        """The open store of the master."""
        return self._replica_of_master.store

    @property
    def slave(self) -> MessageStore | None:
        """The open store of the slave."""
        return self._replica_of_slave.store

    @property
    def master_host(self) -> SimHost:
        """The machine of the master."""
        return self._replica_of_master.host

    @property
    def slave_host(self) -> SimHost:
        """The machine of the slave."""
        return self._replica_of_slave.host

    async def begin(self, host: SimHost) -> bool:
        """Begin a life of a machine; return whether its store is open."""
        replica = self._replica_of_master if host is self.master_host else self._replica_of_slave
        return await host.start(replica.run)

    @property
    def is_diverged(self) -> bool:
        """Whether the slave has found that the logs part, and stands still."""
        client = self._replica_of_slave.client
        if client is None or self.master is None or self.slave is None or not client.statistics().alarm:
            return False
        return not self.is_prefix(self.slave, self.master)

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
        if status is PutMessageStatus.PUT_OK:
            self._acknowledged = end, losses
            self._check_acknowledged()

    def _check_acknowledged(self) -> None:
        """A slave that was killed may have acknowledged just before: what it had is there when it is open again."""
        end, losses = self._acknowledged
        if self.slave is not None and losses == (self.history_count, self.slave_loss_count):
            assert log_of(self.slave).end_offset >= end, f"PUT_OK for {end} before the slave had it"

    # ---- the rules ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Check what holds at any moment: the slave's log is a part of the master's, and ends with a record."""
        self._check_acknowledged()
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
