"""A program that puts messages into a store as fast as it can until it is killed, and says how many are written.

``python -m tests.blackbox.store_under_load DIRECTORY KEY=VALUE...`` prints a line with the number of messages, in whole
bursts, that are written. Message n is in queue n % 4 of the topic ``load``, has the key ``key-n``, and 1 KiB.
"""

from __future__ import annotations

import sys

import trio

from rocketpy.clock import SystemClock
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.store.results import PutMessageStatus

TOPIC = "load"
QUEUES = 4
BURST = 64
_HOST = bytes((127, 0, 0, 1)) + (10_911).to_bytes(4, "big")


async def main(directory: str, settings: dict[str, int]) -> None:
    config = MessageStoreConfig(store_path_root_dir=directory, **settings)  # type: ignore[arg-type]
    async with open_message_store(
        config,
        disk=OsDisk(),
        clock=SystemClock(),
        run_blocking=trio.to_thread.run_sync,
        store_host=_HOST,
    ) as store:
        await put_for_ever(store)


async def put_for_ever(store: MessageStore) -> None:
    clock, number = SystemClock(), 0
    while True:
        now_ms = clock.timestamp_ms()
        for _ in range(BURST):
            key = b"key-%d" % number
            body = (b"%d " % number).ljust(900, b".")
            status, _, _ = store.put(TOPIC, number % QUEUES, body, b"KEYS\x01" + key, 0, (key,), 0, 0, now_ms, _HOST, 0)
            assert status is PutMessageStatus.PUT_OK, store.writable_or_why()
            number += 1
        store.end_burst()
        print(number, flush=True)
        await trio.lowlevel.checkpoint()


if __name__ == "__main__":
    trio.run(main, sys.argv[1], {name: int(value) for name, _, value in (each.partition("=") for each in sys.argv[2:])})
