"""The order at the end of a burst is a guarantee: the store writes before any peer is answered."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.errors import DiskFullError, StoreError
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.frame import encode_frame
from rocketpy.remoting.burst import Burst, no_hook
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher
from tests.remoting.test_connection import NotingTransport, make_connection


class Sends(NotingTransport):
    """Notes what is sent among other events; ``breaks`` makes a send raise what no driver foresaw."""

    def __init__(self, events: list[str], breaks: Exception | None = None) -> None:
        super().__init__()
        self.events = events
        self.breaks = breaks

    def flush(self, connection: Connection) -> None:
        if self.breaks is not None:
            raise self.breaks
        self.events.append(f"sent {connection.take_outgoing().decode('latin-1')}")


def program(
    events: list[str],
    *,
    end_burst: Callable[[], None] | None = None,
    after_replies: Callable[[], None] = no_hook,
) -> tuple[Burst, Connection]:
    dispatcher = a_dispatcher(events, end_burst=end_burst, after_replies=after_replies)
    connection, _ = make_connection(transport=Sends(events), dispatcher=dispatcher)
    return dispatcher.burst, connection


def a_dispatcher(
    events: list[str],
    *,
    end_burst: Callable[[], None] | None = None,
    after_replies: Callable[[], None] = no_hook,
) -> Dispatcher:
    return Dispatcher(end_burst=end_burst or (lambda: events.append("written")), after_replies=after_replies)


def fail() -> None:
    raise StoreError("the disk is gone", path="p")


def test_writes_then_replies_then_what_was_woken() -> None:
    events: list[str] = []

    def wake() -> None:
        events.append("woken served")
        connection.reply_frame(b"pull")

    burst, connection = program(events, after_replies=wake)
    with burst:
        connection.reply_frame(b"send-")
        connection.reply_frame(b"ok")
    assert events == ["written", "sent send-ok", "woken served", "sent pull"]


@pytest.mark.parametrize(
    "ask_to_send",
    [
        lambda connection, burst: connection.flush(),
        lambda connection, burst: connection.oneway(make_request(40)),
        lambda connection, burst: burst.flush_replies(),
    ],
    ids=["flush", "oneway", "flush_replies"],
)
@pytest.mark.parametrize(
    "failure",
    [None, StoreError("gone", path="p"), ZeroDivisionError("a bug")],
    ids=["written", "failed write", "bug in the write"],
)
def test_nothing_leaves_before_the_write_on_any_path(
    ask_to_send: Callable[[Connection, Burst], None], failure: Exception | None
) -> None:
    """A notification that the burst itself causes must not take an acknowledgement with it."""
    events: list[str] = []

    def write() -> None:
        events.append("write")
        if failure is not None:
            raise failure

    burst, connection = program(events, end_burst=write)
    if failure is None:
        with burst:
            connection.reply_frame(b"send ok")
            ask_to_send(connection, burst)
            assert events == []
        assert events[0] == "write"
        assert events[1].startswith("sent send ok")
        return
    with pytest.raises(StoreError), burst:
        connection.reply_frame(b"send ok")
        ask_to_send(connection, burst)
    ask_to_send(connection, burst)
    assert events == ["write"]
    assert connection.outgoing_size == 0 or not burst.may_send


def test_a_failed_write_drops_what_is_queued_on_every_connection_of_the_store() -> None:
    """The VIP port has a dispatcher of its own, and its clients send to the same store."""
    events: list[str] = []
    dispatcher = Dispatcher(end_burst=fail)
    vip = dispatcher.without([11])
    ours, _ = make_connection(transport=Sends(events), dispatcher=dispatcher)
    theirs, _ = make_connection(transport=Sends(events), dispatcher=vip)
    with pytest.raises(StoreError), vip.burst:
        ours.reply_frame(b"send ok")
        theirs.reply_frame(b"send ok")
    assert (ours.outgoing_size, theirs.outgoing_size) == (0, 0)
    ours.oneway(make_request(40))
    theirs.oneway(make_request(40))
    with dispatcher.burst:  # what another listener still serves before it is cancelled
        ours.reply_frame(b"send ok")
    assert events == []


def test_a_failure_inside_a_burst_that_ends_the_program_lets_no_reply_out() -> None:
    events: list[str] = []
    burst, connection = program(events)
    with pytest.raises(AssertionError), burst:
        connection.reply_frame(b"send ok")
        raise AssertionError("our own state")
    connection.oneway(make_request(40))
    assert events == []


def test_a_failure_inside_a_burst_that_ends_one_connection_still_ends_the_burst() -> None:
    """The others are owed their answers, and what they sent is to be written."""
    events: list[str] = []
    burst, connection = program(events)
    with pytest.raises(ZeroDivisionError), burst:
        connection.reply_frame(b"send ok")
        raise ZeroDivisionError
    assert events == ["written", "sent send ok"]


@pytest.mark.parametrize("failure", [DiskFullError(path="p", wanted_bytes=1, free_bytes=0), KeyError("a bug")])
def test_a_burst_that_cannot_be_ended_ends_the_program_whatever_the_reason(failure: Exception) -> None:
    """Elsewhere these end one request only; here messages that were answered nothing yet are lost."""

    def write() -> None:
        raise failure

    burst, connection = program([], end_burst=write)
    with pytest.raises(StoreError, match="a burst could not be ended") as caught, burst:
        connection.reply_frame(b"send ok")
    assert caught.value.__cause__ is failure


def test_bursts_do_not_nest() -> None:
    burst, _ = program([])
    with pytest.raises(AssertionError, match="a burst inside a burst"), burst, burst:
        pass


def test_a_woken_pull_that_fails_ends_nothing() -> None:
    events: list[str] = []

    def wake() -> None:
        raise ZeroDivisionError("a hook")

    burst, connection = program(events, after_replies=wake)
    for _ in range(2):
        with burst:
            connection.reply_frame(b"send ok")
    assert events == ["written", "sent send ok"] * 2


def test_a_send_that_fails_in_an_unforeseen_way_ends_its_connection_only() -> None:
    events: list[str] = []
    dispatcher = a_dispatcher(events)
    broken, _ = make_connection(transport=Sends(events, ZeroDivisionError("a bug")), dispatcher=dispatcher)
    good, _ = make_connection(transport=Sends(events), dispatcher=dispatcher)
    with dispatcher.burst:
        broken.reply_frame(b"one")
        good.reply_frame(b"two")
    assert broken.is_closed
    assert events == ["written", "sent two"]


def test_flushing_twice_sends_once() -> None:
    events: list[str] = []
    burst, connection = program(events)
    connection.reply_frame(b"x")
    burst.flush_replies()
    burst.flush_replies()
    assert events == ["sent x"]


async def test_deferred_work_is_finished_by_a_burst_of_its_own() -> None:
    """What a cold read has put is real before its answer leaves, and its failure is an answer too."""
    events: list[str] = []
    dispatcher = a_dispatcher(events, after_replies=lambda: events.append("woken served"))
    transport = Sends(events)
    connection, _ = make_connection(transport=transport, dispatcher=dispatcher)

    async def answer(text: bytes) -> bytes:
        events.append("put")
        return text

    async def bug() -> bytes:
        raise ZeroDivisionError("a bug")

    request = RemotingCommand(code=36, opaque=7)
    connection.count_deferred()
    assert connection.answer_later(request, answer, b"later")
    await transport.tasks[0]()
    assert events == ["put", "written", "sent later", "woken served"]
    connection.count_deferred()
    assert connection.answer_later(request, bug)
    await transport.tasks[1]()
    failed = encode_frame(RemotingCommand(code=1, flag=1, opaque=7, remark="ZeroDivisionError: a bug"))
    assert events[4:] == ["written", f"sent {failed.decode('latin-1')}", "woken served"]
    assert connection.deferred_count == 0
    assert dispatcher.burst.may_send
