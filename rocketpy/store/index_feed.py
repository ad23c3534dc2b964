"""What append gives to the index: the keys of messages, in log order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

IndexWork: TypeAlias = tuple[str, Sequence[bytes], int, int]
"""Topic, keys, physical offset and storeTimestamp of one message: what IndexService takes."""


class Index(Protocol):
    """Where the keys of messages go."""

    pending: list[IndexWork]
    """Takes messages in log order. Always the same list; only its owner takes away."""

    def end_burst(self) -> None:
        """Take notice of what was added; cheap."""
        ...

    def writable_or_why(self) -> str | None:
        """Return None, or why no message may be appended for now."""
        ...
