"""The contract of a feature: what one capability of the broker (sends, pulls, delays, ...) adds to the whole.

Each capability has one ``feature.py`` that builds its processors, services and checks from the
:class:`~rocketpy.broker.context.BrokerContext`. :mod:`~rocketpy.broker.wiring` makes the features and loops over them;
it knows no request code, service, figure or setting of a single one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import trio

from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher


class Service(Protocol):
    """A loop of the broker: runs until it is cancelled; a failure ends the broker."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Report started when the rest of the broker may rely on it."""
        ...


class Feature(Protocol):
    """One capability of the broker. A feature overrides what it has; the defaults stand for nothing."""

    services: Sequence[Service] = ()
    """Loops that run for as long as the broker does, in the order in which they are started."""

    settings: Mapping[tuple[str, ...], Callable[[], None]] = {}
    """Listeners for live settings that the feature caches or derives values from, each by the keys it depends on."""

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the processor of each request code of this feature, with what the code needs of an account
        (:mod:`~rocketpy.broker.acl.needs`). Called once.
        """
        return

    def figures(self) -> dict[str, str]:
        """Return the rows that this feature adds to GET_BROKER_RUNTIME_INFO."""
        return {}

    def connection_closed(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        return
