"""What many peers hold shares one limit, and the one that holds most is closed."""

from __future__ import annotations

import logging
from typing import cast

import attrs
import pytest

from rocketpy.remoting.connection import Connection
from rocketpy.remoting.limits.held_bytes import HeldBytes
from rocketpy.remoting.limits.refusal_log import LINES_PER_ADDRESS_MAX, RefusalLog


@attrs.define(eq=False)
class Peer:
    """As much of a connection as is asked."""

    peer: str
    held: HeldBytes
    is_closed: bool = False

    def holds(self, size: int) -> Peer:
        self.held.hold(self.connection, size)
        return self

    @property
    def connection(self) -> Connection:
        return cast("Connection", self)

    def close(self) -> None:
        self.is_closed = True
        self.held.forget(self.connection)  # as the driver does, from within


class Deaf(Peer):
    """A connection whose end never comes."""

    def close(self) -> None:
        pass


def a_sum(size_max: int) -> HeldBytes:
    refusals = RefusalLog(current_time=lambda: 0.0)
    return HeldBytes(what="unfinished frames", setting="incomingBytesMax", size_max=size_max, refusals=refusals)


@pytest.fixture
def held() -> HeldBytes:
    return a_sum(100)


def test_up_to_the_bound_no_connection_is_closed(held: HeldBytes) -> None:
    peers = [Peer(f"p:{number}", held).holds(25) for number in range(4)]
    assert not any(peer.is_closed for peer in peers)


def test_the_one_that_holds_most_pays_and_not_the_one_that_came_last(
    held: HeldBytes, caplog: pytest.LogCaptureFixture
) -> None:
    small, large, last = Peer("small:1", held).holds(10), Peer("large:1", held).holds(80), Peer("last:1", held)
    with caplog.at_level(logging.WARNING):
        last.holds(11)
    assert (small.is_closed, large.is_closed, last.is_closed) == (False, True, False)
    assert caplog.messages == [
        "unfinished frames hold 101 bytes, the limit is 100 (incomingBytesMax); closing large:1, which holds 80"
    ]


def test_what_the_closed_one_held_is_free_again(held: HeldBytes) -> None:
    Peer("large:1", held).holds(101)
    peer = Peer("next:1", held).holds(100)
    assert not peer.is_closed


def test_only_the_latest_size_of_a_connection_counts(held: HeldBytes) -> None:
    peer = Peer("p:1", held)
    for size in (90, 95, 100, 20, 100):
        peer.holds(size)
    assert not peer.is_closed
    other = Peer("other:1", held)
    peer.holds(1)
    other.holds(99)
    assert not other.is_closed


def test_a_connection_with_whole_frames_only_is_not_kept(held: HeldBytes) -> None:
    """There are tens of thousands of connections, and few hold a part of a frame."""
    peer = Peer("p:1", held).holds(5)
    assert held.connection_count == 1
    peer.holds(0)
    assert held.connection_count == 0


def test_a_connection_that_has_ended_holds_nothing_whatever_it_says(held: HeldBytes) -> None:
    peer = Peer("p:1", held).holds(90)
    peer.is_closed = True
    peer.holds(90)
    assert held.connection_count == 0
    assert not Peer("other:1", held).holds(100).is_closed


def test_an_unknown_connection_can_be_forgotten(held: HeldBytes) -> None:
    held.forget(Peer("p:1", held).connection)
    other = Peer("other:1", held).holds(100)
    assert not other.is_closed
    assert other.holds(101).is_closed


def test_a_change_that_one_closed_connection_does_not_make_up_for_closes_more(held: HeldBytes) -> None:
    peers = [Peer(f"p:{number}", held).holds(size) for number, size in enumerate((30, 5, 40, 20, 5))]
    peers[1].holds(45)
    assert [peer.is_closed for peer in peers] == [False, True, False, False, False]
    held.hold(peers[4].connection, 39)
    assert [peer.is_closed for peer in peers] == [False, True, True, False, False]
    assert held.size == 30 + 20 + 39


def test_a_peer_cannot_fill_the_log_with_its_ends(held: HeldBytes, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(100):
        assert Peer(f"10.0.0.1:{number}", held).holds(101).is_closed
    assert len(caplog.messages) == LINES_PER_ADDRESS_MAX


def test_a_connection_that_does_not_forget_itself_is_closed_once(held: HeldBytes) -> None:
    """The sum ends by itself, whatever a driver does."""
    Deaf("p:1", held).holds(101)
    assert (held.size, held.connection_count) == (0, 0)


def test_there_is_room_up_to_the_limit(held: HeldBytes) -> None:
    Peer("p:1", held).holds(60)
    assert held.has_room(40)
    assert not held.has_room(41)
