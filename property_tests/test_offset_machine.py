"""How far a group is, over every kind of end: never ahead of what it has acknowledged, and little lag.

The model is, for each queue, the list of offsets that the group acknowledged, with the moment of each. After an end
the broker may answer one of them, and only one from the last interval in which it writes them.

::

    acknowledged, by consume:           0 --- 3 --- 4 --- 7 --- 9
                                                    |           |
    after crash, crash_soon:                        |<--------->|   one of those of the last OFFSETS_SECONDS, and
                                                                |   of as many more, which a write may take
    after stop, and while it runs:                              |   the last one

    what may not move it:   commit_nonsense, pull_nonsense, pull_with_a_large_filter
    what may hinder it:     disk_fills; messages_come, of which some go with the power
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from property_tests.group_clients import (
    OFFSETS_SECONDS,
    TOPIC,
    commit,
    make_world,
    pull,
    pulled,
    query_offset,
    send,
)
from property_tests.hunts import Bug, Function, MachineTests, PromiseBroken
from property_tests.power_loss import NOTHING, chosen
from property_tests.small_broker import ASYNC, SYNC
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.metadata.persistence import TablePersistService
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.broker.metadata.table_marks import TableMarks
from rocketpy.broker.pull import checks as pull_check
from rocketpy.broker.pull.offset_moved import OffsetMovedEvents
from rocketpy.broker.pull.processor import PullMessageProcessor
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.topic_name import OFFSET_MOVED_TOPIC
from rocketpy.store.config import FlushDiskType
from rocketpy.testing.broker_world import BrokerWorld, Client
from rocketpy.testing.sim.disk import ProcessDied
from rocketpy.testing.store_world import LifeEnded

QUEUES = range(2)
UNLIMITED = 1 << 50
EVENTS = OFFSET_MOVED_TOPIC


class Promise(Enum):
    """What holds of a group's offsets."""

    NEVER_AHEAD = "an offset is never ahead of what was acknowledged, nor of what there is"
    ACKNOWLEDGED = "an offset is one that was acknowledged"
    NOT_FAR_BEHIND = "after a crash it is at most one interval old"
    AS_IT_WAS = "while the broker runs, and after a clean shutdown, it is the last one"
    UNMOVED = "a consumer that asks for nonsense is answered, and changes no offset by it"
    LEAVES_LITTLE = "whatever it asks for, it stores little: an event for a queue in a minute"
    BOUNDED = "a filter that is too large is refused"


@attrs.define(eq=False)
class Progress:
    """What a group acknowledged of a queue: moments and offsets, rising both."""

    acknowledged: list[tuple[float, int]] = attrs.field(factory=lambda: [(0.0, 0)])

    @property
    def last(self) -> int:
        return self.acknowledged[-1][1]

    def as_of(self, moment: float) -> int:
        """Return what was the last one at a moment."""
        return [0, *(offset for at, offset in self.acknowledged if at <= moment)][-1]


