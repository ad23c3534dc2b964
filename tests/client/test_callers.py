"""Methods that are told who calls."""

from __future__ import annotations

from rocketpy.client.callers import form_for_caller, ready_for_caller, told_caller


class Owner:
    async def _named_for(self, caller: object, number: int) -> tuple[object, object, int]:
        return self, caller, number

    def _ready(self, caller: object) -> tuple[object, object]:
        return self, caller

    @told_caller(_named_for, ready=_ready)
    async def named(self, number: int) -> tuple[object, object, int]:
        return await self._named_for("the task", number)

    async def other(self) -> None: ...


async def test_the_other_form_of_a_method_is_bound_as_it_is() -> None:
    owner = Owner()
    form = form_for_caller(owner.named)
    assert form is not None
    assert await form("a thread", 7) == (owner, "a thread", 7)
    assert await owner.named(7) == (owner, "the task", 7)
    ready = ready_for_caller(owner.named)
    assert ready is not None
    assert ready("a thread") == (owner, "a thread")
    assert form_for_caller(owner.other) is ready_for_caller(owner.other) is None
