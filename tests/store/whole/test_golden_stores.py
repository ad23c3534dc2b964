"""Store directories that Java 4.9.7 wrote, opened by ours: it must find in them what Java's own store finds.

``expected-*.jsonl.gz`` is what ``DefaultMessageStore`` says of each directory after ``load()`` and ``start()``. Where
we answer differently on purpose:

- Searches by time choose the queue file by the times of its records, Java by the time at which the file was modified.
  In the stores that were killed Java skips the right file; the test shows that our answer is the nearer one.
- Without queues and index (``-noqueue``) after a crash, Java makes them from the file on with which recovery begins,
  and fills what is before with blank units. We make them from the beginning of the log, so what is expected of such a
  directory is what Java says of the same one with its queues. That also holds for the delay queues, whose units Java
  makes without the time of delivery there, and for searches by time, which Java answers before it has any units.
- An empty log begins at 0; Java says -1.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
import trio

from rocketpy.clock import ManualClock
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.stored_message import decode_message, decode_messages
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.disk.text_files import read_text
from rocketpy.store.index.file import IndexHeader, IndexLayout
from rocketpy.store.index.file_list import IndexFileList
from rocketpy.store.index.service import IndexService
from rocketpy.store.message_store import MessageStore
from rocketpy.store.recovery.checkpoint import load_checkpoint
from tests.patience import PATIENCE_SECONDS
from tests.store.golden_store import expected, line_of, unpack_store
from tests.store.opened_store import opened
from tests.store.parts import Place
from tests.turns import run_in_turn

STORES = (
    "store-clean",
    "store-crash",
    "store-torn",
    "store-empty",
    "store-ipv6",
    "store-ext",
    "store-multi",
    "store-clean-noqueue",
    "store-crash-noqueue",
)
EVER = (0, 1 << 62)
DELAYS = MessageStoreConfig().message_delay_level.split()
UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000}
STORE_HOST = bytes((127, 0, 0, 1)) + (10911).to_bytes(4, "big")


def reference(name: str) -> dict[str, list[dict[str, Any]]]:
    """Return what is expected of a store: of one without queues, the same as with them."""
    return expected(name.removesuffix("-noqueue"))


def unit_tags_code(topic: str, properties: Mapping[str, str], store_timestamp_ms: int) -> int:
    """What a broker passes in: units of delayed messages hold the time of delivery."""
    if topic == "SCHEDULE_TOPIC_XXXX":
        delay = DELAYS[int(properties["DELAY"]) - 1]
        return store_timestamp_ms + int(delay[:-1]) * UNITS_MS[delay[-1]]
    return tags_code(properties.get("TAGS"))


@asynccontextmanager
async def open_golden(name: str, directory: Path) -> AsyncIterator[MessageStore]:
    """Unpack and open a store, and wait until its index has caught up."""
    root = unpack_store(name.removesuffix("-noqueue"), directory)
    if name.endswith("-noqueue"):
        shutil.rmtree(root / "consumequeue")
        shutil.rmtree(root / "index")
    async with open_store(name, root) as store:
        yield store


@asynccontextmanager
async def open_store(name: str, root: Path) -> AsyncIterator[MessageStore]:
    """Open a store as the expectations were made: as a slave that corrects offsets, so that nothing is appended."""
    place = Place(OsDisk(), str(root))
    async with opened(place, config=config_of(name, root), store_host=STORE_HOST, tags_code=unit_tags_code) as store:
        with trio.fail_after(PATIENCE_SECONDS):
            while store.dispatch_behind or store.index_behind:
                await trio.sleep(0.001)
        yield store


def config_of(name: str, root: Path) -> MessageStoreConfig:
    settings = expected(name)["store"][0]["config"]
    return MessageStoreConfig(
        store_path_root_dir=str(root),
        broker_role=BrokerRole.SLAVE,
        offset_check_in_slave=True,
        mapped_file_size_commit_log=int(settings["mappedFileSizeCommitLog"]),
        mapped_file_size_consume_queue=int(settings["mappedFileSizeConsumeQueue"]),
        max_hash_slot_num=int(settings["maxHashSlotNum"]),
        max_index_num=int(settings["maxIndexNum"]),
    )


@pytest.mark.parametrize("name", STORES)
async def test_every_record_is_the_one_that_java_reads(name: str, tmp_path: Path) -> None:
    lines = expected(name)
    async with open_golden(name, tmp_path) as store:
        assert store.max_physical_offset == max(lines["end"][0]["offset"], 0)
        for each in lines.get("record", []):
            record = await store.look_message_by_offset(each["offset"])
            assert record is not None, each
            assert hashlib.sha256(record).hexdigest() == each["recordSha256"], each
            assert line_of(decode_message(record, decompress=False)).items() <= each.items()
            if "plainSha256" in each:
                assert hashlib.sha256(decode_message(record).body).hexdigest() == each["plainSha256"]
        for each in lines.get("blank", []):
            assert await store.look_message_by_offset(each["offset"]) is None
        assert await store.look_message_by_offset(store.max_physical_offset) is None


@pytest.mark.parametrize("name", STORES)
async def test_queues_have_the_units_that_java_finds(name: str, tmp_path: Path) -> None:
    lines = reference(name)
    async with open_golden(name, tmp_path) as store:
        for each in lines["queue"]:
            queue = each["topic"], each["queueId"]
            if each["when"] == "started":
                found = store.min_offset_in_queue(*queue), store.max_offset_in_queue(*queue)
                assert found == (each["min"], each["max"]), each
        for each in lines.get("units", []):
            units: list[list[int]] = []
            while len(units) < len(each["units"]):
                first, left = each["first"] + len(units), len(each["units"]) - len(units)
                listing = await store.list_units(each["topic"], each["queueId"], first, left)
                assert listing is not None
                assert listing.units, first
                units += [[unit.physical_offset, unit.size, unit.tags_code] for unit in listing.units]
            assert units == each["units"]
        known = {(each["topic"], each["queueId"]) for each in lines["queue"] if each["max"]}
        assert set(store.queues()) == known


@pytest.mark.parametrize("name", STORES)
async def test_reads_answer_as_java_does(name: str, tmp_path: Path) -> None:
    async with open_golden(name, tmp_path) as store:
        for each in reference(name)["get"]:
            asked = each["topic"], each["queueId"], each["offset"], each.get("maxNums", 32)
            result = await store.get_message(*asked)
            assert store.get_message_nowait(*asked) == result
            found = {
                "status": result.status.name,
                "nextBeginOffset": result.next_begin_offset,
                "minOffset": result.min_offset,
                "maxOffset": result.max_offset,
                "bufferTotalSize": len(result.body),
                "physicalOffsets": [message.physical_offset for message in decode_messages(result.body)],
            }
            assert result.message_count == len(found["physicalOffsets"])
            assert {key: each.get(key, value) for key, value in found.items()} == found, each


@pytest.mark.parametrize("name", STORES)
async def test_searches_by_time_find_what_java_finds(name: str, tmp_path: Path) -> None:
    lines = reference(name)
    different = 0
    async with open_golden(name, tmp_path) as store:
        for each in lines["offset_by_time"]:
            queue = each["topic"], each["queueId"]
            found = await store.offset_in_queue_by_time(*queue, each["timestamp"])
            if found != each["offset"]:
                ours_ms = await store.store_timestamp_of(*queue, found)
                theirs_ms = await store.store_timestamp_of(*queue, each["offset"])
                if ours_ms == theirs_ms:  # of several of one time ours is the first, Java's any
                    before_ms = await store.store_timestamp_of(*queue, found - 1)
                    assert before_ms < ours_ms == each["timestamp"], (each, found)
                else:
                    assert abs(ours_ms - each["timestamp"]) < abs(theirs_ms - each["timestamp"]), (each, found)
                    different += 1
        for each in lines["earliest"]:
            if each["topic"] is not None:
                queue = each["topic"], each["queueId"]
                found = await store.store_timestamp_of(*queue, store.min_offset_in_queue(*queue))
                assert found == each["storeTime"], each
    assert different == (6 if name.startswith(("store-crash", "store-torn")) else 0)


def index_of(name: str, root: Path) -> IndexService:
    """Load the index of a store that was closed."""
    config = config_of(name, root)
    disk = OsDisk()
    files = IndexFileList(
        path=str(root / "index"),
        disk=disk,
        clock=ManualClock(),
        checkpoint=load_checkpoint(disk, str(root / "checkpoint")),
        layout=IndexLayout(config.max_hash_slot_num, config.max_index_num),
    )
    index = IndexService(files=files, disk=disk, run_blocking=run_in_turn, query_count_max=config.max_msgs_num_batch)
    index.load(is_clean=True)
    return index


@pytest.mark.parametrize("name", STORES)
async def test_keys_lead_to_the_messages_that_java_finds(name: str, tmp_path: Path) -> None:
    lines = reference(name)
    async with open_golden(name, tmp_path) as store:
        for each in lines["query_message"]:
            body = (await store.query_message(each["topic"], each["key"], each["max"], *EVER)).body
            assert [message.physical_offset for message in decode_messages(body)] == each["offsets"], each
    with closing(index_of(name, tmp_path)) as index:
        for each in lines["index_lookup"]:
            result = await index.query_offset(each["topic"], each["key"], each["max"], each["begin"], each["end"])
            assert result.physical_offsets == each["offsets"], each
            assert result.index_last_update_timestamp_ms == each["lastUpdateTimestamp"]
            assert result.index_last_update_physical_offset == each["lastUpdatePhyoffset"]


# Java has two keys twice in store-crash: of the message with which it goes on after the crash. We have them twice when
# we go on like that, and once when the whole index is rebuilt.
@pytest.mark.parametrize("name", [name for name in STORES if name != "store-crash-noqueue"])
async def test_files_of_index_and_configuration_are_those_that_java_has(name: str, tmp_path: Path) -> None:
    async with open_golden(name, tmp_path):
        pass
    for each in expected(name)["config"]:
        assert read_text(OsDisk(), str(tmp_path / "config" / each["file"])) == each["text"]
    found = []
    for path in sorted((tmp_path / "index").iterdir()):
        header = IndexHeader(*struct.unpack(">qqqqii", path.read_bytes()[:40]))
        found.append(header)
    assert found == [
        IndexHeader(
            each["beginTimestamp"],
            each["endTimestamp"],
            each["beginPhyOffset"],
            each["endPhyOffset"],
            each["hashSlotCount"],
            each["indexCount"],
        )
        for each in reference(name).get("index_file", [])
    ]


@pytest.mark.parametrize("name", STORES)
def test_the_checkpoint_says_what_java_reads(name: str, tmp_path: Path) -> None:
    root = unpack_store(name.removesuffix("-noqueue"), tmp_path)
    checkpoint = load_checkpoint(OsDisk(), str(root / "checkpoint"))
    (line,) = expected(name)["checkpoint"]
    assert line["physicMsgTimestamp"] == checkpoint.physic_msg_timestamp_ms
    assert line["logicsMsgTimestamp"] == checkpoint.logics_msg_timestamp_ms
    assert line["indexMsgTimestamp"] == checkpoint.index_msg_timestamp_ms
    assert (root / "abort").exists() is expected(name)["store"][0]["abort_present"]
