"""Where Java's recovery is the worse one: each case shown on RocketMQ 4.9.7, and what we make of the same directory.

These are not faults that a test of ours could overlook in Java: they are what a directory that Java has opened may look
like, and the reasons for rows of ``docs/compatibility.md``. When a newer Java mends one, its test fails here.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from rocketpy.clock import ManualClock
from rocketpy.errors import DamagedStoreError
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.stored_message import decode_message
from rocketpy.store.results import PutMessageStatus
from tests.interop.java_store import JavaStores, KeyQuestion, StoreSizes, StoreView
from tests.interop.our_store import open_ours, view_of_directory
from tests.interop.store_contents import Item, Put, Stored, play_to_java, play_to_ours, record_size
from tests.patience import wait_until

pytestmark = pytest.mark.java

SIZES = StoreSizes()
TOPIC = "TopicTest"


def messages(count: int, *, begin: int = 0, topic: str = TOPIC, later_ms: int = 0) -> list[Put]:
    """Messages of one queue and of one size, each with a key of its own."""
    return [
        Put(topic, 0, (Item(b"message %03d" % number, {"KEYS": f"key{number:03d}"}),), later_ms=later_ms)
        for number in range(begin, begin + count)
    ]


def bodies(view: StoreView, topic: str = TOPIC) -> list[bytes]:
    """What the queue serves, in its order."""
    queue = view.queues.get((topic, 0))
    return [] if queue is None else [decode_message(record).body for record in queue.records]


def expected(*numbers: int) -> list[bytes]:
    """The bodies of these messages."""
    return [b"message %03d" % number for number in numbers]


def ours(root: Path, script: list[Put], *, killed: bool = False) -> list[Stored]:
    """Open our store, append, and end in order; with ``killed`` what stays is what a kill leaves."""
    copy = root.with_name(f"{root.name}-copy")

    async def append() -> list[Stored]:
        clock = ManualClock()
        async with open_ours(root, SIZES, clock=clock) as store:
            stored = play_to_ours(store, clock, script)
            if killed:
                shutil.copytree(root, copy)
            return stored

    stored = trio.run(append)
    if killed:
        shutil.rmtree(root)
        copy.rename(root)
    return stored


def java_killed(java: JavaStores, root: Path, script: list[Put]) -> list[Stored]:
    """Let Java open a store and append; what stays is what a kill leaves."""
    working = root.with_name(f"{root.name}-{time.monotonic_ns()}")
    if root.exists():
        root.rename(working)
    assert java.open(working, SIZES)
    stored = play_to_java(java, working, script)
    java.view(working)
    java.copy_as_killed(working, root)
    java.drop(working)
    return stored


def java_view(java: JavaStores, root: Path, keys: tuple[KeyQuestion, ...] = ()) -> StoreView:
    """What Java finds in a copy of a directory."""
    copy = root.with_name(f"{root.name}-{time.monotonic_ns()}")
    shutil.copytree(root, copy)
    assert java.open(copy, SIZES)
    try:
        return java.view(copy, keys)
    finally:
        java.drop(copy)


def our_view(root: Path, keys: tuple[KeyQuestion, ...] = ()) -> StoreView:
    """What we find in a copy of a directory."""
    copy = root.with_name(f"{root.name}-{time.monotonic_ns()}")
    shutil.copytree(root, copy)
    return view_of_directory(copy, SIZES, keys)


def log_file(root: Path, physical_offset: int) -> Path:
    return root / "commitlog" / f"{physical_offset // SIZES.log_file * SIZES.log_file:020d}"


def overwrite(root: Path, physical_offset: int, content: bytes) -> None:
    """Write into the log, as a fault would."""
    with log_file(root, physical_offset).open("r+b") as file:
        file.seek(physical_offset % SIZES.log_file)
        file.write(content)


# ---- what was cut comes back ----------------------------------------------------------------------------------------


def test_what_java_cut_comes_back_with_the_second_crash(java_stores: JavaStores, tmp_path: Path) -> None:
    """After the first crash message 50 is torn; both serve 50, take one more in its place, and are killed again."""
    root = tmp_path / "store"
    stored = java_killed(java_stores, root, messages(100))
    torn = stored[50]
    overwrite(root, torn.physical_offset + 100, bytes(record_size(torn.put, torn.item) - 100))
    assert bodies(java_view(java_stores, root)) == expected(*range(50))
    assert bodies(our_view(root)) == expected(*range(50))

    by_us = tmp_path / "ours"
    shutil.copytree(root, by_us)
    java_killed(java_stores, root, messages(1, begin=200))
    assert bodies(java_view(java_stores, root)) == expected(*range(50), 200, *range(51, 100))
    ours(by_us, messages(1, begin=200), killed=True)
    assert bodies(our_view(by_us)) == expected(*range(50), 200)
    assert bodies(java_view(java_stores, by_us)) == expected(*range(50), 200)


# ---- the log --------------------------------------------------------------------------------------------------------


def test_java_cuts_everything_after_a_flipped_bit(java_stores: JavaStores, tmp_path: Path) -> None:
    """After its clean shutdown every message was durable, so this is damage; Java starts and has forgotten half."""
    root = tmp_path / "store"
    assert java_stores.open(root, SIZES)
    stored = play_to_java(java_stores, root, messages(100))
    assert java_stores.close(root)
    overwrite(root, stored[50].physical_offset + 88, b"M")
    found = java_view(java_stores, root)
    assert bodies(found) == expected(*range(50))
    assert found.max_physical_offset == stored[50].physical_offset
    with pytest.raises(DamagedStoreError) as refusal:
        our_view(root)
    assert refusal.value.position == stored[50].physical_offset % SIZES.log_file
    assert "store verify" in str(refusal.value)


def test_java_starts_without_a_file_of_the_log(java_stores: JavaStores, tmp_path: Path) -> None:
    """It finds nothing wrong, takes messages, and fails those who read what is missing."""
    root = tmp_path / "store"
    assert java_stores.open(root, SIZES)
    stored = play_to_java(java_stores, root, messages(700))
    assert java_stores.close(root)
    files = sorted((root / "commitlog").iterdir())
    before, missing = files[1:3]
    missing.unlink()
    first_lost = next(each for each in stored if each.physical_offset >= int(missing.name))
    assert first_lost.queue_offset is not None

    with pytest.raises(DamagedStoreError) as refusal:
        our_view(root)
    assert before.name in str(refusal.value)
    assert "store verify" in str(refusal.value)
    assert java_stores.open(root, SIZES)
    play_to_java(java_stores, root, messages(1, begin=700))
    lost = java_stores.get(root, TOPIC, 0, first_lost.queue_offset)
    assert (lost["status"], lost["maxOffset"]) == ("MESSAGE_WAS_REMOVING", 701)
    java_stores.drop(root)


def test_java_serves_properties_that_are_torn(java_stores: JavaStores, tmp_path: Path) -> None:
    """The CRC covers the body only; a record whose last sector never reached the disk passes."""
    root = tmp_path / "store"
    stored = ours(root, messages(3), killed=True)
    last = stored[-1]
    end = last.physical_offset + record_size(last.put, last.item)
    overwrite(root, end - 4, bytes(4))
    found = java_view(java_stores, root)
    assert bodies(found) == expected(0, 1, 2)
    record = found.queues[TOPIC, 0].records[-1]
    assert decode_message(record).properties == {"KEYS": "ke\0\0\0\0"}
    assert bodies(our_view(root)) == expected(0, 1)


def test_java_acknowledges_a_topic_that_it_cannot_read(java_stores: JavaStores, tmp_path: Path) -> None:
    """It counts characters, and stores the length in bytes in one byte: what follows is lost with the next start."""
    root = tmp_path / "store"
    java_killed(java_stores, root, [*messages(2), *messages(1, topic="订" * 100), *messages(2, begin=2)])
    assert bodies(java_view(java_stores, root)) == expected(0, 1)

    async def put() -> PutMessageStatus:
        async with open_ours(tmp_path / "ours", SIZES) as store:
            status: PutMessageStatus = store.put("订" * 100, 0, b"", b"", 0, (), 0, 0, 0, bytes(8), 0)[0]
            return status

    assert trio.run(put) is PutMessageStatus.MESSAGE_ILLEGAL


@pytest.mark.parametrize("below", ["commitlog", "consumequeue/TopicTest/0"])
@pytest.mark.parametrize(("name", "size"), [("next", 0), (".DS_Store", 6148), ("00000000000000000000.orig", 100)])
def test_java_does_not_start_with_a_file_of_another_size(
    java_stores: JavaStores, tmp_path: Path, below: str, name: str, size: int
) -> None:
    """An empty file is what a crash between creating and extending one leaves; the others come from people's tools."""
    root = tmp_path / "store"
    ours(root, messages(30), killed=True)
    next_base = SIZES.log_file if below == "commitlog" else 2 * SIZES.queue_file
    (root / below / (f"{next_base:020d}" if name == "next" else name)).write_bytes(bytes(size))
    assert bodies(our_view(root)) == expected(*range(30))
    assert not java_stores.open(root, SIZES)


