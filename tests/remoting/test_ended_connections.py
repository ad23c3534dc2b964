"""Ends are handled later, in slices, and a failure in one of them does not affect the others."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.errors import StoreError
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.ended_connections import ENDS_PER_SLICE, EndedConnections
from tests.remoting.test_connection import NotingTransport, make_connection


async def test_noting_an_end_calls_nothing_and_the_task_tells_of_it() -> None:
    notified: list[Connection] = []
    ended = EndedConnections(notified.append)
    connection, _ = make_connection()
    ended.add(connection)
    assert notified == []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ended.run)
        await trio.testing.wait_all_tasks_blocked()
        assert notified == [connection]
        ended.add(connection)
        await trio.testing.wait_all_tasks_blocked()
        assert len(notified) == 2
        nursery.cancel_scope.cancel()


async def test_others_have_a_turn_between_slices() -> None:
    notified: list[Connection] = []
    most_in_a_turn = 0
    ended = EndedConnections(notified.append)
    for _ in range(5 * ENDS_PER_SLICE):
        ended.add(make_connection()[0])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ended.run)
        while len(notified) < 5 * ENDS_PER_SLICE:
            before = len(notified)
            await trio.lowlevel.checkpoint()
            most_in_a_turn = max(most_in_a_turn, len(notified) - before)
        nursery.cancel_scope.cancel()
    assert most_in_a_turn <= 2 * ENDS_PER_SLICE


async def test_members_that_end_during_notification_are_notified_later() -> None:
    """The end of one notifies all others, whose sends fail, which ends them: no recursion, and each once."""
    members: list[Connection] = []
    notified: list[Connection] = []
    deepest = 0
    depth = 0

    def on_close(connection: Connection) -> None:
        nonlocal deepest, depth
        depth += 1
        deepest = max(deepest, depth)
        notified.append(connection)
        members.remove(connection)
        for member in list(members):
            member.reply_frame(b"the group has changed")
            member.flush()
        depth -= 1

    class Dead(NotingTransport):
        def end(self, connection: Connection) -> None:
            if connection not in self.ended:
                super().end(connection)
                ended.add(connection)

    ended = EndedConnections(on_close)
    transport = Dead(sends_fail=lambda connection: True)
    members += [make_connection(transport=transport)[0] for _ in range(1000)]
    members[0].close()
    ended.finish()
    while notified != transport.ended:
        ended.finish()
    assert len(notified) == 1000
    assert deepest == 1
    assert transport.flushed == 999, "each is found dead once"


def test_a_bug_in_one_end_does_not_stop_the_notification_of_others(caplog: pytest.LogCaptureFixture) -> None:
    notified: list[Connection] = []

    def on_close(connection: Connection) -> None:
        notified.append(connection)
        if len(notified) == 1:
            raise ZeroDivisionError

    ended = EndedConnections(on_close)
    for _ in range(2):
        ended.add(make_connection()[0])
    ended.finish()
    assert len(notified) == 2
    assert caplog.messages == ["the end of the connection of 10.1.2.3:4567 failed unexpectedly; only that was given up"]


def test_a_store_failure_passes() -> None:
    def on_close(connection: Connection) -> None:
        raise StoreError("gone", path="p")

    ended = EndedConnections(on_close)
    ended.add(make_connection()[0])
    with pytest.raises(StoreError):
        ended.finish()


def test_a_server_without_a_listener_for_ends_has_none() -> None:
    ended = EndedConnections(None)
    ended.add(make_connection()[0])
    ended.finish()
