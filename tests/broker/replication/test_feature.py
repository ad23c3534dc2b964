"""Replication between brokers over real sockets: a nameserver, masters and slaves in this process."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
import trio

from rocketpy.broker import app
from rocketpy.errors import StartError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.store.config import BrokerRole
from rocketpy.store.ha.protocol import encode_report
from rocketpy.testing.fixture.network import ReservedPort
from tests.blackbox.ports import broker_port
from tests.broker.replication.cluster import Cluster, Running, open_cluster
from tests.ipv6 import has_ipv6
from tests.patience import PATIENCE_SECONDS

SYNC, SLAVE = BrokerRole.SYNC_MASTER, BrokerRole.SLAVE
needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no ::1")


async def connect_to(broker: Running) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", broker.at.ha_port)


async def is_closed(stream: trio.SocketStream) -> bool:
    """Wait until the broker has closed a connection; return whether it has sent nothing over it."""
    received = b""
    with trio.fail_after(PATIENCE_SECONDS):
        try:
            while data := await stream.receive_some(4096):
                received += data
        except trio.BrokenResourceError:
            pass
    return not received


async def check_equal(cluster: Cluster, master: Running, slave: Running) -> None:
    """Wait until the slave has everything, and compare logs and queues."""
    await cluster.until_slave_has_all(master, slave)
    assert cluster.log_of(slave) == cluster.log_of(master) != {}
    assert cluster.queues_of(slave) == cluster.queues_of(master) != {}


async def test_what_is_sent_to_the_master_is_read_from_the_slave(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        master = await cluster.start()
        for number in range(300):  # several files
            assert await cluster.send(master, b"%d" % number * 100) == ResponseCode.SUCCESS
        slave = await cluster.start(SLAVE, 1)
        await cluster.until_slave_has_all(master, slave)
        assert await cluster.addresses() == {0: master.at.address, 1: slave.at.address}
        assert await cluster.send(slave) == ResponseCode.SERVICE_NOT_AVAILABLE
        assert await cluster.send(master, b"the last one") == ResponseCode.SUCCESS
        await cluster.until_slave_has_all(master, slave)
        files, (name, content) = cluster.log_of(master), *cluster.log_of(slave).items()
        assert len(files) > 1
        assert name == max(files), "an empty slave gets the last file only"
        assert content == files[name]
        assert b"the last one" in content
        await slave.stop()
        assert await cluster.addresses() == {0: master.at.address}


async def test_a_slave_that_is_there_first_waits_for_its_master(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        slave = await cluster.start(SLAVE, 1)
        assert (await cluster.figures(slave))["haState"] == "no address of a master is known"
        master = await cluster.start()
        began = trio.current_time()
        await cluster.send(master)
        await check_equal(cluster, master, slave)
        assert trio.current_time() - began < 25, "the next periodic registration is half a minute away"


async def test_a_synchronous_master_answers_ok_only_with_a_slave(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        master = await cluster.start(SYNC)
        assert await cluster.send(master) == ResponseCode.SLAVE_NOT_AVAILABLE
        assert await cluster.send(master, wait=False) == ResponseCode.SUCCESS
        slave = await cluster.start(SLAVE, 1)
        await cluster.until_slave_has_all(master, slave)
        for number in range(20):
            body = b"number %d" % number
            assert await cluster.send(master, body) == ResponseCode.SUCCESS
            assert body in b"".join(cluster.log_of(slave).values()), "the slave had it before the answer"
        await slave.kill()
        await cluster.until(master, haSlaves="")
        assert await cluster.send(master) == ResponseCode.SLAVE_NOT_AVAILABLE


async def test_a_master_without_work_waits_for_no_slave_when_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slave that has just connected acknowledges nothing before something is sent."""
    monkeypatch.setattr(app, "DRAIN_SECONDS", 1e6)
    async with open_cluster(tmp_path) as cluster:
        master = await cluster.start(SYNC)
        await cluster.send(master)
        await master.stop()
        master = await cluster.start(SYNC, slave_timeout=1_000_000_000)
        slave = await cluster.start(SLAVE, 1)
        await cluster.until_slave_has_all(master, slave)
        await slave.stop()
        slave = await cluster.start(SLAVE, 1)
        with trio.fail_after(PATIENCE_SECONDS):
            while not (await cluster.figures(master))["haSlaves"]:
                await trio.sleep(0.02)
            await master.stop()


