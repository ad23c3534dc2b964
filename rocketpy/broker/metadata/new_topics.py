"""Topics that sends have created and that are not registered yet: their first answers wait for the registration.

A consumer that starts after the answer to the first send of a topic finds the topic's route. The wait ends with the
first registration that has the topic, whether or not the nameservers have taken it, and after REGISTERED_SECONDS_MAX:
the message is stored already, and a producer that gets no answer would send it again.

Nothing waits before the broker's first registration and after its last.

Compatibility: ``TopicConfigManager.createTopicInSendMessageMethod`` (4.9.8) sends the registration before it stores the
message, and does not wait for the nameservers' answers. Here they are waited for, but less long than Java waits for a
connection to a nameserver.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

REGISTERED_SECONDS_MAX = 0.5
"""How long the first answer of a topic waits at most: a fraction of the time-out of a send (3 s)."""


class NewTopics:
    """The table of topics adds to it, registration takes from it, sends wait."""

    def __init__(self) -> None:
        self._created: dict[str, int] = {}  # by topic, the number of the table's change that created it
        self._is_registering = False
        self._waiting = trio.lowlevel.ParkingLot()

    def __contains__(self, topic: str) -> bool:
        """Whether the first answer of a topic has to wait."""
        return topic in self._created

    def add(self, topic: str, change_count: int) -> None:
        """Add a topic that the change of this number has created."""
        if self._is_registering:
            self._created[topic] = change_count

    def registered(self, change_count: int) -> None:
        """Release the topics of all changes up to this number: nameservers have answered, or failed to."""
        self._created = {topic: number for topic, number in self._created.items() if number > change_count}
        self._waiting.unpark_all()

    @contextmanager
    def registering(self) -> Iterator[None]:
        """Let topics wait for a block; all of them are released at its end."""
        self._is_registering = True
        try:
            yield
        finally:
            self._is_registering = False
            self._created.clear()
            self._waiting.unpark_all()

    async def wait_registered(self, topic: str) -> None:
        """Return when a topic is released, after REGISTERED_SECONDS_MAX at the latest."""
        with trio.move_on_after(REGISTERED_SECONDS_MAX):
            while topic in self._created:
                await self._waiting.park()
