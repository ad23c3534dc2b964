"""The client in plain code: every kind of member, exceptions, interrupts, handlers, threads."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rocketpy import client as trio_client_package
from rocketpy.client import Message, blocking
from rocketpy.client.client import Client
from rocketpy.errors import ClientError, LocalProtocolError
from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.client.shells.shell_cases import role
from tests.patience import PATIENCE_SECONDS

NOWHERE = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def _role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "role", role, raising=False)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerInThread]:
    with open_broker_in_thread(BrokerOptions()) as broker:
        yield broker


@contextmanager
def opened() -> Iterator[Any]:
    with blocking.open_client(NOWHERE) as client, client.role() as opened:
        yield opened


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.001)


def test_messages_are_sent_and_pulled(broker: BrokerInThread) -> None:
    with blocking.open_client(broker.name_server) as client:
        with client.producer("g") as producer:
            for number in range(5):
                producer.send(Message("Blocking", b"%d" % number))
            assert producer.send_nowait(Message("Blocking", b"soon")).wait().msg_id
        with (
            client.pull_consumer("c") as consumer,
            consumer.open_messages("Blocking", start="beginning", until_end=True) as messages,
        ):
            bodies = [message.body for message in messages]
    assert sorted(bodies) == [b"0", b"1", b"2", b"3", b"4", b"soon"]


def test_every_opener_of_the_client_is_there(broker: BrokerInThread) -> None:
    openers = {name for name in trio_client_package.__all__ if name.startswith("open_")}
    assert {name for name in openers if not callable(getattr(blocking, name))} == set()
    with pytest.raises(AttributeError, match="open_nothing"):
        _ = blocking.open_nothing
    with blocking.open_admin_client(broker.name_server) as admin:
        admin.create_topic("Blocking2")
        assert "Blocking2" in admin.topics.names()


def test_each_kind_of_member_is_made_for_plain_code() -> None:
    with opened() as role:
        assert role.double(4, more=1) == 9
        assert role.name == "role"
        assert role.plain() > 0
        assert list(role) == [1, 2, 3]
        assert list(role.count(3)) == [0, 1, 2]
        with role.opened("x") as inner:
            assert inner.double(1) == 2
        assert role.events == ["open x", "close x"]
        assert role.same(role)
        assert "double" in dir(role)
        assert not hasattr(role, "nothing")


def test_exceptions_of_calls_and_blocks_are_the_same_objects() -> None:
    with opened() as role:
        with pytest.raises(ZeroDivisionError, match="planted"):
            role.fail()
        mine = ZeroDivisionError("mine")
        with pytest.raises(ZeroDivisionError) as caught, role.opened("x"):
            raise mine
        assert caught.value is mine
        assert role.events == ["open x", "failed", "close x"]
        with pytest.raises(StopIteration), role.opened("y"):
            raise StopIteration
    threads = threading.active_count()
    with pytest.raises(ClientError, match="No name server"), blocking.open_client(""):
        pass
    assert threading.active_count() == threads


def test_an_interrupt_ends_the_call_first() -> None:
    with opened() as role:
        events = role.events

        def interrupt() -> None:
            until(lambda: events)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            role.hang()
        thread.join()
        assert role.events == ["begun", "ended"]
        assert role.double(1) == 2


def test_use_after_the_end_is_a_clear_error() -> None:
    found: list[str] = []
    with opened() as role:
        with role.opened("x") as inner:

            def hang() -> None:
                try:
                    inner.hang()
                except LocalProtocolError as failure:
                    found.append(str(failure))

            thread = threading.Thread(target=hang, daemon=True)
            thread.start()
            until(lambda: inner.events)
        thread.join()
        assert found == ["the client was closed while the call was in progress"]
        with pytest.raises(LocalProtocolError, match="the client is closed"):
            inner.double(1)
    with pytest.raises(LocalProtocolError, match="the client is closed"):
        role.double(1)


def test_a_role_that_fails_ends_calls_and_raises_at_the_end_of_its_block() -> None:
    with opened() as role:
        with pytest.raises(BaseExceptionGroup) as caught, role.broken() as inner:  # noqa: SIM117
            with pytest.raises(LocalProtocolError):
                inner.hang()
        assert caught.group_contains(ZeroDivisionError, match="of a service")
        assert role.double(1) == 2


def test_a_handler_is_called_in_a_worker_thread() -> None:
    with opened() as role:
        seen: list[str] = []

        def answer(call: str) -> str:
            seen.append(threading.current_thread().name)
            return call.upper()

        assert role.run(answer, count=2) == ["CALL 0", "CALL 1"]
        assert role.run(handler=answer) == ["CALL 0"]
        assert "MainThread" not in seen
        assert blocking.THREAD_NAME not in seen


def test_several_clients_and_threads_at_once_leave_no_thread_of_a_client() -> None:
    with opened() as one, opened() as two:
        results: list[int] = []
        threads = [threading.Thread(target=lambda n=n: results.append(one.double(n) + two.double(n))) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(results) == [4 * number for number in range(8)]
    assert blocking.THREAD_NAME not in {each.name for each in threading.enumerate()}
