"""The fingerprint of a run: equal for equal events at equal moments, and only then."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio

from rocketpy.testing.sim.seeded_run import run_seeded
from rocketpy.testing.sim.trace import Trace


def hash_of(note: Callable[[Trace], object], *, after: float = 1.0) -> str:
    async def main() -> str:
        trace = Trace()
        await trio.sleep(after)
        note(trace)
        assert trace.count >= 1
        return trace.hexdigest()

    return run_seeded(main, seed=0)


def test_equal_events_have_equal_hashes() -> None:
    assert hash_of(lambda trace: trace.note("send", "a", "b", b"x")) == hash_of(
        lambda trace: trace.note("send", "a", "b", b"x")
    )


@pytest.mark.parametrize(
    "other",
    [
        lambda trace: trace.note("send", "a", "b", b"y"),
        lambda trace: trace.note("send", "b", "a", b"x"),
        lambda trace: trace.note("kill", "a", "b", b"x"),
        lambda trace: (trace.note("send", "a", "b", b"x"), trace.note("kill", "a")),
        lambda trace: (trace.note("send", "a", "b"), trace.note("send", "a", "b", b"x")),
    ],
)
def test_any_other_event_has_another_hash(other: Callable[[Trace], object]) -> None:
    assert hash_of(other) != hash_of(lambda trace: trace.note("send", "a", "b", b"x"))


def test_another_moment_has_another_hash() -> None:
    def note(trace: Trace) -> None:
        trace.note("send", "a", "b", b"x")

    assert hash_of(note) != hash_of(note, after=1.5)
