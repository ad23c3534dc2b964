"""The figures of a store: windows, times in RocketMQ's buckets, its texts."""

from __future__ import annotations

import gzip
import json
from collections import deque
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from rocketpy.clock import ManualClock
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.frame import decode_frame
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.figures import PutTimes, SlowBursts, StoreFigures
from rocketpy.store.results import StoreStatistics
from rocketpy.testing.sim.disk import SimDisk

GOLDEN_FRAMES = Path(__file__).parent.parent / "golden" / "frames.jsonl.gz"
BROKERS_OWN = (
    "send", "pull", "query", "EndTransaction", "brokerVersion", "msg", "pageCache", "startAccept",
    "scheduleMessageOffset", "commitLogDiskRatio_",
)  # fmt: skip
NOTHING = StoreStatistics(*([0] * len(attrs.fields(StoreStatistics))))
CONFIG = MessageStoreConfig(store_path_root_dir="/a", store_path_commit_log="/a/commitlog,/b/commitlog")


class Store:
    """Counters, a disk and a clock, and the figures made of them."""

    def __init__(
        self,
        capacity_bytes: int = 1 << 30,
        config: MessageStoreConfig = CONFIG,
        current_time: Callable[[], float] | None = None,
    ) -> None:
        self.now = NOTHING
        self.time = 0.0
        self.slow_bursts: SlowBursts = deque()
        self.disk = SimDisk(capacity_bytes=capacity_bytes)
        self.clock = ManualClock()
        self.earliest_ms = -1
        self.reads = 0
        self.figures = StoreFigures(
            statistics=lambda: self.now,
            read_earliest=self.read_earliest,
            slow_bursts=self.slow_bursts,
            clock=self.clock,
            config=config,
            disk=self.disk,
            current_time=current_time or (lambda: self.time),
        )

    async def read_earliest(self) -> int:
        self.reads += 1
        return self.earliest_ms

    def put(self, count: int, *slow: tuple[int, int]) -> None:
        self.now = attrs.evolve(self.now, put_count=self.now.put_count + count)
        self.slow_bursts.extend(slow)

    def sample(self, seconds: float = 1) -> None:
        self.time += seconds
        self.figures.sample()


def rates(store: Store, name: str) -> list[float]:
    return [float(each) for each in store.figures.runtime_info()[name].split(" ")]


def test_without_samples_nothing_has_happened() -> None:
    store = Store()
    assert store.figures.runtime_info()["putTps"] == "0.0 0.0 0.0"
    store.sample()
    assert store.figures.runtime_info()["getTotalTps"] == "0.0 0.0 0.0"


def test_each_window_looks_back_its_own_length() -> None:
    store = Store()
    for second in range(1000):
        # 100 messages in the last 5 seconds, 10 a minute before, 1000 long ago
        put = 1000 + (10 if second >= 950 else 0) + (100 if second >= 995 else 0)
        store.now = attrs.evolve(
            NOTHING, put_count=put, get_count=2 * put, get_miss_count=put, get_message_count=3 * put
        )
        store.sample()
    assert rates(store, "putTps") == pytest.approx([10.0, 110 / 60, 110 / 600])
    assert rates(store, "getTotalTps") == pytest.approx([20.0, 220 / 60, 220 / 600])
    assert rates(store, "getFoundTps") == rates(store, "getMissTps") == rates(store, "putTps")
    assert rates(store, "getTransferedTps") == pytest.approx([30.0, 330 / 60, 330 / 600])


def test_a_window_that_is_not_full_counts_as_far_as_it_goes() -> None:
    store = Store()
    store.sample()
    store.put(30)
    store.sample(3)
    assert rates(store, "putTps") == [10.0, 10.0, 10.0]


def test_times_fall_into_rocketmqs_ranges() -> None:
    times = PutTimes()
    edges = [1, 9, 10, 49, 50, 99, 100, 199, 200, 499, 500, 999, 1000, 1999, 2000, 2999, 3000, 4999, 5000, 9999, 10_000]
    times.add([(edge, 2) for edge in edges], 100)
    assert times.distribution() == (
        "[<=0ms]:58 [0~10ms]:4 [10~50ms]:4 [50~100ms]:4 [100~200ms]:4 [200~500ms]:4 [500ms~1s]:4 [1~2s]:4 "
        "[2~3s]:4 [3~4s]:2 [4~5s]:2 [5~10s]:4 [10s~]:2 "
    )


def test_percentiles_are_interpolated_in_their_bucket() -> None:
    times = PutTimes()
    assert times.percentile_ms(0.99) == 0
    times.add([(25, 10)], 100)
    assert times.percentile_ms(0.45) == 0.5, "half of the 90 that took less than a millisecond"
    assert times.percentile_ms(0.95) == 25.0, "half of the 10 between 24 and 26 ms"
    times.add([(60_000, 900)], 900)
    assert times.percentile_ms(0.99) == 10_000


