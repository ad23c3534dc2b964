"""Result of a read that was served from memory in one step, without a filter or with one that a kernel evaluates.

It has the fields of :class:`~rocketpy.store.results.GetMessageResult` that such a read fills, under the same names. A
pull makes one, so it is a class of plain attributes, which costs a tenth of a frozen one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from rocketpy.store.results import GetMessageResult, GetMessageStatus

HeadOfRecords = Callable[[int, int, int, int], bytes | None]
"""Return the bytes that go before the records of a read, None to decline it.

``(next_begin_offset, min_offset, max_offset, size of the records)``. So the caller's head and the records are joined by
the one copy that reading makes.
"""


@final
class PlainRead:
    """Messages of one queue, as whole stored records back to back; none only where a filter has wanted none."""

    __slots__ = (
        "body",
        "head_size",
        "last_record_size",
        "max_offset",
        "message_count",
        "min_offset",
        "next_begin_offset",
    )

    def __init__(
        self,
        next_begin_offset: int,
        min_offset: int,
        max_offset: int,
        body: bytes,
        message_count: int,
        last_record_size: int,
        head_size: int = 0,
    ) -> None:
        self.next_begin_offset = next_begin_offset
        self.min_offset = min_offset
        self.max_offset = max_offset
        self.body = body
        self.head_size = head_size  # of the caller's head, with which the body begins
        self.message_count = message_count
        self.last_record_size = last_record_size

    def result(self) -> GetMessageResult:
        """Return the same as the general path returns it; of a read without a head."""
        return GetMessageResult(
            GetMessageStatus.FOUND if self.message_count else GetMessageStatus.NO_MATCHED_MESSAGE,
            self.next_begin_offset,
            self.min_offset,
            self.max_offset,
            self.body,
            self.message_count,
            last_record_size=self.last_record_size,
        )
