"""``rocketpy consume``: prints messages, a line each, as they come or up to where the queues end now."""

from __future__ import annotations

import base64
import sys
from typing import Annotated

import msgspec
import trio
import typer

from rocketpy.cli.options import DEFAULT_NAME_SERVER, NameServers, Topic
from rocketpy.client.pull_consumer import open_pull_consumer
from rocketpy.protocol.message import MessageExt

STARTS = ("beginning", "end", "stored")


def consume(
    topic: Topic,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    offset: Annotated[
        str, typer.Option("-o", "--offset", help="beginning, end, stored, or a time in ms since the epoch.")
    ] = "end",
    exit_at_end: Annotated[bool, typer.Option("-e", "--exit", help="End where the queues end now.")] = False,
    count: Annotated[int, typer.Option("-c", "--count", min=0, help="End after so many messages; 0: never.")] = 0,
    expression: Annotated[str, typer.Option("-f", "--filter", help="Tags: 'TagA || TagB'.")] = "*",
    group: Annotated[str, typer.Option("--group", help="The consumer group.")] = "rocketpy_cli",
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line instead of the body.")] = False,
    commit: Annotated[bool, typer.Option("--commit", help="Record the group's progress.")] = False,
) -> None:
    """Print the messages of a topic."""
    start: str | int = int(offset) if offset.isdecimal() else offset
    if start not in STARTS and not isinstance(start, int):
        raise typer.BadParameter(f"{offset!r}, expected {', '.join(STARTS)} or a time in ms", param_hint="--offset")
    trio.run(_consume, topic, namesrv, start, exit_at_end, count, expression, group, as_json, commit)


async def _consume(
    topic: str,
    namesrv: str,
    start: str | int,
    exit_at_end: bool,
    count: int,
    expression: str,
    group: str,
    as_json: bool,
    commit: bool,
) -> None:
    printed = 0
    async with open_pull_consumer(namesrv, group=group) as consumer:
        messages = consumer.messages(topic, start=start, expression=expression, until_end=exit_at_end)
        queues = {queue: queue for queue in await consumer.queues(topic)}
        async for message in messages:
            line = json_line(message) if as_json else message.body
            sys.stdout.buffer.write(line + b"\n")
            sys.stdout.buffer.flush()
            if commit:
                await consumer.commit(
                    next(q for q in queues if (q.broker_name, q.queue_id) == (message.broker_name, message.queue_id)),
                    message.queue_offset + 1,
                )
            printed += 1
            if count and printed >= count:
                return


def json_line(message: MessageExt) -> bytes:
    """Return a message as one JSON object; a body that is not UTF-8 is ``body_base64`` instead of ``body``."""
    fields: dict[str, object] = {
        "topic": message.topic,
        "broker_name": message.broker_name,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "msg_id": message.msg_id,
        "born_timestamp": message.born_timestamp,
        "store_timestamp": message.store_timestamp,
        "born_host": message.born_host,
        "tags": message.properties.get("TAGS"),
        "keys": message.properties.get("KEYS"),
        "properties": message.properties,
    }
    try:
        fields["body"] = message.body.decode()
    except UnicodeDecodeError:
        fields["body_base64"] = base64.b64encode(message.body).decode()
    return msgspec.json.encode(fields)
