"""The small clusters of ``--cluster``, and the files in ``conf`` that start the same brokers one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from rocketpy.broker.app import BrokerAddress
from rocketpy.broker.sample_cluster import SAMPLE_CLUSTERS, Member, run_members, sample_members, table_of
from rocketpy.broker.start_settings import BrokerSettings, StartOptions, load_broker_settings
from rocketpy.store.config import BrokerRole, FlushDiskType

CONF = Path(__file__).parents[2] / "conf"
NS = "127.0.0.1:9876"
SLAVES = {"broker-a-s": "SLAVE", "broker-b-s": "SLAVE"}
ROLES = {
    "2m-noslave": {"broker-a": "ASYNC_MASTER", "broker-b": "ASYNC_MASTER"},
    "2m-2s-async": {"broker-a": "ASYNC_MASTER", "broker-b": "ASYNC_MASTER", **SLAVES},
    "2m-2s-sync": {"broker-a": "SYNC_MASTER", "broker-b": "SYNC_MASTER", **SLAVES},
}


def check_brokers(name: str, brokers: dict[str, BrokerSettings]) -> None:
    """Check what must hold of all brokers of a cluster together."""
    assert {file: each.store.broker_role.name for file, each in brokers.items()} == ROLES[name]
    ports = [each.server.listen_port + step for each in brokers.values() for step in (-2, 0, 1)]
    assert len(set(ports)) == len(ports), "they run on one machine"
    assert len({each.store.root for each in brokers.values()}) == len(brokers)
    for file, each in brokers.items():
        assert each.broker.broker_name == file.removesuffix("-s")
        assert each.broker.broker_id == file.endswith("-s")
        assert each.broker.namesrv_addresses == (NS,)
        assert each.host == each.broker.broker_ip1 == each.broker.broker_ip2 == "127.0.0.1"
        assert each.warnings == ()
    assert len({each.store.mapped_file_size_commit_log for each in brokers.values()}) == 1


@pytest.mark.parametrize("name", ROLES)
def test_the_brokers_of_a_cluster_have_their_roles_and_places(name: str, tmp_path: Path) -> None:
    members = sample_members(name, directory=str(tmp_path), namesrv_addr=NS)
    check_brokers(name, {Path(each.store.root).name: each for each in members})
    assert members[0].server.listen_port == 10_911
    assert {Path(each.store.root).parent for each in members} == {tmp_path}


def test_the_ports_are_those_that_were_asked_for(tmp_path: Path) -> None:
    def ports(port: int) -> list[int]:
        members = sample_members("2m-2s-sync", directory=str(tmp_path), namesrv_addr=NS, port=port)
        return [each.server.listen_port for each in members]

    assert ports(20_000) == [20_000, 20_010, 20_020, 20_030]
    assert ports(0) == [0, 0, 0, 0]


@pytest.mark.parametrize("name", ROLES)
def test_the_files_of_each_sample_start_a_cluster_on_one_machine(name: str) -> None:
    brokers = {
        path.stem: load_broker_settings(StartOptions(config_file=str(path)))
        for path in sorted((CONF / name).glob("*.properties"))
    }
    check_brokers(name, brokers)
    for path in (CONF / name).iterdir():
        assert f"-c conf/{name}/{path.name}" in path.read_text()


@pytest.mark.parametrize(
    ("role", "broker_id"), [("ASYNC_MASTER", 0), ("SYNC_MASTER", 0), ("SLAVE", 1)], ids=["async", "sync", "slave"]
)
def test_rocketmqs_own_samples_load(tmp_path: Path, role: str, broker_id: int) -> None:
    """Theirs have these keys only; nameservers come from the command line or the environment."""
    path = tmp_path / "broker-a.properties"
    path.write_text(
        "brokerClusterName=DefaultCluster\nbrokerName=broker-a\n"
        f"brokerId={broker_id}\ndeleteWhen=04\nfileReservedTime=48\nbrokerRole={role}\nflushDiskType=ASYNC_FLUSH\n"
    )
    settings = load_broker_settings(StartOptions(config_file=str(path), environment_namesrv_addr="ns:9876"))
    assert settings.store.broker_role is BrokerRole[role]
    assert settings.store.flush_disk_type is FlushDiskType.ASYNC_FLUSH
    assert (settings.broker.broker_name, settings.broker.broker_id) == ("broker-a", broker_id)
    assert settings.unknown == {}
    assert [each.partition(":")[0] for each in settings.warnings] == [
        "listening on every address, port 10911, without access control"
    ]


async def test_masters_end_before_their_slaves(tmp_path: Path) -> None:
    """What they still answer has to be acknowledged."""
    events: list[str] = []
    may_end = trio.Event()

    async def run(settings: BrokerSettings, stop: trio.Event, *, task_status: trio.TaskStatus[BrokerAddress]) -> None:
        name = f"{settings.broker.broker_name}:{settings.broker.broker_id}"
        port = settings.server.listen_port
        task_status.started(BrokerAddress(f"127.0.0.1:{port}", port, port - 2, port + 1))
        events.append(f"{name} started")
        await stop.wait()
        events.append(f"{name} stops")
        await may_end.wait()

    members = sample_members("2m-2s-sync", directory=str(tmp_path), namesrv_addr=NS)
    stop = trio.Event()
    async with trio.open_nursery() as nursery:

        async def whole(task_status: trio.TaskStatus[list[Member]]) -> None:
            await run_members(members, run=run, stop=stop, task_status=task_status)

        running: list[Member] = await nursery.start(whole)
        assert [each.settings for each in running] == members
        events.clear()
        stop.set()
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(events) == ["broker-a:0 stops", "broker-b:0 stops"]
        may_end.set()
    assert sorted(events[2:]) == ["broker-a:1 stops", "broker-b:1 stops"]


def test_the_table_has_every_address(tmp_path: Path) -> None:
    members = [
        Member(each, BrokerAddress(f"127.0.0.1:{port}", port, port - 2, port + 1))
        for each in sample_members("2m-2s-async", directory="/data", namesrv_addr=NS)
        for port in [each.server.listen_port]
    ]
    assert table_of(members, namesrv_addr=NS) == [
        "role          name      id  clients          slaves           store",
        "nameserver                  127.0.0.1:9876",
        "ASYNC_MASTER  broker-a  0   127.0.0.1:10911  127.0.0.1:10912  /data/broker-a",
        "ASYNC_MASTER  broker-b  0   127.0.0.1:10921  127.0.0.1:10922  /data/broker-b",
        "SLAVE         broker-a  1   127.0.0.1:10931  127.0.0.1:10932  /data/broker-a-s",
        "SLAVE         broker-b  1   127.0.0.1:10941  127.0.0.1:10942  /data/broker-b-s",
    ]


def test_every_sample_has_its_files() -> None:
    assert {path.name for path in CONF.glob("2m-*")} == set(SAMPLE_CLUSTERS) == set(ROLES)
