"""Requests that a task waits for."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from rocketpy.errors import RemotingSendRequestError, RemotingTimeoutError
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame.codec import decode_frame
from rocketpy.remoting.pending_response import AwaitedResponse


class Peer:
    peer = "there"
    frames_received = 0


PEER = Peer()


def test_the_request_gets_the_opaque_of_its_connection() -> None:
    assert decode_frame(AwaitedResponse(RemotingCommand(code=7), PEER).encode(12)).opaque == 12


@pytest.mark.parametrize("is_early", [True, False])
async def test_the_response_is_returned_also_when_it_has_come_before_the_wait(is_early: bool) -> None:
    pending, response = AwaitedResponse(RemotingCommand(code=7), PEER), RemotingCommand(code=0)
    if is_early:
        pending.complete(response)
        assert await pending.wait(1) is response
        return
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_complete_later, pending, response)
        assert await pending.wait(1) is response


async def _complete_later(pending: AwaitedResponse, response: RemotingCommand) -> None:
    await trio.testing.wait_all_tasks_blocked()
    pending.complete(response)


async def test_the_end_of_the_connection_and_of_the_time_are_different_errors(
    autojump_clock: trio.testing.MockClock,
) -> None:
    pending = AwaitedResponse(RemotingCommand(code=7), PEER)
    with pytest.raises(RemotingTimeoutError, match="no answer from there to request code 7 in 3 s"):
        await pending.wait(3)
    assert trio.current_time() == pytest.approx(3, abs=0.01)
    pending.complete(None)
    with pytest.raises(RemotingSendRequestError, match="the connection to there ended before it answered"):
        await pending.wait(3)


async def test_a_response_that_is_here_when_the_time_is_over_counts(autojump_clock: trio.testing.MockClock) -> None:
    """A loop that was blocked finds both at once."""
    pending, response = AwaitedResponse(RemotingCommand(code=7), PEER), RemotingCommand(code=0)

    async def read() -> None:
        await trio.sleep(3)
        for _ in range(2):
            await trio.lowlevel.checkpoint()
        pending.complete(response)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        assert await pending.wait(3) is response
