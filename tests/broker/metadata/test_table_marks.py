"""The marks of tables: by file, on disk before the table, and what a start does whose log has them not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.delay.offsets import DelayProgress
from rocketpy.broker.metadata.feature import MetadataFeature
from rocketpy.broker.metadata.groups import CHECK_GROUP
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.clock import ManualClock
from rocketpy.errors import StartError
from rocketpy.protocol.topic_name import TRANS_HALF_TOPIC as HALF
from rocketpy.store.ha.log_mark import LogMark
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.tables_of_a_broker import STORE_HOST, make_tables
from tests.broker.test_store_opening import TOPIC, Life, disk, life, put, settings

__all__ = ["disk", "settings"]  # fixtures


async def test_marks_are_kept_by_file(tmp_path: Path) -> None:
    tables, mark = make_tables(tmp_path), LogMark(374, 187, "0" * 64)
    await tables.marks.note(tables.offsets.stored, mark)
    again = make_tables(tmp_path)
    again.marks.load()
    assert again.marks.mark_of(again.offsets.stored) == mark
    assert again.marks.mark_of(again.delay_offsets.stored) == LogMark()


@pytest.mark.parametrize("text", ["{}", '{"tableMarks":[]}', '{"tableMarks":{"a":{"offset":1}}}', "x"])
def test_a_file_of_something_else_fails_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "tableMarks.json").write_text(text)
    with pytest.raises(StartError, match=r"tableMarks\.json and its \.bak cannot be read"):
        make_tables(tmp_path).marks.load()


async def write_tables(broker: Life, settings: BrokerSettings) -> None:
    """Write offsets and progress as a broker does: of three messages, all consumed."""
    MetadataFeature(
        BrokerContext.of(
            settings,
            broker.tables,
            broker.store,
            port=10_911,
            ha_port=10_912,
            store_host=STORE_HOST,
            clock=ManualClock(),
            randomness=Random(0),
        )
    )
    for group, topic, offset in (("G", TOPIC, 3), (CHECK_GROUP, HALF, 2)):
        broker.tables.offsets.commit_offset("peer", group, topic, 0, offset)
    broker.tables.delay_offsets.take(DelayProgress({1: 7}, broker.store.wrote_offset))
    await broker.tables.offsets.stored.persist()
    await broker.tables.delay_offsets.stored.persist()


def lose_the_last(content: bytes, ends: list[int]) -> bytes:
    return content[: ends[-2]] + bytes(len(content) - ends[-2])


def put_another_in_its_place(content: bytes, ends: list[int]) -> bytes:
    """The last record as it would be with another storeTimestamp: of the same size, and whole."""
    begin = ends[-2] + 56
    return content[:begin] + bytes([content[begin] ^ 1]) + content[begin + 1 :]


@pytest.mark.parametrize("change", [None, lose_the_last, put_another_in_its_place])
async def test_tables_of_a_log_without_their_record_forget_what_they_say_of_it(
    settings: BrokerSettings,
    disk: SimDisk,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[bytes, list[int]], bytes] | None,
) -> None:
    ends: list[int] = []
    async with life(settings, disk) as first:
        for _ in range(3):
            put(first.store)
            ends.append(first.store.wrote_offset)
        await write_tables(first, settings)
    if change is not None:
        path = f"/broker/commitlog/{0:020d}"
        file = disk.open(path)
        content = file.read(0, ends[-1])
        file.write(0, change(content, ends))
        file.sync()
        file.close()
        for name in ("/broker/checkpoint", "/broker/orderly-end"):
            if disk.exists(name):
                disk.unlink(name)
        disk.open("/broker/abort", create=True).close()
    caplog.set_level(logging.WARNING)
    for attempt in range(2):
        caplog.clear()
        async with life(settings, disk) as again:
            offsets, noted = again.tables.offsets.snapshot(), again.tables.delay_offsets.noted
            end = again.store.max_offset_in_queue(TOPIC, 0)
        lines = [line for line in caplog.messages if "is of a log with a record that ends at" in line]
        if change is None:
            assert offsets == {f"{TOPIC}@G": {0: 3}, f"{HALF}@{CHECK_GROUP}": {0: 2}}
            assert noted.offsets == {1: 7}
            assert lines == []
        else:
            assert offsets == {f"{TOPIC}@G": {0: end}}
            assert noted == DelayProgress()
            assert len(lines) == (0 if attempt else 2), "it is said once"


async def test_tables_without_a_mark_count_for_the_log_that_they_lie_beside(
    settings: BrokerSettings, disk: SimDisk
) -> None:
    """Those of a Java broker, or of an older version."""
    async with life(settings, disk) as first:
        put(first.store)
        await write_tables(first, settings)
    disk.unlink("/broker/config/tableMarks.json")
    async with life(settings, disk) as again:
        assert again.tables.offsets.query_offset("G", TOPIC, 0) == 3
        assert again.tables.delay_offsets.noted.offsets == {1: 7}
