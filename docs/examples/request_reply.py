"""Ask a consumer, and wait for its reply: ``python request_reply.py 127.0.0.1:9876``.

Requester and consumer are clients of their own, as they would be in two programs. Prints the reply: ``HELLO``.
"""

import sys

import trio

from rocketpy.client import ConsumeFromWhere, ConsumerConfig, Message, open_client, open_producer, reply_to


async def answer(name_server: str) -> None:
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    async with (
        open_client(name_server) as client,
        client.producer("request_reply_answers") as producer,
        client.consumer("request_reply", "RequestReply", config=config) as consumer,
    ):
        async for batch in consumer:
            for request in batch:
                await producer.send(reply_to(request, request.body.upper()))


async def main(name_server: str) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer, name_server)
        async with open_producer(name_server, group="request_reply_asks") as producer:
            reply = await producer.request(Message("RequestReply", b"hello"), timeout_s=30)
        print(reply.body.decode())
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
