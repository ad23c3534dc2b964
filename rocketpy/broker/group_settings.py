"""Settings of several broker groups on one machine: one set for all of them, and what must differ in each.

``--groups N`` runs N masters, each a process of its own, so that a cluster uses more cores than one. They share the
command line and the file of ``-c``. In each group differ

- ``brokerName``: broker-a, broker-b and so on, as in RocketMQ's sample configurations;
- ``listenPort``: :data:`PORT_STEP` apart, from that of the command line or file on; 0 lets the system choose all;
- the store: a directory of the group's name below ``--store`` or ``storePathRootDir``, and below each directory that
  the file names for the log;
- the log files: RocketMQ's ``isolateLogEnable``, a directory for each broker below ``logDirectory``.

A change by request to one of them is written into the file that all share; without ``-c`` each has its own.
"""

from __future__ import annotations

import os
import string

import attrs

from rocketpy.broker.config import BROKER_PORT, BrokerConfig
from rocketpy.broker.sample_cluster import PORT_STEP
from rocketpy.broker.start_settings import (
    PORT_MAX,
    BrokerSettings,
    StartOptions,
    check_namesrv_port,
    embedded_nameserver,
    laptop_store,
    load_broker_settings,
)
from rocketpy.errors import SettingsError
from rocketpy.remoting.local_address import local_host_name
from rocketpy.settings import located
from rocketpy.store.config import BrokerRole

GROUPS_MAX = len(string.ascii_lowercase)
"""A letter for each group."""


@attrs.frozen
class GroupSettings:
    """The brokers of all groups, and the nameserver that they register at."""

    members: tuple[BrokerSettings, ...]
    root: str  # the directory of the stores
    namesrv_addr: str
    embeds_nameserver: bool  # none is named anywhere, so one runs beside them
    warnings: tuple[str, ...]


def load_group_settings(count: int, options: StartOptions) -> GroupSettings:
    """Load the settings of ``count`` groups; SettingsError names what is wrong in one sentence."""
    root, port, named, warnings = _shared(options)
    last = port + PORT_STEP * (count - 1)
    if port and last > PORT_MAX:
        raise SettingsError(f"--groups {count}: expected ports up to {PORT_MAX}, {PORT_STEP} apart from {port} on")
    check_namesrv_port(options, embeds_nameserver=not named)
    namesrv_addr = named or embedded_nameserver(options)
    names = [f"broker-{letter}" for letter in string.ascii_lowercase[:count]]
    members = tuple(
        _member(
            attrs.evolve(
                options,
                namesrv_addr=namesrv_addr,
                namesrv_port=None,
                store_path=os.path.join(root, name),
                port=port + PORT_STEP * number if port else 0,
            ),
            name,
        )
        for number, name in enumerate(names)
    )
    warnings += [warning for member in members for warning in member.warnings]
    once = tuple(dict.fromkeys(warnings))
    return GroupSettings(members, root, namesrv_addr, embeds_nameserver=not named, warnings=once)


def _shared(options: StartOptions) -> tuple[str, int, str, list[str]]:
    """Return the directory of the stores, the first port, the nameservers that are named, and warnings."""
    if options.config_file is None:
        root = options.store_path or laptop_store().store_path_root_dir
        port = BROKER_PORT if options.port is None else options.port
        return root, port, options.namesrv_addr or options.environment_namesrv_addr or "", []
    shared = load_broker_settings(attrs.evolve(options, namesrv_port=None))
    name = shared.broker.broker_name
    warnings = []
    if name != local_host_name():
        warnings.append(f"brokerName = {name!r} has no effect with --groups, which names each group")
    return shared.store.root, shared.server.listen_port, shared.broker.namesrv_addr, warnings


def _member(options: StartOptions, name: str) -> BrokerSettings:
    own_defaults = None if options.config_file else (BrokerConfig(broker_name=name), laptop_store())
    settings = load_broker_settings(options, own_defaults=own_defaults)
    if settings.store.broker_role is BrokerRole.SLAVE:
        sentence = "brokerRole = 'SLAVE': expected a master with --groups, each group is one"
        raise SettingsError(located(sentence, settings.places))
    return attrs.evolve(
        settings,
        broker=attrs.evolve(settings.broker, broker_name=name, isolate_log_enable=True),
        store=attrs.evolve(
            settings.store,
            store_path_commit_log=_below(settings.store.store_path_commit_log, name),
            read_only_commit_log_store_paths=_below(settings.store.read_only_commit_log_store_paths, name),
        ),
    )


def _below(directories: str | None, name: str) -> str | None:
    """Return directories of the log with one of the group's name below each."""
    if not directories:
        return directories
    return ",".join(os.path.join(path.strip(), name) for path in directories.split(",") if path.strip())
