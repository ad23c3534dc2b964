"""What a broker promises about retries and dead letters, held against every order of events: see ``retry_machine.py``.

The machine itself, by its profile, and deliberate bugs, each of which it must find, by a script and by chance, because
a machine that finds no planted bug proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import settings

from property_tests.dishonest_consumer import DishonestConsumer
from property_tests.hunts import Bug, Function, MachineTests
from property_tests.retry_machine import RETRY_TOPIC, Promise
from property_tests.small_broker import ASYNC
from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager
from rocketpy.broker.send import send_back
from rocketpy.broker.send.send_back import SendBackProcessor
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import make_response
from rocketpy.protocol.topic_name import DLQ_PREFIX
from rocketpy.store.read.message_reader import MessageReader

TestRetries = DishonestConsumer.TestCase
TestRetries.settings = settings(stateful_step_count=30)


def _forgets_one_in_three(put_again: Function) -> Function:
    def put(self: Any, back: Any, record: Any) -> Any:
        self.put_count = getattr(self, "put_count", 0) + 1
        if self.put_count % 3:
            return put_again(self, back, record)
        return make_response(back.request, ResponseCode.SUCCESS)

    return put


def _allows_one_more(limit: Function) -> Function:
    return lambda *arguments, **others: limit(*arguments, **others) + 1


def _loses_dead_letters(rewritten: Function) -> Function:
    def elsewhere(self: Any, back: Any, message: Any) -> Any:
        retry = rewritten(self, back, message)
        if retry.topic.startswith(DLQ_PREFIX):
            retry.topic = "NOWHERE"
        return retry

    return elsewhere


def _is_too_early(delay_ms: Function) -> Function:
    return lambda self, level: delay_ms(self, level) // 2


def _trusts_what_looks_like_a_record(look: Function) -> Function:
    """RocketMQ's own: whatever lies at an offset is a message."""
    return MessageReader.look_message


def _trusts_an_offset_in_the_queue(unit: Function) -> Function:
    """The queue has a unit at that offset, wherever it leads."""

    def found(self: Any, queue: Any, queue_offset: int) -> Any:
        physical_offset, size = yield from unit(self, queue, queue_offset)
        return _Anything((physical_offset, size)) if size else (physical_offset, size)

    return found


class _Anything(tuple[int, int]):
    """A unit that says what is asked of it."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


def _goes_one_too_far(commit: Function) -> Function:
    def committed(self: Any, peer: str, group: str, topic: str, queue_id: int, offset: int) -> None:
        commit(self, peer, group, topic, queue_id, offset + 1)

    return committed


# ---- scripts that lead there: the right code passes them, the wrong one does not ------------------------------------


def a_consumer_that_always_fails(state: DishonestConsumer) -> None:
    """Each message has one more try, and is a dead letter then."""
    state.first_start(flush=ASYNC, retries_max=1)
    state.send(count=2)
    for _ in range(3):
        state.failed()
    state.time_passes(seconds=6)
    for _ in range(3):
        state.failed(RETRY_TOPIC)
    state.time_passes(seconds=11)
    state.pulls(RETRY_TOPIC)


def a_consumer_that_gives_back_a_record_in_a_body(state: DishonestConsumer) -> None:
    """The queue that it names has a message at the offset that it names."""
    state.first_start(flush=ASYNC)
    state.gives_back_a_record_in_a_body(queue_offset=0)
    state.gives_back_a_record_in_a_body(queue_offset=0, is_cold=True)


PLANTED: Mapping[str, Bug] = {
    "one send-back in three is not stored": Bug(
        SendBackProcessor,
        "_put_again",
        _forgets_one_in_three,
        (Promise.NEVER_GONE, Promise.DUE, Promise.NOTHING_FORGED),  # it accepts what is no message, too
        a_consumer_that_always_fails,
    ),
    "a group has one try too many": Bug(
        send_back, "retries_max", _allows_one_more, (Promise.LIMITED,), a_consumer_that_always_fails, is_common=False
    ),
    "dead letters are lost": Bug(
        SendBackProcessor,
        "_rewritten",
        _loses_dead_letters,
        (Promise.NEVER_GONE,),
        a_consumer_that_always_fails,
        is_common=False,
    ),
    "delays are half as long": Bug(
        DelayLevels, "delay_ms", _is_too_early, (Promise.DUE,), a_consumer_that_always_fails
    ),
    "a record in a body is trusted": Bug(
        MessageReader,
        "look_named_message",
        _trusts_what_looks_like_a_record,
        (Promise.NOTHING_FORGED,),
        a_consumer_that_gives_back_a_record_in_a_body,
    ),
    "a record in a body is trusted if its queue has one there": Bug(
        MessageReader,
        "_unit",
        _trusts_an_offset_in_the_queue,
        (Promise.NOTHING_FORGED,),
        a_consumer_that_gives_back_a_record_in_a_body,
    ),
    "progress is one message too far": Bug(
        ConsumerOffsetManager,
        "commit_offset",
        _goes_one_too_far,
        (Promise.NEVER_GONE,),
        a_consumer_that_always_fails,
    ),
}


class TestScripts(MachineTests):
    machine, bugs = DishonestConsumer, PLANTED
