"""``python -m rocketpy.broker``: RocketMQ's ``mqbroker`` with its options.

Without any argument it is a complete system for one machine: a nameserver, a broker and a store in ``./store``, all on
loopback. ``--cluster 2m-2s-sync`` is a small cluster of the same kind, to try replication; ``--groups N`` is N masters,
each in a process of its own, to use N cores. Exit status: 0 after SIGTERM, SIGINT, ``-h``, ``-p`` or ``-m``; 2 with a
one-line message when a setting is wrong, a port is taken or the store cannot be opened; 1 after a failure at run time.
A second signal kills it at once.
"""

from __future__ import annotations

import argparse
import gc
import linecache
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TextIO

if __name__ == "__main__":
    # Nothing is there yet that an interrupt must shut down: it ends the program at once, without a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Imports make a hundred thousand objects that stay. The only garbage is young: classes that attrs makes anew.
    gc.set_threshold(10_000, 1_000, 1_000)

import attrs
import trio

from rocketpy import BUILD
from rocketpy.broker.app import BrokerAddress, run_broker
from rocketpy.broker.config import BROKER_PORT
from rocketpy.broker.logs import configure_logging
from rocketpy.broker.sample_cluster import SAMPLE_CLUSTERS, Member, run_members, sample_members, table_of
from rocketpy.broker.shutdown_signals import EXIT_FAILED, obey_signals
from rocketpy.broker.start_settings import (
    LOOPBACK,
    PORT_MAX,
    BrokerSettings,
    StartOptions,
    check_namesrv_port,
    embedded_nameserver,
    load_broker_settings,
)
from rocketpy.clock import SystemClock
from rocketpy.errors import RocketpyError, SettingsError, StartError, StoreError, single_failures
from rocketpy.other_distribution import other_rocketpy_warning
from rocketpy.program import exit_with, port_between
from rocketpy.ready_file import ReadyFile
from rocketpy.remoting.limits.descriptors import raise_descriptor_limit
from rocketpy.remoting.network import HIGHEST_PORT, PortInUseError, split_address
from rocketpy.settings import format_settings, located
from rocketpy.standard_output import print_to_reader
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.services.worker_thread import open_worker_thread

if TYPE_CHECKING:
    from rocketpy.broker.group_processes import ParentLine

EXIT_WRONG = 2
SWITCH_INTERVAL_SECONDS = 0.0005
"""Thread switch interval: bounds how long a finished sync waits for the event loop (Python's default is 5 ms)."""

NAMESRV_CONNECTIONS_MAX = 200
"""Connections of the embedded nameserver, which listens on loopback; descriptors are reserved for them."""

GC_THRESHOLDS = (50_000, 20, 100)

