"""Opens the offset store of a consumer: at the brokers for a clustering group, a file for a broadcasting one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import trio

from rocketpy.client.consumer.offsets.local_offset_store import LocalOffsetStore
from rocketpy.client.consumer.offsets.offset_store import OffsetStore
from rocketpy.client.consumer.offsets.remote_offset_store import RemoteOffsetStore
from rocketpy.client.consumer.queue.requests import QueueRequests
from rocketpy.client.instance import ClientInstance
from rocketpy.protocol.message import MessageQueue


async def open_offset_store(
    instance: ClientInstance, group: str, requests: QueueRequests, *, is_broadcasting: bool, local_directory: Path
) -> OffsetStore:
    """Return the store of a group, loaded; ClientError when its file is damaged and the backup too."""
    if not is_broadcasting:
        return RemoteOffsetStore(requests)
    # Client ids contain a random number; a consumer that is started again must find its file.
    config = instance.config
    client_id = "@".join(filter(None, (instance.client_ip, config.instance_name, config.unit_name)))
    store = LocalOffsetStore(local_directory / client_id / group / "offsets.json")
    await store.load()
    return store


async def persist_regularly(
    persist_soon: Callable[[Iterable[MessageQueue]], Awaitable[None]],
    queues: Callable[[], Iterable[MessageQueue]],
    interval_ms: int,
) -> None:
    """Persist the offsets of what is assigned at every interval, until cancelled."""
    while True:
        await trio.sleep(interval_ms / 1000)
        await persist_soon(list(queues()))
