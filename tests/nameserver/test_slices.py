"""Long requests in slices: the first two at once, the others in a task that lets other tasks run in between."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from rocketpy.errors import RequestError
from rocketpy.nameserver.slices import SLICES_AT_ONCE, served, summed
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.deferred import DEFERRED
from tests.remoting.test_connection import make_connection, sent
from tests.turns import counted_turns

REQUEST = RemotingCommand(code=105, opaque=7)


class Work:
    """Steps that are counted, and whether they were ended."""

    def __init__(self, count: int, failure: Exception | None = None) -> None:
        self.count = count
        self.failure = failure
        self.done = 0
        self.is_closed = False

    def steps(self) -> Generator[None, None, RemotingCommand]:
        try:
            for _ in range(self.count):
                self.done += 1
                yield
            if self.failure is not None:
                raise self.failure
            return make_response(REQUEST, body=b"%d" % self.done)
        finally:
            self.is_closed = True


@pytest.mark.parametrize("count", range(SLICES_AT_ONCE))
def test_a_short_request_is_answered_at_once(count: int) -> None:
    connection, transport = make_connection()
    answer = served(connection, REQUEST, Work(count).steps())
    assert isinstance(answer, RemotingCommand)
    assert answer.body == b"%d" % count
    assert transport.tasks == []


@pytest.mark.parametrize("count", [SLICES_AT_ONCE, 50])
async def test_the_rest_of_a_long_request_is_done_by_a_task_between_others(count: int) -> None:
    connection, transport = make_connection()
    work = Work(count)
    assert served(connection, REQUEST, work.steps()) is DEFERRED
    connection.count_deferred()  # as the dispatcher does
    assert work.done == SLICES_AT_ONCE
    async with counted_turns() as turns:
        await transport.tasks[0]()
    (answer,) = sent(connection)
    assert (answer.opaque, answer.body) == (7, b"%d" % count)
    assert turns.count >= count - SLICES_AT_ONCE
    assert connection.deferred_count == 0


@pytest.mark.parametrize(("count", "is_late"), [(1, False), (10, True)], ids=["at once", "in the task"])
async def test_a_refusal_between_two_slices_is_the_answer(count: int, is_late: bool) -> None:
    connection, transport = make_connection()
    steps = Work(count, RequestError(ResponseCode.TOPIC_NOT_EXIST, "gone meanwhile")).steps()
    if is_late:
        assert served(connection, REQUEST, steps) is DEFERRED
        connection.count_deferred()
        await transport.tasks[0]()
        (answer,) = sent(connection)
        assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "gone meanwhile")
    else:
        with pytest.raises(RequestError, match="gone meanwhile"):
            served(connection, REQUEST, steps)


@pytest.mark.parametrize("limit", ["tasks", "deferred replies"])
def test_a_long_request_beyond_a_limit_is_refused_and_ended(limit: str) -> None:
    limits = ConnectionLimits(deferred_replies_max=0) if limit == "deferred replies" else ConnectionLimits()
    connection, transport = make_connection(limits)
    transport.takes_tasks = limit != "tasks"
    work = Work(10)
    with pytest.raises(RequestError) as refused:
        served(connection, REQUEST, work.steps())
    assert refused.value.response_code == ResponseCode.SYSTEM_BUSY
    assert refused.value.remark == "[OVERLOAD]system busy: too many long requests at a time"
    assert (work.done, work.is_closed) == (SLICES_AT_ONCE, True)
    assert transport.tasks == []


def test_a_sum_yields_after_each_count() -> None:
    steps = summed(iter([1, 2, 3]))
    assert [next(steps) for _ in range(3)] == [None] * 3
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == 6
