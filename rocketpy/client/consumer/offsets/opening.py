"""Opens the offset store of a consumer: at the brokers for a clustering group, a file for a broadcasting one."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Protocol

import trio

from rocketpy.client.consumer.offsets.local_offset_store import LocalOffsetStore
from rocketpy.client.consumer.offsets.offset_store import OffsetStore
from rocketpy.client.consumer.offsets.remote_offset_store import RemoteOffsetStore
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.client.instance import ClientInstance
from rocketpy.containment import Contained
from rocketpy.protocol.message import MessageQueue

_log = logging.getLogger("rocketpy.client")


class OffsetConfig(Protocol):
    """What the settings of every role of a consumer say about its offsets."""

    @property
    def is_broadcasting(self) -> bool: ...

    @property
    def local_offset_store_dir(self) -> Path: ...


async def open_offset_store(
    instance: ClientInstance, group: str, requests: QueueRequests, config: OffsetConfig
) -> OffsetStore:
    """Return the store of a group, loaded; ClientError when its file is damaged and the backup too."""
    if not config.is_broadcasting:
        return RemoteOffsetStore(requests)
    # Client ids contain a random number; a consumer that is started again must find its file.
    client = instance.config
    client_id = "@".join(filter(None, (instance.client_ip, client.instance_name, client.unit_name)))
    store = LocalOffsetStore(config.local_offset_store_dir / client_id / group / "offsets.json")
    await store.load()
    return store


async def persist_regularly(
    persist_soon: Callable[[Iterable[MessageQueue]], Awaitable[None]],
    queues: Callable[[], Iterable[MessageQueue]],
    interval_ms: int,
) -> None:
    """Persist the offsets of what is assigned at every interval, until cancelled; a failure ends only its round."""
    while True:
        await trio.sleep(interval_ms / 1000)
        with Contained(_log, "storing offsets"):
            await persist_soon(list(queues()))
