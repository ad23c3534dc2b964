"""Sixteen producers and sixteen consumers at one broker, for two minutes of virtual time, from one integer.

Consumers do what RocketMQ's do: they say every half minute that they are there, share out the queues among those whom
the broker names, when it tells them that something has changed and every 20 seconds anyway, begin where the group is,
give back what they could not do, and say every 5 seconds how far they are. They come, leave and vanish, and the broker
is stopped and killed. Everything random is drawn from one generator, so a run can be had again by its number.
"""

from __future__ import annotations

import hashlib
from random import Random

import attrs

from property_tests.group_clients import (
    GROUP,
    commit,
    heartbeat,
    make_world,
    members,
    pull,
    pulled,
    query_offset,
    send,
    send_back,
    unregister,
)
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageExt
from rocketpy.testing.broker_world import Client
from tests.task_order import TRIO_RANDOM

TOPICS = ("A", "B", "C")
QUEUES_OF_TOPIC = 4
RETRY_TOPIC = f"%RETRY%{GROUP}"
ALL_TOPICS = (*TOPICS, RETRY_TOPIC)
QUEUES = [(topic, queue_id) for topic in TOPICS for queue_id in range(QUEUES_OF_TOPIC)] + [(RETRY_TOPIC, 0)]
PRODUCERS = CONSUMERS = 16
HEARTBEAT_SECONDS, REBALANCE_SECONDS, COMMIT_SECONDS = 30, 20, 5
TICK_SECONDS, BUSY_TICKS, QUIET_TICKS_MAX = 1.0, 120, 400


class LoadBroken(AssertionError):
    """Something that was promised is not so; the text begins with the number of the run."""


@attrs.define(eq=False)
class Producer:
    """Sends numbered messages."""

    name: str
    client: Client
    count: int = 0


@attrs.define(eq=False)
class Consumer:
    """A member of the group."""

    name: str
    client: Client
    offsets: dict[tuple[str, int], int] = attrs.field(factory=dict)
    heartbeat_at: float = 0.0
    rebalance_at: float = 0.0
    commit_at: float = 0.0


