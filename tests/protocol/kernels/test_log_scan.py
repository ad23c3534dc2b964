"""The kernel takes the records that the general path takes, and stops before the same one, whatever the damage."""

from __future__ import annotations

from pathlib import Path

import attrs
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import RecordStatus, check_message, encode_message
from rocketpy.store.log.plain_records import PlainRecords, QueueRun, continued_run, scan_kernel
from tests.store.golden_store import unpack_store

BEGIN = 1 << 33
TOPICS = ("T", "TopicTest", "\u00e4" * 20)


@attrs.frozen
class Made:
    """What a record of the log is made of."""

    topic: str
    queue_id: int
    body: bytes
    text: str
    gap: int
    is_v6: bool
    sys_flag: int


MADE = st.builds(
    Made,
    topic=st.sampled_from(TOPICS),
    queue_id=st.integers(0, 1),
    body=st.binary(max_size=60),
    text=st.sampled_from(("", "value", "a\0b", "x" * 300)),
    gap=st.sampled_from((0, 0, 0, 0, 0, 1)),
    is_v6=st.sampled_from((False, False, False, False, True)),
    sys_flag=st.sampled_from((0, 0, 0, 0, 0x8, 0x4, 0xC)),
)


def log_of(made: list[Made]) -> bytes:
    log, next_offsets = b"", dict.fromkeys([(each.topic, each.queue_id) for each in made], 5)
    for each in made:
        queue = each.topic, each.queue_id
        message = MessageExt(
            topic=each.topic,
            body=each.body,
            properties={"KEYS": each.text} if each.text else {},
            queue_id=each.queue_id,
            queue_offset=next_offsets[queue] + each.gap,
            physical_offset=BEGIN + len(log),
            born_host="[::1]:1" if each.is_v6 else "127.0.0.1:1",
            store_host="127.0.0.1:10911",
            store_timestamp=1_700_000_000_000 + len(log),
            sys_flag=each.sys_flag,
        )
        next_offsets[queue] += 1 + each.gap
        log += encode_message(message)
    return log


def walked(
    log: bytes, *, is_kernel: bool, end_max: int, count_max: int, check_crc: bool
) -> tuple[list[tuple[object, ...]], int, dict[tuple[bytes, int], int]]:
    """Walk as the users of the loop do: the general path for each record that it leaves; return all that is seen."""
    known: PlainRecords[QueueRun] = PlainRecords(take_plain=scan_kernel() if is_kernel else None)
    seen: list[tuple[object, ...]] = []
    at = 0
    while True:
        records = known.take(log, at, end_max, BEGIN + at, count_max=count_max, check_crc=check_crc)
        seen += [((each[0].topic, each[0].queue_id), *each[1:]) for each in records]
        at += sum(each[3] for each in records)
        if len(records) == count_max:
            continue
        record = check_message(log, at, end_max - at, check_crc=check_crc)
        if record.status is not RecordStatus.MESSAGE or record.physical_offset != BEGIN + at:
            break
        seen.append(("other", record.physical_offset, record.size))
        continued_run(known, record)
        at += record.size
    ends = {}
    for topic in TOPICS:
        for queue_id in range(2):
            run = known.find(topic.encode(), queue_id)
            if run is not None:
                ends[topic.encode(), queue_id] = run.next_offset
    return seen, at, ends


@given(
    st.lists(MADE, max_size=12),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 255)), max_size=3),
    st.integers(0, 40),
    st.sampled_from((1, 3, 1000)),
    st.booleans(),
)
def test_it_takes_what_the_general_path_takes(
    made: list[Made], damages: list[tuple[int, int]], cut: int, count_max: int, check_crc: bool
) -> None:
    log = bytearray(log_of(made))
    for position, change in damages:
        if position < len(log):
            log[position] ^= change
    content = bytes(log)
    end_max = max(0, len(content) - cut)
    kernel = walked(content, is_kernel=True, end_max=end_max, count_max=count_max, check_crc=check_crc)
    general = walked(content, is_kernel=False, end_max=end_max, count_max=count_max, check_crc=check_crc)
    assert kernel == general


def test_it_takes_most_of_a_plain_log() -> None:
    """Else the equality above would say nothing about the kernel."""
    log = log_of([Made("T", number % 2, b"body", "value", 0, False, 0) for number in range(100)])
    seen, end, _ = walked(log, is_kernel=True, end_max=len(log), count_max=1000, check_crc=True)
    assert (len(seen), end) == (100, len(log))
    assert [each[0] for each in seen].count("other") == 2


def test_it_reads_what_a_java_broker_has_written(tmp_path: Path) -> None:
    store = unpack_store("store-clean", tmp_path)
    (path, *_) = sorted((store / "commitlog").iterdir())
    content = path.read_bytes()
    known = {
        is_kernel: PlainRecords[QueueRun](take_plain=scan_kernel() if is_kernel else None)
        for is_kernel in (True, False)
    }
    at, taken, base = 0, 0, int(path.name)
    while True:
        found = {
            is_kernel: each.take(content, at, len(content), base + at, count_max=10_000)
            for is_kernel, each in known.items()
        }
        plain = {is_kernel: [each[1:] for each in records] for is_kernel, records in found.items()}
        assert plain[True] == plain[False]
        taken += len(plain[True])
        at += sum(each[2] for each in plain[True])
        record = check_message(content, at, len(content) - at)
        if record.status is not RecordStatus.MESSAGE:
            break
        for each in known.values():
            continued_run(each, record)
        at += record.size
    assert taken > 10
