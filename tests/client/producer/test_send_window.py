"""The window counts messages and bytes, and gives room in turn."""

from __future__ import annotations

import trio
import trio.testing

from rocketpy.client.producer.send_window import SendWindow
from tests.client.cancelled_everywhere import cancelled_at


async def test_both_limits_count() -> None:
    window = SendWindow(count_max=2, size_max=100)
    window.enter(60)
    assert window.has_room(40)
    assert not window.has_room(41)
    window.enter(1)
    assert not window.has_room(1), "two messages are on the way"
    window.leave(60)
    assert window.has_room(99)
    assert repr(window) == "<SendWindow 1/2 messages, 1/100 bytes>"


async def test_a_message_larger_than_the_window_goes_alone() -> None:
    window = SendWindow(count_max=2, size_max=100)
    assert window.has_room(1000)
    window.enter(1000)
    assert not window.has_room(1)


async def test_a_large_message_is_not_overtaken_by_small_ones() -> None:
    window = SendWindow(count_max=10, size_max=100)
    entered: list[int] = []

    async def enter(size: int) -> None:
        await window.wait_and_enter(size)
        entered.append(size)

    window.enter(50)
    async with trio.open_nursery() as nursery:
        for size in (90, 10, 20):
            nursery.start_soon(enter, size)
            await trio.testing.wait_all_tasks_blocked()
        assert entered == []
        assert not window.has_room(1), "tasks that wait come first"
        window.leave(50)
        await trio.testing.wait_all_tasks_blocked()
        assert entered == [90, 10]
        window.leave(90)
    assert entered == [90, 10, 20]


async def test_a_cancelled_task_takes_no_room_and_lets_the_next_in() -> None:
    window = SendWindow(count_max=1, size_max=100)
    window.enter(1)
    attempts = []
    for checkpoint in (1, 2):
        attempts.append(await cancelled_at(checkpoint, lambda: window.wait_and_enter(1)))
    assert all(each.was_cancelled for each in attempts)
    assert window.count == 1
    window.leave(1)
    assert window.has_room(1)
    await window.wait_and_enter(1)
    assert window.count == 1


async def test_empty_is_waited_for() -> None:
    window = SendWindow(count_max=3, size_max=100)
    await window.wait_empty()
    window.enter(1)
    window.enter(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(window.wait_empty)
        await trio.testing.wait_all_tasks_blocked()
        window.leave(1)
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1
        window.leave(1)


async def test_a_window_that_is_empty_and_filled_again_before_its_waiter_looks_is_not_empty() -> None:
    window, is_over = SendWindow(count_max=9, size_max=9), False

    async def wait() -> None:
        nonlocal is_over
        await window.wait_empty()
        is_over = True

    window.enter(1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        window.leave(1)
        window.enter(1)  # it comes again
        await trio.testing.wait_all_tasks_blocked()
        assert not is_over
        window.leave(1)
