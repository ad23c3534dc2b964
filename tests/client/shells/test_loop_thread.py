"""A Trio loop in a thread: results, failures, interrupts, and its end."""

from __future__ import annotations

import os
import signal
import threading
from types import SimpleNamespace

import pytest
import trio
import trio.lowlevel

from rocketpy.client.shells import loop_thread
from rocketpy.client.shells.loop_call import LoopCall
from rocketpy.client.shells.loop_thread import LoopThread
from rocketpy.errors import LocalProtocolError


@pytest.fixture
def loop():  # type: ignore[no-untyped-def]
    loop = LoopThread("test")
    loop.start()
    yield loop
    loop.stop()


async def double(number: int) -> int:
    await trio.lowlevel.checkpoint()
    return 2 * number


def test_an_interrupt_cancels_the_call_and_is_raised_once_it_has_ended(loop: LoopThread) -> None:
    ended = []

    async def hang() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await trio.sleep_forever()
        finally:
            ended.append(True)

    for count in range(1, 21):  # the signal comes at another moment each time
        with pytest.raises(KeyboardInterrupt):
            loop.call(hang)
        assert len(ended) == count
    assert loop.call(double, 1) == 2


def test_an_interrupt_as_the_call_ends_hides_a_result_but_loses_none(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it wait for the end of the call a second time."""

    class Lock:
        """Its second acquisition, which waits for the end of the call, succeeds and is interrupted."""

        def __init__(self) -> None:
            self._lock = threading.Lock()
            self.release = self._lock.release
            self._count = 0

        def acquire(self, timeout: float = -1) -> bool:
            self._count += 1
            is_acquired = self._lock.acquire(timeout=timeout)
            if self._count == 2 and is_acquired:
                raise KeyboardInterrupt
            return is_acquired

    monkeypatch.setattr(loop_thread, "threading", SimpleNamespace(Lock=Lock))
    lost: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        loop.call(double, 4, lost=lost.append)
    assert lost == [8]


def test_the_end_of_the_loop_ends_calls_and_refuses_others(loop: LoopThread) -> None:
    begun = threading.Event()
    found: list[object] = []

    async def hang() -> None:
        begun.set()
        await trio.sleep_forever()

    def call() -> None:
        try:
            loop.call(hang)
        except LocalProtocolError as failure:
            found.append(str(failure))

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    begun.wait()
    loop.stop()
    thread.join()
    assert found == ["the client was closed while the call was in progress"]
    with pytest.raises(LocalProtocolError, match="the client is closed"):
        loop.call(double, 1)
    loop.stop()
    assert not loop.is_running


def test_the_end_of_a_submitted_call_is_announced_once(loop: LoopThread) -> None:
    ended: list[LoopCall[int]] = []
    done = threading.Event()

    def on_end(call: LoopCall[int]) -> None:
        ended.append(call)
        done.set()

    loop.submit(LoopCall(double, (4,), on_end))
    done.wait()
    assert [call.unwrap() for call in ended] == [8]
