"""The client in asyncio programs: every kind of member, exceptions, cancellation, handlers, several clients."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rocketpy import client as trio_client_package
from rocketpy.client import Message, aio
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


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main, PATIENCE_SECONDS))


@asynccontextmanager
async def opened() -> AsyncIterator[Any]:
    async with aio.open_client(NOWHERE) as client, client.role() as opened:  # type: ignore[attr-defined]
        yield opened


def test_messages_are_sent_and_pulled(broker: BrokerInThread) -> None:
    async def main() -> list[bytes]:
        async with aio.open_client(broker.name_server) as client:
            async with client.producer("g") as producer:
                sent = [await producer.send(Message("Aio", b"%d" % number)) for number in range(5)]
                await producer.send_nowait(Message("Aio", b"soon"))
            assert len({each.msg_id for each in sent}) == 5
            async with (
                client.pull_consumer("c") as consumer,
                consumer.open_messages("Aio", start="beginning", until_end=True) as messages,
            ):
                return [message.body async for message in messages]

    assert sorted(run(main())) == [b"0", b"1", b"2", b"3", b"4", b"soon"]


def test_every_opener_of_the_client_is_there(broker: BrokerInThread) -> None:
    openers = {name for name in trio_client_package.__all__ if name.startswith("open_")}
    assert {name for name in openers if not callable(getattr(aio, name))} == set()
    with pytest.raises(AttributeError, match="open_nothing"):
        _ = aio.open_nothing

    async def main() -> None:
        async with aio.open_admin_client(broker.name_server) as admin:
            assert "Aio2" not in await admin.topics.names()
            await admin.create_topic("Aio2")
        async with aio.open_producer(broker.name_server) as producer:
            assert len(await producer.publish_queues("Aio2")) == 8

    run(main())


def test_each_kind_of_member_is_made_for_asyncio() -> None:
    async def main() -> None:
        async with opened() as role:
            assert await role.double(4, more=1) == 9
            assert role.name == "role"
            assert role.plain() > 0
            assert [each async for each in role] == [1, 2, 3]
            assert [each async for each in role.count(3)] == [0, 1, 2]
            await role.soon()
            async with role.opened("x") as inner:
                assert await inner.double(1) == 2
            assert role.events == ["open x", "close x"]
            assert await role.same(role)
            assert "double" in dir(role)
            assert not hasattr(role, "nothing")

    run(main())


def test_exceptions_of_calls_and_blocks_are_the_same_objects() -> None:
    async def main() -> None:
        async with opened() as role:
            with pytest.raises(ZeroDivisionError, match="planted"):
                await role.fail()
            mine = ZeroDivisionError("mine")
            with pytest.raises(ZeroDivisionError) as caught:
                async with role.opened("x"):
                    raise mine
            assert caught.value is mine
            assert role.events == ["open x", "failed", "close x"]
            with pytest.raises(StopIteration):
                async with role.opened("y"):
                    raise StopIteration
        with pytest.raises(ClientError, match="No name server"):
            async with aio.open_client(""):
                pass

    run(main())


def test_a_cancelled_task_goes_on_when_its_call_has_ended() -> None:
    async def main() -> None:
        async with opened() as role:
            task = asyncio.ensure_future(role.hang())
            while not role.events:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert role.events == ["begun", "ended"]
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(role.hang(), 0.01)
            assert role.events == ["begun", "ended"] * 2
            assert await role.double(1) == 2

    run(main())


def test_a_call_that_is_cancelled_twice_is_still_waited_for() -> None:
    async def main() -> None:
        async with opened() as role:
            task = asyncio.ensure_future(role.hang())
            while not role.events:
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert role.events == ["begun", "ended"]

    run(main())


def test_a_cancelled_block_is_left_in_order() -> None:
    seen: list[object] = []

    async def main() -> None:
        async def block() -> None:
            async with opened() as role, role.opened("x"):
                seen.append(role.events)
                await asyncio.sleep(PATIENCE_SECONDS)

        task = asyncio.ensure_future(block())
        while not seen:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    assert seen == [["open x", "close x"]]


def test_use_after_the_end_is_a_clear_error() -> None:
    async def main() -> None:
        async with opened() as role:
            async with role.opened("x") as inner:
                hanging = asyncio.ensure_future(inner.hang())
                while not inner.events:
                    await asyncio.sleep(0.001)
            with pytest.raises(LocalProtocolError, match="was closed while the call was in progress"):
                await hanging
            for use in (inner.double, lambda _: inner.opened("z").__aenter__()):
                with pytest.raises(LocalProtocolError, match="the client is closed"):
                    await use(1)
            with pytest.raises(LocalProtocolError, match="the client is closed"):
                inner.plain()
        with pytest.raises(LocalProtocolError, match="the client is closed"):
            await role.double(1)

    run(main())


def test_a_role_that_fails_ends_calls_and_raises_at_the_end_of_its_block() -> None:
    async def main() -> None:
        async with opened() as role:
            with pytest.raises(BaseExceptionGroup) as caught:
                async with role.broken() as inner:
                    with pytest.raises(LocalProtocolError):
                        await inner.hang()
            assert caught.group_contains(ZeroDivisionError, match="of a service")
            assert await role.double(1) == 2

    run(main())


def test_a_handler_runs_in_asyncio_and_is_cancelled_with_the_call() -> None:
    async def main() -> None:
        cancelled = []

        async def answer(call: str) -> str:
            await asyncio.sleep(0)
            return call.upper()

        async def fail(_: str) -> str:
            raise ZeroDivisionError("of a handler")

        async def hang(_: str) -> str:
            begun.set()
            try:
                await asyncio.sleep(PATIENCE_SECONDS)
            finally:
                cancelled.append(True)
            return ""

        async with opened() as role:
            assert await role.run(answer, count=2) == ["CALL 0", "CALL 1"]
            with pytest.raises(ZeroDivisionError, match="of a handler"):
                await role.run(fail)
            begun = asyncio.Event()
            task = asyncio.ensure_future(role.run(handler=hang))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert cancelled == [True]

    run(main())


def test_several_clients_live_in_one_loop_and_leave_no_thread() -> None:
    async def main() -> None:
        async with opened() as one:
            async with opened() as two:
                assert await asyncio.gather(one.double(1), two.double(2)) == [2, 4]
            assert await one.double(3) == 6
        async with opened() as three:
            assert await three.double(4) == 8

    run(main())
    run(main())
    deadline = time.monotonic() + PATIENCE_SECONDS
    while any("rocketpy" in each.name for each in threading.enumerate()):
        assert time.monotonic() < deadline


def test_a_client_belongs_to_its_loop() -> None:
    async def main() -> None:
        async with opened() as role:

            def other() -> None:
                with pytest.raises(LocalProtocolError, match="belongs to another event loop"):
                    asyncio.run(role.double(1))

            await asyncio.to_thread(other)

    run(main())
