"""A service that answers requests: ``python quotes.py 127.0.0.1:9876 serve``, and elsewhere ``... ask tea``.

A requester waits for its reply as long as it says. If the service dies meanwhile, another of its group, or the same one
when it is back, gets the request and answers. If the broker dies, requests that it has stored are answered when it is
back. A requester that gets no reply in time asks again, three times in all. So a request may be handled twice: handling
it must have no effect, or the same one. One whose time is over, or whose reply the broker refuses, is not repeated.
"""

import asyncio
import logging
import signal
import sys
import time

from rocketpy.client import ConsumeFromWhere, ConsumerConfig, Message, MessageBatch, aio, reply_to
from rocketpy.errors import BrokerError, NoReplyError

PRICES = {b"tea": b"150", b"cake": b"320"}
WAIT_S = 60
log = logging.getLogger("quotes")


async def serve(name_server: str) -> None:
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with (
        aio.open_client(name_server) as client,
        client.producer("quotes_replies") as producer,
        client.consumer("quotes", "quotes", config=config) as consumer,
    ):

        async def answer(batch: MessageBatch) -> None:
            for request in batch:
                due_ms = request.born_timestamp + int(request.properties["TTL"])
                if time.time() * 1000 > due_ms:
                    log.info("request %s: its time is over", request.msg_id)
                    continue
                try:
                    await producer.send(reply_to(request, PRICES.get(request.body, b"unknown")))
                    log.info("request %s: answered", request.msg_id)
                except BrokerError as refusal:  # the requester has gone, most likely; raised, it would come again
                    log.warning("request %s: not answered: %s", request.msg_id, refusal)

        running = asyncio.create_task(consumer.run(answer, tasks=20))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        log.info("serving")
        await asyncio.wait([running])  # what is being handled is not acknowledged: it comes again, to another
        if not running.cancelled():
            running.result()


async def ask(name_server: str, item: str) -> None:
    async with aio.open_producer(name_server, group="quotes_requests") as producer:
        for _ in range(3):
            try:
                print((await producer.request(Message("quotes", item.encode()), timeout_s=WAIT_S)).body.decode())
                return
            except NoReplyError as failure:
                log.warning("no reply: %s", failure)
    sys.exit(1)


async def main(name_server: str, verb: str, *arguments: str) -> None:
    logging.basicConfig(level=logging.INFO)
    await {"serve": serve, "ask": ask}[verb](name_server, *arguments)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
