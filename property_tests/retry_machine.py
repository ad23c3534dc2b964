"""The rules of retries and dead letters, and the model they are held against: a list of messages and who has them.

*Each message is acknowledged, retried or in the DLQ, never gone.* The broker is a whole one, on a simulated disk; the
client is one consumer of a group that fails, takes its time and dies, and the next one that goes on where the broker
says. A message is safe if it was acknowledged, or is a dead letter, or lies where the group has not yet consumed, or
waits for its time: one of the four must hold after every step and every death.

::

    send --> TOPIC --pull--> in hand --consumed--> acknowledged
                              |    ^
                       failed |    | pull
                              v    |
                   SCHEDULE_TOPIC --> RETRY_TOPIC     when its delay is over, with one try more
                              |
                              +----> DLQ_TOPIC        at once, with no try left or a level below 0

    the consumer   consumer_dies: all in hand comes again; group_is_changed: to another number of tries
    the broker     restart, kill, lose_power, die_soon: it starts again at once; time_passes
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import Enum
from functools import partial

import attrs
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from property_tests.group_clients import GROUP, TOPIC, commit, pull, pulled, query_offset
from property_tests.group_clients import send as client_send
from property_tests.hunts import PromiseBroken, broken_unless_done, living
from property_tests.power_loss import NOTHING, chosen
from property_tests.small_broker import ASYNC, SYNC, small_broker
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.pull import PullMessageResponseHeader
from rocketpy.protocol.headers.send import (
    ConsumerSendMsgBackRequestHeader,
)
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.topic_name import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC
from rocketpy.store.config import FlushDiskType
from rocketpy.testing.broker_world import BrokerWorld
from rocketpy.testing.sim.disk import ProcessDied
from rocketpy.testing.store_world import LifeEnded

RETRY_TOPIC, DLQ_TOPIC = RETRY_PREFIX + GROUP, DLQ_PREFIX + GROUP
LEVELS = 8
DELAYS = " ".join(f"{seconds}s" for seconds in range(1, LEVELS + 1))
FIRST_RETRY_LEVEL, LATE_SECONDS = 3, 2


class Promise(Enum):
    """What the broker promises about retries."""

    NEVER_GONE = "a message is acknowledged, to be consumed, waiting or a dead letter"
    DEAD_FOR_A_REASON = "a dead letter has used up its tries, or was given up by its consumer"
    LIMITED = "a message is not tried more often than its group allows"
    DUE = "a retry comes when its delay is over, and not before"
    ONCE = "what was sent back once comes back once"
    ANSWERED = "a message that is there can be sent back"
    NOTHING_FORGED = "nothing comes that was not sent"
    LIVES = "nothing that a client sends ends the broker"


@attrs.define(eq=False)
class Sent:
    """One message of the producer."""

    body: bytes
    is_acknowledged: bool = False  # by the consumer
    may_be_dead: bool = False
    tries_max: int = 0  # the highest count of tries that a send-back has asked for within the limit of its time


class RetryMachine(RuleBasedStateMachine):
    """One broker through its lives."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.sent: dict[bytes, Sent] = {}
        self.in_hand: dict[str, dict[int, MessageExt]] = {}
        self.next_offset: dict[str, int] = {}
        self.retries_max = 0
        self.sent_back: list[tuple[float, bytes, int]] = []  # due, body, tries: each must be in the retry topic then
        self.perhaps_sent_back: list[tuple[float, bytes, int]] = []  # the power went before the answer came
        self.world = _world(ASYNC, 512)
        self.is_broken = False

    def teardown(self) -> None:
        """In the end nothing fails any more, and everything that is not dead is consumed."""
        try:
            if not self.is_broken and self.world.is_open:
                self.consumer_dies()
                self.time_passes(LEVELS + LATE_SECONDS)
                for topic in (TOPIC, RETRY_TOPIC):
                    while self.pull(topic):
                        for _ in range(len(self.in_hand[topic])):
                            self.consumed(topic, 0)
                dead = {message.body for message in self.world.messages(DLQ_TOPIC, 0)}
                for each in self.sent.values():
                    if not each.is_acknowledged and each.body not in dead:
                        self.broken(Promise.NEVER_GONE, f"{each} was neither consumed in the end nor is it dead")
        finally:
            self.world.life.kill()

    @initialize(
        flush=st.sampled_from([SYNC, ASYNC]), sector_size=st.sampled_from([64, 512]), retries_max=st.integers(0, 3)
    )
    def first_start(self, flush: FlushDiskType, sector_size: int = 512, retries_max: int = 2) -> None:
        self.world = _world(flush, sector_size)
        self.start()
        self.group_is_changed(retries_max)
        self.send(1)

    # ---- what clients do ------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 3))
    def send(self, count: int = 1) -> None:
        for _ in range(count):
            self.send_one(0, f"UNIQ_KEY\x01K{self.count + 1}")

    def send_one(self, sys_flag: int, properties: str) -> None:
        self.count += 1
        body = b"%d" % self.count
        born_timestamp_ms = self.world.life.clock.timestamp_ms()
        answer = self.ask(
            client_send(
                body, topic=TOPIC, sys_flag=sys_flag, born_timestamp_ms=born_timestamp_ms, properties=properties
            )
        )
        assert answer.code == ResponseCode.SUCCESS, answer
        self.sent[body] = Sent(body)

    @rule(topic=st.sampled_from([TOPIC, RETRY_TOPIC]))
    def pulls(self, topic: str = TOPIC) -> None:
        self.pull(topic)

    def pull(self, topic: str) -> int:
        """The consumer takes what there is from where it is; return how many messages it has in hand now."""
        answer = self.ask(pull(self.next_offset[topic], topic=topic, count=4))
        if answer.code != ResponseCode.SUCCESS:
            return 0
        for message in pulled(answer):
            self.in_hand[topic][message.queue_offset] = message
            sent = self.sent[message.body]
            if topic == RETRY_TOPIC and message.reconsume_times > sent.tries_max:
                self.broken(Promise.LIMITED, f"{sent} comes for try {message.reconsume_times}")
        self.next_offset[topic] = read_header(answer, PullMessageResponseHeader).next_begin_offset
        return len(self.in_hand[topic])

    @rule(topic=st.sampled_from([TOPIC, RETRY_TOPIC]), choice=st.integers(0, 9))
    def consumed(self, topic: str = TOPIC, choice: int = 0) -> None:
        message = self.taken(topic, choice)
        if message is not None:
            self.sent[message.body].is_acknowledged = True
            self.done_with(topic, message)

    @rule(
        topic=st.sampled_from([TOPIC, RETRY_TOPIC]),
        choice=st.integers(0, 9),
        level=st.sampled_from([0, 0, 0, 1, 100, -1]),
        survives=st.one_of(st.none(), st.none(), st.integers(-2, 255)),
    )
    def failed(self, topic: str = TOPIC, choice: int = 0, level: int = 0, survives: int | None = None) -> None:
        """A listener fails and sends the message back; under SYNC_FLUSH the power may go in that moment."""
        message = self.taken(topic, choice)
        if message is None:
            return
        sent, tries = self.sent[message.body], message.reconsume_times + 1
        is_dead = tries > self.retries_max or level < 0
        if is_dead:
            sent.may_be_dead = True
        else:
            sent.tries_max = max(sent.tries_max, tries)
        header = ConsumerSendMsgBackRequestHeader(
            offset=message.physical_offset,
            group=GROUP,
            delay_level=level,
            origin_msg_id=message.offset_msg_id,
            origin_topic=TOPIC,
        )
        request = make_request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        request.version = 1  # too old a client to have a limit of its own
        may_lose_power = survives is not None and self.world.settings.store.is_sync_flush
        answer = self.world.connect().ask(request, settle=not may_lose_power)
        seconds = min(level or FIRST_RETRY_LEVEL + message.reconsume_times, LEVELS)
        if may_lose_power:
            assert survives is not None
            self.perhaps_sent_back.append((self.now + seconds, message.body, tries))
            self.lose_power(survives)
            return
        assert answer is not None
        if answer.code != ResponseCode.SUCCESS:
            self.broken(Promise.ANSWERED, f"{sent} cannot be sent back: {answer.remark}")
        if not is_dead:
            self.sent_back.append((self.now + seconds, message.body, tries))
        self.done_with(topic, message)

    def taken(self, topic: str, choice: int) -> MessageExt | None:
        """Return a message that the consumer has in hand, after a pull if it has none, and a send or a pause."""
        if not self.in_hand[topic] and not self.pull(topic):
            if topic == TOPIC:
                self.send()
            else:
                self.time_passes(6)
            self.pull(topic)
        messages = self.in_hand[topic]
        return messages[sorted(messages)[choice % len(messages)]] if messages else None

    def done_with(self, topic: str, message: MessageExt) -> None:
        """Commit the group's progress: up to the oldest message that is still in hand."""
        in_hand = self.in_hand[topic]
        del in_hand[message.queue_offset]
        self.ask(commit(min(in_hand, default=self.next_offset[topic]), topic=topic))
        self.look()

    @rule()
    def consumer_dies(self) -> None:
        """What it had in hand is consumed again by the next, from where the broker says."""
        for topic in (TOPIC, RETRY_TOPIC):
            self.next_offset[topic] = query_offset(self.world.connect(), topic=topic)
            self.in_hand[topic] = {}

    @rule(retries_max=st.integers(0, 3))
    def group_is_changed(self, retries_max: int) -> None:
        config = SubscriptionGroupConfig(GROUP, retry_max_times=retries_max)
        answer = self.ask(make_request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_body(config)))
        assert answer.code == ResponseCode.SUCCESS
        self.retries_max = retries_max

    # ---- time and death -------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1, 4, 6, 11]))
    def time_passes(self, seconds: int) -> None:
        if self.living(partial(self.world.pass_time, seconds)):
            self.look()

    @rule()
    def restart(self) -> None:
        if self.living(self.world.stop):
            self.start()

    @rule()
    def kill(self) -> None:
        self.world.kill()
        self.start()

    @precondition(lambda self: self.world.settings.store.is_sync_flush)
    @rule(survives=st.integers(-2, 255))
    def lose_power(self, survives: int = NOTHING) -> None:
        self.world.lose_power(chosen(survives))
        self.start()

    @rule(calls=st.integers(1, 40), seconds=st.sampled_from([4, 6, 11]))
    def die_soon(self, calls: int, seconds: int = 6) -> None:
        """The process dies in some change of the disk: of a delivery, a flush, a table."""
        self.world.life.disk.die_at_call(calls)
        life = self.life_count
        self.time_passes(seconds)
        if self.life_count == life:
            self.kill()

    life_count = 0

    # ---- the model ------------------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        return self.world.life.clock.timestamp_ms() / 1000

    def broken(self, promise: Promise, what: str) -> None:
        self.is_broken = True
        raise PromiseBroken(promise, what)

    def ask(self, request: RemotingCommand) -> RemotingCommand:
        with living(self.broken, Promise.LIVES):
            answer = self.world.connect().ask(request)
        assert answer is not None, request
        return answer

    def living(self, step: Callable[[], object]) -> bool:
        """Do what may be the broker's last; False when it was, because a death was arranged."""
        with broken_unless_done(self):
            try:
                with living(self.broken, Promise.LIVES):
                    step()
            except LifeEnded as ended:
                if not isinstance(ended.cause, ProcessDied):
                    raise
                self.start()
                return False
        return True

    def start(self) -> None:
        self.life_count += 1
        with living(self.broken, Promise.LIVES):
            self.world.begin()
            self.world.pass_time(0)
        self.began = self.now
        self.consumer_dies()
        self.look()

    def look(self) -> None:
        """Look for every message in every queue where it may be."""
        committed = {topic: max(0, self.world.consumer_offset(GROUP, topic, 0)) for topic in (TOPIC, RETRY_TOPIC)}
        queues = {topic: self.world.messages(topic, 0) for topic in (TOPIC, RETRY_TOPIC, DLQ_TOPIC)}
        for topic, messages in queues.items():
            if forged := {message.body for message in messages} - self.sent.keys():
                self.broken(Promise.NOTHING_FORGED, f"{forged} came to {topic}")
        dead = {message.body for message in queues[DLQ_TOPIC]}
        ahead = {
            each.body for topic, start in committed.items() for each in queues[topic] if each.queue_offset >= start
        }
        back = Counter((each.body, each.reconsume_times) for each in queues[RETRY_TOPIC])
        delayed = Counter(
            (each.body, each.reconsume_times)
            for level in range(LEVELS)
            for each in self.world.messages(SCHEDULE_TOPIC, level)
        )
        waiting = {body for (body, _), count in (delayed - back).items() if count}
        if twice := back - delayed:
            self.broken(Promise.ONCE, f"{twice} came back more often than they were sent back")
        for each in self.sent.values():
            if each.body in dead and not each.may_be_dead:
                self.broken(Promise.DEAD_FOR_A_REASON, f"{each} is a dead letter")
            if not each.is_acknowledged and each.body not in dead | ahead | waiting:
                self.broken(Promise.NEVER_GONE, f"{each} is nowhere")
        self.look_at_delays(back, queues[RETRY_TOPIC])

    def look_at_delays(self, back: Counter[tuple[bytes, int]], retries: list[MessageExt]) -> None:
        earliest: dict[tuple[bytes, int], float] = {}
        for due, body, tries in self.sent_back + self.perhaps_sent_back:
            earliest[body, tries] = min(due, earliest.get((body, tries), due))
        for due, body, tries in self.sent_back:
            if not back[body, tries] and self.now > max(due, self.began) + LATE_SECONDS:
                self.broken(Promise.DUE, f"{body!r}, try {tries}, is {self.now - due:.1f} s late")
        for each in retries:
            due_time = earliest.get((each.body, each.reconsume_times))
            if due_time is not None and each.store_timestamp / 1000 < due_time - 0.001:
                self.broken(
                    Promise.DUE, f"{each.body!r} came back {due_time - each.store_timestamp / 1000:.1f} s early"
                )

    began = 0.0


def _world(flush: FlushDiskType, sector_size: int) -> BrokerWorld:
    return small_broker(
        flush,
        sector_size=sector_size,
        broker={"flush_consumer_offset_interval": 1_000},
        store={"message_delay_level": DELAYS},
    )
