"""A small cluster to try, in one process on loopback: two masters, and perhaps a slave of each.

Its names are those of RocketMQ's sample configurations, and so are the roles. Each broker has a directory of its own
below one, small files as a broker without ``-c``, and ports ten apart. It is for trying things and no protection from
anything: all of it is in one process, on one disk.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

import attrs
import trio

from rocketpy.broker.app import BrokerAddress
from rocketpy.broker.config import BROKER_PORT, BrokerConfig
from rocketpy.broker.start_settings import BrokerSettings, StartOptions, laptop_store, load_broker_settings
from rocketpy.store.config import BrokerRole

PORT_STEP = 10
"""Distance of the listening ports of two brokers; each has the VIP port below it and the port for slaves above it."""

SAMPLE_CLUSTERS = {
    "2m-noslave": (BrokerRole.ASYNC_MASTER, False),
    "2m-2s-async": (BrokerRole.ASYNC_MASTER, True),
    "2m-2s-sync": (BrokerRole.SYNC_MASTER, True),
}
"""By name: the role of the masters, and whether each has a slave."""


class RunMember(Protocol):
    """Runs one broker until ``stop`` is set, and reports its address once clients may connect."""

    async def __call__(
        self, settings: BrokerSettings, stop: trio.Event, *, task_status: trio.TaskStatus[BrokerAddress]
    ) -> None: ...


@attrs.frozen
class Member:
    """One broker of a cluster, which runs."""

    settings: BrokerSettings
    at: BrokerAddress
    pid: int | None = None  # where it has a process of its own


def sample_members(name: str, *, directory: str, namesrv_addr: str, port: int | None = None) -> list[BrokerSettings]:
    """Return the settings of the brokers of a sample cluster, masters first; SettingsError names what is wrong.

    ``port`` is that of the first one, 0 for ports that the system chooses.
    """
    master_role, has_slaves = SAMPLE_CLUSTERS[name]
    kinds = [(master_role, 0), *([(BrokerRole.SLAVE, 1)] if has_slaves else [])]
    members = [(letter, *kind) for kind in kinds for letter in "ab"]
    first = BROKER_PORT if port is None else port
    return [
        load_broker_settings(
            StartOptions(
                namesrv_addr=namesrv_addr,
                store_path=os.path.join(directory, f"broker-{letter}" + ("-s" if broker_id else "")),
                port=first + PORT_STEP * number if first else 0,
            ),
            own_defaults=(
                BrokerConfig(broker_name=f"broker-{letter}", broker_id=broker_id),
                attrs.evolve(laptop_store(), broker_role=role),
            ),
        )
        for number, (letter, role, broker_id) in enumerate(members)
    ]


async def run_members(
    members: Sequence[BrokerSettings],
    *,
    run: RunMember,
    stop: trio.Event,
    task_status: trio.TaskStatus[list[Member]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run brokers until ``stop`` is set. Slaves begin after the masters, and end after their last answers."""
    masters = [each for each in members if each.store.broker_role is not BrokerRole.SLAVE]
    slaves = [each for each in members if each.store.broker_role is BrokerRole.SLAVE]
    stop_slaves = trio.Event()
    async with trio.open_nursery() as outer:
        async with trio.open_nursery() as inner:
            running = [Member(each, await inner.start(run, each, stop)) for each in masters]
            running += [Member(each, await outer.start(run, each, stop_slaves)) for each in slaves]
            task_status.started(running)
        stop_slaves.set()


def table_of(members: Sequence[Member], *, namesrv_addr: str) -> list[str]:
    """Return the addresses as lines of a table."""
    rows: list[tuple[str, ...]] = [("role", "name", "id", "clients", "slaves", "process", "store")]
    rows.append(("nameserver", "", "", namesrv_addr, "", "", ""))
    for member in members:
        broker, store, at = member.settings.broker, member.settings.store, member.at
        slaves = f"{broker.broker_ip2}:{at.ha_port}"
        name, number = broker.broker_name, str(broker.broker_id)
        pid = "" if member.pid is None else str(member.pid)
        rows.append((store.broker_role.name, name, number, at.address, slaves, pid, os.path.abspath(store.root)))
    if all(member.pid is None for member in members):
        rows = [(*row[:5], row[6]) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
