"""The rules by which delayed messages are sent, delivered and crashed into, and the model that they are held against.

The model is a list of messages, each with the moment in which it is due; moments are of a clock that is never set. What
the log of an open store says must fit the list after every step: see :class:`Promise`. The store is the real one with
its services, the deliverer too, over a simulated disk in virtual time; what dies, and when, is for the rules to say.

::

    the store                                           a message of the model

      closed <---------------------+                      send, send_large, send_naming
        |                          |                          |
        | start           stop, kill, lose_power,             v
        | start_and_die   die_soon, a full disk            waits in its level ----------------+
        v                          |                          |                               |
      open  -----------------------+                   its time is over             its time is over, and a
                                                              |                     limit was against it
    while open:   the sends, send_at_once,                    v                               v
                  send_what_is_never_delivered            delivered, once                dead letter, once
    at any time:  time_passes, clock_is_set, limit_changes, named_topic, disk_fills, disk_is_slow
    at the end:   no fault is left, and all is delivered: see end_well
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from enum import Enum

import attrs
import trio
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from property_tests.hunts import PromiseBroken, broken_unless_done
from property_tests.power_loss import NOTHING, chosen
from property_tests.small_broker import ASYNC, SYNC
from rocketpy.broker.delay.dead_letter import DelayDeadLetters
from rocketpy.broker.delay.delivery import ScheduleMessageService
from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.delay.offsets import DelayOffsetManager
from rocketpy.broker.send.put import MessageExtBrokerInner, MessagePut
from rocketpy.errors import DiskFullError
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.runner import RunBlocking
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import ProcessDied, SimDisk
from rocketpy.testing.store_world import BORN_HOST, STORE_HOST, LifeEnded, StoreWorld

ROOT, TOPIC, SCHEDULE, DEAD_LETTERS = "/store", "T", "SCHEDULE_TOPIC_XXXX", "rmq_sys_DELAY_DEAD_LETTER"
NAMED = "Audit"
"""The topic that honest messages name, while it is there."""
LEVELS = DelayLevels.parse("1s 3s 10s")
UNLIMITED = 1 << 50
LATE_MS_MAX = 500

SIZE_MAX, SIZE_MAX_LOW = 1_000, 300
LARGE = SIZE_MAX - 100
"""A body that only the higher limit allows."""
NEVER_DELIVERED = ("a/b", "..", "RMQ_SYS_TRANS_HALF_TOPIC", "%RETRY%G", "NoSuchTopic", ",".join(["%LMQ%x"] * 257))
"""Names of queues that no message may have."""

survivors = st.integers(-2, 255)
levels = st.sampled_from([1, 2, 3])
pauses = st.sampled_from([1, 400, 1_000, 2_500, 12_000])


Put = Callable[..., tuple[PutMessageStatus, int, int]]


class Promise(Enum):
    """What holds of delayed messages, whatever dies, and whenever."""

    ONCE = "nothing is delivered twice"
    NEVER_EARLY = "nothing is delivered before it is due"
    IN_ORDER = "the messages of a level are delivered in the order in which they are due"
    NOTHING_LOST = "what was accepted is delivered, or waits, or is a dead letter for a reason"
    REFUSED_AT_ONCE = "what could never be delivered is refused when it is sent"
    NOTHING_INVENTED = "what is delivered was sent, and is what was sent"
    ON_TIME = "nothing is later than half a second if nothing is in its way"


@attrs.define(eq=False)
class Message:
    """One message of the model."""

    body: bytes
    level: int
    due: float  # ms of the clock that is never set
    physical_end: int
    names: str = ""  # the queue that it names
    is_durable: bool = False  # its producer was answered so
    may_be_dead: bool = False  # a limit was against it at some time
    is_on_time: bool = True  # nothing was in the way of its delivery


class DelayMachine(RuleBasedStateMachine):
    """One store through its lives."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Message] = []
        """The model: everything that was accepted and that is still to be delivered, or was; in order."""
        self.count = 0
        self.set_by = 0.0  # by how many ms the wall clock was set, all in all
        self.began = 0.0  # when this life did
        self.forward = 0.0  # by how much the wall clock was set forward, all in all
        self.forward_at: dict[bytes, float] = {}
        self.delivered_at: dict[int, float] = {}  # by physical offset: when it was put
        self.is_faulty = self.is_broken = False
        self.is_hindered = False  # the disk is full or slow
        self.power_was_lost = False  # and no start has shown yet what is left
        self.put: MessagePut | None = None
        self.has_named_topic = True
        self.world = self._world(ASYNC, 512)

    def teardown(self) -> None:
        """In the end everything is delivered, and once more after a death of each kind."""
        try:
            if not self.is_broken:
                self.end_well()
        finally:
            self.world.kill()

    def end_well(self) -> None:
        self.is_hindered = True
        self.world.disk.capacity_bytes = UNLIMITED
        self.world.disk_delay_ms = 0
        self.world.kill()
        for end in (self.kill, lambda: self.lose_power(NOTHING), self.stop):
            self.start()
            self.time_passes(27_000)
            if self.world.is_open:
                self.everything_is_delivered()
                end()

    # ---- a life ---------------------------------------------------------------------------------------------------

    @initialize(flush=st.sampled_from([SYNC, ASYNC]), sector_size=st.sampled_from([64, 512]))
    def first_start(self, flush: FlushDiskType, sector_size: int = 512) -> None:
        self.world = self._world(flush, sector_size)
        self.start()

    @precondition(lambda self: not self.world.is_open)
    @rule()
    def start(self) -> None:
        self.began = self.now()
        self.note_limits()
        with self.living():
            self.world.begin()
        if self.world.is_open:
            self.look()

    @precondition(lambda self: not self.world.is_open)
    @rule(call=st.integers(1, 40))
    def start_and_die(self, call: int) -> None:
        self.world.disk.die_at_call(call)
        self.start()

    @precondition(lambda self: self.world.is_open)
    @rule()
    def stop(self) -> None:
        with self.living():
            self.world.stop()

    @precondition(lambda self: self.world.is_open)
    @rule()
    def kill(self) -> None:
        self.world.kill()

    @rule(survives=survivors)
    def lose_power(self, survives: int) -> None:
        """What was not durable may be gone; the next start shows what is."""
        self.note_durable()
        self.world.lose_power(chosen(survives))
        self.power_was_lost = True

    @precondition(lambda self: self.world.is_open)
    @rule(call=st.integers(1, 30))
    def die_soon(self, call: int) -> None:
        """The process will die in a change of the disk: in a delivery, a note, a flush, a checkpoint."""
        self.world.disk.die_at_call(call)
        self.is_faulty = True

    # ---- what happens in it ---------------------------------------------------------------------------------------

    @precondition(lambda self: self.world.is_open)
    @rule(level=levels, count=st.sampled_from([1, 2, 40]))
    def send(self, level: int, count: int = 1) -> None:
        """A producer sends delayed messages in one burst."""
        self.send_messages(level, count)

    @precondition(lambda self: self.world.is_open)
    @rule(level=levels)
    def send_large(self, level: int) -> None:
        """As large as the settings of this life allow."""
        self.send_messages(level, 1, fill=self.world.config.max_message_size - 100)

    @precondition(lambda self: self.world.is_open and self.has_named_topic)
    @rule(level=levels)
    def send_naming(self, level: int) -> None:
        """For another topic too, which is there now."""
        self.send_messages(level, 1, names=NAMED)

    @precondition(lambda self: self.world.is_open)
    @rule(level=levels, names=st.sampled_from(NEVER_DELIVERED))
    def send_what_is_never_delivered(self, level: int, names: str = "a/b") -> None:
        """A dishonest producer sends a malformed message, and is refused."""
        put = self.put
        assert put is not None
        with self.living():
            with self.world.failing():
                result = put.put(_inner(b"never", level, names))
            self.world.end_burst()
        if result.status is PutMessageStatus.PUT_OK:
            self.is_broken = True
            raise PromiseBroken(Promise.REFUSED_AT_ONCE, f"a message that names {names[:20]!r} was accepted")

    @rule(is_low=st.booleans())
    def limit_changes(self, is_low: bool) -> None:
        """The operator edits maxMessageSize, which counts from the next start."""
        self.world.config = attrs.evolve(self.world.config, max_message_size=SIZE_MAX_LOW if is_low else SIZE_MAX)

    @rule(is_there=st.booleans())
    def named_topic(self, is_there: bool) -> None:
        """The topic that messages name is deleted, or created again."""
        self.has_named_topic = is_there
        self.note_limits()

    def send_messages(self, level: int, count: int, *, fill: int = 0, names: str = "") -> None:
        put = self.put
        assert put is not None
        accepted = []
        with self.living():
            with self.world.failing():
                for _ in range(count):
                    self.count += 1
                    message = _inner((b"%d." % self.count).ljust(fill, b"x"), level, names)
                    result = put.put(message)
                    if result.status is PutMessageStatus.PUT_OK:
                        due = self.now() + LEVELS.delay_ms(level)
                        accepted.append(Message(message.body, level, due, self.world.store.wrote_offset, names))
                        self.forward_at[message.body] = self.forward
            self.world.end_burst()
            self.waiting += accepted
        self.look()

    @precondition(lambda self: self.world.is_open)
    @rule()
    def send_at_once(self) -> None:
        """A producer sends a message that is not delayed."""
        put = self.put
        assert put is not None
        with self.living():
            with self.world.failing():
                put.put(_inner(b"plain", 0))
            self.world.end_burst()

    @precondition(lambda self: self.world.is_open)
    @rule(milliseconds=pauses)
    def time_passes(self, milliseconds: float) -> None:
        with self.living():
            self.world.pass_time(milliseconds)
        self.look()

    @rule(hours=st.sampled_from([-24, -1, -0.001, 1]))
    def clock_is_set(self, hours: float) -> None:
        milliseconds = round(hours * 3_600_000)
        self.world.clock.advance_ms(milliseconds)
        self.set_by += milliseconds
        self.forward += max(0, milliseconds)
        if not self.world.is_open and hours < 0:
            # Unobserved: a waiting message may wait for its whole delay once more.
            for message in self.waiting:
                message.is_on_time = False

    @rule(has_room=st.booleans())
    def disk_fills(self, has_room: bool) -> None:
        self.world.disk.capacity_bytes = UNLIMITED if has_room else 0
        self.is_hindered |= not has_room

    @rule(milliseconds=st.sampled_from([0, 0, 7]))
    def disk_is_slow(self, milliseconds: float) -> None:
        self.world.disk_delay_ms = milliseconds
        self.is_hindered |= milliseconds > 0

    # ---- the model ------------------------------------------------------------------------------------------------

    def now(self) -> float:
        """The time by the clock that is never set, in ms."""
        return self.world.clock.timestamp_ms() - self.set_by

    @contextmanager
    def living(self) -> Iterator[None]:
        """What the store does in here may be its last; only a fault that was arranged is a reason for that."""
        with broken_unless_done(self):
            try:
                yield
            except LifeEnded as ended:
                is_full = isinstance(ended.cause, DiskFullError) and self.world.disk.capacity_bytes < UNLIMITED
                if not is_full and not isinstance(ended.cause, ProcessDied):
                    raise
                self.is_hindered = True

    def note_limits(self) -> None:
        """Note which messages a limit is against from now on."""
        for message in self.waiting:
            message.may_be_dead |= len(message.body) > self.world.config.max_message_size
            message.may_be_dead |= message.names == NAMED and not self.has_named_topic

    def look(self) -> None:
        """Hold what the log says against the list."""
        if not self.world.is_open:
            return
        self.note_durable()
        found = None
        with self.living():
            found = self.world.ask(_read)
        if found is None:
            return
        delivered, sources, dead = found
        with broken_unless_done(self):
            if self.power_was_lost:
                self.power_was_lost = False
                self.forget_lost({message.body for message in sources})
            left = {message.body for message in sources}
            self.compare(delivered, dead, left)
            self.compare_waiting({message.body for message in delivered + dead}, left)

    def note_durable(self) -> None:
        for message in self.waiting:
            message.is_durable |= message.physical_end <= self.world.durable_end

    def forget_lost(self, left: set[bytes]) -> None:
        """A loss of power may take what was not acknowledged as durable, from the end on."""
        for message in self.waiting:
            if message.is_durable and message.body not in left:
                raise PromiseBroken(Promise.NOTHING_LOST, f"{message} was durable and is not in the log")
        self.waiting = [message for message in self.waiting if message.body in left]

    def compare(self, delivered: list[MessageExt], dead: list[MessageExt], left: set[bytes]) -> None:
        known = {message.body: message for message in self.waiting}
        seen: set[bytes] = set()
        last: dict[int, int] = {}
        order = {message.body: index for index, message in enumerate(self.waiting)}
        for found in delivered + dead:
            body = found.body
            if body == b"plain":
                continue
            if body in seen:
                raise PromiseBroken(Promise.ONCE, f"{body[:9]!r} is at {found.queue_offset} of {found.topic} again")
            seen.add(body)
            if body not in known:
                # Sent in a burst that died before its sender was answered.
                if body not in left:
                    raise PromiseBroken(Promise.NOTHING_INVENTED, f"{body[:9]!r} was not accepted")
                continue
            message = known[body]
            said = dict(found.properties)
            reason = said.pop("DEAD_LETTER_REASON", "")
            if found.topic == DEAD_LETTERS:
                if not message.may_be_dead or not reason:
                    raise PromiseBroken(Promise.NOTHING_LOST, f"{body[:9]!r} is a dead letter: {reason!r}")
            elif message.names:
                said.pop("INNER_MULTI_QUEUE_OFFSET", None)
            if said != _properties(message.level, message.names) | {"REAL_TOPIC": TOPIC, "REAL_QID": "0"}:
                raise PromiseBroken(Promise.NOTHING_INVENTED, f"{body[:9]!r} has become {found.properties}")
            at = self.delivered_at[found.physical_offset]
            if at + self.forward - self.forward_at[body] < message.due - 1:
                raise PromiseBroken(Promise.NEVER_EARLY, f"{message} was delivered at {at}")
            if found.topic == TOPIC:
                if last.get(message.level, -1) > order[body]:
                    raise PromiseBroken(Promise.IN_ORDER, f"{message} came after a later one")
                last[message.level] = order[body]

    def compare_waiting(self, seen: set[bytes], left: set[bytes]) -> None:
        """Hold against the clock what is neither delivered nor a dead letter."""
        for message in self.waiting:
            if message.body not in left:
                raise PromiseBroken(Promise.NOTHING_LOST, f"{message} is not in the log")
            if message.body in seen:
                continue
            message.is_on_time &= not self.is_hindered
            if message.is_on_time and self.now() > max(message.due, self.began) + LATE_MS_MAX:
                raise PromiseBroken(Promise.ON_TIME, f"{message} is still not delivered at {self.now()}")
        if self.world.disk.capacity_bytes == UNLIMITED and not self.world.disk_delay_ms:
            self.is_hindered = False

    def everything_is_delivered(self) -> None:
        with self.living():
            delivered, _, dead = self.world.ask(_read)
        bodies = {message.body for message in delivered + dead}
        for message in self.waiting:
            if message.body not in bodies:
                self.is_broken = True
                raise PromiseBroken(Promise.NOTHING_LOST, f"{message} is never delivered")

    # ---- the world ------------------------------------------------------------------------------------------------

    def _world(self, flush: FlushDiskType, sector_size: int) -> StoreWorld:
        config = MessageStoreConfig(
            store_path_root_dir=ROOT,
            mapped_file_size_commit_log=16_384,
            mapped_file_size_consume_queue=20 * 50,
            max_message_size=SIZE_MAX,
            enable_multi_dispatch=True,
            message_index_enable=False,
            flush_disk_type=flush,
            flush_delay_offset_interval=2_000,
            flush_commit_log_least_pages=0,
            clean_file_forcibly_enable=False,
        )
        disk = SimDisk(choose=random.Random(0).randrange, sector_size=sector_size)
        return StoreWorld(config, disk=disk, open_life=self._open_life)

    @asynccontextmanager
    async def _open_life(self, run_blocking: RunBlocking) -> AsyncIterator[MessageStore]:
        """Open a store with the delivery service; a clean shutdown ends that first."""
        world = self.world
        offsets = DelayOffsetManager(path=f"{ROOT}/config/delayOffset.json", disk=world.disk, run_blocking=run_blocking)
        offsets.load()
        async with open_message_store(
            world.config,
            disk=world.disk,
            clock=world.clock,
            run_blocking=run_blocking,
            store_host=STORE_HOST,
            tags_code=LEVELS.tags_code,
            may_be_named=self._may_be_named,
            memory_bytes=1 << 40,
        ) as store:
            self._note_puts(store)
            service = ScheduleMessageService(
                store=store,
                levels=LEVELS,
                offsets=offsets,
                clock=world.clock,
                flush_interval_ms=world.config.flush_delay_offset_interval,
                serve_woken=lambda: None,
                dead_letters=DelayDeadLetters(store=store, make_topic=lambda: None),
                stats=None,
            )
            self.put = MessagePut(store=store, levels=LEVELS, delivery=service)
            async with trio.open_nursery() as nursery:
                await nursery.start(service.run)
                yield store
                nursery.cancel_scope.cancel()
            await service.finish()

    def _may_be_named(self, name: str) -> bool:
        return name.startswith("%LMQ%") or (name == NAMED and self.has_named_topic)

    def _note_puts(self, store: MessageStore) -> None:
        def noting(put: Put) -> Put:
            def noted(*message: object) -> tuple[PutMessageStatus, int, int]:
                status, physical_offset, queue_offset = put(*message)
                self.delivered_at[physical_offset] = self.now()
                return status, physical_offset, queue_offset

            return noted

        store.put = noting(store.put)  # type: ignore[method-assign]
        store.put_kept = noting(store.put_kept)  # type: ignore[method-assign]


