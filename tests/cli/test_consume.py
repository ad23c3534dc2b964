"""``rocketpy consume``: what it prints, where it begins and how it ends."""

from __future__ import annotations

import base64
import errno
import io
import json
import os
import signal

import pytest
import trio
import typer

from rocketpy.cli.consume import ConsumeOptions, json_line, parse_start, print_messages
from rocketpy.client.consumer.start import Start
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.message import MessageExt
from tests.cli.conftest import TOPIC, line, run, started
from tests.client.fake_cluster import STORE_TIMESTAMP, FakeCluster
from tests.patience import until


def fill(cluster: FakeCluster, count: int, *, queues: int = 4) -> None:
    for number in range(count):
        cluster.broker.put(TOPIC, number % queues, b"%d" % number, {"TAGS": "even" if number % 2 == 0 else "odd"})


# ---- pure parts ----------------------------------------------------------------------------------------------------


def test_where_to_begin() -> None:
    assert [parse_start(text) for text in ("beginning", "end", "stored", "1700000000000", "-5")] == [
        Start.beginning(),
        Start.end(),
        Start.stored(),
        Start.at_time(1_700_000_000_000),
        Start.last(5),
    ]
    for text in ("", "middle", "1.5", "-"):
        with pytest.raises(typer.BadParameter):
            parse_start(text)


def test_a_message_as_json() -> None:
    message = MessageExt(
        "T",
        "grüße\n".encode(),
        {"TAGS": "a", "KEYS": "k", "UNIQ_KEY": "A" * 32},
        queue_id=3,
        queue_offset=7,
        broker_name="broker-a",
        born_timestamp=1,
        store_timestamp=2,
        born_host="127.0.0.1:5",
    )
    encoded = json_line(message)
    assert b"\n" not in encoded
    assert json.loads(encoded) == {
        "topic": "T",
        "broker_name": "broker-a",
        "queue_id": 3,
        "queue_offset": 7,
        "msg_id": "A" * 32,
        "born_timestamp": 1,
        "store_timestamp": 2,
        "born_host": "127.0.0.1:5",
        "tags": "a",
        "keys": "k",
        "properties": {"TAGS": "a", "KEYS": "k", "UNIQ_KEY": "A" * 32},
        "body": "grüße\n",
    }
    binary = json.loads(json_line(MessageExt("T", b"\xff\x00")))
    assert "body" not in binary
    assert base64.b64decode(binary["body_base64"]) == b"\xff\x00"


# ---- reading in this process ---------------------------------------------------------------------------------------


def consume_options(cluster: FakeCluster, **changes: object) -> ConsumeOptions:
    settings: dict[str, object] = {
        "topic": TOPIC,
        "namesrv": cluster.address,
        "start": "beginning",
        "exit_at_end": True,
        "count": 0,
        "expression": "*",
        "queue": "",
        "group": "g",
        "as_json": False,
        "commit": False,
    }
    return ConsumeOptions(**(settings | changes))  # type: ignore[arg-type]


class Output(io.BytesIO):
    """Counts its flushes, and breaks on request; at a write it is a disk that is full."""

    flushes = 0
    breaks_at_flush = 0
    writes = 0
    breaks_at_write = 0

    def write(self, line: bytes) -> int:  # type: ignore[override]
        self.writes += 1
        if self.writes == self.breaks_at_write:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(line)

    def flush(self) -> None:
        self.flushes += 1
        if self.flushes == self.breaks_at_flush:
            raise BrokenPipeError


@pytest.mark.parametrize(
    ("changes", "bodies"),
    [
        ({"expression": "odd"}, [1, 3, 5, 7]),
        ({"queue": "1"}, [1, 5]),
        ({"start": -1}, [4, 5, 6, 7]),
        ({"start": STORE_TIMESTAMP + 4900}, [5, 6, 7]),
        ({"start": "end"}, []),
        ({"start": "stored", "group": "reader"}, [0, 2, 3, 4, 6, 7]),
    ],
)
async def test_what_is_read(cluster: FakeCluster, changes: dict[str, object], bodies: list[int]) -> None:
    fill(cluster, 8)
    cluster.broker.progress["reader", TOPIC, 1] = 2
    output = Output()
    await print_messages(consume_options(cluster, **changes), output)
    assert sorted(map(int, output.getvalue().split())) == bodies


async def test_nothing_is_committed_unless_it_is_asked_for(cluster: FakeCluster) -> None:
    fill(cluster, 10)
    output = Output()
    await print_messages(consume_options(cluster), output)
    assert sorted(map(int, output.getvalue().split())) == list(range(10))
    assert cluster.broker.progress == {}


