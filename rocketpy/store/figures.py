"""Metrics of a store for operators: rates, latencies and sizes, under RocketMQ's names.

Rule: no work per message. The store's own counters are sampled once a second. Only latencies of at least a millisecond
are reported: those of sampled bursts, and of reads that waited for the disk.

Compatibility: ``StoreStatsService`` and ``DefaultMessageStore.getRuntimeInfo`` (4.9.8). A rate whose window is not full
yet is computed over the available samples, where RocketMQ leaves a gap in the text.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import accumulate

import attrs
import trio

from rocketpy.clock import Clock
from rocketpy.errors import ShortageError
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk.interface import Disk
from rocketpy.store.results import StoreStatistics
from rocketpy.store.retention import disk_usage, least_full
from rocketpy.ticks import next_tick

SAMPLE_SECONDS = 1.0
WINDOWS = (10, 60, 600)
"""Lengths of the windows of rates, in samples."""

TIMED_BURST = 8
"""One of this many bursts is timed and stands for the others: reading the clock costs as much as a message."""

SLOW_BURSTS_MAX = 4096
"""Bound of the queue of slow bursts; about as many bursts of a millisecond as fit between two samples."""

_NO_POOL = "2147483647"
_TIMES_SECONDS = 60
"""Latencies of puts are those of the last full minute."""

_DISTRIBUTION = (
    (1, "[<=0ms]"), (10, "[0~10ms]"), (50, "[10~50ms]"), (100, "[50~100ms]"), (200, "[100~200ms]"),
    (500, "[200~500ms]"), (1000, "[500ms~1s]"), (2000, "[1~2s]"), (3000, "[2~3s]"), (4000, "[3~4s]"),
    (5000, "[4~5s]"), (10_000, "[5~10s]"), (1 << 62, "[10s~]"),
)  # fmt: skip
_DISTRIBUTION_ENDS = [end for end, _ in _DISTRIBUTION]
_BUCKET_STEPS = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1000, 9))  # width in ms, how many


_BUCKET_ENDS = list(accumulate(width for width, count in _BUCKET_STEPS for _ in range(count)))
SlowBursts = deque[tuple[int, int]]
"""(milliseconds, messages) of sampled bursts that took at least 1 ms; messages include those they stand for."""


class PutTimes:
    """Latency histogram of puts, in RocketMQ's buckets."""

    def __init__(self) -> None:
        self._slow: list[tuple[int, int]] = []  # milliseconds and messages
        self._count = 0

    def add(self, slow: Iterable[tuple[int, int]], count: int) -> None:
        """Add messages, with those among them that took a millisecond or longer."""
        self._slow += slow
        self._count += count

    @property
    def count(self) -> int:
        """The number of messages."""
        return self._count

    def distribution(self) -> str:
        """Return RocketMQ's text of the histogram: each range with its number of messages."""
        counts = [0] * len(_DISTRIBUTION)
        for time_ms, count in self._all():
            counts[bisect_right(_DISTRIBUTION_ENDS, time_ms)] += count
        return "".join(f"{name}:{count} " for (_, name), count in zip(_DISTRIBUTION, counts, strict=True))

    def percentile_ms(self, share: float) -> float:
        """Return the latency percentile for a share, interpolated within its bucket."""
        counts = [0] * (len(_BUCKET_ENDS) + 1)
        for time_ms, count in self._all():
            counts[bisect_left(_BUCKET_ENDS, time_ms)] += count
        wanted = int(self._count * share)
        passed = begin = 0
        for end, count in zip(_BUCKET_ENDS, counts, strict=False):
            if wanted <= passed + count:
                return begin + (end - begin) * (wanted - passed) / count if count else begin
            passed, begin = passed + count, end
        return float(begin)

    def _all(self) -> list[tuple[int, int]]:
        quick = self._count - sum(count for _, count in self._slow)
        return [*self._slow, (0, max(0, quick))]  # the slow ones are extrapolated, perhaps to more than there were


@attrs.frozen
class _Sample:
    time: float
    put_count: int
    get_count: int
    get_miss_count: int
    get_message_count: int


