"""A service of reminders for any time: ``python reminders.py 127.0.0.1:9876 reminders.db``.

A reminder is a message of the topic ``reminders``: its body is the text, its key names it, and its property ``due_s``
is the time in seconds since 1970. Brokers delay by levels, up to two hours; so the service sends a reminder that is not
due once more, with the longest level that is not too long, until less than a second is left. Between two sends it is in
the broker alone, and survives the death of both. A service that dies between a send and its acknowledgement leaves the
reminder there twice; the database has those that were shown, and the second is dropped. Only a service that dies just
between showing a reminder and storing that shows it again.
"""

import bisect
import logging
import signal
import sqlite3
import sys
import time
from contextlib import closing

import trio

from rocketpy.client import ConsumeFromWhere, ConsumerConfig, Message, MessageBatch, MessageExt, Producer, open_client

LEVELS_S = [1, 5, 10, 30, *range(60, 601, 60), 1200, 1800, 3600, 7200]  # messageDelayLevel of the brokers
log = logging.getLogger("reminders")


async def send_later(producer: Producer, reminder: MessageExt, left_s: float) -> None:
    level = bisect.bisect_right(LEVELS_S, left_s)  # levels count from 1: the last one that is not longer
    properties = {"due_s": reminder.properties["due_s"]}
    await producer.send(
        Message.create("reminders", reminder.body, keys=reminder.keys, delay_level=level, properties=properties)
    )
    log.info("reminder %s: in %.1f s, sent with level %d", reminder.keys, left_s, level)


def show_once(database: sqlite3.Connection, reminder: MessageExt) -> None:
    with database:
        is_new = database.execute("INSERT OR IGNORE INTO shown VALUES (?)", (reminder.keys,)).rowcount == 1
        if is_new:
            print(reminder.body.decode(), flush=True)  # in place of a mail
    log.info("reminder %s: %s", reminder.keys, "shown" if is_new else "shown before")


async def cancel_on_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for _ in signals:
            scope.cancel()


async def main(name_server: str, path: str) -> None:
    logging.basicConfig(level=logging.INFO)
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE IF NOT EXISTS shown (key TEXT PRIMARY KEY)")
        async with (
            trio.open_nursery() as nursery,
            open_client(name_server) as client,
            client.producer("reminders") as producer,
            client.consumer("reminders", "reminders", config=config) as consumer,
        ):

            async def handle(batch: MessageBatch) -> None:
                """If it raises, the batch comes again later: after 16 retries it is a dead letter."""
                for reminder in batch:
                    now_s = max(time.time(), reminder.store_timestamp / 1000)  # by the clock that is ahead
                    left_s = float(reminder.properties["due_s"]) - now_s
                    if left_s >= LEVELS_S[0]:
                        await send_later(producer, reminder, left_s)
                    else:
                        await trio.sleep(max(left_s, 0))
                        show_once(database, reminder)

            nursery.start_soon(cancel_on_signal, nursery.cancel_scope)
            await consumer.run(handle)
    log.info("stopped")


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
