"""What the shells know of a method beyond its signature."""

from __future__ import annotations

from rocketpy.client.callers import (
    form_for_caller,
    hands_over,
    is_handed_over,
    taken_when_ready,
    taking_of,
    told_caller,
)


class Owner:
    async def _named_for(self, caller: object, number: int) -> tuple[object, object, int]:
        return self, caller, number

    @told_caller(_named_for)
    async def named(self, number: int) -> tuple[object, object, int]:
        return await self._named_for("the task", number)

    def _ready(self, caller: object) -> tuple[object, object]:
        return self, caller

    async def _wait(self) -> object:
        return self

    @taken_when_ready(_ready, _wait)
    async def taken(self) -> None: ...

    @hands_over
    async def handed(self) -> None: ...


async def test_the_other_forms_of_a_method_are_bound_as_it_is() -> None:
    owner = Owner()
    form, taking = form_for_caller(owner.named), taking_of(owner.taken)
    assert form is not None
    assert await form("a thread", 7) == (owner, "a thread", 7)
    assert await owner.named(7) == (owner, "the task", 7)
    assert taking is not None
    assert taking.ready("a thread") == (owner, "a thread")
    assert await taking.wait() is owner
    assert is_handed_over(owner.handed)
    assert not is_handed_over(owner.taken)
    assert form_for_caller(owner.handed) is taking_of(owner.handed) is None
