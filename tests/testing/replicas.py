"""A master "a" and its slave "b" that follows it, for tests of their simulation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.ha.client import HAState
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.pair_world import PairWorld

CONFIG = MessageStoreConfig(
    store_path_root_dir="/store",
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=8,
    max_index_num=40,
    max_message_size=1000,
    ha_send_heartbeat_interval=1_000,
    ha_housekeeping_interval=4_000,
)


@contextmanager
def a_pair(role: BrokerRole = BrokerRole.SYNC_MASTER, **changes: object) -> Iterator[PairWorld]:
    """Two stores that know each other, for as long as the block lasts; ``changes`` are of their settings."""
    with PairWorld(attrs.evolve(CONFIG, **changes)) as world:  # type: ignore[arg-type]
        world.start("a", role)
        world.start("b", BrokerRole.SLAVE)
        world.follow("a")
        world.pass_time(2)
        yield world


def put(world: PairWorld, body: bytes, *, master: str = "a") -> None:
    """Send a message in a burst of its own."""
    assert world.producers.put(master, "T", 0, body) is PutMessageStatus.PUT_OK
    world.producers.end_burst(master)


def alarm_of(world: PairWorld, slave: str = "b") -> str:
    """Return what an operator is shown about a slave, empty when all is well."""
    client = world.replica(slave).client
    assert client is not None
    return client.statistics().alarm


def state_of(world: PairWorld, slave: str = "b") -> HAState:
    """Return what a slave is doing."""
    client = world.replica(slave).client
    assert client is not None
    return client.statistics().state
