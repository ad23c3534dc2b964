"""``rocketpy topic``: lists and creates topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from rocketpy.cli.options import DEFAULT_NAME_SERVER, Credentials, NameServers, Tls, TlsFile, chosen_config
from rocketpy.cli.outcome import outcome, run_async
from rocketpy.cli.printing import print_line
from rocketpy.log_files import escaped
from rocketpy.protocol.codes import PERM_INHERIT, PERM_READ, PERM_WRITE

if TYPE_CHECKING:
    from rocketpy.client.config import ClientConfig

COLUMNS = ("topic", "broker", "read queues", "write queues", "permission")

topic_commands = typer.Typer(help="List and create topics.", no_args_is_help=True, rich_markup_mode=None)


@topic_commands.command("list")
def list_topics(
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    names_only: Annotated[bool, typer.Option("-q", "--quiet", help="Names only, a line each.")] = False,
    tls: Tls = False,
    tls_file: TlsFile = "",
    credentials: Credentials = "",
) -> None:
    """List every topic with its brokers and queues."""
    with outcome():
        rows = run_async(_topic_rows, namesrv, chosen_config(tls, tls_file, credentials), names_only)
        for line in [row[0] for row in rows] if names_only else aligned([COLUMNS, *rows]):
            print_line(line)


@topic_commands.command("create")
def create_topic(
    topic: Annotated[str, typer.Argument(help="The topic.", show_default=False)],
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    queues: Annotated[int, typer.Option("-q", "--queues", min=1, max=65_535, help="Queues a broker.")] = 8,
    cluster: Annotated[str, typer.Option("-c", "--cluster", help="One cluster only.", show_default=False)] = "",
    tls: Tls = False,
    tls_file: TlsFile = "",
    credentials: Credentials = "",
) -> None:
    """Create a topic, or change its number of queues, on every master."""
    with outcome():
        addresses, before = run_async(
            _create, namesrv, chosen_config(tls, tls_file, credentials), topic, queues, cluster or None
        )
        print_line(f"{topic}: {queues} {'queue' if queues == 1 else 'queues'} on {', '.join(addresses)}")
        for line in no_longer_read(topic, queues, before):
            print_line(f"rocketpy: {line}", err=True)


async def _topic_rows(namesrv: str, config: ClientConfig, names_only: bool) -> list[tuple[str, ...]]:
    from rocketpy.client.client import open_admin_client

    async with open_admin_client(namesrv, config=config) as admin:
        topics = await admin.topics.names()
        if names_only:
            return [(topic,) for topic in topics]
        routes = await admin.routes(topics)
    return [
        (
            topic,
            queues.broker_name,
            str(queues.read_queue_nums),
            str(queues.write_queue_nums),
            permission_text(queues.perm),
        )
        for topic, route in routes.items()
        for queues in sorted(route.queue_datas, key=lambda each: each.broker_name)
    ]


async def _create(
    namesrv: str, config: ClientConfig, topic: str, queues: int, cluster: str | None
) -> tuple[list[str], dict[str, int]]:
    """Return the addresses of the brokers that have the topic now, and by broker how many queues it had to read."""
    from rocketpy.client.client import open_admin_client
    from rocketpy.protocol.bodies.route import MASTER_ID

    async with open_admin_client(namesrv, config=config) as admin:
        route = await admin.topics.route(topic)
        addresses = await admin.create_topic(topic, queue_nums=queues, cluster=cluster)
    if route is None:
        return addresses, {}
    changed = {each.broker_name for each in route.broker_datas if each.broker_addrs.get(MASTER_ID) in addresses}
    return addresses, {
        each.broker_name: each.read_queue_nums for each in route.queue_datas if each.broker_name in changed
    }


def no_longer_read(topic: str, queues: int, before: Mapping[str, int]) -> list[str]:
    """Return a sentence for each broker that had more queues: messages are in them that no consumer finds now."""
    return [
        f"{topic} had {count} queues on {broker}, and no consumer reads "
        f"{f'queue {queues}' if count == queues + 1 else f'queues {queues} to {count - 1}'} any more; "
        f"rocketpy topic create {topic} -q {count} brings them back with their messages"
        for broker, count in sorted(before.items())
        if count > queues
    ]


def permission_text(perm: int) -> str:
    """Return RocketMQ's letters for permission bits: R read, W write, X inherit."""
    letters = ((PERM_READ, "R"), (PERM_WRITE, "W"), (PERM_INHERIT, "X"))
    return "".join(letter for bit, letter in letters if perm & bit) or "-"


def aligned(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as lines whose columns begin under each other. Nothing is cut: the output may be for a program."""
    rows = [tuple(map(escaped, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
