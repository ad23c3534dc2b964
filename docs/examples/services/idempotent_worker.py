"""A worker that books each payment once: ``python idempotent_worker.py 127.0.0.1:9876 balances.db``.

A payment is a message of the topic ``payments`` such as ``{"account": "a", "cents": 150}``; its key names it. Delivery
is at least once: a worker or a broker that dies, a producer that tries again, a rebalance, each may bring a payment
again. So its key is stored in the transaction that books it, and one whose key is there is acknowledged, not booked.
A payment that cannot be read becomes a dead letter; after a failure of the database it is delivered again later.
"""

import json
import logging
import signal
import sqlite3
import sys
from contextlib import closing, suppress

from rocketpy.client import ConsumeFromWhere, ConsumerConfig, MessageExt, blocking

SCHEMA = """
CREATE TABLE IF NOT EXISTS booked (key TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS balances (account TEXT PRIMARY KEY, cents INTEGER NOT NULL);
"""
ADD = "INSERT INTO balances VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET cents = cents + excluded.cents"
log = logging.getLogger("idempotent_worker")


def book(database: sqlite3.Connection, message: MessageExt) -> None:
    """Book a payment, unless it is booked; ValueError for one that cannot be read."""
    try:
        payment = json.loads(message.body)
        account, cents = str(payment["account"]), int(payment["cents"])
    except (KeyError, TypeError) as failure:
        raise ValueError(f"not a payment: {message.body!r}") from failure
    # The producer's key, and not only msg_id: a producer that is restarted sends a payment again under another msg_id.
    key = message.keys or message.msg_id
    with database:
        if database.execute("INSERT OR IGNORE INTO booked VALUES (?)", (key,)).rowcount == 1:
            database.execute(ADD, (account, cents))
            log.info("payment %s: booked", key)
        else:
            log.info("payment %s: booked before", key)


def main(name_server: str, path: str) -> None:
    logging.basicConfig(level=logging.INFO)
    # As Ctrl-C: KeyboardInterrupt, wherever the worker is. A transaction is rolled back, and its payment comes again.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)  # of a new group
    with suppress(KeyboardInterrupt), closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMA)
        with (
            blocking.open_client(name_server) as client,
            client.consumer("balances", "payments", config=config) as worker,
        ):
            for batch in worker:  # of one message, as long as the configuration says no more
                try:
                    for message in batch:
                        book(database, message)
                except ValueError as failure:
                    log.warning("dead letter: %s", failure)
                    batch.dead_letter()
                except sqlite3.Error:
                    log.exception("once more, later")
                    batch.retry_later()
    log.info("stopped")


if __name__ == "__main__":
    main(*sys.argv[1:])
