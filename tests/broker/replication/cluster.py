"""A nameserver and brokers of any role in this process, over real sockets on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import attrs
import trio

from rocketpy.broker.app import BrokerAddress, run_broker
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.clock import SystemClock
from rocketpy.errors import RemotingError
from rocketpy.nameserver.app import run_nameserver
from rocketpy.nameserver.config import NamesrvConfig
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.route import ClusterInfo, KVTable
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.config import NettyClientConfig, NettyServerConfig
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.store.disk.os_disk import OsDisk
from tests.broker.test_app import send
from tests.patience import PATIENCE_SECONDS, PATIENT_BROKER, PATIENT_STORE
from tests.remoting.patient_client import open_patient_client

FILE_SIZE = 1 << 16


@attrs.define(eq=False)
class Running:
    """A broker that runs."""

    settings: BrokerSettings
    at: BrokerAddress
    ended: trio.Event
    _stop: trio.Event
    _scope: trio.CancelScope

    async def stop(self) -> None:
        """Shut down in order."""
        self._stop.set()
        await self.ended.wait()

    async def kill(self) -> None:
        """End without a shutdown: the abort file stays, and nobody is told."""
        self._scope.cancel()
        await self.ended.wait()


@attrs.define(eq=False)
class Cluster:
    """Brokers with the name broker-a, each in a directory of its own."""

    directory: Path
    namesrv_addr: str
    client: RemotingClient
    nursery: trio.Nursery
    own_address: str = "127.0.0.1"
    """How the brokers that are started next name themselves."""
    listens_everywhere: bool = False

    async def start(
        self,
        role: BrokerRole = BrokerRole.ASYNC_MASTER,
        broker_id: int = 0,
        *,
        port: int = 0,
        where: str = "",
        ha_allow_list: str = "",
        **store: object,
    ) -> Running:
        """Start a broker; ``where`` names its directory, which is that of its id by default."""
        settings = self._settings(role, broker_id, port, where or str(broker_id), ha_allow_list, store)
        stop, ended, scope = trio.Event(), trio.Event(), trio.CancelScope()

        async def run(*, task_status: trio.TaskStatus[BrokerAddress]) -> None:
            try:
                with scope:
                    await run_broker(
                        settings,
                        disk=OsDisk(),
                        clock=SystemClock(),
                        run_blocking=trio.to_thread.run_sync,
                        randomness=Random(0),
                        stop=stop,
                        task_status=task_status,
                    )
            finally:
                ended.set()

        at: BrokerAddress = await self.nursery.start(run)
        return Running(settings, at, ended, stop, scope)

    async def send(self, broker: Running, body: bytes = b"one", *, wait: bool = True) -> int:
        """Send a message; return the code of the answer."""
        properties = "" if wait else "WAIT\x01false"
        request = send(body=body, properties=properties)
        return (await self.client.request(broker.at.address, request, PATIENCE_SECONDS)).code

    async def figures(self, broker: Running) -> dict[str, str]:
        """Return the runtime info."""
        answer = await self.client.request(
            broker.at.address, RemotingCommand(RequestCode.GET_BROKER_RUNTIME_INFO), PATIENCE_SECONDS
        )
        return decode_body(answer.body, KVTable).table

    async def until(self, broker: Running, **figures: str) -> dict[str, str]:
        """Wait until the runtime info has these rows; return it. The broker may open its store again meanwhile."""
        with trio.fail_after(PATIENCE_SECONDS):
            while True:
                with suppress(RemotingError):
                    found = await self.figures(broker)
                    if figures.items() <= found.items():
                        return found
                await trio.sleep(0.02)

    async def until_slave_has_all(self, master: Running, slave: Running) -> None:
        """Wait until the slave has acknowledged the whole log of its master."""
        await self.until(slave, haState="following")
        await self.until(master, haSlaveLagBytes="0")

    async def addresses(self) -> dict[int, str]:
        """Return the brokers that the nameserver knows, by id."""
        answer = await self.client.request(self.namesrv_addr, make_request(RequestCode.GET_BROKER_CLUSTER_INFO))
        broker = decode_body(answer.body, ClusterInfo).broker_addr_table.get("broker-a")
        return {} if broker is None else broker.broker_addrs

    def log_of(self, broker: Running) -> dict[str, bytes]:
        """Return the files of the log by name, see :func:`_contents`."""
        return _contents(Path(broker.settings.store.commit_log_path), "[0-9]*")

    def queues_of(self, broker: Running) -> dict[str, bytes]:
        """Return the files of the queues by path."""
        return _contents(Path(broker.settings.store.consume_queue_path), "*/*/[0-9]*")

    def _settings(
        self,
        role: BrokerRole,
        broker_id: int,
        port: int,
        where: str,
        ha_allow_list: str,
        store: dict[str, object],
    ) -> BrokerSettings:
        return BrokerSettings(
            broker=BrokerConfig(
                broker_name="broker-a",
                broker_id=broker_id,
                broker_ip1=self.own_address,
                broker_ip2=self.own_address,
                namesrv_addr=self.namesrv_addr,
                ha_allow_list=ha_allow_list,
                **PATIENT_BROKER,
            ),
            server=NettyServerConfig(listen_port=port),
            client=NettyClientConfig(),
            store=MessageStoreConfig(
                store_path_root_dir=str(self.directory / where),
                broker_role=role,
                mapped_file_size_commit_log=FILE_SIZE,
                max_hash_slot_num=1000,
                max_index_num=4000,
                **PATIENT_STORE,
                **store,  # type: ignore[arg-type]
            ),
            host=None if self.listens_everywhere else self.own_address,
            embeds_nameserver=False,
        )


@asynccontextmanager
async def open_cluster(directory: Path) -> AsyncIterator[Cluster]:
    """Run a nameserver for the block, and end what was started in it."""
    async with open_patient_client() as client, trio.open_nursery() as nursery:

        async def run(*, task_status: trio.TaskStatus[int]) -> None:
            await run_nameserver(
                NamesrvConfig(
                    kv_config_path=str(directory / "namesrv" / "kvConfig.json"),
                    config_store_path=str(directory / "namesrv" / "namesrv.properties"),
                ),
                NettyServerConfig(listen_port=0),
                host="127.0.0.1",
                disk=OsDisk(),
                task_status=task_status,
            )

        port = await nursery.start(run)
        with trio.fail_after(4 * PATIENCE_SECONDS):
            yield Cluster(directory, f"127.0.0.1:{port}", client, nursery)
        nursery.cancel_scope.cancel()


def _contents(directory: Path, pattern: str) -> dict[str, bytes]:
    """Return files without the zeros at their ends, and without files that are only prepared."""
    files = {
        str(path.relative_to(directory)): path.read_bytes().rstrip(b"\0") for path in sorted(directory.glob(pattern))
    }
    return {name: content for name, content in files.items() if content}
