"""Replication between brokers over real sockets: a nameserver, masters and slaves in this process."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from rocketpy.errors import StartError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.store.config import BrokerRole
from rocketpy.store.ha.protocol import encode_report
from tests.blackbox.processes import broker_port
from tests.broker.replication.cluster import Cluster, Running, open_cluster
from tests.patience import PATIENCE_SECONDS

SYNC, SLAVE = BrokerRole.SYNC_MASTER, BrokerRole.SLAVE


async def connect_to(broker: Running) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", broker.at.ha_port)


async def is_closed(stream: trio.SocketStream) -> bool:
    """Wait until the broker has closed a connection."""
    with trio.fail_after(PATIENCE_SECONDS):
        try:
            while await stream.receive_some(4096):
                pass
        except trio.BrokenResourceError:
            pass
    return True


# ---- hostile peers --------------------------------------------------------------------------------------------------


# ---- starts that are refused, brokers that are in each other's way ---------------------------------------------------


async def test_a_port_for_slaves_in_use_ends_the_start_before_anything_is_written(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        port = broker_port()
        (listener,) = await trio.open_tcp_listeners(port + 1, host="127.0.0.1")
        async with listener:
            with pytest.raises(ExceptionGroup) as failure:
                async with trio.open_nursery() as nursery:
                    await Cluster(tmp_path, cluster.namesrv_addr, cluster.client, nursery).start(port=port)
        (error,) = failure.value.exceptions
        assert isinstance(error, StartError)
        assert f"127.0.0.1, port {port + 1}: another process uses it (the port for slaves" in str(error)
        assert not (tmp_path / "0").exists()


@pytest.mark.parametrize(("role", "broker_id"), [(BrokerRole.ASYNC_MASTER, 0), (SLAVE, 1)])
async def test_two_brokers_of_one_id_are_reported(
    tmp_path: Path, role: BrokerRole, broker_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_cluster(tmp_path) as cluster:
        first = await cluster.start(role, broker_id)
        second = await cluster.start(role, broker_id, where="other")
        await cluster.until(second, brokerIdConflict=first.at.address)
        assert f"another broker broker-a with brokerId {broker_id} is registered at {first.at.address}" in caplog.text


async def test_nothing_that_a_peer_sends_disturbs_the_master(tmp_path: Path) -> None:
    """Garbage, half reports, absurd ones, silence: each ends its own connection, and counts as no slave."""
    async with open_cluster(tmp_path) as cluster:
        master = await cluster.start(SYNC, ha_send_heartbeat_interval=100, ha_housekeeping_interval=2000)
        await cluster.send(master)
        for data in (bytes(range(256)), b"GET / HTTP/1.1\r\n\r\n", encode_report(2**40), encode_report(-1), b"\0\0\0"):
            peer = await connect_to(master)
            await peer.send_all(data)
            assert await is_closed(peer)
            assert await cluster.send(master) == ResponseCode.SLAVE_NOT_AVAILABLE
        silent = await connect_to(master)
        assert await is_closed(silent)


async def test_only_listed_addresses_may_follow(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        master = await cluster.start(ha_allow_list="10.0.0.0/8")
        await cluster.send(master)
        assert await is_closed(await connect_to(master))
        assert (await cluster.figures(master))["haRefusedCount"] == "1"
        await master.stop()
        master = await cluster.start(ha_allow_list="10.0.0.0/8;127.0.0.1")
        async with await connect_to(master) as peer:
            await peer.send_all(encode_report(0))
            assert await peer.receive_some(4096)
