"""``rocketpy produce``: each line of standard input becomes a message.

Lines that arrive together are sent as one batch, so a large file is fast; a line typed alone is sent at once. The lines
of a batch are consecutive in one queue; ``--queue`` keeps the order of all lines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

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
from rocketpy.cli.outcome import CommandError, naming_topic, outcome, run_async
from rocketpy.cli.printing import print_line

if TYPE_CHECKING:
    from rocketpy.client.config import ClientConfig
    from rocketpy.client.producer.producer import Producer
    from rocketpy.protocol.message import Message, MessageQueue

BATCH_MESSAGES_MAX = 256
BATCH_BYTES_MAX = 256 * 1024
READ_SIZE = 64 * 1024
LINE_SIZE_MAX = 4 * 1024 * 1024


@attrs.frozen(kw_only=True)
class LineFormat:
    """Rules for converting a line into a message."""

    topic: str
    properties: dict[str, str]
    key_separator: bytes

    def message(self, line: bytes) -> Message:
        """Return the message of a line; the part before the first separator, if there is one, is its key."""
        from rocketpy.protocol.message import Message

        properties = dict(self.properties)
        if self.key_separator:
            key, separator, rest = line.partition(self.key_separator)
            if separator:
                line = rest
                if key:
                    properties["KEYS"] = key.decode(errors="replace")
        return Message(self.topic, line, properties)


def produce(
    topic: Topic,
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    tag: Annotated[str, typer.Option("-T", "--tag", help="The tag of every message.", show_default=False)] = "",
    tag_as_before: Annotated[str, typer.Option("-g", hidden=True)] = "",
    key: Annotated[
        str, typer.Option("-k", "--key", help="The keys of every message, separated by blanks.", show_default=False)
    ] = "",
    key_separator: Annotated[
        str, typer.Option("-K", "--key-separator", help="A line is KEY, this, BODY.", show_default=False)
    ] = "",
    properties: Annotated[
        list[str] | None,
        typer.Option("-p", "--property", help="NAME=VALUE for every message; may be repeated.", show_default=False),
    ] = None,
    queue: Queue = "",
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Print where each batch is stored.")] = False,
    tls: Tls = False,
    tls_file: TlsFile = "",
    credentials: Credentials = "",
) -> None:
    """Send each line of standard input as a message. Empty lines are left out: RocketMQ has no empty messages."""
    if tag_as_before:
        # Deprecated in 0.1: everywhere else in RocketMQ, and in ``consume``, -g is a group.
        print_line("rocketpy: -g TAG is deprecated: use -T TAG or --tag TAG", err=True)
    template = _properties(tag or tag_as_before, key, properties or [])
    line_format = LineFormat(topic=topic, properties=template, key_separator=key_separator.encode())
    read = partial(os.read, sys.stdin.fileno(), READ_SIZE)
    with outcome(), naming_topic(topic, namesrv):
        run_async(send_lines, read, line_format, namesrv, queue, verbose, chosen_config(tls, tls_file, credentials))


def _properties(tag: str, key: str, assignments: list[str]) -> dict[str, str]:
    template: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name or not value:
            raise typer.BadParameter(f"{assignment!r}, expected NAME=VALUE", param_hint="--property")
        template[name] = value
    if tag:
        template["TAGS"] = tag
    if key:
        template["KEYS"] = key
    return template


async def send_lines(
    read: Callable[[], bytes],
    line_format: LineFormat,
    namesrv: str,
    queue: str,
    verbose: bool,
    config: ClientConfig | None = None,
) -> None:
    """Send the lines that ``read`` returns, as they come; it may block, and returns no bytes at the end.

    The number of stored messages is always printed on stderr, also after a failure.
    """
    import trio

    from rocketpy.client.client import open_producer
    from rocketpy.client.validators import check_properties, check_topic

    check_topic(line_format.topic)  # no message may ever come, and what is wrong with all of them would not be noticed
    check_properties(line_format.properties)
    sent_count = 0
    lines = LineReader()
    try:
        async with open_producer(namesrv, group="rocketpy_cli_producer", config=config) as producer:
            chosen = chosen_queue(queue, await producer.publish_queues(line_format.topic)) if queue else None
            is_open = True
            while is_open:
                # The thread is abandoned on an interrupt: a read from an idle terminal never returns.
                chunk = await trio.to_thread.run_sync(read, abandon_on_cancel=True)
                is_open = bool(chunk)
                for batch in batches([line_format.message(line) for line in lines.take(chunk)]):
                    await _send(producer, batch, chosen, verbose)
                    sent_count += len(batch)
    finally:
        print_line(f"sent {sent_count} message{'' if sent_count == 1 else 's'} to {line_format.topic}", err=True)


async def _send(producer: Producer, batch: list[Message], queue: MessageQueue | None, verbose: bool) -> None:
    if len(batch) == 1:
        result = await producer.send(batch[0], queue=queue)
    else:
        result = await producer.send_batch(batch, queue=queue)
    if verbose:
        stored = result.message_queue
        print_line(
            f"{result.status.name} {len(batch)} at {stored.broker_name} queue {stored.queue_id} offset "
            f"{result.queue_offset}",
            err=True,
        )


class LineReader:
    """Cuts a stream of bytes into lines; holds at most one unfinished line, of a bounded length."""

    def __init__(self) -> None:
        self._rest = b""

    def take(self, chunk: bytes) -> list[bytes]:
        """Return the lines that ``chunk`` finishes, without empty ones; an empty chunk is the end of the stream."""
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop() if chunk else b""
        if len(self._rest) > LINE_SIZE_MAX:
            raise CommandError(f"a line is longer than {LINE_SIZE_MAX} bytes, the most that a message can hold")
        return [line for line in lines if line]


def batches(messages: list[Message]) -> Iterator[list[Message]]:
    """Yield messages in groups that fit into one request."""
    batch: list[Message] = []
    size = 0
    for message in messages:
        if batch and (len(batch) >= BATCH_MESSAGES_MAX or size + len(message.body) > BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += len(message.body)
    if batch:
        yield batch
