"""Unfinished frames of many peers share one bound, and the greediest pays for it."""

from __future__ import annotations

import logging
from typing import cast

import attrs
import pytest

from rocketpy.remoting.connection import Connection
from rocketpy.remoting.limits.incoming_bytes import IncomingBytes


@attrs.define(eq=False)
class Peer:
    """As much of a connection as is asked."""

    peer: str
    incoming: IncomingBytes
    buffered_size: int = 0
    is_closed: bool = False

    def holds(self, size: int) -> Peer:
        self.buffered_size = size
        self.incoming.account(self.connection)
        return self

    @property
    def connection(self) -> Connection:
        return cast("Connection", self)

    def close(self) -> None:
        self.is_closed = True
        self.incoming.forget(self.connection)  # as the driver does, from within


@pytest.fixture
def incoming() -> IncomingBytes:
    return IncomingBytes(100)


def test_up_to_the_bound_no_connection_is_closed(incoming: IncomingBytes) -> None:
    peers = [Peer(f"p{number}", incoming).holds(25) for number in range(4)]
    assert not any(peer.is_closed for peer in peers)


def test_the_one_that_holds_most_pays_and_not_the_one_that_came_last(
    incoming: IncomingBytes, caplog: pytest.LogCaptureFixture
) -> None:
    small, large, last = Peer("small", incoming).holds(10), Peer("large", incoming).holds(80), Peer("last", incoming)
    with caplog.at_level(logging.WARNING):
        last.holds(11)
    assert (small.is_closed, large.is_closed, last.is_closed) == (False, True, False)
    assert caplog.messages == ["unfinished frames hold 101 bytes, the limit is 100; closing large, which holds 80"]


def test_what_the_closed_one_held_is_free_again(incoming: IncomingBytes) -> None:
    Peer("large", incoming).holds(101)
    peer = Peer("next", incoming).holds(100)
    assert not peer.is_closed


def test_only_the_latest_size_of_a_connection_counts(incoming: IncomingBytes) -> None:
    peer = Peer("p", incoming)
    for size in (90, 95, 100, 20, 100):
        peer.holds(size)
    assert not peer.is_closed
    other = Peer("other", incoming)
    peer.holds(1)
    other.holds(99)
    assert not other.is_closed


def test_a_connection_with_whole_frames_only_is_not_kept(incoming: IncomingBytes) -> None:
    """There are tens of thousands of connections, and few hold a part of a frame."""
    peer = Peer("p", incoming).holds(5)
    assert incoming.connection_count == 1
    peer.holds(0)
    assert incoming.connection_count == 0


def test_a_connection_that_has_ended_holds_nothing_whatever_it_says(incoming: IncomingBytes) -> None:
    peer = Peer("p", incoming).holds(90)
    peer.is_closed = True
    peer.holds(90)
    assert incoming.connection_count == 0
    assert not Peer("other", incoming).holds(100).is_closed


def test_an_unknown_connection_can_be_forgotten(incoming: IncomingBytes) -> None:
    incoming.forget(Peer("p", incoming).connection)
    other = Peer("other", incoming).holds(100)
    assert not other.is_closed
    assert other.holds(101).is_closed
