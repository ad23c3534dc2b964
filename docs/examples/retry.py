"""Give messages back that cannot be handled: ``python retry.py 127.0.0.1:9876``.

A message that is given back comes again, to any member of the group; one without hope becomes a dead letter, in the
topic ``%DLQ%`` and the group's name. Prints each attempt, and the dead letter.
"""

import sys

import trio

from rocketpy.client import ClientConfig, ConsumeFromWhere, ConsumerConfig, Message, PullConsumer, open_client
from rocketpy.errors import ClientError


async def main(name_server: str) -> None:
    config = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    soon = ClientConfig(poll_name_server_interval=1_000)  # a new group learns of the topic of its retries by a poll
    async with open_client(name_server, config=soon) as client:
        async with client.producer("retry_producer") as producer:
            await producer.send(Message("Retry", b"an impossible order"))
        print("what is given back comes again after a second, in a new group some seconds later")

        async with client.consumer("retry", "Retry", config=config) as consumer:
            async for batch in consumer:
                (message,) = batch
                print(f"attempt {message.reconsume_times + 1}: {message.body.decode()}")
                if message.reconsume_times == 0:
                    await batch.retry_later(delay_level=1)  # without a level the delay grows with each attempt
                else:
                    await batch.dead_letter()
                    break

        async with client.pull_consumer("retry_dead_letters") as reader:
            await until_known(reader, "%DLQ%retry")
            async with reader.open_messages("%DLQ%retry", start="stored") as dead_letters:
                dead_letter = await anext(dead_letters)
                await dead_letters.commit()
        print(f"dead letter: {dead_letter.body.decode()}")


async def until_known(reader: PullConsumer, topic: str) -> None:
    """Wait for a topic that a broker has just made: the nameservers know it a moment later."""
    with trio.fail_after(60):
        while True:
            try:
                await reader.queues(topic)
                return
            except ClientError:
                await trio.sleep(0.1)


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