async def test_progress_is_committed_once_a_queue(cluster: FakeCluster) -> None:
    fill(cluster, 100)
    await print_messages(consume_options(cluster, commit=True), Output())
    assert cluster.broker.progress == {("g", TOPIC, number): 25 for number in range(4)}
    assert len(cluster.broker.asked(RequestCode.UPDATE_CONSUMER_OFFSET)) == 4
    output = Output()
    await print_messages(consume_options(cluster, commit=True, start=Start.stored()), output)
    assert output.getvalue() == b""


async def test_a_count_ends_it_though_it_would_follow_and_exactly_what_was_printed_is_committed(
    cluster: FakeCluster,
) -> None:
    fill(cluster, 100, queues=1)
    await print_messages(consume_options(cluster, commit=True, count=5, exit_at_end=False), Output())
    assert cluster.broker.progress == {("g", TOPIC, 0): 5}


async def test_progress_is_committed_now_and_then(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.cli.consume.COMMIT_INTERVAL_SECONDS", 0.01)
    fill(cluster, 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(print_messages, consume_options(cluster, commit=True, exit_at_end=False), Output())
        await until(lambda: cluster.broker.progress.get(("g", TOPIC, 0)) == 1)
        cluster.broker.refuse(RequestCode.UPDATE_CONSUMER_OFFSET, ResponseCode.SYSTEM_BUSY)
        cluster.broker.put(TOPIC, 0, b"x")
        await until(lambda: len(cluster.broker.asked(RequestCode.UPDATE_CONSUMER_OFFSET)) >= 3)
        cluster.broker.behave()
        await until(lambda: cluster.broker.progress.get(("g", TOPIC, 0)) == 2)
        nursery.cancel_scope.cancel()


async def test_unread_messages_are_not_committed(cluster: FakeCluster) -> None:
    fill(cluster, 1)
    output = Output()
    output.breaks_at_flush = 1
    with pytest.raises(BrokenPipeError):
        await print_messages(consume_options(cluster, commit=True), output)
    assert cluster.broker.progress == {}


async def test_a_message_that_could_not_be_written_is_not_committed(cluster: FakeCluster) -> None:
    fill(cluster, 8, queues=1)
    output = Output()
    output.breaks_at_write = 3
    with pytest.raises(OSError, match="No space left"):
        await print_messages(consume_options(cluster, commit=True), output)
    assert cluster.broker.progress == {("g", TOPIC, 0): 2}
    rest = Output()
    await print_messages(consume_options(cluster, commit=True, start=Start.stored()), rest)
    assert output.getvalue() + rest.getvalue() == b"".join(b"%d\n" % number for number in range(8))


async def test_output_is_flushed_by_the_pull_and_not_by_the_message(cluster: FakeCluster) -> None:
    fill(cluster, 320, queues=1)
    output = Output()
    await print_messages(consume_options(cluster), output)
    assert len(output.getvalue().split()) == 320
    assert output.flushes <= 12


# ---- the command ---------------------------------------------------------------------------------------------------


async def test_it_follows_and_control_c_ends_it_with_130(cluster: FakeCluster) -> None:
    async with started("consume", "-t", TOPIC, "-n", cluster.address, "-o", "beginning", "--commit") as process:
        for number in range(3):
            cluster.broker.put(TOPIC, number, b"message %d" % number)
            assert await line(process.stdout) == b"message %d\n" % number
        process.send_signal(signal.SIGINT)
        assert (await line(process.stderr), await process.wait()) == (b"", 130)
    # What was printed is recorded, but for the last message when the signal came before its printing was over.
    assert sum(cluster.broker.progress.values()) in (2, 3)
    assert len(cluster.broker.asked(RequestCode.UNREGISTER_CLIENT)) == 1


async def test_a_reader_that_has_seen_enough_ends_it_with_0(cluster: FakeCluster) -> None:
    fill(cluster, 10)
    async with started("consume", "-t", TOPIC, "-n", cluster.address, "-o", "beginning") as process:
        assert process.stdout is not None
        assert await line(process.stdout) != b""
        await process.stdout.aclose()
        fill(cluster, 10)
        assert await process.wait() == 0
        assert await line(process.stderr) == b""


async def test_a_topic_that_does_not_exist(cluster: FakeCluster) -> None:
    ended = await run("consume", "-t", "Nowhere", "-n", cluster.address, "-e")
    assert ended.status == 1
    assert ended.errors == (
        f"rocketpy: no topic named 'Nowhere' at {cluster.address} ('rocketpy topic list' shows what is there): "
        "CODE: 10005  DESC: No route info of this topic: Nowhere: no broker has it (registered: broker-a)\n"
    )
