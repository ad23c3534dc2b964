"""Tasks of an owner run in the context of its opening, whatever starts them."""

from __future__ import annotations

from contextvars import ContextVar

import trio

from rocketpy.remoting.home import Home

WHERE: ContextVar[str] = ContextVar("WHERE", default="nowhere")


async def test_tasks_run_where_their_owner_was_opened_and_keep_what_they_set() -> None:
    seen: list[str] = []

    async def look(name: str) -> None:
        seen.append(WHERE.get())
        WHERE.set(name)

    async def start(*, task_status: trio.TaskStatus[None]) -> None:
        assert WHERE.get() == "a request"
        await home.enter()
        task_status.started()
        async with trio.open_nursery() as within:
            within.start_soon(look, "started")

    WHERE.set("home")
    home = Home()
    WHERE.set("a request")
    async with trio.open_nursery() as nursery:
        home.start_soon(nursery, look, "one")
        home.context().run(home.start_soon, nursery, look, "two")
        await nursery.start(start)
    assert seen == ["home"] * 3
    assert WHERE.get() == "a request"
    assert home.context()[WHERE] == "home"


async def test_a_task_enters_also_when_it_is_cancelled() -> None:
    """A connection has begun to be its owner's by then, and closes its stream on its way out."""
    WHERE.set("home")
    home = Home()
    with trio.CancelScope() as scope:
        scope.cancel()
        await home.enter()
        assert WHERE.get() == "home"
