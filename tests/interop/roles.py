"""Producers and consumers of a foreign client, many in one process, for tests that run our client beside them.

The program ``roles`` of Java and Go takes commands as JSON lines, see ``programs/java/Roles.java``. Waiting for what it
prints takes a worker thread, so that our client goes on meanwhile.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import trio

from tests.interop.clients import Program, Received, Sent, ToSend, answers, received

LANGUAGES = ("java", "go")

T = TypeVar("T")


class Roles:
    """One process of a language; use as a context manager."""

    def __init__(self, language: str, directory: Path) -> None:
        self.language = language
        self._program = Program(language, "roles", directory)
        self._numbers = itertools.count()

    def __enter__(self) -> Roles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._program.__exit__(kind, error, trace)

    @asynccontextmanager
    async def producer(self, namesrv: str, group: str, **settings: object) -> AsyncIterator[ForeignProducer]:
        """Open a producer, and close it at the end of the block."""
        role = ForeignProducer(self._program, self._new_name())
        async with role.opened({"kind": "producer", "namesrv": namesrv, "group": group, **settings}):
            yield role

    @asynccontextmanager
    async def consumer(
        self, namesrv: str, group: str, topic: str, **settings: object
    ) -> AsyncIterator[ForeignConsumer]:
        """Open a push consumer, or what ``kind`` says, and close it at the end of the block."""
        role = ForeignConsumer(self._program, self._new_name())
        asked = {"kind": "consumer", "namesrv": namesrv, "group": group, "topic": topic, **settings}
        async with role.opened(asked):
            yield role

    def _new_name(self) -> str:
        return f"{self.language}-{next(self._numbers)}"


class Role:
    """A producer or a consumer of the process."""

    def __init__(self, program: Program, name: str) -> None:
        self.name = name
        """Also the instance name: the client id ends with it."""
        self._program = program
        self._first = len(program.lines())  # those before are of roles that other tests had

    @asynccontextmanager
    async def opened(self, settings: Mapping[str, object]) -> AsyncIterator[None]:
        """Open the role, and close it unless the block fails."""
        self.command("open", **settings)
        await self.until(lambda: self.lines("opened"), "opened")
        yield
        self.command("close")
        await self.until(lambda: self.lines("closed"), "closed")

    def command(self, what: str, **fields: object) -> None:
        """Give the role something to do."""
        self._program.write([json.dumps({"do": what, "role": self.name, **fields}, ensure_ascii=False) + "\n"])

    def lines(self, event: str) -> list[Mapping[str, object]]:
        """Return what the role has said of this so far; fails when it has said that something failed."""
        mine = [each for each in self._program.lines()[self._first :] if each.get("role") == self.name]
        failed = [each for each in mine if each["event"] == "failed"]
        assert not failed, failed
        return [each for each in mine if each["event"] == event]

    async def until(self, probe: Callable[[], T], what: str) -> T:
        """Wait until ``probe`` gives something."""
        return await trio.to_thread.run_sync(
            self._program.wait_until, probe, f"{self.name}: {what}", abandon_on_cancel=True
        )

    async def wait_lines(self, event: str, count: int) -> list[Mapping[str, object]]:
        """Return the lines of an event once there are ``count``."""
        await self.until(lambda: len(self.lines(event)) >= count, f"{count} {event}")
        return self.lines(event)


class ForeignProducer(Role):
    """A producer of the process."""

    def __init__(self, program: Program, name: str) -> None:
        super().__init__(program, name)
        self._asked = 0

    async def send(self, messages: Sequence[ToSend], mode: str = "sync") -> list[Sent]:
        """Send in a mode and return what was answered, in the order of ``messages``; a batch has one answer."""
        count = 1 if mode == "batch" else len(messages)
        return answers(await self._do(messages, mode, "sent", count))

    async def request(self, messages: Sequence[ToSend]) -> list[Mapping[str, object]]:
        """Send requests one after the other and return their replies."""
        return await self._do(messages, "request", "replied", len(messages))

    async def _do(self, messages: Sequence[ToSend], mode: str, event: str, count: int) -> list[Mapping[str, object]]:
        before = len(self.lines(event))
        self.command("send", mode=mode, messages=[each.value() for each in messages])
        return (await self.wait_lines(event, before + count))[before:]


class ForeignConsumer(Role):
    """A consumer of the process."""

    def messages(self) -> list[Received]:
        """Return the messages so far."""
        return [received(each) for each in self.lines("message")]

    async def wait_messages(self, count: int) -> list[Received]:
        """Return the messages once there are ``count``."""
        await self.wait_lines("message", count)
        return self.messages()