def test_times_are_those_of_the_last_whole_minute() -> None:
    store = Store()
    store.sample()
    store.put(10, (3, 3), (700, 2))
    store.sample()
    info = store.figures.runtime_info()
    assert info["putMessageDistributeTime"].startswith("[<=0ms]:5 [0~10ms]:3 ")
    assert info["putMessageEntireTimeMax"] == "700"
    assert info["putLatency999"] == "650.00"
    store.sample(60)
    store.put(10, (1500, 10))
    store.sample()
    info = store.figures.runtime_info()
    assert "[1~2s]:0 " in info["putMessageDistributeTime"], "this minute is not over"
    assert info["putMessageEntireTimeMax"] == "1500"
    store.sample(60)
    assert "[1~2s]:10 " in store.figures.runtime_info()["putMessageDistributeTime"]
    assert not store.slow_bursts


def test_how_full_the_disks_are_is_rounded_up_to_a_percent() -> None:
    store = Store(capacity_bytes=1000)
    disk = store.disk
    info = store.figures.runtime_info()
    assert (info["commitLogDiskRatio"], info["consumeQueueDiskRatio"]) == ("-1.0", "-1.0"), "there is no directory"
    for directory in ("/a/commitlog", "/b/commitlog", "/a/consumequeue"):
        disk.make_directories(directory)
    assert store.figures.runtime_info()["commitLogDiskRatio"] == "0.0"
    disk.capacity_bytes = 1 << 20
    disk.open("/a/file", create=True).write(0, bytes(4096))
    info = store.figures.runtime_info()
    assert info["commitLogDiskRatio_/a/commitlog"] == info["commitLogDiskRatio_/b/commitlog"] == "0.01"
    assert info["commitLogDirCapacity"] == "Total : 1.0 MiB, Free : 1020.0 KiB."


def test_what_the_transient_store_pool_holds() -> None:
    assert Store().figures.runtime_info()["remainTransientStoreBufferNumbs"] == "2147483647"
    store = Store(config=attrs.evolve(CONFIG, transient_store_pool_enable=True, mapped_file_size_commit_log=4096))
    assert store.figures.runtime_info()["remainTransientStoreBufferNumbs"] == "5"
    store.now = attrs.evolve(NOTHING, uncommitted_bytes=5000)
    info = store.figures.runtime_info()
    assert info["remainTransientStoreBufferNumbs"] == "3"
    assert info["remainHowManyDataToCommit"] == "4.9 KiB"


def test_the_time_since_the_start() -> None:
    store = Store()
    began_ms = store.clock.timestamp_ms()
    store.clock.advance_ms(((25 * 60 + 2) * 60 + 3) * 1000)
    info = store.figures.runtime_info()
    assert info["bootTimestamp"] == str(began_ms)
    assert info["runtime"] == "[ 1 days, 1 hours, 2 minutes, 3 seconds ]"


def test_totals_and_the_longest_cold_read() -> None:
    store = Store()
    store.now = attrs.evolve(NOTHING, put_count=4, put_bytes=10, put_refused_count=3, commit_log_max_offset=2048)
    store.figures.cold_read_took(17)
    store.figures.cold_read_took(5)
    info = store.figures.runtime_info()
    assert info["putMessageAverageSize"] == "2.5"
    assert info["putMessageFailedTimes"] == "3"
    assert info["getMessageEntireTimeMax"] == "17"
    assert info["remainHowManyDataToFlush"] == "2.0 KiB"


def test_all_figures_are_there_that_java_answers() -> None:
    java: set[str] = set()
    with gzip.open(GOLDEN_FRAMES, "rt", encoding="utf-8") as file:
        for line in map(json.loads, file):
            if line["kind"] == "response" and line["request_code"] == RequestCode.GET_BROKER_RUNTIME_INFO:
                java |= decode_body(decode_frame(bytes.fromhex(line["frame_hex"])).body, KVTable).table.keys()
    assert java
    assert {key for key in java if not key.startswith(BROKERS_OWN)} <= Store().figures.runtime_info().keys()


async def test_it_samples_every_second_and_looks_at_the_first_message_once(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    store = Store(current_time=trio.current_time)
    await nursery.start(store.figures.run)
    store.put(30)
    await trio.sleep(3.5)
    assert rates(store, "putTps") == pytest.approx([10.0, 10.0, 10.0])
    store.earliest_ms = 1234
    await trio.sleep(5)
    reads = store.reads
    await trio.sleep(5)
    assert store.reads == reads
    assert store.figures.runtime_info()["earliestMessageTimeStamp"] == "1234"
    store.now = attrs.evolve(store.now, commit_log_min_offset=4096)
    store.earliest_ms = 5678
    await trio.sleep(2)
    assert store.figures.runtime_info()["earliestMessageTimeStamp"] == "5678"


def test_lines_of_a_minute_are_rocketmqs() -> None:
    store = Store()
    rates_line, times_line = store.figures.minute_lines()
    assert rates_line == "[STORETPS] put_tps 0.0 get_found_tps 0.0 get_miss_tps 0.0 get_transfered_tps 0.0"
    assert times_line.startswith("[PAGECACHERT] TotalPut 0, PutMessageDistributeTime [<=0ms]:0 [0~10ms]:0 ")