class OffsetMachine(RuleBasedStateMachine):
    """One group, two queues, one broker through its lives."""

    def __init__(self) -> None:
        super().__init__()
        self.world: BrokerWorld = make_world()
        self.queues = {queue_id: Progress() for queue_id in QUEUES}
        self.is_hindered_since: float | None = None  # nothing can be written since
        self.count = 0
        self.client: Client | None = None

    def teardown(self) -> None:
        self.world.life.kill()

    @initialize(flush=st.sampled_from([SYNC, ASYNC]), sector_size=st.sampled_from([64, 512]))
    def first_start(self, flush: FlushDiskType, sector_size: int = 512) -> None:
        self.world = make_world(flush, sector_size=sector_size, queue_nums=len(QUEUES))
        self.world.begin()
        self.world.pass_time(0)
        self.client = self.world.connect()
        for number in range(10):  # none of them is at risk
            answer = self.client.ask(send(b"%d" % number, queue_id=number % len(QUEUES), queue_nums=len(QUEUES)))
            assert answer is None or answer.code == ResponseCode.SUCCESS, answer
        self.world.pass_time(31)  # the log has just been flushed

    @property
    def now(self) -> float:
        return self.world.life.clock.timestamp_ms() / 1000

    def living(self, step: Callable[[], object]) -> None:
        """Do what may be the broker's last, because a death was arranged."""
        try:
            step()
        except LifeEnded as ended:
            if not isinstance(ended.cause, ProcessDied):
                raise
            self.crashed()

    # ---- what happens ---------------------------------------------------------------------------------------------

    @rule(queue_id=st.sampled_from(list(QUEUES)), count=st.integers(1, 6), with_pull=st.booleans())
    def consume(self, queue_id: int, count: int, with_pull: bool) -> None:
        """A consumer goes on at its given offset, and acknowledges, by itself or with its next pull."""
        client, progress = self.client, self.queues[queue_id]
        assert client is not None
        begin = query_offset(client, queue_id=queue_id)
        self.compare(queue_id, begin, progress.last, Promise.AS_IT_WAS)
        messages = pulled(client.ask(pull(begin, queue_id=queue_id, count=count)))
        if not messages:
            return
        end = begin + len(messages)
        progress.acknowledged.append((self.now, end))
        if with_pull:
            client.ask(pull(end, queue_id=queue_id, count=1, commit_offset=end))
        else:
            client.ask(commit(end, queue_id=queue_id))
        self.compare(queue_id, query_offset(client, queue_id=queue_id), end, Promise.AS_IT_WAS)

    @rule(
        queue_id=st.sampled_from(list(QUEUES)),
        commit_offset=st.sampled_from([-1, -7, -(2**63)]),
        count=st.sampled_from([1, 32, 2**31 - 1, -(2**31)]),
    )
    def commit_nonsense(self, queue_id: int, commit_offset: int, count: int) -> None:
        """A consumer says with its pull that it is where nothing ever is, and asks for as many as can be said."""
        client = self.client
        assert client is not None
        last = query_offset(client, queue_id=queue_id)
        answer = client.ask(pull(last, queue_id=queue_id, count=count, commit_offset=commit_offset))
        if answer is None or answer.code not in (ResponseCode.SUCCESS, ResponseCode.PULL_NOT_FOUND):
            raise PromiseBroken(Promise.UNMOVED, f"a pull of queue {queue_id} from {last} is answered {answer}")
        self.compare(queue_id, query_offset(client, queue_id=queue_id), last, Promise.UNMOVED)

    @rule(queue_id=st.sampled_from(list(QUEUES)), queue_offset=st.sampled_from([-1, -(2**63), 2**40, 2**63 - 1]))
    def pull_nonsense(self, queue_id: int, queue_offset: int) -> None:
        """A consumer asks, again and again, from where nothing ever was."""
        client = self.client
        assert client is not None
        last, before = query_offset(client, queue_id=queue_id), len(self.world.messages(EVENTS, 0))
        for _ in range(4):
            answer = client.ask(pull(queue_offset, queue_id=queue_id, count=2**31 - 1))
            if answer is None or answer.code != ResponseCode.PULL_OFFSET_MOVED:
                raise PromiseBroken(Promise.UNMOVED, f"a pull of queue {queue_id} from {queue_offset}: {answer}")
        new = len(self.world.messages(EVENTS, 0)) - before
        if new > 1:
            raise PromiseBroken(Promise.LEAVES_LITTLE, f"four pulls of queue {queue_id} have stored {new} events")
        self.compare(queue_id, query_offset(client, queue_id=queue_id), last, Promise.UNMOVED)

    @rule(queue_id=st.sampled_from(list(QUEUES)), size=st.sampled_from([1000, 1001, 30_000]))
    def pull_with_a_large_filter(self, queue_id: int, size: int) -> None:
        """A consumer brings more tags than it could ever want."""
        assert self.client is not None
        subscription = "||".join(["t"] * size)
        answer = self.client.ask(pull(self.queues[queue_id].last, queue_id=queue_id, subscription=subscription))
        assert answer is not None
        is_refused = answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        if is_refused != (size > 1000):
            raise PromiseBroken(Promise.BOUNDED, f"a pull with {size} tags is answered {answer.code}")

    @rule(queue_id=st.sampled_from(list(QUEUES)))
    def messages_come(self, queue_id: int) -> None:
        """A producer sends; what it sent may go with the power, and the offsets of who was quick with it."""
        assert self.client is not None
        for _ in range(3):
            self.client.ask(send(b"more", queue_id=queue_id, queue_nums=len(QUEUES)))

    @rule(seconds=st.sampled_from([0.5, 1, OFFSETS_SECONDS + 0.5]))
    def time_passes(self, seconds: float) -> None:
        self.living(lambda: self.world.pass_time(seconds))

    @rule(has_room=st.booleans())
    def disk_fills(self, has_room: bool) -> None:
        self.world.life.disk.capacity_bytes = UNLIMITED if has_room else 0
        if has_room:
            self.world.pass_time(OFFSETS_SECONDS + 0.5)
            self.is_hindered_since = None
        elif self.is_hindered_since is None:
            self.is_hindered_since = self.now

    @rule()
    def stop(self) -> None:
        if self.is_hindered_since is not None:
            return
        self.world.stop()
        self.begin()
        assert self.client is not None
        for queue_id, progress in self.queues.items():
            self.compare(queue_id, query_offset(self.client, queue_id=queue_id), progress.last, Promise.AS_IT_WAS)

    @rule(survives=st.one_of(st.none(), st.integers(-2, 255)))
    def crash(self, survives: int | None) -> None:
        """The process is killed, or the power goes."""
        if survives is None:
            self.world.kill()
        else:
            self.world.lose_power(chosen(survives))
        self.crashed()

    @precondition(lambda self: self.is_hindered_since is None)
    @rule(call=st.integers(1, 12), survives=st.one_of(st.none(), st.integers(-2, 255)))
    def crash_soon(self, call: int, survives: int | None) -> None:
        """The process dies in some change of the disk, in the middle of a table perhaps."""
        self.world.life.disk.die_at_call(call)
        try:
            self.world.pass_time(OFFSETS_SECONDS + 0.5)
            self.world.kill()
        except LifeEnded as ended:
            if not isinstance(ended.cause, ProcessDied):
                raise
        if survives is not None:
            self.world.lose_power(chosen(survives))
        self.crashed()

    # ---- the model ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.world.life.disk.capacity_bytes = UNLIMITED
        self.is_hindered_since = None
        self.world.begin()
        self.world.pass_time(0)
        self.client = self.world.connect()

    def crashed(self) -> None:
        """What the next life answers is what the group goes on with."""
        died_at = self.now if self.is_hindered_since is None else self.is_hindered_since
        self.begin()
        assert self.client is not None
        for queue_id, progress in self.queues.items():
            found = query_offset(self.client, queue_id=queue_id)
            end = len(self.world.messages(TOPIC, queue_id))
            if found > progress.last:
                raise PromiseBroken(Promise.NEVER_AHEAD, f"{found} in queue {queue_id}, {progress} was acknowledged")
            if found > end:
                raise PromiseBroken(Promise.NEVER_AHEAD, f"{found} in queue {queue_id}: {end} and on are still to come")
            if found not in [min(offset, end) for _, offset in progress.acknowledged]:
                raise PromiseBroken(Promise.ACKNOWLEDGED, f"{found} in queue {queue_id}, {progress} was acknowledged")
            # The interval, and once more as much for the write itself.
            least = min(end, progress.as_of(max(0.0, died_at - 2 * OFFSETS_SECONDS - 0.5)))
            if found < least:
                raise PromiseBroken(Promise.NOT_FAR_BEHIND, f"{found} in queue {queue_id}, expected at least {least}")
            progress.acknowledged = [(at, offset) for at, offset in progress.acknowledged if offset < found]
            progress.acknowledged.append((self.now, found))

    def compare(self, queue_id: int, found: int, expected: int, promise: Promise) -> None:
        if found != expected:
            raise PromiseBroken(promise, f"{found} in queue {queue_id}, expected {expected}")


