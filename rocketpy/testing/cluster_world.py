"""A whole cluster in one process, from one integer: nameservers, brokers, clients, disks, network and time.

Brokers and nameservers are composed by the product's own ``run_broker`` and ``run_nameserver``, clients by its own
openers; only what they take from the machine is simulated. Each of them runs on a :class:`~.sim.host.SimHost` of its
own, with a disk, a wall clock and randomness of its own, and :class:`~.sim.network.SimNetwork` has the links between
them. Time is virtual, so an hour costs what happens in it.

::

    async def scene(world: ClusterWorld) -> None:
        await world.start_nameserver()
        broker = world.broker("broker-a")
        await broker.start()

        async def produce(process: SimProcess) -> None:
            async with open_producer(world.name_servers, environment=environment_of(process)) as producer:
                await producer.send(Message("T", b"body"))

        await world.run_client(produce)
        await broker.host.lose_power()
        await broker.start()

    simulate(scene, seed=7)                        the same seed: the same trace, in each process

A scene that ends takes everything with it; whatever no process may end with is raised from :func:`simulate`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Generic, TypeVar

import attrs
import trio

from rocketpy.broker.app import run_broker
from rocketpy.broker.config import BROKER_PORT, BrokerConfig
from rocketpy.broker.monitoring import lateness
from rocketpy.broker.start_settings import NAMESRV_PORT, BrokerSettings
from rocketpy.client.environment import ClientEnvironment
from rocketpy.nameserver.app import run_nameserver
from rocketpy.nameserver.config import NamesrvConfig
from rocketpy.remoting.config import NettyClientConfig, NettyServerConfig
from rocketpy.runner import run_inline
from rocketpy.store.config import BrokerRole, MessageStoreConfig
from rocketpy.testing.sim.host import Program, SimHost, SimProcess
from rocketpy.testing.sim.log import SimLog, read_log
from rocketpy.testing.sim.network import SimNetwork
from rocketpy.testing.sim.seeded_run import run_seeded
from rocketpy.testing.sim.trace import Trace

T = TypeVar("T")

_ROOT = "/store"
_BROKER: Mapping[str, object] = {
    "default_topic_queue_nums": 2,
    # They measure the machine that runs the simulation: a slow moment of it must not refuse a send.
    "broker_fast_failure_enable": False,
    "wait_time_mills_in_send_queue": 60_000,
}
_STORE: Mapping[str, object] = {
    "store_path_root_dir": _ROOT,
    "mapped_file_size_commit_log": 1 << 16,
    "mapped_file_size_consume_queue": 20 * 100,
    "max_hash_slot_num": 16,
    "max_index_num": 200,
    "os_page_cache_busy_time_out_mills": 60_000,
}


@attrs.frozen
class Simulated(Generic[T]):
    """The end of a simulation."""

    result: T
    trace_hash: str
    event_count: int
    seconds: float
    """Virtual time."""


def simulate(scene: Callable[[ClusterWorld], Awaitable[T]], *, seed: int) -> Simulated[T]:
    """Run a scene in a cluster of its own; not from inside a Trio run. Raises what the scene or a process raises."""

    async def main() -> Simulated[T]:
        async with trio.open_nursery() as nursery:
            world = ClusterWorld(nursery, seed=seed)
            try:
                result = await scene(world)
            finally:
                world.resume_all()
            nursery.cancel_scope.cancel()
            return Simulated(result, world.trace.hexdigest(), world.trace.count, trio.current_time())

    with _rare_samples():
        return run_seeded(main, seed=seed)


@contextmanager
def _rare_samples() -> Iterator[None]:
    """Let brokers sample the lateness of their event loop less often than 50 times a second.

    Virtual time is never late, and a third of the simulation's cost would be these samples.
    """
    period, lateness.PERIOD_SECONDS = lateness.PERIOD_SECONDS, 1.0
    try:
        yield
    finally:
        lateness.PERIOD_SECONDS = period


class SimNameserver:
    """A nameserver on a host of its own."""

    def __init__(self, host: SimHost) -> None:
        self.host = host

    @property
    def address(self) -> str:
        """Its HOST:PORT."""
        return f"{self.host.address}:{NAMESRV_PORT}"

    async def start(self) -> None:
        """Begin a process and wait until it serves."""
        started = await self.host.start(_run_nameserver)
        assert started, f"nameserver {self.address}: {self.host.failure}"


class SimBroker:
    """A broker on a host of its own. ``settings`` count from its next start."""

    def __init__(self, name: str, host: SimHost, settings: BrokerSettings) -> None:
        self.name = name
        self.host = host
        self.settings = settings

    @property
    def address(self) -> str:
        """Its HOST:PORT."""
        return f"{self.host.address}:{self.settings.server.listen_port}"

    @property
    def log(self) -> SimLog:
        """The CommitLog on its disk as it is now, whether a process runs or not."""
        return read_log(self.host.disk, self.settings.store)

    def change(self, *, broker: Mapping[str, object] = {}, store: Mapping[str, object] = {}) -> None:
        """Change fields of its settings from its next start on: another role, another id."""
        self.settings = attrs.evolve(
            self.settings,
            broker=attrs.evolve(self.settings.broker, **broker),  # type: ignore[arg-type]
            store=attrs.evolve(self.settings.store, **store),  # type: ignore[arg-type]
        )

    async def start(self) -> bool:
        """Begin a process and wait until it serves; False when it has ended instead, as ``host.failure`` says."""
        self.settings.check_values(self.settings.values)
        return await self.host.start(partial(_run_broker, self.settings))


class ClusterWorld:
    """The hosts of one simulation and the network between them. Created by :func:`simulate`."""

    def __init__(self, nursery: trio.Nursery, *, seed: int) -> None:
        self.randomness = Random(f"cluster {seed}")
        """For the scene; hosts and network have their own, so what a scene draws changes nothing of theirs."""
        self.trace = Trace()
        self.network = SimNetwork(randomness=Random(f"network {seed}"))
        self.network.observer = partial(self.trace.note, "send")
        self.nameservers: list[SimNameserver] = []
        self.brokers: dict[str, SimBroker] = {}
        self._nursery = nursery
        self._seed = seed
        self._hosts: list[SimHost] = []

    @property
    def name_servers(self) -> str:
        """The addresses of all nameservers, as settings have them."""
        return ";".join(each.address for each in self.nameservers)

    def host(self) -> SimHost:
        """Return a new host with an address of its own."""
        number = len(self._hosts)
        host = SimHost(
            f"10.0.{number // 250}.{number % 250 + 1}",
            network=self.network,
            nursery=self._nursery,
            trace=self.trace,
            randomness=Random(f"host {number} {self._seed}"),
        )
        self._hosts.append(host)
        return host

    def resume_all(self) -> None:
        """Let every paused process go on."""
        for host in self._hosts:
            host.resume()

    async def start_nameserver(self) -> SimNameserver:
        """Add a nameserver that serves. Brokers and clients know those that were added before them."""
        nameserver = SimNameserver(self.host())
        self.nameservers.append(nameserver)
        await nameserver.start()
        return nameserver

    def broker(
        self, name: str, *, key: str = "", broker: Mapping[str, object] = {}, store: Mapping[str, object] = {}
    ) -> SimBroker:
        """Add a broker that has never been started.

        ``broker`` and ``store`` are fields of its settings; ``key`` finds it in :attr:`brokers`, for brokers that share
        a name. Its files roll over within a few hundred messages.
        """
        host = self.host()
        added = SimBroker(name, host, self._settings(name, host.address, broker, store))
        self.brokers[key or name] = added
        return added

    def slave(self, master: SimBroker, *, broker_id: int = 1, store: Mapping[str, object] = {}) -> SimBroker:
        """Add a slave of a broker, which it finds through the nameservers. Its key is ``NAME/ID``."""
        return self.broker(
            master.name,
            key=f"{master.name}/{broker_id}",
            broker={"broker_id": broker_id},
            store={**store, "broker_role": BrokerRole.SLAVE},
        )

    async def start_client(self, program: Program) -> SimHost:
        """Run a client on a new host; returns once the program has called ``process.started()``, or has ended."""
        host = self.host()
        await host.start(program)
        return host

    async def run_client(self, program: Callable[[SimProcess], Awaitable[T]]) -> T:
        """Run a client on a new host to its end; return what it returns. What it raises ends the simulation."""
        results: list[T] = []

        async def run(process: SimProcess) -> None:
            results.append(await program(process))

        await (await self.start_client(run)).wait_ended()
        if not results:
            await trio.sleep_forever()  # what it has raised is ending the simulation
        return results[0]

    def _settings(
        self, name: str, address: str, broker: Mapping[str, object], store: Mapping[str, object]
    ) -> BrokerSettings:
        own = {"broker_name": name, "broker_ip1": address, "broker_ip2": address, "namesrv_addr": self.name_servers}
        return BrokerSettings(
            broker=BrokerConfig(**{**_BROKER, **own, **broker}),  # type: ignore[arg-type]
            server=NettyServerConfig(listen_port=BROKER_PORT),
            client=NettyClientConfig(),
            store=MessageStoreConfig(**{**_STORE, "ha_listen_port": BROKER_PORT + 1, **store}),  # type: ignore[arg-type]
            host=None,
            embeds_nameserver=False,
        )


def environment_of(process: SimProcess) -> ClientEnvironment:
    """Return what the openers of ``rocketpy.client`` take, for a client in this process."""
    return ClientEnvironment(
        network=process.network,
        clock=process.clock,
        randomness=process.randomness,
        process_id=process.process_id,
        run_blocking=run_inline,
    )


async def _run_broker(settings: BrokerSettings, process: SimProcess) -> None:
    await run_broker(
        settings,
        disk=process.disk,
        clock=process.clock,
        run_blocking=process.run_blocking,
        randomness=process.randomness,
        stop=process.stop,
        network=process.network,
        task_status=process,
    )


async def _run_nameserver(process: SimProcess) -> None:
    config = NamesrvConfig(kv_config_path="/namesrv/kvConfig.json", config_store_path="/namesrv/namesrv.properties")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_stop_with, process, nursery.cancel_scope)
        await nursery.start(
            partial(
                run_nameserver,
                config,
                NettyServerConfig(listen_port=NAMESRV_PORT),
                host=None,
                disk=process.disk,
                run_blocking=process.run_blocking,
                network=process.network,
            )
        )
        process.started()


async def _stop_with(process: SimProcess, scope: trio.CancelScope) -> None:
    await process.stop.wait()
    scope.cancel()
