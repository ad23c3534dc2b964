"""Waits until what a role depends on stands: a nameserver that answers, routes, and the membership of a group.

A client works as soon as it can and never says that it cannot, which is right for a service that is running and wrong
for one that starts with a typo in an address. :func:`wait_until_ready` asks again and again until nothing is missing,
and raises :class:`~rocketpy.errors.NotReadyError` with what was missing last.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Protocol

import trio

from rocketpy.client.instance import ClientInstance
from rocketpy.client.states import StateSubject
from rocketpy.errors import BrokerError, NotReadyError, RocketpyError

PAUSE_SECONDS = 0.5
"""Time between two looks at what is missing."""


class Division(Protocol):
    """What the division of queues among the members of a group says about itself."""

    @property
    def divided(self) -> Collection[str]:
        """The topics of which this member had its whole share after the last round."""
        ...

    def wake(self) -> None:
        """Start another round soon."""
        ...


async def wait_until_ready(
    instance: ClientInstance, timeout_s: float, missing: Callable[[], Awaitable[list[str]]]
) -> None:
    """Return when nothing is missing; NotReadyError when something still is after ``timeout_s``.

    ValueError for a negative time. What ``missing`` raises is raised.
    """
    if not timeout_s >= 0:
        raise ValueError(f"timeout_s is {timeout_s}, expected a time")
    found: list[str] = []
    with trio.move_on_after(timeout_s):
        while True:
            found = await missing()
            if not found:
                return
            await trio.sleep(PAUSE_SECONDS)
    if not found:  # not even the first look has ended
        found = [str(each) for each in instance.states.troubles] or [
            f"no answer yet of {', '.join(instance.name_servers.addresses)} or of a broker"
        ]
    raise NotReadyError(found, timeout_s)


async def missing_name_server(instance: ClientInstance) -> list[str]:
    """Return what is missing of the nameservers: one of them must answer, if only with a refusal."""
    try:
        await instance.name_servers.cluster_info()
    except BrokerError:  # some serve this to administrators only
        pass
    except RocketpyError as failure:
        return [str(failure)]
    return []


async def missing_routes(instance: ClientInstance, topics: Iterable[str]) -> list[str]:
    """Return which of these topics have no queues to consume, and why."""
    missing = []
    for topic in topics:
        if await instance.routes.look_up_subscribed(topic) is None:
            missing.append(f"no route for topic {topic}: {instance.states.reason(StateSubject.ROUTE, topic)}")
    return missing


def missing_membership(instance: ClientInstance, division: Division, topics: Iterable[str]) -> list[str]:
    """Return what a member of a group lacks of topics that have routes: brokers that know it, and its share."""
    missing = [each for each in topics if each not in division.divided]
    if not missing:
        return []
    division.wake()
    why = [str(each) for each in instance.states.troubles if each.subject is not StateSubject.NAME_SERVER]
    return [f"the group has not divided the queues of {', '.join(missing)}", *why]
