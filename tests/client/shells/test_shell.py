"""What both shells share: members by their kind, results and arguments."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from rocketpy.client.begun import Done
from rocketpy.client.shells.asyncio_shell import AsyncioShell
from rocketpy.client.shells.blocking_shell import BlockingShell
from rocketpy.client.shells.held_scope import HeldScope
from rocketpy.client.shells.loop_thread import LoopThread
from rocketpy.client.shells.shell import begin_like, in_shell
from tests.client.shells.shell_cases import Role, role


def shell_of(target: object) -> BlockingShell:
    return BlockingShell(target, LoopThread("of no call"), HeldScope(role))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [AsyncioShell, BlockingShell])
def test_a_shell_shows_what_its_object_has(kind: Any) -> None:
    shell = kind(Role(), LoopThread("of no call"), HeldScope(role))  # type: ignore[arg-type]
    assert {"double", "opened", "count", "plain", "name"} <= set(dir(shell))
    assert "Role" in repr(shell)
    assert shell.double.__name__ == "double"
    assert shell.double is shell.double


def test_only_what_waits_is_put_into_a_shell() -> None:
    shell = shell_of(Role())
    inner = in_shell(BlockingShell, Role(), LoopThread("of no call"), HeldScope(role))  # type: ignore[arg-type]
    assert isinstance(inner, BlockingShell)
    assert in_shell(BlockingShell, 7, LoopThread("of no call"), HeldScope(role)) == 7  # type: ignore[arg-type]
    assert isinstance(shell, BlockingShell)


def test_the_second_form_of_a_method_gets_the_same_named_arguments() -> None:
    def begin(number: int, *, add: int = 0) -> Done:
        return Done(number + add)

    async def method(number: int, *, add: int = 0) -> int:
        return number + add

    plain = begin_like(begin, method)
    named = begin_like(begin, functools.partial(method, add=5))
    assert plain is begin
    assert named is not None
    begun = named(2)
    assert begun is not None
    assert begun.result() == 7
    assert begin_like(None, method) is None