_log = logging.getLogger("rocketpy.broker")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a broker until a signal ends it; return the exit status."""
    given = argument_parser().parse_args(arguments)
    options = StartOptions(
        config_file=given.config_file,
        namesrv_addr=given.namesrv_addr,
        environment_namesrv_addr=os.environ.get("NAMESRV_ADDR"),
        store_path=given.store,
        port=given.port,
        namesrv_port=given.namesrv_port,
        log_directory=given.log_directory,
    )
    started: list[BrokerAddress] = []
    ready_file = ReadyFile(given.ready_file)
    places: dict[str, str] = {}
    status = 0
    try:
        if BUILD.fault:
            raise SettingsError(BUILD.fault)
        prints = given.print_config_item or given.print_important_config
        if prints and (given.cluster or given.groups):
            raise SettingsError("-p and -m print the settings of one broker: expected no --cluster and no --groups")
        if given.cluster is not None:
            with ready_file.removed_around():
                _run_sample_cluster(given.cluster, options, started, ready_file)
            return 0
        if given.groups is not None:
            with ready_file.removed_around():
                return _run_groups(given.groups, options, started, ready_file)
        settings = load_broker_settings(options)
        places = settings.places
        if prints:
            print_to_reader(format_settings(*settings.values, important_only=given.print_important_config))
            return 0
        _warn(settings.warnings)
        _prepare_process(settings)
        with ready_file.removed_around():
            trio.run(_serve_until_signal, settings, started, ready_file)
    except* (SettingsError, StartError, StoreError) as group:
        status = report_failure(group, is_start=not started, places=places)
    except* RocketpyError:
        _log.critical("the broker has failed", exc_info=True)
        status = EXIT_FAILED
    return status


def _warn(warnings: Sequence[str]) -> None:
    other = other_rocketpy_warning(sys.path)
    for warning in (*warnings, *([other] if other else [])):
        print(f"warning: {warning}", file=sys.stderr)


def _prepare_process(settings: BrokerSettings) -> None:
    configure_logging(settings.broker)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    raise_descriptor_limit()


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m rocketpy.broker",
        description="A RocketMQ 4.9 broker. Without arguments: with a nameserver, on loopback, store in ./store.",
        allow_abbrev=False,
    )
    parser.add_argument("-c", "--configFile", dest="config_file", metavar="FILE", help="file with the settings")
    parser.add_argument("-n", "--namesrvAddr", dest="namesrv_addr", metavar="ADDRESSES", help="HOST:PORT;HOST:PORT")
    parser.add_argument("--store", metavar="DIR", help="store directory")
    parser.add_argument("--log-directory", metavar="DIR", help="directory for log files (default: standard error)")
    parser.add_argument(
        "--port",
        type=port_between(0, PORT_MAX),
        metavar="N",
        help="port to listen on (default: 10911; 0: any free port)",
    )
    parser.add_argument(
        "--namesrv-port",
        type=port_between(1, HIGHEST_PORT),
        metavar="N",
        help="port of the nameserver that runs in this process (default: 9876)",
    )
    parser.add_argument(
        "--ready-file", metavar="FILE", help="file with the addresses, as JSON, while it serves (-: standard output)"
    )
    several = parser.add_mutually_exclusive_group()
    several.add_argument(
        "--groups",
        type=_group_count,
        metavar="N",
        help="run N masters, each in a process of its own, and a nameserver; stores below --store",
    )
    several.add_argument(
        "--cluster",
        choices=sorted(SAMPLE_CLUSTERS),
        help="run masters, slaves and a nameserver in this process, to try replication; stores below --store",
    )
    parser.add_argument(
        "-p", "--printConfigItem", dest="print_config_item", action="store_true", help="print every setting and exit"
    )
    parser.add_argument(
        "-m",
        "--printImportantConfig",
        dest="print_important_config",
        action="store_true",
        help="print the most important settings and exit",
    )
    return parser


def _group_count(text: str) -> int:
    from rocketpy.broker.group_settings import GROUPS_MAX  # imported only when there are groups

    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= GROUPS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of groups from 1 to {GROUPS_MAX}")
    return int(text)


async def _serve_until_signal(settings: BrokerSettings, started: list[BrokerAddress], ready_file: ReadyFile) -> None:
    def say_ready(address: BrokerAddress) -> None:
        started.append(address)
        say_ready_to_people(settings, address, ready_file.output_for_people)
        ready_file.write({"role": "broker", **ready_values(settings, address)})

    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        await _serve(settings, signals, say_ready)


async def _serve(
    settings: BrokerSettings, orders: AsyncIterator[object], say_ready: Callable[[BrokerAddress], None]
) -> None:
    """Run the broker, with its embedded nameserver if configured, until an order to stop."""
    stop = trio.Event()
    async with trio.open_nursery() as outer:
        outer.start_soon(obey_signals, orders, stop)
        if settings.embeds_nameserver:
            await outer.start(_run_embedded_nameserver, settings)

        async def run(task_status: trio.TaskStatus[BrokerAddress]) -> None:
            await _run_broker(settings, stop, task_status=task_status)
            outer.cancel_scope.cancel()

        address: BrokerAddress = await outer.start(run)
        _log.info("build: %s", BUILD)
        _settle_memory()
        say_ready(address)


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
        open_runner=open_worker_thread,
        task_status=task_status,
    )


def _settle_memory() -> None:
    """Exclude what the start has made from garbage collection, and collect less often."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


