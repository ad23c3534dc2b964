"""Options shared by several commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import attrs
import typer

from rocketpy.cli.outcome import CommandError
from rocketpy.cli.printing import print_line

if TYPE_CHECKING:
    from rocketpy.client.config import ClientConfig
    from rocketpy.protocol.message import MessageQueue

DEFAULT_NAME_SERVER: Final = "127.0.0.1:9876"

NameServers = Annotated[
    str,
    typer.Option(
        "-n",
        "--namesrv",
        envvar="NAMESRV_ADDR",
        help="Nameservers: HOST:PORT, several separated by ';'.",
    ),
]
Topic = Annotated[str, typer.Option("-t", "--topic", help="The topic.", show_default=False)]
Queue = Annotated[
    str, typer.Option("-q", "--queue", help="One queue only: its number, or BROKER:NUMBER.", show_default=False)
]

Tls = Annotated[bool, typer.Option("--tls", help="Connect with TLS, to any server.")]
TlsFile = Annotated[
    str,
    typer.Option(
        "--tls-config",
        metavar="FILE",
        help="Connect with TLS, with RocketMQ's keys tls.client.* of this properties file.",
        show_default=False,
    ),
]


Credentials = Annotated[
    str,
    typer.Option(
        "--credentials",
        metavar="FILE",
        envvar="ROCKETPY_CREDENTIALS",
        help="Sign every request, for brokers with ACL: a file like RocketMQ's tools.yml (accessKey, secretKey).",
        show_default=False,
    ),
]


def chosen_config(tls: bool, tls_file: str, credentials_file: str) -> ClientConfig:
    """Return the settings of a client for --tls, --tls-config and --credentials; SettingsError for a wrong file."""
    from rocketpy.cli.credentials import load_credentials

    credentials = load_credentials(credentials_file) if credentials_file else None
    return attrs.evolve(_config_with_tls(tls, tls_file), credentials=credentials)


def _config_with_tls(tls: bool, tls_file: str) -> ClientConfig:
    from rocketpy.client.config import ClientConfig
    from rocketpy.remoting.config import TlsClientConfig, TlsServerConfig
    from rocketpy.remoting.tls.contexts import with_config_file

    if not tls_file:
        return ClientConfig(use_tls=tls)
    _, config, warnings = with_config_file(TlsServerConfig(config_file=tls_file), TlsClientConfig())
    for warning in warnings:
        print_line(f"rocketpy: {warning}", err=True)
    return ClientConfig(use_tls=True, tls=config)


def chosen_queue(text: str, queues: Sequence[MessageQueue]) -> MessageQueue:
    """Return the queue that ``text`` (of the option --queue) matches; CommandError when none or several match."""
    broker_name, _, number = text.rpartition(":")
    found = [
        queue
        for queue in queues
        if str(queue.queue_id) == number.strip() and (not broker_name or queue.broker_name == broker_name)
    ]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"{queue.broker_name}:{queue.queue_id}" for queue in queues)
    raise CommandError(f"{'several queues' if found else 'no queue'} {text!r}, expected one of: {known}")
