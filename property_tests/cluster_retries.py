"""Messages that the consumers of histories send back, and what the retry topics of their groups hold in the end."""

from __future__ import annotations

import trio

from property_tests.cluster_exemptions import may_lose
from property_tests.cluster_record import Back, Got, History, Sent
from rocketpy.client.client import open_pull_consumer
from rocketpy.client.instance import ClientInstance
from rocketpy.client.results import SendStatus
from rocketpy.errors import RocketpyError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from rocketpy.protocol.message import MessageExt, MessageQueue
from rocketpy.protocol.message_id import decode_offset_msg_id
from rocketpy.protocol.topic_name import RETRY_PREFIX
from rocketpy.testing.cluster_world import ClusterWorld, environment_of
from rocketpy.testing.sim.host import SimProcess

TOPIC = "T"
SENT_BACK_EVERY = 11
"""A message is sent back if its number can be divided by that."""

_READING_SECONDS = 30.0


def kept_backs(history: History) -> list[Back]:
    """Return what must be in retry topics in the end; not what was sent back by the offset of a record that is gone."""
    final = {(got.queue, got.queue_offset, got.number) for contents in history.final.values() for got in contents}
    return [
        back
        for back in history.backs
        if (back.got.queue, back.got.queue_offset, back.got.number) in final and not may_lose(history, back.sent)
    ]


class SentBack:
    """What groups have sent back with success: their brokers have stored copies."""

    def __init__(self, history: History) -> None:
        self._history = history

    async def send_back(self, instance: ClientInstance, group: str, message: MessageExt, got: Got) -> None:
        """Send some messages back, once each; a failure is left alone, as one of a process that has died."""
        is_chosen = self._history.plan.sends_back and got.number % SENT_BACK_EVERY == 0
        if not is_chosen or got.number >= len(self._history.sent):
            return
        header = ConsumerSendMsgBackRequestHeader(
            offset=decode_offset_msg_id(message.offset_msg_id)[1],
            group=group,
            delay_level=1,
            origin_topic=TOPIC,
            max_reconsume_times=16,
        )
        sent = Sent(got.number, group, trio.current_time())
        try:
            address = await instance.routes.publish_address(MessageQueue(TOPIC, *got.queue))
            answer = await instance.request(address, make_request(RequestCode.CONSUMER_SEND_MSG_BACK, header))
        except RocketpyError as failure:
            self._history.note(f"{group} could not send #{got.number} back: {failure}")
            return
        if answer.code == ResponseCode.SUCCESS:
            # Answered as soon as it is stored: neither a sync nor a slave is waited for.
            sent.status, sent.broker = SendStatus.FLUSH_DISK_TIMEOUT, got.queue[0]
            sent.answered_at = trio.current_time()
            self._history.backs.append(Back(group, sent, got))
            self._history.note(f"{group} has sent #{got.number} back")

    async def read_retries(self, world: ClusterWorld, process: SimProcess) -> None:
        """Note what the retry topics hold."""
        backs = kept_backs(self._history)
        for group in dict.fromkeys(back.group for back in self._history.backs):
            wanted = {back.sent.number for back in backs if back.group == group}
            found = self._history.retried.setdefault(group, set())
            with trio.move_on_after(_READING_SECONDS):
                while not wanted <= found:
                    await self._read(world, process, group, found)
                    await trio.sleep(2)

    async def _read(self, world: ClusterWorld, process: SimProcess, group: str, found: set[int]) -> None:
        environment, topic = environment_of(process), RETRY_PREFIX + group
        try:
            async with (
                open_pull_consumer(world.name_servers, group="last", environment=environment) as consumer,
                consumer.open_messages(topic, start="beginning", until_end=True) as messages,
            ):
                async for message in messages:
                    found.add(int(message.body.split()[0]))
        except RocketpyError as failure:
            self._history.note(f"reading {topic}: {failure}")
