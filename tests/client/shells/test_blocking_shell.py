"""Shells for plain code: every kind of member, exceptions, interrupts, handlers, threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from rocketpy.client import blocking
from rocketpy.client.client import Client
from rocketpy.client.shells import blocking_shell
from rocketpy.errors import ClientError, LocalProtocolError
from rocketpy.forks import OTHER_PROCESS
from tests.client.shells.shell_cases import role
from tests.patience import PATIENCE_SECONDS
from tests.processes import in_child

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


def test_a_coroutine_function_is_refused_as_a_handler() -> None:
    async def handler(call: str) -> str:
        return call

    with opened() as role, pytest.raises(TypeError, match="expected a plain function"):
        role.run(handler)


def test_as_many_handlers_run_at_once_as_the_client_calls() -> None:
    barrier = threading.Barrier(60, timeout=PATIENCE_SECONDS)
    with opened() as role:
        role.run_at_once(lambda _: barrier.wait(), 60)


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


def in_thread(function: Callable[[], object]) -> object:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result(PATIENCE_SECONDS)


def test_another_thread_does_not_commit_the_message_that_a_thread_has_in_its_hands() -> None:
    """Both calls run in the same task of Trio: that says nothing."""
    with opened() as role, role.messages(5) as messages:
        next(messages)
        next(messages)
        in_thread(messages.commit)
        assert role.committed == [1]
        messages.commit()
        assert role.committed == [1, 2]
        next(messages)
        in_thread(messages.commit)
        in_thread(lambda: messages.commit(with_last=True))
        assert role.committed == [1, 2, 3]
        assert role.who() is threading.current_thread()


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


def test_a_child_is_told_that_the_client_is_its_parents_and_has_clients_of_its_own() -> None:
    with opened() as role, role.messages(3) as messages:
        next(messages)
        for use in (lambda: role.double(1), lambda: role.level, lambda: next(messages), role.opened("x").__enter__):
            assert in_child(use) == f"LocalProtocolError: {OTHER_PROCESS}"

        block = role.opened("y")
        block.__enter__()

        def leave() -> str:
            assert not block.__exit__(None, None, None)  # by the end of the child
            with opened() as other:
                return str(other.run(str.upper)[0])

        assert in_child(leave) == "CALL 0"
        assert role.events == ["open y"]
        block.__exit__(None, None, None)
        assert role.events == ["open y", "close y"]


def test_a_program_that_ends_with_a_client_open_closes_it(tmp_path: Path) -> None:
    """Without a word of its author: what is in flight would be lost, and nothing would say so."""
    program = """
        import pathlib, sys
        from rocketpy.client import blocking
        from rocketpy.client.client import Client
        from tests.client.shells.shell_cases import role
        Client.role = role
        with blocking.open_client("127.0.0.1:1") as client, client.role() as closed:
            pass
        opened = blocking.open_client("127.0.0.1:2").__enter__().role().__enter__()
        opened.closing("x", pathlib.Path(sys.argv[1])).__enter__()
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), tmp_path / "closed"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    assert (tmp_path / "closed").read_text() == "x"
    (line,) = ended.stderr.splitlines()
    assert line == (
        "rocketpy.client.blocking.open_client('127.0.0.1:2') was left open until the end of the program, "
        "and is closed now"
    )


def test_a_client_that_does_not_end_does_not_hold_up_the_end_of_the_program(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(blocking_shell, "EXIT_SECONDS", 0.01)
    may_end = threading.Event()
    manager = blocking.open_client(NOWHERE)
    role = manager.__enter__().role().__enter__()  # type: ignore[attr-defined]
    handling = threading.Event()

    def hang(_: str) -> str:
        handling.set()
        may_end.wait()
        return ""

    thread = threading.Thread(target=role.run, args=(hang,), daemon=True)
    thread.start()
    handling.wait()
    manager.close_at_exit()  # type: ignore[attr-defined]
    assert "did not end in 0.01 s" in caplog.text
    may_end.set()
    manager.__exit__(None, None, None)
    thread.join()
