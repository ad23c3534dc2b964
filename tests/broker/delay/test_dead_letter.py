"""Dead letters of delayed messages: the copy, and when none can be stored."""

from __future__ import annotations

import attrs
import pytest
import trio.testing

from rocketpy.broker.delay.dead_letter import FINAL_STATUSES, DelayDeadLetters
from rocketpy.broker.delay.delayed_message import DelayedMessage
from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX
from rocketpy.store.results import PutMessageStatus
from tests.broker.delay.delayed import BORN_HOST, DelayedMessages, open_delayed

TOPIC = "rmq_sys_DELAY_DEAD_LETTER"
OK, ILLEGAL = PutMessageStatus.PUT_OK, PutMessageStatus.MESSAGE_ILLEGAL
MESSAGE = DelayedMessage("T", 3, b"body", b"REAL_TOPIC\x01T\x02REAL_QID\x013", 116, (b"k",), 4, 9, 12, BORN_HOST, 2)


def dead_letters(delayed: DelayedMessages) -> DelayDeadLetters:
    return DelayDeadLetters(store=delayed.store, make_topic=lambda: None)


async def test_a_reason_that_does_not_fit_is_left_out(
    autojump_clock: trio.testing.MockClock, delayed: DelayedMessages
) -> None:
    properties = MESSAGE.stored_properties + b"\x02X\x01"
    full = properties + b"x" * (PROPERTIES_SIZE_MAX - len(properties))
    assert dead_letters(delayed).put(attrs.evolve(MESSAGE, stored_properties=full), 77, "why not") is OK
    delayed.store.end_burst()
    (dead,) = delayed.messages(TOPIC)
    assert set(dead.properties) == {"REAL_TOPIC", "REAL_QID", "X"}


async def test_a_body_that_no_file_of_the_log_can_hold_is_left_out(autojump_clock: trio.testing.MockClock) -> None:
    """The flag goes with it that says how the body is compressed."""
    async with open_delayed(mapped_file_size_commit_log=4096) as delayed:
        message = attrs.evolve(MESSAGE, body=b"l" * 5_000)
        assert dead_letters(delayed).put(message, 77, "why not") is OK
        delayed.store.end_burst()
        (dead,) = delayed.messages(TOPIC)
        assert (dead.body, dead.sys_flag) == (b"", 8)


async def test_what_is_refused_is_not_counted(autojump_clock: trio.testing.MockClock, delayed: DelayedMessages) -> None:
    letters = dead_letters(delayed)
    assert letters.put(attrs.evolve(MESSAGE, stored_properties=b"a\0b"), 77, "why not") is ILLEGAL
    delayed.store.put_kept = lambda *_: (PutMessageStatus.SERVICE_NOT_AVAILABLE, -1, -1)  # type: ignore[method-assign]
    assert letters.put(MESSAGE, 77, "why not") is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert letters.count == 0


@pytest.mark.parametrize("status", list(PutMessageStatus))
def test_what_passes_and_what_does_not(status: PutMessageStatus) -> None:
    """A full disk, a closed store, a slow flush: all of them end without the message being another."""
    is_final = status.name in ("MESSAGE_ILLEGAL", "PROPERTIES_SIZE_EXCEEDED", "LMQ_CONSUME_QUEUE_NUM_EXCEEDED")
    assert (status in FINAL_STATUSES) is is_final
