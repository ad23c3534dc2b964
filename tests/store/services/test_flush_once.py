"""One flush: what was begun is given back, durable or not, whatever the disk and the program do meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs
import pytest
import trio

from rocketpy.errors import StoreError
from rocketpy.runner import run_inline
from rocketpy.store.services.flush_once import flush_once

T = TypeVar("T")


@attrs.define(eq=False)
class Range:
    end: int
    source: Source
    is_broken: bool

    def sync(self) -> None:
        self.source.calls.append(f"sync {self.end}")
        if self.is_broken:
            raise StoreError("cannot sync", path="/log")


@attrs.define(eq=False)
class Source:
    """A log of so many bytes."""

    wrote: int
    flushed: int = 0
    is_broken: bool = False
    calls: list[str] = attrs.Factory(list)

    def begin_flush(self, *, least_pages: int = 0) -> Range | None:
        self.calls.append(f"begin {least_pages}")
        if self.wrote - self.flushed <= least_pages * 4096:
            return None
        return Range(self.wrote, self, self.is_broken)

    def end_flush(self, flush_range: Range, /, *, is_synced: bool) -> None:
        self.calls.append(f"end {flush_range.end} {is_synced}")
        if is_synced:
            self.flushed = flush_range.end


async def test_a_flush_begins_syncs_and_ends() -> None:
    source = Source(7)
    flushed = await flush_once(source, run_inline)
    assert flushed is not None
    assert (flushed.end, source.flushed) == (7, 7)
    assert source.calls == ["begin 0", "sync 7", "end 7 True"]


async def test_nothing_to_do_asks_nothing_of_the_disk() -> None:
    source = Source(0)
    assert await flush_once(source, run_inline) is None
    assert source.calls == ["begin 0"]


@pytest.mark.parametrize(("wrote", "is_flushed"), [(4 * 4096, False), (4 * 4096 + 1, True)])
async def test_too_few_pages_wait_for_more(wrote: int, is_flushed: bool) -> None:
    source = Source(wrote)
    assert (await flush_once(source, run_inline, least_pages=4) is not None) is is_flushed
    assert source.calls[0] == "begin 4"


async def test_what_is_appended_while_the_disk_works_belongs_to_the_next_one() -> None:
    source = Source(7)

    async def run(function: Callable[..., T], /, *arguments: object) -> T:
        source.wrote = 20
        return function(*arguments)

    await flush_once(source, run)
    assert source.flushed == 7


async def test_a_failed_sync_returns_its_range_and_raises() -> None:
    source = Source(7, is_broken=True)
    with pytest.raises(StoreError, match="cannot sync"):
        await flush_once(source, run_inline)
    assert source.calls == ["begin 0", "sync 7", "end 7 False"]
    assert source.flushed == 0


async def test_a_cancelled_flush_is_given_back_as_not_durable() -> None:
    """The sync may or may not have run: only what surely did counts."""
    source = Source(7)

    async def run(function: Callable[..., T], /, *arguments: object) -> T:
        await trio.sleep_forever()
        return function(*arguments)

    with trio.move_on_after(0) as scope:
        await flush_once(source, run)
    assert scope.cancelled_caught
    assert source.calls == ["begin 0", "end 7 False"]
