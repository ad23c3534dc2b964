"""Unwrapping of the exception group around a block's own exception.

Trio's nurseries put every exception into a group, even one that the body of ``async with open_producer(...)`` raised.
The nursery is an implementation detail there, so users should not need ``except*`` because of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

ScopeT = TypeVar("ScopeT")


@asynccontextmanager
async def unwrapped(scope: AbstractAsyncContextManager[ScopeT, bool | None]) -> AsyncIterator[ScopeT]:
    """Enter ``scope``. A group that holds only the block's own exception is raised as that exception."""
    own: BaseException | None = None
    try:
        async with scope as value:
            try:
                yield value
            except BaseException as failure:
                own = failure
                raise
    except BaseExceptionGroup as group:
        alone = group.exceptions[0] if len(group.exceptions) == 1 else None
        if own is None or alone is None or not (alone is own or _is_remade(alone, own)):
            raise
    else:
        return
    raise alone  # here and not above, so that the group does not become its context


def _is_remade(exception: BaseException, own: BaseException) -> bool:
    """Whether a group is the block's own group, which a nursery rebuilds without the cancellations in it."""
    return (
        isinstance(exception, BaseExceptionGroup)
        and isinstance(own, BaseExceptionGroup)
        and exception.message == own.message
    )
