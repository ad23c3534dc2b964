# ruff: noqa: ASYNC240  the tests read small files
"""The file of a broadcasting consumer: the same bytes as Java's, and whole after any crash."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from rocketpy.client.consumer.offsets.local_offset_store import LocalOffsetStore
from rocketpy.client.consumer.offsets.opening import persist_regularly
from rocketpy.errors import ClientError
from rocketpy.protocol.message import MessageQueue
from tests.patience import PATIENCE_SECONDS

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


def no_space(path: Path, patch: pytest.MonkeyPatch) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    patch.setattr(os, "fsync", fsync)


def no_permission(path: Path, patch: pytest.MonkeyPatch) -> None:
    def read_bytes(self: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    patch.setattr(Path, "read_bytes", read_bytes)


def a_directory_in_its_place(path: Path, patch: pytest.MonkeyPatch) -> None:
    path.unlink()
    path.mkdir()
    path.with_name("offsets.json.bak").unlink(missing_ok=True)


def both_damaged(path: Path, patch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"{")
    path.with_name("offsets.json.bak").write_bytes(b"{")


def its_directory_is_a_file(path: Path, patch: pytest.MonkeyPatch) -> None:
    for each in path.parent.iterdir():
        each.unlink()
    path.parent.rmdir()
    path.parent.write_bytes(b"")


def mended(path: Path) -> None:
    if path.parent.is_file():
        path.parent.unlink()
        path.parent.mkdir()
    if path.is_dir():
        path.rmdir()
    for each in path.parent.iterdir():
        each.unlink()


@pytest.mark.parametrize(
    "spoil", [no_space, no_permission, a_directory_in_its_place, both_damaged, its_directory_is_a_file]
)
async def test_no_failure_to_write_ends_what_writes_now_and_then(
    spoil: Callable[[Path, pytest.MonkeyPatch], None],
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is bookkeeping: a consumer goes on, and its progress is in the file once that can be written again."""
    caplog.set_level(logging.INFO)
    store, rounds = LocalOffsetStore(path), 0
    store.table.update(QUEUE, 1)
    await store.persist([QUEUE])
    tried = trio.Event()

    def queues() -> list[MessageQueue]:
        nonlocal rounds
        rounds += 1
        if rounds == 6:
            tried.set()
        return [QUEUE]

    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            with monkeypatch.context() as patch:
                spoil(path, patch)
                store.table.update(QUEUE, 7)
                nursery.start_soon(persist_regularly, store.persist_soon, queues, 1)
                await tried.wait()
                nursery.cancel_scope.cancel()
        with monkeypatch.context() as patch:
            if spoil in (no_space, no_permission):
                spoil(path, patch)
            await store.persist([QUEUE])
            failed = [each for each in caplog.messages if each.startswith(f"offsets were not written to {path}, ")]
            assert 3 <= len(failed) < rounds, "the first ones, and the last one, that was asked for"
        mended(path)
        await store.persist([QUEUE])
    assert await LocalOffsetStore(path).fetch(QUEUE) == 7
    assert f"offsets are written to {path} again" in caplog.messages


async def test_a_damaged_file_without_a_backup_is_reported_so(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir(parents=True)
    path.write_bytes(b"{")
    await LocalOffsetStore(path).load()
    assert [each for each in caplog.messages if "and there is no backup" in each]