def _run_sample_cluster(name: str, options: StartOptions, started: list[BrokerAddress], ready_file: ReadyFile) -> None:
    """Run a sample cluster until a signal; raises what a broker raises."""
    if options.config_file is not None:
        raise SettingsError(f"-c {options.config_file}: expected no file with --cluster, which has its own settings")
    port = BROKER_PORT if options.port is None else options.port
    check_namesrv_port(options, embeds_nameserver=options.namesrv_addr is None)
    namesrv_addr = options.namesrv_addr or embedded_nameserver(options)
    directory = options.store_path or os.path.join("store", name)
    members = sample_members(name, directory=directory, namesrv_addr=namesrv_addr, port=port)
    broker = attrs.evolve(members[0].broker, log_directory=options.log_directory or "")
    _prepare_process(attrs.evolve(members[0], broker=broker))
    has_nameserver = options.namesrv_addr is None
    trio.run(_serve_sample_cluster, members, directory if has_nameserver else None, started, ready_file)


async def _serve_sample_cluster(
    members: Sequence[BrokerSettings], directory: str | None, started: list[BrokerAddress], ready_file: ReadyFile
) -> None:
    """Run brokers until a signal, with a nameserver whose files are in ``directory``, or without one."""
    stop = trio.Event()
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as outer:
            outer.start_soon(obey_signals, signals, stop)
            if directory is not None:
                await outer.start(_run_embedded_nameserver, members[0], os.path.join(directory, "nameserver"))

            async def run(task_status: trio.TaskStatus[list[Member]]) -> None:
                await run_members(members, run=_run_broker, stop=stop, task_status=task_status)
                outer.cancel_scope.cancel()

            running: list[Member] = await outer.start(run)
            started += [member.at for member in running]
            _log.info("build: %s", BUILD)
            _settle_memory()
            _say_cluster_ready(running, ready_file)


def _say_cluster_ready(members: Sequence[Member], ready_file: ReadyFile) -> None:
    output = ready_file.output_for_people
    namesrv_addr = members[0].settings.broker.namesrv_addr
    print("\n".join(table_of(members, namesrv_addr=namesrv_addr)), file=output)
    # A topic that a send creates is on one broker only, so it is created on all of them first.
    commands = "rocketpy topic create hello, rocketpy produce -t hello, rocketpy consume -t hello -o beginning"
    print(f"try it: {commands}; Ctrl-C ends all of it", file=output, flush=True)
    brokers = [ready_values(member.settings, member.at, member.pid) for member in members]
    ready_file.write({"role": "cluster", "namesrvAddr": namesrv_addr, "brokers": brokers})


def _run_groups(count: int, options: StartOptions, started: list[BrokerAddress], ready_file: ReadyFile) -> int:
    """Run a process for each broker group, and this one over them, until a signal; return the exit status."""
    from rocketpy.broker.group_processes import GroupEndedError, fork_groups, serve_groups  # only when there are groups
    from rocketpy.broker.group_settings import load_group_settings

    groups = load_group_settings(count, options)
    _warn(groups.warnings)
    gc.freeze()  # the processes share what is imported, until something writes to it
    processes = fork_groups(groups.members, _run_group)
    first = groups.members[0]
    _prepare_process(attrs.evolve(first, broker=attrs.evolve(first.broker, isolate_log_enable=False)))
    directory = os.path.join(groups.root, "nameserver")

    def say_ready(members: Sequence[Member]) -> None:
        started.extend(member.at for member in members)
        _settle_memory()
        _say_cluster_ready(members, ready_file)

    nameserver = partial(_run_embedded_nameserver, first, directory) if groups.embeds_nameserver else None
    serve = partial(serve_groups, processes, groups.members, run_nameserver=nameserver, say_ready=say_ready)
    status = 0
    try:
        trio.run(serve)
    except* GroupEndedError as group:
        print(next(single_failures(group)), file=sys.stderr)
        status = EXIT_FAILED
    return status


def _run_group(settings: BrokerSettings, line: ParentLine) -> int:
    """Run the broker of one group, in a process of its own; return the exit status."""
    started: list[BrokerAddress] = []
    status = 0
    try:
        _prepare_process(settings)
        trio.run(_serve_group, settings, started, line)
    except* (SettingsError, StartError, StoreError) as group:
        if not started:
            line.report_failure(_sentence(group, settings.places))
        status = EXIT_WRONG if not started else report_failure(group, is_start=False)
    except* RocketpyError:
        _log.critical("the broker has failed", exc_info=True)
        status = EXIT_FAILED
    return status


async def _serve_group(settings: BrokerSettings, started: list[BrokerAddress], line: ParentLine) -> None:
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        await _serve(settings, line.orders(signals), partial(_group_is_ready, settings, started, line))


