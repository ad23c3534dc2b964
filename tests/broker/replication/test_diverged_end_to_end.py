"""Masters and slaves whose logs part, as brokers over real sockets: an alarm, or a cut; never other messages."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import trio

from rocketpy.errors import RemotingError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.headers.offset import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from rocketpy.store.config import BrokerRole
from tests.blackbox.ports import broker_port
from tests.broker.replication.cluster import Cluster, Running, open_cluster
from tests.patience import PATIENCE_SECONDS

MASTER, SLAVE = BrokerRole.ASYNC_MASTER, BrokerRole.SLAVE


async def send_all(cluster: Cluster, master: Running, text: bytes, count: int) -> None:
    for number in range(count):
        assert await cluster.send(master, text * 100 + b"%d" % number) == ResponseCode.SUCCESS


async def commit(cluster: Cluster, broker: Running, offset: int) -> None:
    header = UpdateConsumerOffsetRequestHeader(consumer_group="G", topic="hello", queue_id=0, commit_offset=offset)
    request = make_request(RequestCode.UPDATE_CONSUMER_OFFSET, header)
    answer = await cluster.client.request(broker.at.address, request, PATIENCE_SECONDS)
    assert answer.code == ResponseCode.SUCCESS


async def committed(cluster: Cluster, broker: Running) -> int | None:
    header = QueryConsumerOffsetRequestHeader(consumer_group="G", topic="hello", queue_id=0)
    request = make_request(RequestCode.QUERY_CONSUMER_OFFSET, header)
    answer = await cluster.client.request(broker.at.address, request, PATIENCE_SECONDS)
    return int((answer.ext_fields or {})["offset"]) if answer.code == ResponseCode.SUCCESS else None


async def until_cut(cluster: Cluster, master: Running, slave: Running) -> None:
    """Wait until a slave follows, which meanwhile opens its store again and cannot be reached."""
    with trio.fail_after(PATIENCE_SECONDS):
        while True:
            with suppress(RemotingError):
                if (await cluster.figures(slave))["haState"] == "following":
                    break
            await trio.sleep(0.02)
    await cluster.until_slave_has_all(master, slave)


async def a_pair(cluster: Cluster, *, count: int = 20) -> tuple[Running, Running]:
    """Return a master and a slave with the same messages."""
    master, slave = await cluster.start(), await cluster.start(SLAVE, 1)
    await send_all(cluster, master, b"common", count)
    await cluster.until_slave_has_all(master, slave)
    return master, slave


async def test_a_master_restored_from_an_older_copy(tmp_path: Path) -> None:
    """The slave is ahead; then the master's log grows beyond the slave's, with other messages."""
    async with open_cluster(tmp_path) as cluster:
        master, slave = await a_pair(cluster)
        await master.stop()
        shutil.copytree(tmp_path / "0", tmp_path / "copy")
        master = await cluster.start()
        await send_all(cluster, master, b"lost", 5)
        await cluster.until_slave_has_all(master, slave)
        end = sum(len(content) for content in cluster.log_of(slave).values())
        await master.stop()
        master = await cluster.start(where="copy")
        figures = await cluster.until(slave, haState="stopped")
        assert "from there this slave has" in figures["haAlarm"]
        assert "5 records from 20" in figures["haAlarm"]
        assert figures["haAlarm"].endswith("; nothing is cut: haTruncateDivergedLog is false")
        await send_all(cluster, master, b"another", 20)
        await slave.stop()
        slave = await cluster.start(SLAVE, 1)
        figures = await cluster.until(slave, haState="stopped")
        assert int(figures["haDivergedBytes"]) > 0
        assert int(figures["haEqualEnd"]) + int(figures["haDivergedBytes"]) == end
        assert b"another" not in b"".join(cluster.log_of(slave).values())
        await slave.stop()
        slave = await cluster.start(SLAVE, 1, port=broker_port(), ha_truncate_diverged_log=True)
        await until_cut(cluster, master, slave)
        assert cluster.log_of(slave) == cluster.log_of(master)
        assert cluster.queues_of(slave) == cluster.queues_of(master)
        (kept,) = (tmp_path / "1" / "diverged").iterdir()
        content = b"".join(path.read_bytes() for path in sorted(kept.iterdir()))
        assert content.count(b"lost" * 100) == 5
        assert b"another" not in content
        await send_all(cluster, master, b"later", 3)
        await cluster.until_slave_has_all(master, slave)
        figures = await cluster.figures(slave)
        assert (figures["haAlarm"], figures["haDivergedBytes"]) == ("", "0")


async def test_the_old_master_comes_back_as_a_slave_with_more_than_it_had_sent(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        master, slave = await a_pair(cluster)
        await slave.stop()
        await send_all(cluster, master, b"unsent", 3)
        await commit(cluster, master, 23)  # a group has consumed all, also what will be cut
        await master.stop()
        promoted = await cluster.start(MASTER, where="1", ha_truncate_diverged_log=True)
        await send_all(cluster, promoted, b"new", 400)  # over the end of a file
        old = await cluster.start(SLAVE, 1, port=broker_port(), where="0", ha_truncate_diverged_log=True)
        await until_cut(cluster, promoted, old)
        assert cluster.log_of(old) == cluster.log_of(promoted)
        assert cluster.queues_of(old) == cluster.queues_of(promoted)
        (kept,) = (tmp_path / "0" / "diverged").iterdir()
        assert b"".join(path.read_bytes() for path in kept.iterdir()).count(b"unsent" * 100) == 3
        assert not (tmp_path / "1" / "diverged").exists(), "a master cuts nothing"
        assert await committed(cluster, old) in (None, 20), (
            "other messages have the queue offsets of those that were cut"
        )
        await promoted.stop()
        promoted = await cluster.start(MASTER, where="1", ha_truncate_diverged_log=True)
        assert await committed(cluster, promoted) in (None, 20), "of messages that it has acknowledged none is skipped"


async def test_the_directory_of_another_group_is_never_cut(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        master = await cluster.start(where="other")
        await send_all(cluster, master, b"foreign", 20)
        await master.stop()
        master = await cluster.start()
        await send_all(cluster, master, b"common", 40)
        before = (tmp_path / "other" / "commitlog" / "00000000000000000000").read_bytes()
        slave = await cluster.start(SLAVE, 1, where="other", ha_truncate_diverged_log=True)
        figures = await cluster.until(slave, haState="stopped")
        assert "have no record in common from 0 on" in figures["haAlarm"]
        assert "nothing is cut" in figures["haAlarm"]
        assert figures["haEqualEnd"] == "-1"
        await slave.stop()
        assert (tmp_path / "other" / "commitlog" / "00000000000000000000").read_bytes() == before


async def test_an_empty_slave_says_what_it_will_not_get(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        master = await cluster.start()
        await send_all(cluster, master, b"many", 300)
        assert len(cluster.log_of(master)) > 1
        slave = await cluster.start(SLAVE, 1)
        await cluster.until_slave_has_all(master, slave)
        figures = await cluster.figures(slave)
        assert int(figures["haMissingHistoryBytes"]) == int(min(cluster.log_of(slave)))
        assert (await cluster.figures(master)).get("haMissingHistoryBytes") is None
