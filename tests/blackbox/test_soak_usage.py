"""What the kernel says of a process: this one, whose descriptors, threads and memory are known."""

from __future__ import annotations

import mmap
import os
import socket
import threading
from pathlib import Path

import attrs

from bench.soak.usage import bytes_below, processor_ns, usage_of

SIZE = 32 << 20


def test_memory_of_its_own_is_counted_and_that_of_a_file_is_not(tmp_path: Path) -> None:
    """It is mapped anew: what malloc returns may be memory that an earlier test has freed, and that counts already."""
    before = usage_of(os.getpid()).memory_bytes
    with mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as own:
        own.write(b"x" * SIZE)
        assert usage_of(os.getpid()).memory_bytes >= before + SIZE // 2


def test_descriptors_are_counted_by_what_they_are(tmp_path: Path) -> None:
    before = usage_of(os.getpid())
    path = tmp_path / "removed"
    with (tmp_path / "file").open("w"), path.open("w"), socket.socket():
        path.unlink()
        reading, writing = os.pipe()
        after = usage_of(os.getpid())
        os.close(reading)
        os.close(writing)
    assert after.files == before.files + 2
    assert after.removed_files == before.removed_files + 1
    assert after.sockets == before.sockets + 1
    assert after.other_descriptors == before.other_descriptors + 2
    assert attrs.evolve(usage_of(os.getpid()), memory_bytes=0, threads=0) == attrs.evolve(
        before, memory_bytes=0, threads=0
    )


def test_threads_are_counted() -> None:
    end = threading.Event()
    before = usage_of(os.getpid()).threads
    threads = [threading.Thread(target=end.wait) for _ in range(3)]
    for each in threads:
        each.start()
    assert usage_of(os.getpid()).threads == before + 3
    end.set()
    for each in threads:
        each.join()


def test_processor_time_has_that_of_threads_that_have_ended() -> None:
    def work() -> None:
        sum(range(300_000))

    before = processor_ns(os.getpid())
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    used = processor_ns(os.getpid()) - before
    assert used > 0
    assert processor_ns(os.getpid()) >= before + used


def test_a_hole_takes_nothing_of_the_disk(tmp_path: Path) -> None:
    with (tmp_path / "hole").open("wb") as file:
        file.truncate(1 << 30)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "full").write_bytes(b"x" * 100_000)
    assert 100_000 <= bytes_below(tmp_path) < 1 << 20
