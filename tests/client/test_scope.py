"""What leaves a block, and what stays a group."""

from __future__ import annotations

import pytest
import trio

from rocketpy.client.scope import unwrapped


async def test_the_blocks_own_exception_leaves_as_it_was_raised() -> None:
    cause, own = OSError("the cause"), ValueError("mine")
    own.__cause__ = cause
    with pytest.raises(ValueError, match="mine") as caught:
        async with unwrapped(trio.open_nursery()) as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise own
    assert caught.value is own
    assert own.__cause__ is cause
    assert not isinstance(own.__context__, BaseExceptionGroup)


async def test_scopes_may_be_nested() -> None:
    with pytest.raises(ValueError, match="mine"):
        async with unwrapped(trio.open_nursery()), unwrapped(trio.open_nursery()):
            raise ValueError("mine")


async def test_what_a_task_raised_stays_a_group() -> None:
    async def fail() -> None:
        raise KeyError("a task's")

    with pytest.raises(BaseExceptionGroup) as caught:
        async with unwrapped(trio.open_nursery()) as nursery:
            nursery.start_soon(fail)
            await trio.sleep_forever()
    assert [type(each) for each in caught.value.exceptions] == [KeyError]


async def test_both_at_once_stay_a_group() -> None:
    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("a task's")

    with pytest.raises(BaseExceptionGroup) as caught:
        async with unwrapped(trio.open_nursery()) as nursery:
            nursery.start_soon(fail_when_cancelled)
            await trio.testing.wait_all_tasks_blocked()
            raise ValueError("mine")
    assert {type(each) for each in caught.value.exceptions} == {KeyError, ValueError}


async def test_a_group_that_the_block_raised_itself_stays_that_group() -> None:
    own = ExceptionGroup("mine", [ValueError("inside")])
    with pytest.raises(ExceptionGroup) as caught:
        async with unwrapped(trio.open_nursery()):
            raise own
    assert caught.value.message == "mine"
    assert caught.value.exceptions == own.exceptions


async def test_cancellation_passes() -> None:
    with trio.move_on_after(0) as scope:
        async with unwrapped(trio.open_nursery()) as nursery:
            nursery.start_soon(trio.sleep_forever)
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_nothing_raised_nothing_changed() -> None:
    async with unwrapped(trio.open_nursery()) as nursery:
        assert isinstance(nursery, trio.Nursery)