class StoreFigures:
    """Metrics of one store: samples, bounded by the longest window, and the values derived from them."""

    def __init__(
        self,
        *,
        statistics: Callable[[], StoreStatistics],
        read_earliest: Callable[[], Awaitable[int]],
        slow_bursts: SlowBursts,
        config: MessageStoreConfig,
        clock: Clock,
        disk: Disk,
        current_time: Callable[[], float],
    ) -> None:
        self._statistics = statistics
        self._read_earliest = read_earliest
        self._slow_bursts = slow_bursts
        self._config = config
        self._clock = clock
        self._disk = disk
        self._current_time = current_time
        self._boot_timestamp_ms = clock.timestamp_ms()
        self._samples: deque[_Sample] = deque(maxlen=max(WINDOWS) + 1)
        self._put_times = PutTimes()  # of the current minute
        self._last_put_times: PutTimes | None = None  # of the previous minute
        self._minute_began = current_time()
        self._put_time_max_ms = 0
        self._get_time_max_ms = 0
        self._earliest = -1, -1  # the log's min_offset when it was last read, and the storeTimestamp there

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Sample until cancelled."""
        self.sample()
        task_status.started()
        while True:
            await self._cache_earliest()
            await trio.sleep_until(next_tick(SAMPLE_SECONDS))
            self.sample()

    def sample(self) -> None:
        """Take one sample of the counters, and the latencies reported since the last one."""
        now, time = self._statistics(), self._current_time()
        put_count = now.put_count - self._samples[-1].put_count if self._samples else 0
        self._samples.append(_Sample(time, now.put_count, now.get_count, now.get_miss_count, now.get_message_count))
        if time - self._minute_began >= _TIMES_SECONDS:
            self._last_put_times, self._put_times, self._minute_began = self._put_times, PutTimes(), time
        slow = [self._slow_bursts.popleft() for _ in range(len(self._slow_bursts))]
        self._put_times.add(slow, put_count)
        self._put_time_max_ms = max(self._put_time_max_ms, max(slow, default=(0, 0))[0])

    def cold_read_took(self, time_ms: int) -> None:
        """Record the latency of a read that waited for the disk."""
        self._get_time_max_ms = max(self._get_time_max_ms, time_ms)

    async def _cache_earliest(self) -> None:
        """Cache the storeTimestamp of the log's first message, so that runtime info need not wait for the disk."""
        min_offset = self._statistics().commit_log_min_offset
        looked_at, timestamp_ms = self._earliest
        if min_offset != looked_at or timestamp_ms < 0:
            with suppress(ShortageError):  # the next look comes soon
                self._earliest = min_offset, await self._read_earliest()

    # ---- the texts ------------------------------------------------------------------------------------------------

    def runtime_info(self) -> dict[str, str]:
        """Return the store's entries of GET_BROKER_RUNTIME_INFO. Queries the usage of the disks."""
        now = self._statistics()
        return self._put_and_get(now) | self._rates() | self._disks() | self._pool(now) | {
            "bootTimestamp": str(self._boot_timestamp_ms),
            "runtime": _duration(max(0, self._clock.timestamp_ms() - self._boot_timestamp_ms)),
            "commitLogMinOffset": str(now.commit_log_min_offset),
            "commitLogMaxOffset": str(now.commit_log_max_offset),
            "dispatchBehindBytes": "0",
            "dispatchMaxBuffer": "0",
            "indexBehind": str(now.index_behind),
            "remainHowManyDataToFlush": _byte_count(now.commit_log_max_offset - now.commit_log_flushed_offset),
            "earliestMessageTimeStamp": str(self._earliest[1]),
        }  # fmt: skip

    def minute_lines(self) -> tuple[str, str]:
        """Return RocketMQ's two log lines about the last minute: rates, and latencies of puts."""
        times = self._put_times if self._last_put_times is None else self._last_put_times
        rates = (
            f"put_tps {self._over_a_minute(lambda sample: sample.put_count)}",
            f"get_found_tps {self._over_a_minute(lambda sample: sample.get_count - sample.get_miss_count)}",
            f"get_miss_tps {self._over_a_minute(lambda sample: sample.get_miss_count)}",
            f"get_transfered_tps {self._over_a_minute(lambda sample: sample.get_message_count)}",
        )
        return (
            f"[STORETPS] {' '.join(rates)}",
            f"[PAGECACHERT] TotalPut {times.count}, PutMessageDistributeTime {times.distribution()}",
        )

    def _over_a_minute(self, count_of: Callable[[_Sample], int]) -> str:
        return self._over_windows(count_of).split()[1]

    def _put_and_get(self, now: StoreStatistics) -> dict[str, str]:
        times = self._put_times if self._last_put_times is None else self._last_put_times
        return {
            "putMessageEntireTimeMax": str(self._put_time_max_ms),
            "putMessageTimesTotal": str(now.put_count),
            "putMessageFailedTimes": str(now.put_refused_count),
            "putMessageSizeTotal": str(now.put_bytes),
            "putMessageDistributeTime": times.distribution(),
            "putMessageAverageSize": str(now.put_bytes / max(1, now.put_count)),
            "putLatency99": f"{times.percentile_ms(0.99):.2f}",
            "putLatency999": f"{times.percentile_ms(0.999):.2f}",
            "getMessageEntireTimeMax": str(self._get_time_max_ms),
        }

    def _rates(self) -> dict[str, str]:
        return {
            "putTps": self._over_windows(lambda sample: sample.put_count),
            "getFoundTps": self._over_windows(lambda sample: sample.get_count - sample.get_miss_count),
            "getMissTps": self._over_windows(lambda sample: sample.get_miss_count),
            "getTotalTps": self._over_windows(lambda sample: sample.get_count),
            "getTransferedTps": self._over_windows(lambda sample: sample.get_message_count),
        }

    def _over_windows(self, count_of: Callable[[_Sample], int]) -> str:
        """Return three rates per second, up to the last sample."""
        if len(self._samples) < 2:
            return " ".join(["0.0"] * len(WINDOWS))
        last = self._samples[-1]
        first = [self._samples[max(0, len(self._samples) - 1 - window)] for window in WINDOWS]
        return " ".join(str((count_of(last) - count_of(each)) / (last.time - each.time)) for each in first)

    def _disks(self) -> dict[str, str]:
        config, disk = self._config, self._disk
        usages = [disk_usage(disk, path) for path in config.commit_log_paths]
        path = config.commit_log_path
        total, free = _byte_count(disk.total_bytes(path)), _byte_count(disk.free_bytes(path))
        return {f"commitLogDiskRatio_{usage.path}": str(usage.ratio) for usage in usages} | {
            "commitLogDiskRatio": str(least_full(usages).ratio),
            "consumeQueueDiskRatio": str(disk_usage(disk, config.consume_queue_path).ratio),
            "commitLogDirCapacity": f"Total : {total}, Free : {free}.",
        }

    def _pool(self, now: StoreStatistics) -> dict[str, str]:
        """Return the fill of the transient store pool; without one, the same number of buffers as RocketMQ shows."""
        config = self._config
        if not config.has_transient_store_pool:
            return {"remainTransientStoreBufferNumbs": _NO_POOL}
        free_bytes = max(0, config.transient_store_pool_bytes - now.uncommitted_bytes)
        return {
            "remainTransientStoreBufferNumbs": str(free_bytes // config.mapped_file_size_commit_log),
            "remainHowManyDataToCommit": _byte_count(now.uncommitted_bytes),
        }


def _duration(milliseconds: int) -> str:
    """RocketMQ's text of a duration."""
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _byte_count(size_bytes: int) -> str:
    """RocketMQ's text of a size.

    >>> _byte_count(1023), _byte_count(1536), _byte_count(6 << 30)
    ('1023 B', '1.5 KiB', '6.0 GiB')
    """
    if size_bytes < 1024:
        return f"{size_bytes} B"
    size, units = size_bytes / 1024, iter("KMGTPE")
    unit = next(units)
    while size >= 1024:
        size, unit = size / 1024, next(units)
    return f"{size:.1f} {unit}iB"
