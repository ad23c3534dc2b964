"""A whole broker, small enough that its files roll over within a few messages, for machines that break one."""

from __future__ import annotations

import random
from collections.abc import Mapping

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.remoting.config import NettyClientConfig, NettyServerConfig
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.testing.broker_world import BrokerWorld
from rocketpy.testing.sim.disk import SimDisk

BROKER = "b"
SYNC, ASYNC = FlushDiskType.SYNC_FLUSH, FlushDiskType.ASYNC_FLUSH
_BROKER_SETTINGS: Mapping[str, object] = {
    "broker_name": BROKER,
    "broker_ip1": "10.0.0.2",
    "broker_ip2": "10.0.0.2",
    "default_topic_queue_nums": 1,
}
_STORE_SETTINGS: Mapping[str, object] = {
    "store_path_root_dir": "/store",
    "mapped_file_size_commit_log": 1 << 16,
    "mapped_file_size_consume_queue": 20 * 30,
    "max_hash_slot_num": 8,
    "max_index_num": 100,
}


def small_broker(
    flush: FlushDiskType, *, sector_size: int, broker: Mapping[str, object], store: Mapping[str, object]
) -> BrokerWorld:
    """Return a world with a broker that has never been started; ``broker`` and ``store`` are settings of its own."""
    settings = BrokerSettings(
        broker=BrokerConfig(**{**_BROKER_SETTINGS, **broker}),  # type: ignore[arg-type]
        server=NettyServerConfig(),
        client=NettyClientConfig(),
        store=MessageStoreConfig(**{**_STORE_SETTINGS, "flush_disk_type": flush, **store}),  # type: ignore[arg-type]
        host=None,
        embeds_nameserver=False,
    )
    return BrokerWorld(settings, disk=SimDisk(choose=random.Random(0).randrange, sector_size=sector_size))
