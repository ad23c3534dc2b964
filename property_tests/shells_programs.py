"""The same program with Trio, asyncio and plain code: workers that do one thing after the other with shared clients.

A worker is a task of Trio, a task of asyncio or a thread. What it does is written once, as async code; plain code runs
it with objects whose results are there at once (:class:`Now`). The caller of a program says who does what, and sees how
it ended: a value, an exception by name and text, a cancellation, or not yet.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import attrs
import trio

from rocketpy.client import aio, blocking, open_client
from rocketpy.client.client import Client
from tests.client.shells.shell_cases import Role

NOWHERE = "127.0.0.1:1"
MESSAGES = 40
PAUSE_SECONDS = 0.0005

Outcome = tuple[str, object]
"""The name of an exception and its text, ``value`` and a value, or ``cancelled``."""

Lives = list[str]
"""What became of roles: ``opened``, and later ``left`` in order or ``broken off``."""


@asynccontextmanager
async def role(self: Client, lives: Lives) -> AsyncIterator[Role]:
    """Open a role in place of a real one; to be a member of :class:`Client`."""
    lives.append("opened")
    try:
        yield Role()
        await trio.lowlevel.checkpoint()  # raises if the block was cancelled
    except BaseException:
        lives.append("broken off")
        raise
    lives.append("left")


@attrs.define(eq=False)
class Slot:
    """What one worker has open, or had; others use it too."""

    lives: Lives = attrs.Factory(list)
    block: AsyncExitStack | None = None
    client: Any = None
    role: Any = None
    messages: Any = None


# ---- what a worker can do -------------------------------------------------------------------------------------------


async def opens(slot: Slot, opener: Callable[[str], Any]) -> None:
    async with AsyncExitStack() as stack:
        slot.client = await stack.enter_async_context(opener(NOWHERE))
        slot.role = await stack.enter_async_context(slot.client.role(slot.lives))
        slot.messages = await stack.enter_async_context(slot.role.messages(MESSAGES))
        slot.block = stack.pop_all()


async def closes(slot: Slot) -> None:
    block, slot.block = slot.block, None
    await block.__aexit__(None, None, None)


async def doubles(slot: Slot) -> object:
    return await slot.role.double(4, more=1)


async def fails(slot: Slot) -> object:
    return await slot.role.fail()


async def hangs(slot: Slot) -> object:
    return await slot.role.hang()


async def waits(slot: Slot) -> object:
    """Wait for what the shells begin without a task of Trio."""
    return await slot.role.later(20)


async def handles(slot: Slot, handler: Callable[..., Any]) -> object:
    return await slot.role.run(handler)


async def takes(slot: Slot) -> object:
    return (await slot.messages.__anext__()).body


async def commits(slot: Slot) -> object:
    await slot.messages.commit()
    return list(slot.role.committed)


Operation = partial[Awaitable[object]]


class Program(ABC):
    """Workers, by their number, each with a slot."""

    def __init__(self, count: int) -> None:
        self.slots = [Slot() for _ in range(count)]

    opener: Callable[[str], Any]

    @abstractmethod
    def begin(self, worker: int, operation: Operation) -> None:
        """Let a worker do something; only while it does nothing."""

    @abstractmethod
    def outcome(self, worker: int, seconds: float) -> Outcome | None:
        """Wait for the end of what a worker does; None if it does not come."""

    @abstractmethod
    def cancel(self, worker: int) -> None:
        """Cancel what a worker does."""

    @abstractmethod
    def handler(self, *, raises: bool) -> Callable[..., Any]:
        """Return a handler of this kind of program."""

    @abstractmethod
    def end(self) -> None:
        """End all workers, whatever they do."""


async def _told(operation: Operation) -> Outcome:
    try:
        return "value", await operation()
    except Exception as failure:
        return type(failure).__name__, str(failure)


def _answer(call: str, *, raises: bool) -> str:
    if raises:
        raise ZeroDivisionError("of a handler")
    return call.upper()


async def _answer_soon(call: str, *, raises: bool) -> str:
    return _answer(call, raises=raises)


class TrioProgram(Program):
    """The model: what the client does without a shell."""

    opener = staticmethod(open_client)

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._ready = threading.Event()
        self._outcomes: list[queue.SimpleQueue[Outcome]] = [queue.SimpleQueue() for _ in range(count)]
        self._scopes = [trio.CancelScope() for _ in range(count)]
        self._sends: list[trio.MemorySendChannel[Operation]] = []
        self._thread = threading.Thread(target=trio.run, args=(self._main,), daemon=True)
        self._thread.start()
        self._ready.wait()

    def begin(self, worker: int, operation: Operation) -> None:
        self._token.run_sync_soon(self._sends[worker].send_nowait, operation)

    def outcome(self, worker: int, seconds: float) -> Outcome | None:
        try:
            return self._outcomes[worker].get(timeout=seconds)
        except queue.Empty:
            return None

    def cancel(self, worker: int) -> None:
        self._token.run_sync_soon(lambda: self._scopes[worker].cancel())

    def handler(self, *, raises: bool) -> Callable[..., Any]:
        return partial(_answer_soon, raises=raises)

    def end(self) -> None:
        for worker, slot in enumerate(self.slots):
            self.cancel(worker)
            if slot.block is not None:
                self.begin(worker, partial(closes, slot))
            self._token.run_sync_soon(self._sends[worker].close)
        self._thread.join()

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            for worker in range(len(self.slots)):
                send, receive = trio.open_memory_channel[Operation](1)
                self._sends.append(send)
                nursery.start_soon(self._work, worker, receive)
            self._ready.set()

    async def _work(self, worker: int, operations: trio.MemoryReceiveChannel[Operation]) -> None:
        async for operation in operations:
            outcome: Outcome = "cancelled", None
            if operation.func in (opens, closes):  # what it enters outlives it, so no scope of ours may surround it
                outcome = await _told(operation)
            else:
                with trio.CancelScope() as self._scopes[worker]:
                    outcome = await _told(operation)
            self._outcomes[worker].put(outcome)


class AsyncioProgram(Program):
    """A program whose loop the caller runs: without ``asyncio.Runner``, so that it can be left in any state."""

    opener = staticmethod(aio.open_client)

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._count = count
        self.start_loop()

    def start_loop(self) -> None:
        """Begin anew, in another loop."""
        self.loop = asyncio.new_event_loop()
        self.slots = [Slot() for _ in range(self._count)]
        self.loop.set_exception_handler(lambda *_: None)  # of tasks of a loop that is left
        self._operations = [self.loop.create_future() for _ in self.slots]
        self._outcomes: list[asyncio.Queue[Outcome]] = [asyncio.Queue() for _ in self.slots]
        self._tasks = [self.loop.create_task(self._work(each)) for each in range(self._count)]
        self.let(lambda: False, steps=3)

    def let(self, condition: Callable[[], object], *, seconds: float = 0.0, steps: int = 0) -> bool:
        """Run the loop until something is so, for some time or some steps at most."""
        limit = time.monotonic() + seconds

        async def wait() -> bool:
            count = 0
            while not condition():
                if time.monotonic() > limit and count >= steps:
                    return False
                await asyncio.sleep(0 if steps else PAUSE_SECONDS)
                count += 1
            return True

        return self.loop.run_until_complete(wait())

    def begin(self, worker: int, operation: Operation) -> None:
        self._operations[worker].set_result(operation)

    def outcome(self, worker: int, seconds: float) -> Outcome | None:
        outcomes = self._outcomes[worker]
        return outcomes.get_nowait() if self.let(lambda: not outcomes.empty(), seconds=seconds) else None

    def cancel(self, worker: int) -> None:
        self._tasks[worker].cancel()

    def handler(self, *, raises: bool) -> Callable[..., Any]:
        async def handle(call: str) -> str:
            await asyncio.sleep(0)
            return _answer(call, raises=raises)

        return handle

    def end_loop(self) -> None:
        """End it as ``asyncio.run`` does, but for its tasks: what they have open is left open."""
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def end(self) -> None:
        if not self.loop.is_closed():
            self.end_loop()

    async def _work(self, worker: int) -> None:
        while True:
            operation = await self._operations[worker]
            self._operations[worker] = self.loop.create_future()
            try:
                outcome = await _told(operation)
            except asyncio.CancelledError:
                outcome = "cancelled", None
            self._outcomes[worker].put_nowait(outcome)


class PlainProgram(Program):
    """Each worker is a thread."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self._operations: list[queue.SimpleQueue[Operation | None]] = [queue.SimpleQueue() for _ in self.slots]
        self._outcomes: list[queue.SimpleQueue[Outcome]] = [queue.SimpleQueue() for _ in self.slots]
        for worker in range(count):
            threading.Thread(target=self._work, args=(worker,), daemon=True).start()

    @staticmethod
    def opener(name_server: str) -> Now:
        return Now(blocking.open_client(name_server))

    def begin(self, worker: int, operation: Operation) -> None:
        self._operations[worker].put(operation)

    def outcome(self, worker: int, seconds: float) -> Outcome | None:
        try:
            return self._outcomes[worker].get(timeout=seconds)
        except queue.Empty:
            return None

    def cancel(self, worker: int) -> None:
        raise AssertionError("a thread cannot be cancelled")

    def handler(self, *, raises: bool) -> Callable[..., Any]:
        return partial(_answer, raises=raises)

    def end(self) -> None:
        for operations, slot in zip(self._operations, self.slots, strict=True):
            if slot.block is not None:
                operations.put(partial(closes, slot))
            operations.put(None)

    def _work(self, worker: int) -> None:
        while (operation := self._operations[worker].get()) is not None:
            self._outcomes[worker].put(at_once(_told(operation)))


def at_once(awaitable: Any) -> Any:
    """Return the result of async code that has not to wait."""
    try:
        awaitable.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits")


class Now:
    """An object of plain code, or the result of its method, for async code."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._target, name)
        return (lambda *arguments, **named: Now(member(*arguments, **named))) if callable(member) else member

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._target
        yield

    async def __aenter__(self) -> Now:
        return Now(self._target.__enter__())

    async def __aexit__(self, *failure: Any) -> Any:
        return self._target.__exit__(*failure)

    async def __anext__(self) -> Any:
        try:
            return next(self._target)
        except StopIteration:
            raise StopAsyncIteration from None
