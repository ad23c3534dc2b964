"""The nameserver and broker of rocketpy in this process, on ports of the system's choice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import attrs
import trio

from rocketpy.broker.app import BrokerAddress, run_broker
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.clock import SystemClock
from rocketpy.nameserver.app import run_nameserver
from rocketpy.nameserver.config import NamesrvConfig
from rocketpy.remoting.config import NettyClientConfig, NettyServerConfig, TlsClientConfig, TlsServerConfig
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk.os_disk import OsDisk
from tests.patience import PATIENCE_SECONDS, PATIENT_BROKER, PATIENT_STORE


@attrs.frozen
class RealCluster:
    """Where it is."""

    address: str
    broker_address: str


@asynccontextmanager
async def open_real_cluster(
    directory: Path,
    *,
    tls_server: TlsServerConfig | None = None,
    tls_client: TlsClientConfig | None = None,
    listens_everywhere: bool = False,
    own_address: str = "127.0.0.1",
    **broker_settings: object,
) -> AsyncIterator[RealCluster]:
    """Run both until the block ends, then shut down in order; both listen with ``tls_server``, and on loopback.

    Or on every address; ``own_address`` is how they are reached then.
    """
    host = None if listens_everywhere else own_address
    tls_server = tls_server or TlsServerConfig()
    tls_client = tls_client or TlsClientConfig()
    async with trio.open_nursery() as nursery:
        port = await nursery.start(_run_nameserver, directory, tls_server, host)
        address = f"{own_address}:{port}"
        stop = trio.Event()
        settings = _broker_settings(directory, address, tls_server, tls_client)
        own = {"broker_ip1": own_address, "broker_ip2": own_address, **broker_settings}
        settings = attrs.evolve(settings, host=host, broker=attrs.evolve(settings.broker, **own))  # type: ignore[arg-type]
        broker: BrokerAddress = await nursery.start(_run_broker, settings, stop)
        try:
            yield RealCluster(address, broker.address)
        finally:
            stop.set()
            with trio.move_on_after(PATIENCE_SECONDS, shield=True):
                while len(nursery.child_tasks) > 1:
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()


async def _run_nameserver(
    directory: Path, tls: TlsServerConfig, host: str | None, *, task_status: trio.TaskStatus[int]
) -> None:
    await run_nameserver(
        NamesrvConfig(
            kv_config_path=str(directory / "namesrv" / "kvConfig.json"),
            config_store_path=str(directory / "namesrv" / "namesrv.properties"),
        ),
        NettyServerConfig(listen_port=0),
        tls=tls,
        host=host,
        disk=OsDisk(),
        task_status=task_status,
    )


def _broker_settings(
    directory: Path, name_server: str, tls_server: TlsServerConfig, tls_client: TlsClientConfig
) -> BrokerSettings:
    return BrokerSettings(
        broker=BrokerConfig(
            broker_name="broker-a",
            broker_ip1="127.0.0.1",
            broker_ip2="127.0.0.1",
            namesrv_addr=name_server,
            **PATIENT_BROKER,
        ),
        server=NettyServerConfig(listen_port=0),
        client=NettyClientConfig(),
        store=MessageStoreConfig(
            store_path_root_dir=str(directory / "store"),
            mapped_file_size_commit_log=1 << 22,
            max_hash_slot_num=1000,
            max_index_num=4000,
            **PATIENT_STORE,
        ),
        tls_server=tls_server,
        tls_client=tls_client,
        host="127.0.0.1",
        embeds_nameserver=False,
    )


async def _run_broker(
    settings: BrokerSettings, stop: trio.Event, *, task_status: trio.TaskStatus[BrokerAddress]
) -> None:
    await run_broker(
        settings,
        disk=OsDisk(),
        clock=SystemClock(),
        run_blocking=trio.to_thread.run_sync,
        randomness=Random(),
        stop=stop,
        task_status=task_status,
    )
