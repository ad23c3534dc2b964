"""The result of a read that was served from memory, and the general path's form of it."""

from __future__ import annotations

import attrs

from rocketpy.store.read.plain_read import PlainRead
from rocketpy.store.results import GetMessageResult, GetMessageStatus


def test_it_becomes_the_result_of_the_general_path() -> None:
    """Every field is kept, also the one that equality ignores."""
    result = PlainRead(12, 3, 40, b"records", 2, 4).result()
    assert attrs.asdict(result) == attrs.asdict(
        GetMessageResult(GetMessageStatus.FOUND, 12, 3, 40, b"records", 2, last_record_size=4)
    )


def test_without_a_message_its_filter_has_wanted_none() -> None:
    result = PlainRead(12, 3, 40, b"", 0, 0).result()
    assert attrs.asdict(result) == attrs.asdict(GetMessageResult(GetMessageStatus.NO_MATCHED_MESSAGE, 12, 3, 40))
