"""The client in plain code: the same calls, without ``async`` and ``await``.

::

    with blocking.open_client("127.0.0.1:9876") as client:
        with client.producer("g") as producer:
            producer.send(Message("T", b"hello"))
        with client.pull_consumer("g") as consumer, consumer.open_messages("T") as messages:
            for message in messages:
                ...

Everything that :mod:`rocketpy.client` opens is here, with the same names, parameters, results and errors. A client has
a thread of its own, in which Trio runs; it may be used from any number of threads. A call blocks its thread until it
has ended. KeyboardInterrupt, while a call blocks, cancels it, and is raised once it has ended. A function that is
handed over (a handler of messages) is called in a worker thread, which nothing interrupts: the end of a client waits
until it returns. A client that is open when the program ends is closed then, and a warning is logged. In a child of the
process (``os.fork``, ``multiprocessing``) a client of the parent raises LocalProtocolError: open one in each process.

Each call crosses to the other thread and back, which takes about 0.1 ms: send many messages with ``send_all``, in
batches, with ``send_soon``, or from several threads. A stream of messages crosses once for each pull. Type checkers
read the signatures of plain code in ``blocking.pyi``, whose classes (``blocking.Producer``) are those of the objects
here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, ParamSpec

from rocketpy import client as client_package
from rocketpy.client import client as trio_client
from rocketpy.client.shells.blocking_shell import THREAD_NAME, BlockingClient, BlockingShell
from rocketpy.client.shells.open_clients import name_of
from rocketpy.client.shells.shell import shell_class

P = ParamSpec("P")

__all__ = [
    "THREAD_NAME",
    "open_admin_client",
    "open_client",
    "open_lite_pull_consumer",
    "open_producer",
    "open_pull_consumer",
]


def _opener(function: Callable[P, AbstractAsyncContextManager[Any]]) -> Callable[P, AbstractContextManager[Any]]:
    """Return an opener of the client for plain code."""

    @functools.wraps(function)
    def opening(*arguments: P.args, **named: P.kwargs) -> AbstractContextManager[Any]:
        name = name_of(__name__, function.__name__, arguments, named)
        return BlockingClient(functools.partial(function, *arguments, **named), name)

    return opening


open_client = _opener(trio_client.open_client)
open_producer = _opener(trio_client.open_producer)
open_pull_consumer = _opener(trio_client.open_pull_consumer)
open_lite_pull_consumer = _opener(trio_client.open_lite_pull_consumer)
open_admin_client = _opener(trio_client.open_admin_client)


def __getattr__(name: str) -> type:
    """Return the class of this module's objects by the name of the client's: for annotations and ``isinstance``."""
    owner = getattr(client_package, name, None) if name in client_package.__all__ else None
    made = shell_class(BlockingShell, owner) if isinstance(owner, type) else None
    if made is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    return made
