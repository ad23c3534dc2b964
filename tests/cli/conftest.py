"""Running the command line against a fake cluster: the program in a process, the cluster in this one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import pytest
import trio

from tests.cli.forked import FORKS, run_command
from tests.client.fake_cluster import FakeCluster, open_fake_cluster
from tests.patience import PATIENCE_SECONDS

TOPIC = "TopicTest"


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    """One broker with a topic of four queues."""
    async with open_fake_cluster() as opened:
        opened.add_topic(TOPIC)
        yield opened


@attrs.frozen
class Ended:
    """What a command printed and how it ended."""

    status: int
    output: bytes
    errors: str

    @property
    def lines(self) -> list[str]:
        """The lines of its output."""
        return self.output.decode().splitlines()


def command(*arguments: str) -> list[str]:
    """The command line that runs ``rocketpy``."""
    return [sys.executable, "-m", "rocketpy.cli", *arguments]


def environment(**more: str) -> dict[str, str]:
    """Our environment without what would change a command's mind."""
    return {name: value for name, value in os.environ.items() if name != "NAMESRV_ADDR"} | more


async def run(*arguments: str, stdin: bytes = b"", **more: str) -> Ended:
    """Run a command to its end."""
    with TemporaryDirectory() as directory, trio.fail_after(PATIENCE_SECONDS):
        streams = [Path(directory, name) for name in ("stdin", "stdout", "stderr")]
        streams[0].write_bytes(stdin)
        process = FORKS.Process(target=run_command, args=(arguments, environment(**more), streams))
        process.start()
        await trio.lowlevel.wait_readable(process.sentinel)
        process.join()
        assert process.exitcode is not None
        return Ended(process.exitcode, streams[1].read_bytes(), streams[2].read_text())


@asynccontextmanager
async def started(*arguments: str) -> AsyncIterator[trio.Process]:
    """Start a command with pipes; it is killed when the block ends, if it still runs."""
    with heeded_interrupt():
        process = await trio.lowlevel.open_process(
            command(*arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
    try:
        with trio.fail_after(PATIENCE_SECONDS):
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            assert stream is not None
            await trio.aclose_forcefully(stream)


@contextmanager
def heeded_interrupt() -> Iterator[None]:
    """Let a process that is started here heed Control-C, though this one may not, as the background jobs of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


async def line(stream: trio.abc.ReceiveStream | None) -> bytes:
    """Read up to the end of a line, byte by byte: nothing of the next one is taken."""
    assert stream is not None
    found = b""
    while not found.endswith(b"\n"):
        byte = await stream.receive_some(1)
        if not byte:
            break
        found += byte
    return found