# ---- queues ---------------------------------------------------------------------------------------------------------


def test_java_makes_a_message_out_of_an_empty_queue_file(java_stores: JavaStores, tmp_path: Path) -> None:
    """A queue file that a crash has left empty, and a torn end of the log: the queue gets a unit of nothing."""
    root = tmp_path / "store"
    stored = ours(root, messages(3), killed=True)
    overwrite(root, stored[-1].physical_offset, bytes(record_size(stored[-1].put, stored[-1].item)))
    empty = root / "consumequeue" / "Other" / "0" / f"{0:020d}"
    empty.parent.mkdir(parents=True)
    empty.write_bytes(bytes(SIZES.queue_file))
    found = our_view(root)
    assert found.queues.keys() == {(TOPIC, 0)}

    assert java_stores.open(root, SIZES)
    assert java_stores.units(root, "Other", 0) == [(0, 0, 0)]
    assert java_stores.get(root, "Other", 0, 0)["maxOffset"] == 1
    java_stores.drop(root)


def test_java_leaves_a_queue_that_was_lost_after_a_clean_shutdown(java_stores: JavaStores, tmp_path: Path) -> None:
    root = tmp_path / "store"
    ours(root, [*messages(20), *messages(1, topic="Other")])
    shutil.rmtree(root / "consumequeue" / TOPIC)
    assert bodies(java_view(java_stores, root)) == []
    assert bodies(our_view(root)) == expected(*range(20))


