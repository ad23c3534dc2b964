"""Which waits there are under which settings, and the status of both: every order of their ends."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import attrs
import pytest
import trio.testing

from rocketpy.store.results import PutMessageStatus, StoredCallback
from rocketpy.store.services.stored_waits import stored_waits

OK = PutMessageStatus.PUT_OK
FLUSH = (OK, PutMessageStatus.FLUSH_DISK_TIMEOUT)
REPLICA = (OK, PutMessageStatus.FLUSH_SLAVE_TIMEOUT, PutMessageStatus.SLAVE_NOT_AVAILABLE)


@attrs.define
class Waits:
    """A fake of either service; the test ends its waits."""

    waiting: list[tuple[int, StoredCallback]] = attrs.Factory(list)
    again: list[tuple[int, float]] = attrs.Factory(list)
    is_there: bool = True

    def wait_durable(self, end: int, callback: StoredCallback) -> None:
        self.waiting.append((end, callback))

    wait_replicated = wait_durable

    def wait_again(self, end: int, began: float, callback: StoredCallback) -> None:
        self.again.append((end, began))
        self.waiting.append((end, callback))

    def has(self, end: int) -> bool:
        return self.is_there

    def end(self, status: PutMessageStatus) -> None:
        ((_, callback),), self.waiting = self.waiting, []
        callback(status)


@attrs.define
class Both:
    flush: Waits = attrs.Factory(Waits)
    replica: Waits = attrs.Factory(Waits)
    answers: list[PutMessageStatus] = attrs.Factory(list)

    @property
    def wait_stored(self) -> Callable[[int, StoredCallback], None]:
        return stored_waits(self.flush, self.replica)


@pytest.fixture
def both() -> Both:
    return Both()


async def test_each_setting_has_its_wait() -> None:
    flush, replica, answers = Waits(), Waits(), list[PutMessageStatus]()
    stored_waits(flush, None)(10, answers.append)
    stored_waits(None, replica)(20, answers.append)
    assert [end for end, _ in flush.waiting] == [10]
    assert [end for end, _ in replica.waiting] == [20]
    with pytest.raises(AssertionError, match="ASYNC_FLUSH and ASYNC_MASTER"):
        stored_waits(None, None)(30, answers.append)


@pytest.mark.parametrize("is_flush_first", [True, False])
@pytest.mark.parametrize(("flushed", "replicated"), list(product(FLUSH, REPLICA)))
async def test_the_answer_comes_after_both_whatever_their_order(
    both: Both, flushed: PutMessageStatus, replicated: PutMessageStatus, is_flush_first: bool
) -> None:
    """A failure of the replica is more important than one of the flush."""
    both.wait_stored(10, both.answers.append)
    assert both.flush.waiting[0][0] == both.replica.waiting[0][0] == 10, "both begin at once"
    ends = [(both.flush, flushed), (both.replica, replicated)]
    (first, status), (last, last_status) = ends if is_flush_first else ends[::-1]
    first.end(status)
    assert both.answers == []
    last.end(last_status)
    assert both.answers == [flushed if replicated is OK else replicated]


@pytest.mark.parametrize("flushed", FLUSH)
@pytest.mark.parametrize("replicated", REPLICA)
async def test_a_slave_that_has_gone_before_the_flush_does_not_count(
    both: Both, flushed: PutMessageStatus, replicated: PutMessageStatus, mock_clock: trio.testing.MockClock
) -> None:
    """What its connection acknowledged is waited for again, for the rest of the time."""
    both.wait_stored(10, both.answers.append)
    began = trio.current_time()
    mock_clock.jump(1)
    both.replica.end(OK)
    both.replica.is_there = False
    both.flush.end(flushed)
    assert both.answers == []
    assert both.replica.again == [(10, began)]
    both.replica.end(replicated)
    assert both.answers == [flushed if replicated is OK else replicated]


async def test_a_slave_that_was_not_there_is_not_waited_for_again(both: Both) -> None:
    both.replica.is_there = False
    both.wait_stored(10, both.answers.append)
    both.replica.end(PutMessageStatus.FLUSH_SLAVE_TIMEOUT)
    both.flush.end(OK)
    assert both.answers == [PutMessageStatus.FLUSH_SLAVE_TIMEOUT]
