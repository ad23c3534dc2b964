# ruff: noqa: ASYNC240  the tests read small files
"""The file of a broadcasting consumer: the same bytes as Java's, and whole after any crash."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from rocketpy.client.consumer.offsets.local_offset_store import LocalOffsetStore
from rocketpy.errors import ClientError
from rocketpy.protocol.message import MessageQueue

GOLDEN = Path(__file__).parents[3] / "golden" / "config" / "client-offsets.json"
QUEUE = MessageQueue("GoldBroad", "broker-0", 1)
OTHER = MessageQueue("T", "b", 0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "10.0.0.1@DEFAULT" / "g" / "offsets.json"


async def test_the_file_is_byte_for_byte_that_of_java(path: Path) -> None:
    store = LocalOffsetStore(path)
    await store.load()
    store.table.update(QUEUE, 1)
    await store.persist([QUEUE, OTHER])
    assert path.read_bytes() == GOLDEN.read_bytes()
    again = LocalOffsetStore(path)
    await again.load()
    assert again.table.of_topic("") == {QUEUE: 1}
    assert await again.fetch(QUEUE) == 1
    assert await again.fetch(OTHER) is None


async def test_offsets_of_other_queues_stay_in_the_file(path: Path) -> None:
    first = LocalOffsetStore(path)
    first.table.update(QUEUE, 1)
    await first.persist([QUEUE])
    second = LocalOffsetStore(path)
    second.table.update(OTHER, 7)
    await second.persist_soon([OTHER])
    assert await second.fetch(QUEUE) == 1
    assert await second.fetch(OTHER) == 7


async def test_clients_of_one_instance_name_write_in_turn_and_lose_nothing(path: Path) -> None:
    """Their files have the same names, the temporary one too, which one truncated while the other renamed it."""
    stores = [LocalOffsetStore(path) for _ in range(4)]

    async def write(number: int, store: LocalOffsetStore) -> None:
        for queue_id in range(20):
            queue = MessageQueue("T", f"b{number}", queue_id)
            store.table.update(queue, queue_id)
            await store.persist([queue])

    async with trio.open_nursery() as nursery:
        for number, store in enumerate(stores):
            nursery.start_soon(write, number, store)
    again = LocalOffsetStore(path)
    await again.load()
    wanted = {MessageQueue("T", f"b{number}", queue_id): queue_id for number in range(4) for queue_id in range(20)}
    assert again.table.of_topic("") == wanted


async def test_a_damaged_file_is_replaced_by_its_backup(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = LocalOffsetStore(path)
    for offset in (1, 2):
        store.table.update(QUEUE, offset)
        await store.persist([QUEUE])
    assert path.with_name("offsets.json.bak").read_bytes() == GOLDEN.read_bytes()
    path.write_bytes(path.read_bytes()[:-5])
    assert await LocalOffsetStore(path).fetch(QUEUE) == 1
    assert "the backup is used" in caplog.text
    path.unlink()
    assert await LocalOffsetStore(path).fetch(QUEUE) == 1
    path.with_name("offsets.json.bak").write_bytes(b"{")
    with pytest.raises(ClientError, match="readLocalOffset Exception"):
        await LocalOffsetStore(path).load()


async def test_a_missing_or_empty_file_has_no_offsets(path: Path) -> None:
    store = LocalOffsetStore(path)
    await store.load()
    await store.persist([QUEUE])
    assert not path.exists()
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    await store.load()
    assert store.table.of_topic("") == {}


async def test_a_file_that_cannot_be_written_is_only_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "g").write_text("a file, where a directory must be")
    store = LocalOffsetStore(tmp_path / "g" / "offsets.json")
    store.table.update(QUEUE, 1)
    with pytest.raises(ClientError):
        await store.load()
    (tmp_path / "g").unlink()
    (tmp_path / "g" / "offsets.json.tmp").mkdir(parents=True)
    await store.persist([QUEUE])
    assert "offsets were not written" in caplog.text
