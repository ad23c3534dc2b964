"""Stores to be read: written by the message store itself, without a broker or a network."""

from __future__ import annotations

import time
from pathlib import Path

import trio

from rocketpy.clock import SystemClock
from rocketpy.protocol.host import encode_host
from rocketpy.protocol.java_hash import tags_code
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.store.results import PutMessageStatus

TOPICS = ("orders", "payments", "shipments", "returns")
QUEUES = 4
TAGS = ("created", "paid", "cancelled")
_BURST = 500
_TEXT = b'{"customer": "c-000000", "amount": 123.45, "currency": "EUR", "note": "leave at the door", "items": [1, 2]} '


def make_store(directory: Path, *, log_bytes: int, body_bytes: int) -> int:
    """Fill a CommitLog with about so many bytes of messages; return how many there are."""
    return trio.run(_fill, directory, log_bytes, body_bytes)


def make_body(number: int, body_bytes: int) -> bytes:
    """Return a body that begins with its number."""
    return (b"%08d " % number + _TEXT * (body_bytes // len(_TEXT) + 1))[:body_bytes]


async def _fill(directory: Path, log_bytes: int, body_bytes: int) -> int:
    config = MessageStoreConfig(store_path_root_dir=str(directory))
    address = encode_host("127.0.0.1:10911")
    count = 0
    async with open_message_store(
        config, disk=OsDisk(), clock=SystemClock(), run_blocking=trio.to_thread.run_sync, store_host=address
    ) as store:
        while store.max_physical_offset < log_bytes:
            for _ in range(_BURST):
                _put(store, count, body_bytes, address)
                count += 1
            await trio.lowlevel.checkpoint()
    return count


def _put(store: MessageStore, number: int, body_bytes: int, address: bytes) -> None:
    tag = TAGS[number % len(TAGS)]
    body = make_body(number, body_bytes)
    unique_key = b"7F0000010000%020X" % number
    properties = b"UNIQ_KEY\x01%b\x02TAGS\x01%b" % (unique_key, tag.encode())
    status, _, _ = store.put(
        TOPICS[number % len(TOPICS)],
        number // len(TOPICS) % QUEUES,
        body,
        properties,
        tags_code(tag),
        (unique_key,),
        0,
        0,
        time.time_ns() // 1_000_000,
        address,
        0,
    )
    assert status is PutMessageStatus.PUT_OK, status