TestOffsets = OffsetMachine.TestCase
TestOffsets.settings = settings(max_examples=max(15, settings.default.max_examples // 4))


# ---- deliberate bugs ------------------------------------------------------------------------------------------------


def _guesses_the_next(snapshot: Function) -> Function:
    def ahead(self: Any) -> Any:
        table = snapshot(self)["offsetTable"]
        return {"offsetTable": {key: {queue: at + 1 for queue, at in each.items()} for key, each in table.items()}}

    return ahead


def _never_writes(now_and_then: Function) -> Function:
    async def nothing(self: Any, table: Any) -> None:
        pass

    return nothing


def _forgets_at_the_end(persist_all: Function) -> Function:
    async def nothing(self: Any) -> bool:
        return True

    return nothing


def _keeps_the_first(load: Function) -> Function:
    """What was read is not taken over."""

    def loaded(self: Any, decode: Any) -> Any:
        content = load(self, decode)
        return None if self.path.endswith("consumerOffset.json") else content

    return loaded


def _neither_marks_nor_flushes(before_write: Function) -> Function:
    """Offsets are written although the messages that they are about are not; no mark shows it."""

    async def nothing() -> None:
        pass

    def hook(self: Any, *_: object) -> object:
        return nothing

    return hook


def _keeps_any(checked: Function) -> Function:
    """What a pull brings along is kept without a look."""

    def kept(self: Any, connection: Any, group: str, topic: str, queue_id: int, commit_offset: int) -> None:
        self._consumer_offset_manager.commit_offset(connection.peer, group, topic, queue_id, commit_offset)

    return kept


def _forgets_all(forget_old: Function) -> Function:
    """Each pull that corrects an offset is the first of its minute."""

    def forgets(self: Any, now: float) -> None:
        self._events.clear()

    return forgets


def _takes_any(filter_of: Function) -> Function:
    """Tags are taken apart, however many there are."""

    def taken(expression: str) -> Any:
        return filter_of("||".join(dict.fromkeys(expression.split("||"))))

    return taken


# ---- scripts that lead there: the right code passes them, the wrong one does not ------------------------------------


def a_kill_when_offsets_have_been_written(state: OffsetMachine) -> None:
    state.first_start(flush=SYNC)
    state.consume(queue_id=0, count=3, with_pull=False)
    for _ in range(2):
        state.time_passes(seconds=OFFSETS_SECONDS + 0.5)
    state.crash(survives=None)


def a_shutdown_right_after_a_commit(state: OffsetMachine) -> None:
    state.first_start(flush=SYNC)
    state.consume(queue_id=0, count=3, with_pull=False)
    state.stop()


def a_consumer_that_asks_for_nonsense(state: OffsetMachine) -> None:
    state.first_start(flush=SYNC)
    state.consume(queue_id=0, count=3, with_pull=True)
    state.commit_nonsense(queue_id=0, commit_offset=-7, count=32)
    state.pull_nonsense(queue_id=0, queue_offset=2**40)
    for size in (1000, 1001):
        state.pull_with_a_large_filter(queue_id=0, size=size)


def power_that_goes_before_messages_are_durable(state: OffsetMachine) -> None:
    """Found by thinking; the machine would take long, for the log must not be flushed in between for another reason."""
    state.first_start(flush=ASYNC)
    state.messages_come(queue_id=0)
    for _ in range(2):
        state.consume(queue_id=0, count=6, with_pull=False)
    state.time_passes(seconds=OFFSETS_SECONDS + 0.5)
    state.crash(survives=NOTHING)


PLANTED: Mapping[str, Bug] = {
    "one too far on the disk": Bug(
        ConsumerOffsetManager,
        "_snapshot",
        _guesses_the_next,
        (Promise.NEVER_AHEAD, Promise.ACKNOWLEDGED, Promise.AS_IT_WAS),
        a_kill_when_offsets_have_been_written,
    ),
    "never written": Bug(
        TablePersistService,
        "_persist_now_and_then",
        _never_writes,
        (Promise.NOT_FAR_BEHIND,),
        a_kill_when_offsets_have_been_written,
    ),
    "not written at the end": Bug(
        TablePersistService, "persist_all", _forgets_at_the_end, (Promise.AS_IT_WAS,), a_shutdown_right_after_a_commit
    ),
    "any offset of a pull": Bug(
        PullMessageProcessor, "_commit_offset", _keeps_any, (Promise.UNMOVED,), a_consumer_that_asks_for_nonsense
    ),
    "an event for each pull": Bug(
        OffsetMovedEvents, "_drop_expired", _forgets_all, (Promise.LEAVES_LITTLE,), a_consumer_that_asks_for_nonsense
    ),
    "a filter of any size": Bug(
        pull_check, "_checked_tag_filter", _takes_any, (Promise.BOUNDED,), a_consumer_that_asks_for_nonsense
    ),
    "not read": Bug(
        StoredTable,
        "load",
        _keeps_the_first,
        (Promise.AS_IT_WAS, Promise.NOT_FAR_BEHIND),
        a_shutdown_right_after_a_commit,
    ),
    "offsets outlive the messages that they are about": Bug(
        TableMarks,
        "before_write",
        _neither_marks_nor_flushes,
        (Promise.NEVER_AHEAD,),
        power_that_goes_before_messages_are_durable,
        is_common=False,
    ),
}


class TestScripts(MachineTests):
    machine, bugs = OffsetMachine, PLANTED
