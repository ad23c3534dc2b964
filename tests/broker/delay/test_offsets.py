"""The file of delay offsets: RocketMQ's, with the physical offset to which it belongs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.broker.delay.offsets import DelayOffsetManager, DelayProgress
from rocketpy.errors import StartError
from rocketpy.runner import run_inline
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.delay.delayed import FILE, text_of, write_text

GOLDEN = Path(__file__).parents[2] / "golden" / "config"


def manager(disk: SimDisk) -> DelayOffsetManager:
    return DelayOffsetManager(path=FILE, disk=disk, run_blocking=run_inline)


def disk_with(text: str) -> SimDisk:
    disk = SimDisk()
    write_text(disk, text)
    return disk


async def test_javas_file_is_read_and_written_byte_for_byte() -> None:
    golden = (GOLDEN / "delayOffset.json").read_text()
    offsets = manager(disk_with(golden))
    offsets.load()
    assert offsets.offset_table == {1: 4, 2: 1}
    assert offsets.noted == DelayProgress({1: 4, 2: 1}, None)
    disk = SimDisk()
    again = manager(disk)
    again.note(offsets.noted)
    await again.stored.persist()
    assert text_of(disk) == golden


def test_the_file_of_a_slave_is_read() -> None:
    """A slave writes what its master answers, in one line."""
    offsets = manager(disk_with((GOLDEN / "slave-delayOffset.json").read_text()))
    offsets.load()
    assert offsets.offset_table == {1: 2, 2: 1}


async def test_our_file_has_the_physical_offset_too() -> None:
    disk = SimDisk()
    offsets = manager(disk)
    offsets.load()
    assert offsets.offset_table == {}
    offsets.note(DelayProgress({3: 7, 1: 4}, 81_723))
    await offsets.stored.persist()
    assert text_of(disk) == '{\n\t"offsetTable":{1:4,3:7\n\t},\n\t"physicalOffset":81723\n}'
    again = manager(disk)
    again.load()
    assert again.noted == offsets.noted
    assert again.offset_table == {1: 4, 3: 7}


@pytest.mark.parametrize("text", ['{"offsetTable":{"1":"4"}}', '{"offsetTable":{1:4},"somethingElse":{}}'])
def test_what_fastjson_takes_too(text: str) -> None:
    offsets = manager(disk_with(text))
    offsets.load()
    assert offsets.offset_table == {1: 4}


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"offsetTable":[]}',
        '{"offsetTable":{1:-4}}',
        '{"offsetTable":{1:true}}',
        '{"offsetTable":{"x":1}}',
        '{"offsetTable":{},"physicalOffset":"far"}',
    ],
)
def test_an_invalid_file_stops_the_start(text: str) -> None:
    with pytest.raises(StartError, match="delayOffset"):
        manager(disk_with(text)).load()


async def test_a_slave_takes_its_masters_progress() -> None:
    """At once for whoever asks for it, and in the file for a promotion; ours names where later deliveries begin."""
    disk = disk_with((GOLDEN / "slave-delayOffset.json").read_text())
    offsets = manager(disk)
    offsets.load()
    offsets.take(DelayProgress({1: 7, 3: 2}, 81_723))
    assert offsets.offset_table == {1: 7, 3: 2}
    await offsets.stored.persist()
    later = manager(disk)
    later.load()
    assert later.noted == DelayProgress({1: 7, 3: 2}, 81_723)