async def test_a_master_that_comes_back_on_another_port_is_found_by_the_nameserver(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        master, slave = await cluster.start(), await cluster.start(SLAVE, 1)
        await cluster.send(master, b"before")
        await check_equal(cluster, master, slave)
        first = master.at
        await master.kill()
        await cluster.until(slave, haState="connecting")
        master = await cluster.start()
        assert master.at.ha_port != first.ha_port
        began = trio.current_time()
        await cluster.send(master, b"after")
        await check_equal(cluster, master, slave)
        assert trio.current_time() - began < 25, "the next periodic registration is half a minute away"
        figures = await cluster.figures(slave)
        assert figures["haMasterAddress"] == f"127.0.0.1:{master.at.ha_port}"
        assert figures["haMasterServerAddr"] == master.at.address
        assert figures["haAlarm"] == ""


async def test_a_slave_of_a_slave_follows_by_its_configured_address(tmp_path: Path) -> None:
    """Slaves listen, too. With a port of the system's choice its port for clients could not be told from the other."""
    async with open_cluster(tmp_path) as cluster:
        master, slave = await cluster.start(), await cluster.start(SLAVE, 1, port=broker_port())
        await cluster.send(master)
        await check_equal(cluster, master, slave)
        second = await cluster.start(SLAVE, 2, ha_master_address=f"127.0.0.1:{slave.at.ha_port}")
        await check_equal(cluster, slave, second)
        assert "haSlaveLagBytes" in await cluster.figures(slave)


async def test_a_port_where_nothing_listens_is_an_alarm(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        master = await cluster.start()
        while (silent := reserved_or_none(master.at.port + 1)) is None:
            await master.stop()  # another program has the port after its own
            master = await cluster.start()
        nowhere = f"127.0.0.1:{silent.port}"
        slave = await cluster.start(SLAVE, 1, ha_master_address=nowhere)
        await cluster.send(master)
        with trio.fail_after(PATIENCE_SECONDS):
            while not (alarm := (await cluster.figures(slave))["haAlarm"]):
                await trio.sleep(0.02)
        assert alarm.startswith(f"cannot connect to {nowhere}: ")
        assert (await cluster.figures(slave))["haState"] in ("connecting", "comparing the logs")
        silent.release()


def reserved_or_none(port: int) -> ReservedPort | None:
    try:
        return ReservedPort(port)
    except OSError:
        return None


# ---- hostile peers --------------------------------------------------------------------------------------------------


async def test_nothing_that_a_peer_sends_disturbs_the_others(tmp_path: Path) -> None:
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
        slave = await cluster.start(SLAVE, 1, ha_send_heartbeat_interval=100)
        await cluster.until_slave_has_all(master, slave)
        assert await cluster.send(master) == ResponseCode.SUCCESS


async def test_many_connections_are_refused_and_the_slave_is_served(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        master = await cluster.start()
        slave = await cluster.start(SLAVE, 1)
        await cluster.send(master)
        await check_equal(cluster, master, slave)
        peers = [await connect_to(master) for _ in range(100)]
        assert await is_closed(peers[-1])
        await cluster.send(master)
        await check_equal(cluster, master, slave)
        assert int((await cluster.figures(master))["haRefusedCount"]) >= 80
        for peer in peers:
            await peer.aclose()


async def test_only_listed_addresses_may_follow(tmp_path: Path) -> None:
    async with open_cluster(tmp_path) as cluster:
        master = await cluster.start(ha_allow_list="10.0.0.0/8")
        await cluster.send(master)
        peer = await connect_to(master)
        with suppress(trio.BrokenResourceError):
            await peer.send_all(encode_report(0))
        assert await is_closed(peer)
        assert (await cluster.figures(master))["haRefusedCount"] == "1"
        await master.stop()
        master = await cluster.start(ha_allow_list="10.0.0.0/8;127.0.0.1")
        slave = await cluster.start(SLAVE, 1)
        await check_equal(cluster, master, slave)


@pytest.mark.parametrize("own_address", ["127.0.0.1", pytest.param("::1", marks=needs_ipv6)])
async def test_a_slave_follows_a_port_of_both_families_and_is_listed_by_its_own_address(
    tmp_path: Path, own_address: str
) -> None:
    """An IPv4 peer of a socket of IPv6 is ``::ffff:127.0.0.1`` to the system, which is in no list."""
    async with open_cluster(tmp_path) as cluster:
        cluster.own_address, cluster.listens_everywhere = own_address, True
        master = await cluster.start(ha_allow_list=own_address)
        await cluster.send(master)
        slave = await cluster.start(SLAVE, 1)
        await check_equal(cluster, master, slave)
        assert (await cluster.figures(master))["haRefusedCount"] == "0"


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
