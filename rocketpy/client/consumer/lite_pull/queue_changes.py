"""The queues of a topic, and how they change while a program watches.

Compatibility: ``TopicMessageQueueChangeListener`` (4.9.8), which is called only for changes. Here the queues as they
are come first, so that no change is missed between asking for them and watching.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from rocketpy.client.callers import hands_over
from rocketpy.client.states import Trouble
from rocketpy.errors import LocalProtocolError, RocketpyError
from rocketpy.protocol.message import MessageQueue


class QueueChanges:
    """Iterator over the queues of a topic, for one task: at once, and then each time that they have changed.

    It asks a nameserver at every interval. The first failure to ask is raised, a later one is logged; the end of the
    consumer is raised as LocalProtocolError.
    """

    def __init__(self, topic: str, *, fetch: Callable[[str], Awaitable[list[MessageQueue]]], interval_ms: int) -> None:
        self._topic = topic
        self._fetch = fetch
        self._interval_s = interval_ms / 1000
        self._known: list[MessageQueue] | None = None
        self._trouble = Trouble(f"looking for changes of the queues of {topic}")

    def __aiter__(self) -> QueueChanges:
        return self

    @hands_over
    async def __anext__(self) -> list[MessageQueue]:
        """Wait for the next change, and return all queues of the topic, in order."""
        while self._known is not None:
            await trio.sleep(self._interval_s)
            try:
                found = await self._fetch(self._topic)
            except LocalProtocolError:
                raise  # there will be no answer any more
            except RocketpyError as failure:
                self._trouble.begin(failure)
                continue
            self._trouble.end()
            if found != self._known:
                self._known = found
                return found
        self._known = await self._fetch(self._topic)
        return self._known
