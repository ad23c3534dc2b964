"""``python -m rocketpy.nameserver``: RocketMQ's ``mqnamesrv`` with its options.

Exit status: 0 after SIGTERM, SIGINT, ``-h`` or ``-p``; 2 with one sentence when a setting is wrong or the port taken.
Without ``-c`` it listens on loopback only; with ``-c FILE`` on every address unless the file has ``bindAddress``.
"""

from __future__ import annotations

import argparse
import gc
import logging
import signal
import sys
from collections.abc import Mapping, Sequence

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Nothing is there yet that an interrupt must shut down: it ends the program at once, without a traceback.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import attrs
import trio

from rocketpy import BUILD
from rocketpy.errors import SettingsError, StartError, single_failures
from rocketpy.nameserver.app import run_nameserver
from rocketpy.nameserver.config import NamesrvConfig, default_server_config
from rocketpy.nameserver.logs import configure_logging
from rocketpy.program import exit_with, port_between
from rocketpy.ready_file import ReadyFile
from rocketpy.remoting.config import NettyServerConfig, TlsClientConfig, TlsServerConfig
from rocketpy.remoting.limits.descriptors import raise_descriptor_limit
from rocketpy.remoting.network import HIGHEST_PORT, PortInUseError
from rocketpy.remoting.tls.contexts import config_file_places, with_config_file
from rocketpy.settings import format_settings, load_settings, located
from rocketpy.standard_output import print_to_reader
from rocketpy.store.disk.os_disk import OsDisk

LOOPBACK = "127.0.0.1"
EXIT_WRONG = 2

EVERY_ADDRESS = (None, "0.0.0.0", "::")
OPEN = (
    "without access control: any host that reaches it may register brokers and change routes "
    "(restrict it with bindAddress or routeChangeAllowList)"
)

GC_THRESHOLDS = (50_000, 20, 100)
"""As in the broker: route tables are long-lived, and frequent collections over them would stall the event loop."""

_log = logging.getLogger("rocketpy.nameserver")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a nameserver until a signal ends it; return the exit status."""
    options = argument_parser().parse_args(arguments)
    places: dict[str, str] = {}
    status = 0
    try:
        if BUILD.fault:
            raise SettingsError(BUILD.fault)
        loaded = load_settings(options.config_file, NamesrvConfig, default_server_config(), TlsServerConfig)
        places = loaded.places | config_file_places(loaded.of(TlsServerConfig))
        tls, _, tls_warnings = with_config_file(loaded.of(TlsServerConfig), TlsClientConfig())
        for warning in (*loaded.warnings, *tls_warnings):
            print(warning, file=sys.stderr)
        namesrv, server_config = loaded.of(NamesrvConfig), loaded.of(NettyServerConfig)
        if options.config_file is not None:
            namesrv = attrs.evolve(namesrv, config_store_path=options.config_file)
        if options.log_directory is not None:
            namesrv = attrs.evolve(namesrv, log_directory=options.log_directory)
        if options.port is not None:
            server_config = attrs.evolve(server_config, listen_port=options.port)
        if options.print_config_item:
            print_to_reader(format_settings(namesrv, server_config))
        else:
            configure_logging(namesrv)
            raise_descriptor_limit()
            host = server_config.bind_address or (LOOPBACK if options.config_file is None else None)
            if host in EVERY_ADDRESS and not namesrv.route_change_allow_list:
                print(f"warning: listening on every address, port {server_config.listen_port}, {OPEN}", file=sys.stderr)
            ready_file = ReadyFile(options.ready_file)
            with ready_file.removed_around():
                trio.run(serve, namesrv, server_config, tls, host, loaded.unknown, ready_file)
    except* (SettingsError, StartError) as group:
        failure = next(single_failures(group))
        remedy = "; --port N moves the nameserver" if isinstance(failure, PortInUseError) else ""
        print(f"{located(str(failure), places)}{remedy}", file=sys.stderr)
        status = EXIT_WRONG
    return status


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m rocketpy.nameserver", description="A RocketMQ 4.9 nameserver.", allow_abbrev=False
    )
    parser.add_argument(
        "-c", "--configFile", dest="config_file", metavar="FILE", help="properties file with the settings"
    )
    parser.add_argument(
        "-n", "--namesrvAddr", dest="ignored", metavar="ADDRESSES", help="accepted without effect, as in RocketMQ"
    )
    parser.add_argument(
        "--port",
        type=port_between(0, HIGHEST_PORT),
        metavar="N",
        help="port to listen on (default: 9876; 0: any free port)",
    )
    parser.add_argument("--log-directory", metavar="DIR", help="directory for log files (default: standard error)")
    parser.add_argument(
        "--ready-file", metavar="FILE", help="file with the port, as JSON, while it serves (-: standard output)"
    )
    parser.add_argument(
        "-p", "--printConfigItem", dest="print_config_item", action="store_true", help="print every setting and exit"
    )
    return parser


async def serve(
    config: NamesrvConfig,
    server_config: NettyServerConfig,
    tls: TlsServerConfig,
    host: str | None,
    unknown: Mapping[str, str],
    ready_file: ReadyFile,
) -> None:
    """Run until SIGTERM or SIGINT."""
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:

            async def run(task_status: trio.TaskStatus[int]) -> None:
                await run_nameserver(
                    config,
                    server_config,
                    tls=tls,
                    host=host,
                    disk=OsDisk(),
                    unknown=unknown,
                    task_status=task_status,
                )

            port = await nursery.start(run)
            _log.info("build: %s", BUILD)
            gc.freeze()
            gc.set_threshold(*GC_THRESHOLDS)
            output = ready_file.output_for_people
            print("The Name Server boot success. serializeType=JSON", file=output)
            print(f"Listening on {host or 'every address'}, port {port}", file=output, flush=True)
            ready_file.write({"role": "nameserver", "bindAddress": host or "", "listenPort": port})
            async for _ in signals:
                nursery.cancel_scope.cancel()


if __name__ == "__main__":
    exit_with(main)
