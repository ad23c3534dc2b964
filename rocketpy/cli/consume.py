"""``rocketpy consume``: prints messages, one per line, continuously or up to the current end of the queues."""

from __future__ import annotations

import base64
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, BinaryIO

import attrs
import typer

from rocketpy.cli.options import (
    DEFAULT_NAME_SERVER,
    Credentials,
    NameServers,
    Queue,
    Tls,
    TlsFile,
    Topic,
    chosen_config,
    chosen_queue,
)
from rocketpy.cli.outcome import naming_topic, outcome, run_async
from rocketpy.cli.printing import escaped_body, json_bytes
from rocketpy.errors import RocketpyError

if TYPE_CHECKING:
    from rocketpy.client.config import ClientConfig
    from rocketpy.client.consumer.message_stream import MessageStream
    from rocketpy.client.consumer.start import Start
    from rocketpy.protocol.message import MessageExt

COMMIT_INTERVAL_SECONDS = 5.0
LAST_COMMIT_SECONDS = 3.0


@attrs.frozen(kw_only=True)
class ConsumeOptions:
    """Validated options of the command."""

    topic: str
    namesrv: str
    start: Start
    exit_at_end: bool
    count: int
    expression: str
    queue: str
    group: str
    as_json: bool
    commit: bool
    config: ClientConfig | None = None


def consume(
    topic: Topic,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    offset: Annotated[
        str,
        typer.Option(
            "-o",
            "--offset",
            metavar="WHERE",
            help="beginning, end, stored (the group's progress), a time in ms since the epoch, or -N: the last N of "
            "each queue.",
        ),
    ] = "end",
    exit_at_end: Annotated[bool, typer.Option("-e", "--exit", help="End where the queues end now.")] = False,
    count: Annotated[int, typer.Option("-c", "--count", min=0, help="End after so many messages; 0: never.")] = 0,
    expression: Annotated[str, typer.Option("-f", "--filter", help="Tags: 'TagA || TagB'.")] = "*",
    queue: Queue = "",
    group: Annotated[str, typer.Option("-g", "--group", help="The consumer group.")] = "rocketpy_cli",
    as_json: Annotated[bool, typer.Option("-J", "--json", help="A JSON object a line instead of the body.")] = False,
    commit: Annotated[bool, typer.Option("--commit", help="Record the group's progress.")] = False,
    tls: Tls = False,
    tls_file: TlsFile = "",
    credentials: Credentials = "",
) -> None:
    """Print the messages of a topic."""
    options = ConsumeOptions(
        topic=topic,
        namesrv=namesrv,
        start=parse_start(offset),
        exit_at_end=exit_at_end,
        count=count,
        expression=_checked_expression(expression),
        queue=queue,
        group=group,
        as_json=as_json,
        commit=commit,
    )
    with outcome(), naming_topic(topic, namesrv):
        run_async(
            print_messages, attrs.evolve(options, config=chosen_config(tls, tls_file, credentials)), sys.stdout.buffer
        )


def parse_start(text: str) -> Start:
    """Convert --offset into a start position."""
    from rocketpy.client.consumer.start import Start

    try:
        return Start.of(text)
    except ValueError as failure:
        raise typer.BadParameter(str(failure), param_hint="--offset") from None


def _checked_expression(expression: str) -> str:
    from rocketpy.protocol.selector.tag import parse_tag_expression

    try:
        parse_tag_expression("", expression)
    except ValueError as failure:
        raise typer.BadParameter(str(failure), param_hint="--filter") from None
    return expression


async def print_messages(options: ConsumeOptions, output: BinaryIO) -> None:
    """Write messages to ``output`` until the requested end or count."""
    from rocketpy.client.client import open_pull_consumer

    async with open_pull_consumer(options.namesrv, group=options.group, config=options.config) as consumer:
        queues = [chosen_queue(options.queue, await consumer.queues(options.topic))] if options.queue else None
        async with (
            consumer.open_messages(
                options.topic,
                start=options.start,
                expression=options.expression,
                until_end=options.exit_at_end,
                queues=queues,
            ) as messages,
            _committing(messages, output, wanted=options.commit),
        ):
            shown = escaped_body if output.isatty() else bytes
            printed_count = 0
            async for message in messages:
                output.write((json_line(message) if options.as_json else shown(message.body)) + b"\n")
                printed_count += 1
                if printed_count == options.count:
                    break
                if not messages.has_ready:
                    output.flush()
            output.flush()


@asynccontextmanager
async def _committing(messages: MessageStream, output: BinaryIO, *, wanted: bool) -> AsyncIterator[None]:
    """Commit progress periodically and at the end, but never of a message that has not been written out."""
    if not wanted:
        yield
        return
    import trio

    from rocketpy.client.scope import unwrapped

    async with unwrapped(trio.open_nursery()) as nursery:
        nursery.start_soon(_commit_often, messages, output)
        is_whole = False
        try:
            yield
            is_whole = True
        finally:
            nursery.cancel_scope.cancel()
            if not isinstance(sys.exc_info()[1], BrokenPipeError):  # then it is unknown what the reader has read
                output.flush()
                with trio.move_on_after(LAST_COMMIT_SECONDS, shield=True):
                    try:
                        await messages.commit(with_last=is_whole)
                    except RocketpyError:
                        # A cancelled client also loses its connections; messages not committed are read again.
                        if is_whole:
                            raise


async def _commit_often(messages: MessageStream, output: BinaryIO) -> None:
    import trio

    while True:
        await trio.sleep(COMMIT_INTERVAL_SECONDS)
        output.flush()
        try:
            await messages.commit()
        except RocketpyError:
            continue  # the broker is unreachable; a later commit or the last one reports it


def json_line(message: MessageExt) -> bytes:
    """Return a message as a JSON object; a body that is not UTF-8 becomes ``body_base64`` instead of ``body``."""
    fields: dict[str, object] = {
        "topic": message.topic,
        "broker_name": message.broker_name,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "msg_id": message.msg_id,
        "born_timestamp": message.born_timestamp,
        "store_timestamp": message.store_timestamp,
        "born_host": message.born_host,
        "tags": message.tags,
        "keys": message.keys,
        "properties": message.properties,
    }
    try:
        fields["body"] = message.body.decode()
    except UnicodeDecodeError:
        fields["body_base64"] = base64.b64encode(message.body).decode()
    return json_bytes(fields)