async def _read(store: MessageStore) -> tuple[list[MessageExt], list[MessageExt], list[MessageExt]]:
    """Return what is in the topic, what is or was in the queues of all levels, and the dead letters."""
    sources: list[MessageExt] = []
    for queue_id in range(LEVELS.level_max):
        sources += await _read_queue(store, SCHEDULE, queue_id)
    return await _read_queue(store, TOPIC, 0), sources, await _read_queue(store, DEAD_LETTERS, 0)


async def _read_queue(store: MessageStore, topic: str, queue_id: int) -> list[MessageExt]:
    found: list[MessageExt] = []
    while len(found) < store.max_offset_in_queue(topic, queue_id):
        result = await store.get_message(topic, queue_id, len(found), 32)
        found += decode_messages(result.body)
    return found


def _inner(body: bytes, level: int, names: str = "") -> MessageExtBrokerInner:
    return MessageExtBrokerInner(
        topic=TOPIC,
        queue_id=0,
        body=body,
        properties=_properties(level, names) if level else {},
        born_timestamp=0,
        born_host=BORN_HOST,
    )


def _properties(level: int, names: str) -> dict[str, str]:
    return {"DELAY": str(level), "KEYS": "k"} | ({"INNER_MULTI_DISPATCH": names} if names else {})
