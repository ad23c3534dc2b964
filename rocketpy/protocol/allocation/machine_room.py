"""Shares by machine room: only the queues of some rooms, or for each client first those of its own room.

A broker's name has the form ``room@broker`` for the former; the latter asks a resolver.

Compatibility: ``AllocateMessageQueueByMachineRoom`` and ``AllocateMachineRoomNearby`` (4.9.8).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import attrs

from rocketpy.protocol.allocation.strategy import AllocateMessageQueueStrategy, is_member
from rocketpy.protocol.message import MessageQueue


@attrs.frozen
class AllocateByMachineRoom:
    """The queues of brokers named ``room@broker`` in some rooms; the others are nobody's."""

    rooms: Collection[str]
    name = "MACHINE_ROOM"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of one client."""
        if not is_member(client_id, queues, client_ids):
            return []
        eligible = [queue for queue in queues if self._is_in_a_room(queue.broker_name)]
        index, count = client_ids.index(client_id), len(client_ids)
        size, rest = divmod(len(eligible), count)
        share = eligible[index * size : (index + 1) * size]
        if index < rest:
            share.append(eligible[index + size * count])
        return share

    def _is_in_a_room(self, broker_name: str) -> bool:
        parts = broker_name.split("@")
        return len(parts) == 2 and parts[0] in self.rooms


@attrs.frozen
class AllocateMachineRoomNearby:
    """Queues of a room go to the clients of that room, by an inner strategy; of a room without clients, to all.

    ``room_of_queue`` and ``room_of_client`` name the room of a queue and of a client id.
    """

    inner: AllocateMessageQueueStrategy
    room_of_queue: Callable[[MessageQueue], str]
    room_of_client: Callable[[str], str]

    @property
    def name(self) -> str:
        """The name, with that of the inner strategy."""
        return f"MACHINE_ROOM_NEARBY-{self.inner.name}"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of one client; ValueError when a room has no name."""
        if not is_member(client_id, queues, client_ids):
            return []
        queues_by_room: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            room = _named(self.room_of_queue(queue), "Machine room is null for mq", queue)
            queues_by_room.setdefault(room, []).append(queue)
        clients_by_room: dict[str, list[str]] = {}
        for each in client_ids:
            room = _named(self.room_of_client(each), "Machine room is null for consumer id", each)
            clients_by_room.setdefault(room, []).append(each)
        own = self.room_of_client(client_id)
        share: list[MessageQueue] = []
        for room, in_room in queues_by_room.items():
            if room == own:
                share += self.inner.allocate(group, client_id, in_room, clients_by_room[room])
        for room, in_room in sorted(queues_by_room.items()):
            if room not in clients_by_room:
                share += self.inner.allocate(group, client_id, in_room, client_ids)
        return share


def _named(room: str, fault: str, of: object) -> str:
    if not room or room.isspace():
        raise ValueError(f"{fault} {of}")
    return room
