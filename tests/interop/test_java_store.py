"""Java's own store opens what our MessageStore wrote, without a broker between: whatever a record can be, it finds.

Closed in order, and copied while it was open, which is what a kill leaves. (test_store_reader.py does the same with
what real clients sent through a broker.)
"""

from __future__ import annotations

import random
import shutil
from collections import defaultdict
from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.clock import ManualClock
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.properties import encode_properties
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk import OsDisk
from rocketpy.store.index_catch_up import index_keys
from rocketpy.store.message_store import MessageStore, open_message_store
from rocketpy.store.results import PutMessageStatus
from tests.interop.clients import Program, Received, received

pytestmark = pytest.mark.java

LOG_FILE_SIZE = 65_536
INDEX_SLOTS, INDEX_ENTRIES = 500, 400
BORN_V4 = bytes((10, 0, 0, 1)) + (40_000).to_bytes(4, "big")
BORN_V6 = bytes.fromhex("20010db8000000000000000000000001") + (40_000).to_bytes(4, "big")
STORE_HOST = bytes((127, 0, 0, 1)) + (10_911).to_bytes(4, "big")
TOPICS = ("TopicTest", "%RETRY%group", "a" * 127)
TEXTS = ("plain", "größe", "订单 😀", "x" * 300)


@attrs.frozen
class Put:
    """What was put, and where the store says that it is."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    body: bytes
    properties: dict[str, str]


def config(root: Path) -> MessageStoreConfig:
    return MessageStoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=LOG_FILE_SIZE,
        max_hash_slot_num=INDEX_SLOTS,
        max_index_num=INDEX_ENTRIES,
    )


def put_all(store: MessageStore, clock: ManualClock, count: int) -> list[Put]:
    """Put messages of many kinds: all topics, three queues each, single and in batches, over many files."""
    choices = random.Random(1)
    done: list[Put] = []
    while len(done) < count:
        clock.advance_ms(choices.randrange(3))
        topic, queue_id = choices.choice(TOPICS), choices.randrange(3)
        born_host = choices.choice((BORN_V4, BORN_V6))
        batch = []
        for _ in range(choices.choice((1, 1, 1, 5, 20))):
            number = len(done) + len(batch)
            properties = {"UNIQ_KEY": f"7F00000100002A9F18B4{number:012X}", "n": str(number)}
            if number % 3:
                properties["KEYS"] = " ".join(["shared", f"key{number}", "größe"][: number % 4 + 1])
            if number % 5:
                properties["TAGS"] = f"Tag{number % 7}"
            properties["text"] = choices.choice(TEXTS)
            batch.append((b"body %d " % number * (1 + number * 7 % 900 * (number % 3 == 0)), properties))
        records = [
            (5, body, encode_properties(each).encode(), tags_code(each.get("TAGS")), index_keys(each))
            for body, each in batch
        ]
        if len(records) == 1:
            flag, body, text, code, keys = records[0]
            put = store.put(topic, queue_id, body, text, code, keys, flag, 0, 1_700_000_000_000, born_host, 2)
            assert put[0] is PutMessageStatus.PUT_OK
            places, first = [put[1]], put[2]
        else:
            status, places, first = store.put_batch(topic, queue_id, records, 0, 1_700_000_000_000, born_host, 2)
            assert status is PutMessageStatus.PUT_OK
        for index, (body, each) in enumerate(batch):
            done.append(Put(topic, queue_id, first + index, places[index], body, each))
        if choices.randrange(3) == 0:
            store.end_burst()
    store.end_burst()
    return done


def read_store(root: Path, directory: Path, keys: list[str]) -> list[dict[str, object]]:
    """Let Java open a store, which is Java's from then on, and return what it printed."""
    program = Program(
        "java",
        "readStore",
        directory,
        path=root,
        log_file_size=LOG_FILE_SIZE,
        index_slots=INDEX_SLOTS,
        index_entries=INDEX_ENTRIES,
        topic=TOPICS[0],
        keys=",".join(keys),
    )
    return [dict(each) for each in program.run([])]


@pytest.mark.parametrize("end", ["closed", "killed"])
async def test_java_finds_everything_that_was_put(tmp_path: Path, end: str) -> None:
    clock = ManualClock()
    root, copy = tmp_path / "store", tmp_path / "copy"
    async with open_message_store(
        config(root), disk=OsDisk(), clock=clock, run_blocking=trio.to_thread.run_sync, store_host=STORE_HOST
    ) as store:
        done = put_all(store, clock, 1_000)
        log_end = store.max_physical_offset
        if end == "killed":
            shutil.copytree(root, copy)
            assert (copy / "abort").exists()
    if end == "closed":
        shutil.copytree(root, copy)
        assert not (copy / "abort").exists()
    assert len(list((copy / "commitlog").iterdir())) > 5

    keys = ["shared", "größe", *(f"key{number}" for number in range(0, 1_000, 50)), "absent"]
    lines = await trio.to_thread.run_sync(read_store, copy, tmp_path / "reader", keys)
    messages = [(each, received(each)) for each in lines if each["event"] == "message"]
    assert [_described(line, message) for line, message in messages] == sorted(
        done, key=lambda put: (put.topic, put.queue_id, put.queue_offset)
    )
    assert {(line["flag"], message.reconsume_times) for line, message in messages} == {(5, 2)}
    assert {line["bornHost"] for line, _ in messages} == {"10.0.0.1", "2001:db8:0:0:0:0:0:1"}
    (log,) = [each for each in lines if each["event"] == "log"]
    assert (log["minPhysicalOffset"], log["maxPhysicalOffset"]) == (0, log_end)
    _check_keys(lines, done)


def _described(line: dict[str, object], message: Received) -> Put:
    offset = line["commitLogOffset"]
    assert isinstance(offset, int)
    return Put(message.topic, message.queue_id, message.queue_offset, offset, message.body, dict(message.properties))


def _check_keys(lines: list[dict[str, object]], done: list[Put]) -> None:
    """Java's index leads to the messages with each key, to the newest 64 where there are more."""
    by_key: dict[str, list[int]] = defaultdict(list)
    for put in done:
        if put.topic == TOPICS[0]:
            for key in put.properties.get("KEYS", "").split():
                by_key[key].append(put.physical_offset)
    asked = [each for each in lines if each["event"] == "key"]
    assert len(asked) == 23
    for each in asked:
        assert each["physicalOffsets"] == by_key[str(each["key"])][-64:], each["key"]
