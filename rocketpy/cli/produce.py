"""``rocketpy produce``: each line of standard input becomes a message.

Lines that arrive together travel as one batch, so their order is kept and a large file is fast; a line typed alone is
sent alone.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import trio
import typer

from rocketpy.cli.options import DEFAULT_NAME_SERVER, NameServers, Topic
from rocketpy.client.producer import Producer, open_producer
from rocketpy.protocol.message import Message

BATCH_MESSAGES_MAX = 128
BATCH_BYTES_MAX = 256 * 1024
READ_SIZE = 64 * 1024


def produce(
    topic: Topic,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    tag: Annotated[str, typer.Option("-g", "--tag", help="The tag of every message.")] = "",
    key: Annotated[str, typer.Option("-k", "--key", help="The keys of every message, separated by blanks.")] = "",
    properties: Annotated[
        list[str] | None, typer.Option("-p", "--property", help="NAME=VALUE; may be repeated.")
    ] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Print where each batch is stored.")] = False,
) -> None:
    """Send each line of standard input as a message."""
    template = _properties(tag, key, properties or [])
    count = trio.run(_produce, topic, namesrv, template, verbose)
    typer.echo(f"sent {count} message{'' if count == 1 else 's'} to {topic}", err=True)


def _properties(tag: str, key: str, assignments: list[str]) -> dict[str, str]:
    template: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name or not value or {"\x01", "\x02"} & set(assignment):
            raise typer.BadParameter(f"{assignment!r}, expected NAME=VALUE", param_hint="--property")
        template[name] = value
    if tag:
        template["TAGS"] = tag
    if key:
        template["KEYS"] = key
    return template


async def _produce(topic: str, namesrv: str, template: dict[str, str], verbose: bool) -> int:
    count = 0
    rest = b""
    async with open_producer(namesrv) as producer:
        while True:
            chunk = await trio.to_thread.run_sync(os.read, sys.stdin.fileno(), READ_SIZE)
            lines = (rest + chunk).split(b"\n")
            rest = lines.pop() if chunk else b""
            messages = [Message(topic, line, dict(template)) for line in lines if line]
            await _send_in_batches(producer, messages, verbose)
            count += len(messages)
            if not chunk:
                return count


async def _send_in_batches(producer: Producer, messages: list[Message], verbose: bool) -> None:
    batch: list[Message] = []
    size = 0
    for message in messages:
        if batch and (len(batch) >= BATCH_MESSAGES_MAX or size + len(message.body) > BATCH_BYTES_MAX):
            await _send(producer, batch, verbose)
            batch, size = [], 0
        batch.append(message)
        size += len(message.body)
    if batch:
        await _send(producer, batch, verbose)


async def _send(producer: Producer, batch: list[Message], verbose: bool) -> None:
    result = await (producer.send(batch[0]) if len(batch) == 1 else producer.send_batch(batch))
    if verbose:
        queue = result.message_queue
        typer.echo(
            f"{result.status.name} {len(batch)} at {queue.broker_name} queue {queue.queue_id} offset "
            f"{result.queue_offset}",
            err=True,
        )
