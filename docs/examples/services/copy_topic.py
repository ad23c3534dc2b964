"""A migration that copies a topic to another cluster, or another name, each message once, each queue in its order.

``python copy_topic.py 127.0.0.1:9876 orders 10.0.0.1:9876 orders``. The topic to copy to must be there, have as many
queues, and be written by nothing else; one such program at a time. Each copy names the message that it is a copy of, so
the copies are the progress: after a kill, or a send that may have succeeded or not, the last one in a queue says where
to go on. Brokers that die are waited for. It follows the topic until SIGTERM, when producers have moved.
"""

import logging
import signal
import sys

import trio

from rocketpy.client import Message, MessageExt, MessageQueue, Producer, PullConsumer, PullStatus, open_client
from rocketpy.errors import RocketpyError

NOT_COPIED = {  # what RocketMQ sets, and refuses from programs, and what was for the first send: a delay, waiting
    "ARRIVE_TIME", "CLUSTER", "CONSUME_START_TIME", "CORRECTION_FLAG", "CORRELATION_ID", "DELAY", "MAX_OFFSET", "TTL",
    "INNER_MULTI_QUEUE_OFFSET", "MAX_RECONSUME_TIMES", "MIN_OFFSET", "MQ2_FLAG", "MSG_REGION", "MSG_TYPE", "TRAN_MSG",
    "ORIGIN_MESSAGE_ID", "PGROUP", "PUSH_REPLY_TIME", "REAL_QID", "REAL_TOPIC", "RECONSUME_TIME", "REPLY_TO_CLIENT",
    "RETRY_TOPIC", "TRACE_ON", "TRANSFER_FLAG", "WAIT",
}  # fmt: skip
log = logging.getLogger("copy_topic")


def copy_of(message: MessageExt, topic: str) -> Message:
    properties = {name: value for name, value in message.properties.items() if name not in NOT_COPIED}
    properties["copy_of"] = f"{message.broker_name} {message.queue_id} {message.queue_offset}"
    return Message(topic, message.body, properties, message.flag)


async def next_offset(copies: PullConsumer, queue: MessageQueue) -> int:
    """Return the offset after that of the last message that was copied to a queue."""
    end = await copies.max_offset(queue)
    last = (await copies.pull(queue, end - 1, max_msg_nums=1)).messages[0] if end else None
    return int(last.properties["copy_of"].split()[-1]) + 1 if last else 0


async def copy_queue(
    source: PullConsumer, queue: MessageQueue, producer: Producer, copies: PullConsumer, target: MessageQueue
) -> None:
    while True:
        try:
            offset = await next_offset(copies, target)
            log.info("queue %d of %s: from offset %d on", queue.queue_id, queue.broker_name, offset)
            while True:
                pulled = await source.pull(queue, offset, suspend_ms=15_000)
                if pulled.status is PullStatus.OFFSET_ILLEGAL:
                    log.warning("%s has no offset %d: going on at %d", queue, offset, pulled.next_begin_offset)
                for message in pulled.messages:  # one at a time: a failed one is not followed by others
                    await producer.send(copy_of(message, target.topic), queue=target)
                offset = pulled.next_begin_offset
        except RocketpyError as failure:
            log.warning("queue %d of %s: %s", queue.queue_id, queue.broker_name, failure)
            await trio.sleep(1)


async def main(name_server: str, topic: str, target_name_server: str, target_topic: str) -> None:
    logging.basicConfig(level=logging.INFO)
    async with (
        open_client(name_server) as from_client,
        from_client.pull_consumer("copy_topic") as source,
        open_client(target_name_server) as to_client,
        to_client.pull_consumer("copy_topic") as copies,
        to_client.producer("copy_topic") as producer,
    ):
        queues, targets = await source.queues(topic), await copies.queues(target_topic)
        if len(queues) != len(targets):
            sys.exit(f"{topic} has {len(queues)} queues, {target_topic} has {len(targets)}: expected as many")
        async with trio.open_nursery() as nursery:
            for queue, target in zip(queues, targets, strict=True):
                nursery.start_soon(copy_queue, source, queue, producer, copies, target)
            with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
                await anext(signals)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, *sys.argv[1:])
