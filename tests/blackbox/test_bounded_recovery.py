"""A broker that is killed under load with a long log reads only the end of it again, and has everything.

The log is written by the store alone, in a process of its own: over the network it would take ten times as long.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.recovery.checkpoint import load_checkpoint
from rocketpy.store.recovery.recovery_note import RecoveryNote, decode_note
from tests.blackbox.lives import OurLives
from tests.blackbox.processes import REPOSITORY
from tests.blackbox.store_under_load import BURST, QUEUES, TOPIC
from tests.blackbox.wire import SUCCESS, Wire
from tests.patience import wait_until

pytestmark = pytest.mark.blackbox

MESSAGES = 150_000  # of 1 KiB
GET_BROKER_RUNTIME_INFO = 28
SPARED_MIN = 64 << 20
"""What must be durable and indexed, and so need not be read again, before the process is killed."""
MORE_MAX = 2 * BURST
"""Messages that may be written after the last line that the killed program has printed."""
FIELDS = {
    "mapped_file_size_commit_log": 64 << 20,
    "mapped_file_size_consume_queue": 1_200_000,
    "max_hash_slot_num": 100_000,
    "max_index_num": 1_000_000,
}
SETTINGS = {
    "mappedFileSizeCommitLog": FIELDS["mapped_file_size_commit_log"],
    "mappedFileSizeConsumeQueue": FIELDS["mapped_file_size_consume_queue"],
    "maxHashSlotNum": FIELDS["max_hash_slot_num"],
    "maxIndexNum": FIELDS["max_index_num"],
}


def fill_until_killed(store: Path) -> int:
    """Fill a store and kill its process when much of it is durable and indexed, however busy the disk is.

    Return the messages that it said were written.
    """
    settings = [f"{name}={value}" for name, value in FIELDS.items()]
    command = [sys.executable, "-m", "tests.blackbox.store_under_load", str(store), *settings]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            count = 0
            while count < MESSAGES or min(durable_offset(store), indexed_offset(store)) < SPARED_MIN:
                line = process.stdout.readline()
                assert line, "the program has ended"
                count = int(line)
        finally:
            process.kill()
        # What it had said before it was killed counts; the last line may be half.
        rest = process.stdout.read().split(b"\n")[:-1]
    return int(rest[-1]) if rest else count


def indexed_offset(store: Path) -> int:
    """Return up to where the recovery note says that the index is built; 0 before the first checkpoint."""
    note = decode_note((store / "recovery-note").read_bytes())
    return note.index.end_physical_offset if isinstance(note, RecoveryNote) and note.index is not None else 0


def durable_offset(store: Path) -> int:
    """Return up to where the checkpoint says that log and queues are durable."""
    ends = load_checkpoint(OsDisk(), str(store / "checkpoint")).ends
    return 0 if ends is None else ends.durable_offset


def test_a_kill_under_load_costs_a_walk_of_what_came_since(tmp_path: Path) -> None:
    lives = OurLives(tmp_path)
    count = fill_until_killed(lives.store)
    # How long ago that is, is a promise to a mock clock: tests/store/services/test_flush_consume_queue.py.
    durable, indexed = durable_offset(lives.store), indexed_offset(lives.store)
    try:
        address = lives.live(SETTINGS)
        sentence = last_recovery(address)
        walked, left = map(int, re.findall(r"(\d+) bytes", sentence))
        assert "only the process has ended" in sentence
        end_max = (count + MORE_MAX) * 1024
        assert walked <= end_max - durable, f"expected to begin at {durable}: {sentence}"
        assert left <= end_max - indexed, f"expected to begin at {indexed}: {sentence}"
        check_messages(address, count)
    finally:
        lives.kill()


def last_recovery(address: str) -> str:
    """Return what the runtime info says of the recovery."""
    with Wire(address) as wire:
        table = wire.request(GET_BROKER_RUNTIME_INFO, {}).body.decode()
    (sentence,) = re.findall(r'"lastRecovery":"([^"]*)"', table)
    return str(sentence)


def check_messages(address: str, count: int) -> None:
    """All messages up to ``count`` are in their queues, and a key of any of them leads to it."""
    with Wire(address) as wire:
        ends = [wire.max_offset(TOPIC, queue_id) for queue_id in range(QUEUES)]
        assert count <= sum(ends) <= count + MORE_MAX
        for number in [*range(0, count, count // 20), *range(count - 300, count, 7)]:
            wait_until(
                lambda number=number: (
                    [each.body.split()[0] for each in wire.query(TOPIC, f"key-{number}")] == [b"%d" % number]
                ),
                lambda number=number: f"the index has no message {number}",
            )
        for queue_id, end in enumerate(ends):
            for first in (0, end - 32):
                records = wire.pull_all(TOPIC, queue_id, first, first + 32)
                expected = range(queue_id + QUEUES * first, queue_id + QUEUES * (first + 32), QUEUES)
                assert [int(each.body.split()[0]) for each in records] == list(expected)
        assert wire.send(TOPIC, 0, b"next").code == SUCCESS