def _group_is_ready(
    settings: BrokerSettings, started: list[BrokerAddress], line: ParentLine, address: BrokerAddress
) -> None:
    started.append(address)
    line.report_ready(attrs.asdict(address))


async def _run_embedded_nameserver(
    settings: BrokerSettings, directory: str = "", *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED
) -> None:
    """Run a nameserver in this process, on loopback; its KV file is in ``directory``, or in the store's config."""
    from rocketpy.nameserver.app import run_nameserver  # imported only when a nameserver is embedded
    from rocketpy.nameserver.config import NamesrvConfig
    from rocketpy.remoting.config import NettyServerConfig

    directory = directory or os.path.join(settings.store.root, "config")
    _, port = split_address(settings.broker.namesrv_addr)
    try:
        await run_nameserver(
            NamesrvConfig(
                kv_config_path=os.path.join(directory, "kvConfig.json"),
                config_store_path=os.path.join(directory, "namesrv.properties"),
            ),
            NettyServerConfig(listen_port=port, connections_max=NAMESRV_CONNECTIONS_MAX),
            tls=settings.tls_server,
            host=LOOPBACK,
            disk=OsDisk(),
            task_status=task_status,
        )
    except PortInUseError as failure:
        remedy = "--namesrv-port N moves this broker's nameserver, -n HOST:PORT names one that runs"
        raise StartError(f"{failure}; {remedy}") from failure


def say_ready_to_people(settings: BrokerSettings, address: BrokerAddress, output: TextIO) -> None:
    """Print where the broker is and where its files are."""
    config = settings.broker
    namesrv = config.namesrv_addr or "none"
    lines = [
        f"The broker[{config.broker_name}, {address.address}] boot success. serializeType=JSON and name server is "
        f"{namesrv}",
        f"  store       {os.path.abspath(settings.store.root)}",
    ]
    if settings.store.store_path_commit_log:
        lines.append(f"  commitlog   {', '.join(map(os.path.abspath, settings.store.commit_log_paths))}")
    if config.log_directory:
        lines.append(f"  logs        {os.path.abspath(os.path.expanduser(config.log_directory))}")
    lines.append(f"  build       {BUILD}")
    if settings.embeds_nameserver:
        lines += [
            f"  nameserver  {namesrv} (in this process): what clients connect to",
            "  try it      rocketpy produce -t hello, rocketpy consume -t hello -o beginning",
        ]
    print("\n".join(lines), file=output, flush=True)


def ready_values(settings: BrokerSettings, address: BrokerAddress, pid: int | None = None) -> dict[str, object]:
    """Return what the ready file says of a broker; ``pid`` is that of a process of its own."""
    return {
        **({} if pid is None else {"pid": pid}),
        "brokerName": settings.broker.broker_name,
        "brokerId": settings.broker.broker_id,
        "brokerClusterName": settings.broker.broker_cluster_name,
        "brokerAddr": address.address,
        "namesrvAddr": settings.broker.namesrv_addr,
        "listenPort": address.port,
        "vipPort": address.vip_port,
        "haListenPort": address.ha_port,
        "storePathRootDir": os.path.abspath(settings.store.root),
    }


def report_failure(
    group: BaseExceptionGroup[RocketpyError], *, is_start: bool, places: Mapping[str, str] | None = None
) -> int:
    """Print the message of a failed start; log later failures with their traceback."""
    if is_start:
        print(_sentence(group, places or {}), file=sys.stderr)
        return EXIT_WRONG
    for failure in single_failures(group):
        _log.critical("the broker has failed: %s", failure, exc_info=failure)
    return EXIT_FAILED


def _sentence(group: BaseExceptionGroup[RocketpyError], places: Mapping[str, str]) -> str:
    """Return the first failure of a start, with the option that helps or the file and line of the setting."""
    failure = next(single_failures(group))
    if isinstance(failure, PortInUseError):
        return f"{failure}; --port N moves the broker"
    if isinstance(failure, StoreError) and not os.path.isabs(failure.path):
        return f"{failure}; the current directory is {os.getcwd()}, --store DIR names another place"
    return located(str(failure), places)


if __name__ == "__main__":
    gc.set_threshold(*GC_THRESHOLDS)
    linecache.clearcache()  # attrs leaves the source text of all methods that it has generated there, for debuggers
    exit_with(main)
