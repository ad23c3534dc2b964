"""Shells for plain code: every kind of member, exceptions, interrupts, handlers, threads."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from rocketpy.client import blocking
from rocketpy.client.client import Client
from rocketpy.errors import ClientError, LocalProtocolError
from tests.client.shells.shell_cases import role
from tests.patience import PATIENCE_SECONDS

NOWHERE = "127.0.0.1:1"


@pytest.fixture(autouse=True)
def _role(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Client, "role", role, raising=False)


@contextmanager
def opened() -> Iterator[Any]:
    with blocking.open_client(NOWHERE) as client, client.role() as opened:
        yield opened


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.001)


def test_each_kind_of_member_is_made_for_plain_code() -> None:
    with opened() as role:
        assert role.double(4, more=1) == 9
        assert role.name == "role"
        assert role.plain() > 0
        assert list(role) == [1, 2, 3]
        assert list(role.count(3)) == [0, 1, 2]
        with closing(role.count(3)) as numbers:
            assert next(numbers) == 0
        assert role.events == ["counted"] * 2, "an iterator that is left early is closed, too"
        with role.opened("x") as inner:
            assert inner.double(1) == 2
        assert role.events[2:] == ["open x", "close x"]
        assert role.same(role)
        assert "double" in dir(role)
        assert not hasattr(role, "nothing")


def test_what_a_program_sets_is_set_in_the_object() -> None:
    with opened() as role:
        role.level = 3
        assert role.level == 3
        assert role.read_level() == 3
        assert role
        for name in ("nothing", "double"):
            with pytest.raises(AttributeError, match=f"no attribute '{name}' to set"):
                setattr(role, name, 1)


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
    threads = set(threading.enumerate())
    with pytest.raises(ClientError, match="No name server"), blocking.open_client(""):
        pass
    assert set(threading.enumerate()) <= threads, "one of another test may have ended"


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


def test_a_call_that_is_begun_without_a_task_ends_as_others_do() -> None:
    with opened() as role:
        assert role.later() == "in a task"
        assert role.later(3, add=4) == 7
        with pytest.raises(ZeroDivisionError, match="before"):
            role.later(-1)
        for number in (20, 200):

            def finish() -> None:
                until(lambda: role.begun)
                role.finish()

            thread = threading.Thread(target=finish, daemon=True)
            thread.start()
            if number > 100:
                with pytest.raises(ZeroDivisionError, match="after"):
                    role.later(number)
            else:
                assert role.later(number) == number
            thread.join()


def test_a_begun_call_is_abandoned_by_an_interrupt_and_by_the_end_of_its_block() -> None:
    with opened() as role:

        def interrupt() -> None:
            until(lambda: role.begun)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            role.later(20)
        thread.join()
        assert role.begun[0].was_abandoned

        found: list[str] = []
        with role.opened("x") as inner:

            def wait() -> None:
                try:
                    inner.later(20)
                except LocalProtocolError as failure:
                    found.append(str(failure))

            thread = threading.Thread(target=wait, daemon=True)
            thread.start()
            until(lambda: inner.begun)
        thread.join()
        assert found == ["the client was closed while the call was in progress"]
