"""Rate limit: every second has at most the rate, also after a wait, and no row is lost."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.spark.pipelines.pacing import PIECE_SECONDS, paced


class FakeClock:
    """Time that passes only in waits."""

    def __init__(self) -> None:
        self._now = 100.0

    def now(self) -> float:
        return self._now

    def wait(self, seconds: float) -> None:
        self._now += seconds

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.wait(seconds)


def run(sizes: list[int], rate: float, stalls: dict[int, float]) -> list[tuple[float, list[int]]]:
    """Return when each piece was taken, with its rows; ``stalls``: how long the reader waits after the nth piece."""
    clock = FakeClock()
    first = 0
    batches = []
    for size in sizes:
        batches.append(pa.record_batch({"n": pa.array(range(first, first + size), pa.int64())}))
        first += size
    taken = []
    for number, piece in enumerate(paced(batches, rate, clock=clock.now, sleep=clock.sleep)):
        taken.append((clock.now(), piece.column("n").to_pylist()))
        clock.wait(stalls.get(number, 0.0))
    return taken


@given(
    st.lists(st.integers(0, 50), max_size=6),
    st.sampled_from([0.5, 3.0, 25.0, 200.0]),
    st.dictionaries(st.integers(0, 20), st.floats(0.01, 30)),
)
def test_no_second_has_more_than_the_rate_and_the_piece_under_way(
    sizes: list[int], rate: float, stalls: dict[int, float]
) -> None:
    taken = run(sizes, rate, stalls)
    assert [row for _, rows in taken for row in rows] == list(range(sum(sizes)))
    piece = max(1, int(rate * PIECE_SECONDS))
    for begin, _ in taken:
        in_second = sum(len(rows) for at, rows in taken if begin <= at < begin + 1)
        assert in_second <= rate * (1 + PIECE_SECONDS) + piece + 1e-6


def test_the_rate_is_reached() -> None:
    taken = run([1000], 100, {})
    assert taken[-1][0] - taken[0][0] == pytest.approx(9.9)
