"""A job that repairs dead letters and sends them once more: ``python repair_dead_letters.py 127.0.0.1:9876 balances``.

Dead letters of a group are in the topic ``%DLQ%`` and its name. This job is for payments of ``idempotent_worker.py``
whose amount was written as ``"1,50"``. A letter that it cannot repair is logged, and stays in the topic until the
broker deletes it by age. Progress is committed after each letter: a job that dies between a send and its commit sends
that letter again in the next run, with the same key, by which the worker knows it. If the broker dies, the job fails
with exit status 1, and the next run goes on where this one has stopped.
"""

import json
import logging
import sys

from rocketpy.client import Message, MessageExt, blocking
from rocketpy.errors import RocketpyError

log = logging.getLogger("repair_dead_letters")


def repaired(letter: MessageExt) -> Message:
    """Return what to send in place of a letter, to the topic that it was sent to; ValueError if there is no way."""
    payment = json.loads(letter.body)
    payment["cents"] = round(100 * float(payment["cents"].replace(",", ".")))
    return Message.create(letter.properties["RETRY_TOPIC"], json.dumps(payment).encode(), keys=letter.keys)


def repair(client: blocking.Client, group: str, topic: str) -> None:
    sent = left = 0
    with (
        client.producer("repair_dead_letters") as producer,
        client.pull_consumer(f"repair_dead_letters_{group}") as reader,
        reader.open_messages(topic, start="stored", until_end=True) as letters,
    ):
        for letter in letters:
            try:
                message = repaired(letter)
            except (ValueError, KeyError, TypeError, AttributeError) as failure:
                log.warning("%s, queue %d, offset %d: %r", letter.keys, letter.queue_id, letter.queue_offset, failure)
                left += 1
            else:
                producer.send(message)
                sent += 1
            letters.commit()
    log.info("%d sent, %d left", sent, left)


def main(name_server: str, group: str) -> None:
    logging.basicConfig(level=logging.INFO)
    try:
        with blocking.open_client(name_server) as client:
            if not client.admin().cluster_info().broker_addr_table:
                sys.exit("no broker is there: the next run may find one")
            if client.admin().route(f"%DLQ%{group}") is None:  # made by a broker when there is a first one
                log.info("the group has no dead letters")
            else:
                repair(client, group, f"%DLQ%{group}")
    except RocketpyError as failure:
        sys.exit(f"{failure}; the next run goes on where this one has stopped")


if __name__ == "__main__":
    main(*sys.argv[1:])
