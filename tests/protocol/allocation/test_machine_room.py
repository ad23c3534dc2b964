"""Shares by machine room, as Java's."""

from __future__ import annotations

import pytest

from rocketpy.protocol.allocation.averagely import AllocateAveragely
from rocketpy.protocol.allocation.machine_room import AllocateByMachineRoom, AllocateMachineRoomNearby
from rocketpy.protocol.message import MessageQueue
from tests.protocol.allocation.golden_allocations import check


def room_of_client(client_id: str) -> str:
    """The rooms of the recording: what comes before the @."""
    return client_id.partition("@")[0]


def room_of_queue(queue: MessageQueue) -> str:
    return room_of_client(queue.broker_name)


def test_shares_of_some_rooms_are_those_of_java() -> None:
    check(AllocateByMachineRoom({"room1", "room3"}), "MACHINE_ROOM")


def test_shares_of_the_own_room_are_those_of_java() -> None:
    check(AllocateMachineRoomNearby(AllocateAveragely(), room_of_queue, room_of_client), "MACHINE_ROOM_NEARBY-AVG")


def test_the_name_contains_that_of_the_inner_strategy() -> None:
    assert AllocateMachineRoomNearby(AllocateAveragely(), room_of_queue, room_of_client).name == (
        "MACHINE_ROOM_NEARBY-AVG"
    )


def test_a_room_without_a_name_is_refused() -> None:
    queue = MessageQueue("T", "b", 0)
    with pytest.raises(ValueError, match="Machine room is null for mq"):
        AllocateMachineRoomNearby(AllocateAveragely(), lambda each: " ", lambda each: "r").allocate(
            "g", "c", [queue], ["c"]
        )
    with pytest.raises(ValueError, match="Machine room is null for consumer id c"):
        AllocateMachineRoomNearby(AllocateAveragely(), lambda each: "r", lambda each: "").allocate(
            "g", "c", [queue], ["c"]
        )
