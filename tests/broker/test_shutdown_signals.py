"""What signals do to a process, and the end of a shutdown that hangs."""

from __future__ import annotations

import os
import signal

import pytest
import trio
import trio.testing

from rocketpy.broker.shutdown_signals import SHUTDOWN_SECONDS, obey_signals


@pytest.mark.parametrize("is_signalled_again", [False, True])
async def test_a_shutdown_that_hangs_is_ended(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock, is_signalled_again: bool
) -> None:
    class Ended(Exception):
        pass

    def end(status: int) -> None:
        assert status == 1
        raise Ended

    killed: list[str] = []
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr("logging.shutdown", lambda: None)
    sending, signals = trio.open_memory_channel[int](5)
    stop = trio.Event()
    begun = trio.current_time()
    await sending.send(signal.SIGTERM)
    if is_signalled_again:
        await sending.send(signal.SIGTERM)
    with pytest.raises(Ended):
        await obey_signals(signals, stop, before_exit=lambda: killed.append("others"))
    assert stop.is_set()
    assert killed == ["others"]
    assert trio.current_time() - begun == pytest.approx(0 if is_signalled_again else SHUTDOWN_SECONDS)
