"""``rocketpy topic``: lists and creates topics."""

from __future__ import annotations

from typing import Annotated

import trio
import typer
from rich.console import Console
from rich.table import Table

from rocketpy.cli.options import DEFAULT_NAME_SERVER, NameServers
from rocketpy.client.admin import open_admin_client

topic_commands = typer.Typer(help="List and create topics.", no_args_is_help=True)


@topic_commands.command("list")
def list_topics(
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    names_only: Annotated[bool, typer.Option("-q", "--quiet", help="Names only, a line each.")] = False,
) -> None:
    """List every topic with its brokers and queues."""
    rows = trio.run(_topic_rows, namesrv, names_only)
    if names_only:
        for row in rows:
            typer.echo(row[0])
        return
    table = Table("topic", "broker", "read queues", "write queues", "permission")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


@topic_commands.command("create")
def create_topic(
    topic: Annotated[str, typer.Argument(help="The topic.", show_default=False)],
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    queues: Annotated[int, typer.Option("-q", "--queues", min=1, max=65_535, help="Queues a broker.")] = 8,
    cluster: Annotated[str, typer.Option("-c", "--cluster", help="One cluster only.")] = "",
) -> None:
    """Create a topic, or change its number of queues, on every master."""
    addresses = trio.run(_create, namesrv, topic, queues, cluster or None)
    typer.echo(f"{topic}: {queues} queues on {', '.join(addresses)}")


async def _topic_rows(namesrv: str, names_only: bool) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    async with open_admin_client(namesrv) as admin:
        for topic in await admin.topics():
            route = None if names_only else await admin.route(topic)
            if route is None:
                rows.append((topic, "", "", "", ""))
                continue
            for queue_data in route.queue_datas:
                rows.append(
                    (
                        topic,
                        queue_data.broker_name,
                        str(queue_data.read_queue_nums),
                        str(queue_data.write_queue_nums),
                        permission_text(queue_data.perm),
                    )
                )
    return rows


async def _create(namesrv: str, topic: str, queues: int, cluster: str | None) -> list[str]:
    async with open_admin_client(namesrv) as admin:
        return await admin.create_topic(topic, queue_nums=queues, cluster=cluster)


def permission_text(perm: int) -> str:
    """Return RocketMQ's letters for permission bits: R read, W write, X inherit."""
    return "".join(letter for bit, letter in ((4, "R"), (2, "W"), (1, "X")) if perm & bit) or "-"