def test_java_delivers_delayed_messages_at_once_after_a_crash(java_stores: JavaStores, tmp_path: Path) -> None:
    """It rebuilds units that were not on the disk before it knows the delay levels: without their time."""
    root = tmp_path / "store"
    delayed = Put("Later", 0, (Item(b"in two hours", {"DELAY": "18"}),))
    java_killed(java_stores, root, [delayed])
    schedule = ("SCHEDULE_TOPIC_XXXX", 17)
    shutil.rmtree(root / "consumequeue" / schedule[0])

    async def our_tags_code() -> int:
        copy = tmp_path / "ours"
        shutil.copytree(root, copy)
        async with open_ours(copy, SIZES, tags_code=two_hours_later) as store:
            listing = await store.list_units(*schedule, 0, 1)
            assert listing is not None
            return listing.units[0].tags_code

    stored_ms = decode_message(our_view(root).queues[schedule].records[0]).store_timestamp
    assert trio.run(our_tags_code) == stored_ms + 7_200_000
    assert java_stores.open(root, SIZES)
    assert java_stores.units(root, *schedule)[0][2] == 0
    wait_until(
        lambda: java_stores.get(root, "Later", 0, 0)["maxOffset"] != 0, lambda: "Java delivers it when it should"
    )
    java_stores.drop(root)


def two_hours_later(topic: str, properties: Mapping[str, str], store_timestamp_ms: int) -> int:
    """What a broker passes in for delayed messages, here with one level."""
    if topic == "SCHEDULE_TOPIC_XXXX":
        return store_timestamp_ms + 7_200_000
    return tags_code(properties.get("TAGS"))


# ---- the index ------------------------------------------------------------------------------------------------------


def test_java_forgets_keys_with_a_crash(java_stores: JavaStores, tmp_path: Path) -> None:
    """The unfinished index file goes, and only what recovery scans is indexed again."""
    root = tmp_path / "store"
    stored = ours(root, messages(400, later_ms=1_000))
    java_killed(java_stores, root, messages(1, begin=400))
    keys = tuple(KeyQuestion(TOPIC, f"key{number:03d}") for number in (0, 100, 399, 400))
    everywhere = tuple((each.physical_offset,) for each in (stored[0], stored[100], stored[399]))
    by_java = java_view(java_stores, root, keys)
    assert bodies(by_java) == expected(*range(401))
    assert by_java.keys[:2] == ((), ())
    assert by_java.keys[2] == everywhere[2]
    assert our_view(root, keys).keys[:3] == everywhere


def test_java_overwrites_an_index_file_that_was_begun_in_the_same_millisecond(
    java_stores: JavaStores, tmp_path: Path
) -> None:
    """The name is the time in milliseconds; a recovery fills small files faster than that, if not at the first try."""
    root = tmp_path / "store"
    stored = ours(root, messages(300), killed=True)
    shutil.rmtree(root / "index")
    sizes = StoreSizes(index_entries=2)
    keys = [KeyQuestion(TOPIC, f"key{number:03d}") for number in range(300)]
    everywhere = tuple((each.physical_offset,) for each in stored)
    copy = tmp_path / "ours"
    shutil.copytree(root, copy)
    assert view_of_directory(copy, sizes, keys).keys == everywhere
    for attempt in range(20):
        copy = tmp_path / f"java-{attempt}"
        shutil.copytree(root, copy)
        assert java_stores.open(copy, sizes)
        found = java_stores.view(copy, keys).keys
        java_stores.drop(copy)
        if () in found:
            break
    assert () in found
    assert len(list((copy / "index").iterdir())) < 300