class Load:
    """One run."""

    def __init__(self, number: int, *, quiet_ticks_max: int = QUIET_TICKS_MAX) -> None:
        self.number = number
        self.quiet_ticks_max = quiet_ticks_max
        self.random = Random(number)
        self.world = make_world(queue_nums=QUEUES_OF_TOPIC)
        self.transcript = hashlib.sha256()
        self.acknowledged: dict[bytes, tuple[str, int]] = {}
        self.done: dict[bytes, int] = {}  # how often each message was consumed with success
        self.next_of: dict[tuple[str, int], int] = {}  # of each queue the first offset that no client has consumed
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.consumer_count = self.sent_back_count = self.restart_count = 0

    def run(self) -> str:
        """Run to the end and check; return a digest of all that happened."""
        TRIO_RANDOM.seed(self.number)
        try:
            self._begin()
            for _ in range(CONSUMERS):
                self._join()
            for _ in range(BUSY_TICKS):
                self._something_happens()
                for producer in self.producers:
                    self._produce(producer)
                self._tick()
            for _ in range(self.quiet_ticks_max):
                if self.acknowledged.keys() <= self.done.keys():
                    break
                self._tick()
            self._check()
        finally:
            self.world.life.kill()
        return self.transcript.hexdigest()

    def _note(self, *what: object) -> None:
        self.transcript.update(repr((self._now, *what)).encode())

    @property
    def _now(self) -> float:
        return self.world.life.clock.timestamp_ms() / 1000

    # ---- who comes and goes ---------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The broker starts; every client connects again."""
        self.world.begin()
        self.world.pass_time(0)
        self.producers = (
            [Producer(f"p{index}", self.world.connect()) for index in range(PRODUCERS)]
            if (not self.producers)
            else [attrs.evolve(producer, client=self.world.connect()) for producer in self.producers]
        )
        for consumer in self.consumers:
            consumer.client = self.world.connect()
            consumer.heartbeat_at = consumer.rebalance_at = 0.0
            consumer.offsets.clear()

    def _join(self) -> None:
        self.consumer_count += 1
        self.consumers.append(Consumer(f"c{self.consumer_count:03d}", self.world.connect()))
        self._note("joins", self.consumers[-1].name)

    def _something_happens(self) -> None:
        draw = self.random.random()
        if draw < 0.06 and len(self.consumers) > 2:
            consumer = self.consumers.pop(self.random.randrange(len(self.consumers)))
            if self.random.random() < 0.5:
                self._commit(consumer)
                consumer.client.ask(unregister(consumer.name))
            consumer.client.close()
            self._note("leaves", consumer.name)
        elif draw < 0.12 and len(self.consumers) < CONSUMERS:
            self._join()
        elif draw < 0.14:
            self.restart_count += 1
            if self.random.random() < 0.5:
                self.world.stop()
            else:
                self.world.kill()
            self._note("restarts")
            self._begin()

    # ---- producers and consumers ----------------------------------------------------------------------------------

    def _produce(self, producer: Producer) -> None:
        for _ in range(self.random.choice((0, 0, 1, 2))):
            topic, queue_id = self.random.choice(TOPICS), self.random.randrange(QUEUES_OF_TOPIC)
            producer.count += 1
            body = f"{producer.name}-{producer.count}".encode()
            answer = producer.client.ask(
                send(body, topic=topic, queue_id=queue_id, queue_nums=QUEUES_OF_TOPIC), settle=False
            )
            if answer is not None and answer.code == ResponseCode.SUCCESS:
                self.acknowledged[body] = topic, queue_id

    def _tick(self) -> None:
        for consumer in self.consumers:
            self._consume(consumer)
        self.world.pass_time(TICK_SECONDS)

    def _consume(self, consumer: Consumer) -> None:
        now = self._now
        if now >= consumer.heartbeat_at:
            consumer.heartbeat_at = now + HEARTBEAT_SECONDS
            consumer.client.ask(heartbeat(consumer.name, ALL_TOPICS, 1))
        if consumer.client.requests() or now >= consumer.rebalance_at:
            consumer.rebalance_at = now + REBALANCE_SECONDS
            self._rebalance(consumer)
        for (topic, queue_id), offset in list(consumer.offsets.items()):
            messages = pulled(consumer.client.ask(pull(offset, topic=topic, queue_id=queue_id, count=8), settle=False))
            for message in messages:
                if not self._consume_one(consumer, topic, queue_id, message):
                    break
                consumer.offsets[topic, queue_id] = message.queue_offset + 1
        if now >= consumer.commit_at:
            consumer.commit_at = now + COMMIT_SECONDS
            self._commit(consumer)

    def _consume_one(self, consumer: Consumer, topic: str, queue_id: int, message: MessageExt) -> bool:
        """Consume a message, or give it back; False when that fails, and it stays the next one."""
        following = self.next_of.get((topic, queue_id), 0)
        if message.queue_offset > following:
            raise LoadBroken(f"run {self.number}: {topic} {queue_id}: {message.queue_offset} came before {following}")
        if self.random.random() < 0.05:
            answer = consumer.client.ask(send_back(message), settle=False)
            if answer is None or answer.code != ResponseCode.SUCCESS:
                return False
            self.sent_back_count += 1
            self._note("sends back", consumer.name, topic, queue_id, message.queue_offset)
        else:
            self.done[message.body] = self.done.get(message.body, 0) + 1
            self._note("consumes", consumer.name, topic, queue_id, message.queue_offset, message.body)
        self.next_of[topic, queue_id] = max(following, message.queue_offset + 1)
        return True

    def _rebalance(self, consumer: Consumer) -> None:
        """Share out the queues among the members, as evenly as it goes (``AllocateMessageQueueAveragely``)."""
        names = members(consumer.client)
        if consumer.name not in names:
            return
        at, mine = names.index(consumer.name), set()
        for topic in ALL_TOPICS:
            queues = [queue for queue in QUEUES if queue[0] == topic]
            share, more = divmod(len(queues), len(names))
            begin = at * share + min(at, more)
            mine |= set(queues[begin : begin + share + (at < more)])
        lost = consumer.offsets.keys() - mine
        if lost:
            self._commit(consumer)
        for queue in sorted(lost):
            del consumer.offsets[queue]
        for topic, queue_id in sorted(mine - consumer.offsets.keys()):
            consumer.offsets[topic, queue_id] = query_offset(consumer.client, topic=topic, queue_id=queue_id)
        self._note("has", consumer.name, sorted(mine))

    def _commit(self, consumer: Consumer) -> None:
        for (topic, queue_id), offset in consumer.offsets.items():
            consumer.client.ask(commit(offset, topic=topic, queue_id=queue_id), settle=False)

    # ---- what must be so ------------------------------------------------------------------------------------------

    def _check(self) -> None:
        missing = self.acknowledged.keys() - self.done.keys()
        if missing:
            shown = sorted((body, *self.acknowledged[body]) for body in missing)[:5]
            raise LoadBroken(f"run {self.number}: {len(missing)} messages were never consumed: {shown}")
        for queue in QUEUES:
            end = len(self.world.messages(*queue))
            if self.next_of.get(queue, 0) != end and queue[0] != RETRY_TOPIC:
                raise LoadBroken(f"run {self.number}: {queue} was consumed up to {self.next_of.get(queue, 0)} of {end}")
