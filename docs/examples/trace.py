"""Record what becomes of messages, and read it: ``python trace.py 127.0.0.1:9876``.

Producers and consumers with ``enable_msg_trace`` leave records in the topic ``RMQ_SYS_TRACE_TOPIC``, as Java's
clients do. Prints those of one message: who has sent it, and how its handler has ended.
"""

import sys
from contextlib import suppress

import trio

from rocketpy.client import Client, ConsumeFromWhere, ConsumerConfig, Message, ProducerConfig, open_client
from rocketpy.client.admin import MessageTrace, PubTrace, SubAfterTrace
from rocketpy.errors import ClientError


async def main(name_server: str) -> None:
    async with open_client(name_server) as client:
        async with client.producer("trace_producer", config=ProducerConfig(enable_msg_trace=True)) as producer:
            sent = await producer.send(Message("Trace", b"order 1"))

        config = ConsumerConfig(enable_msg_trace=True, consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        async with client.consumer("trace", "Trace", config=config) as consumer:
            async for batch in consumer:
                await batch.done()
                if sent.msg_id in {message.msg_id for message in batch}:
                    break

        for view in (await read_trace(client, sent.msg_id)).views:
            match view.record:
                case PubTrace(group=group, is_success=is_success):
                    print(f"sent by {group}: {'stored' if is_success else 'stored with a warning'}")
                case SubAfterTrace(group=group, return_type=return_type):
                    print(f"handled by {group}: {return_type.name}")


async def read_trace(client: Client, msg_id: str) -> MessageTrace:
    """Return the records of a message once its handler has ended; a broker takes a moment to index them."""
    while True:
        with suppress(ClientError):  # no record yet
            trace = await client.admin().messages.trace(msg_id)
            if any(isinstance(view.record, SubAfterTrace) for view in trace.views):
                return trace
        await trio.sleep(0.1)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
