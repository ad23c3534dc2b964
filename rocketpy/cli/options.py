"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rocketpy.cli.outcome import CommandError

if TYPE_CHECKING:
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


def chosen_queue(text: str, queues: Sequence[MessageQueue]) -> MessageQueue:
    """Return the one queue that ``text`` (of the option --queue) means; CommandError when it is none or several."""
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
