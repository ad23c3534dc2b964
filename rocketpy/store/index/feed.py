"""The keys of messages on their way from append to the index, in log order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Protocol, TypeAlias

from rocketpy.errors import ShortageError
from rocketpy.store.index.kernels import IndexKernels

IndexWork: TypeAlias = tuple[str, Sequence[bytes] | bytes, int, int]
"""Topic, keys, physical offset and storeTimestamp of one message: what IndexService takes.

Keys that are bytes are those of a whole batch, as the kernels have them, and the offset is that of its first message.
"""


class Index(Protocol):
    """The index, as append sees it."""

    pending: list[IndexWork]
    """Takes messages in log order. Always the same list; only its owner removes from it."""

    @property
    def is_full(self) -> bool:
        """Whether too many keys are pending for more than a message to be added."""
        ...

    def build_slice(self) -> None:
        """Build some of what is pending; StoreError is final."""
        ...

    def end_burst(self, *, has_packed: bool = False) -> None:
        """Count what was added, and build some of it when too much is pending.

        ``has_packed`` says that keys of a whole batch are among it.
        """
        ...

    def build_packed(self, keys: bytes, kernels: IndexKernels) -> None:
        """Build keys that the kernels have read from the log, while append gives none; StoreError is final."""
        ...

    def writable_or_why(self) -> str | None:
        """Return None, or why no message may be appended for now."""
        ...


class IndexFeed:
    """Brings the keys of bursts to the index, once that takes them from append.

    Before, and in a store without index, they are dropped: what was stored meanwhile is read from the log.
    """

    def __init__(self, index: Index | None, *, has_pool: bool) -> None:
        self.work: list[IndexWork] = []
        """Messages from append. It is the index's own list where a burst that has ended can be read."""
        self._index = index
        self._has_pool = has_pool
        self._is_begun = False
        self._has_packed = False

    @property
    def takes_keys(self) -> bool:
        """Whether keys go to an index; they are dropped otherwise."""
        return self._is_begun

    def begin(self) -> None:
        """Give keys to the index from the next message on."""
        assert self._index is not None, "a store with an index"
        self._is_begun = True
        if not self._has_pool:
            self.work = self._index.pending

    def make_room(self) -> None:
        """Build until the index can take the keys of many messages; ShortageError when it has no space for them."""
        index = self._index
        if index is None or not self._is_begun:
            return
        while index.is_full and index.writable_or_why() is None:
            index.build_slice()
        why = index.writable_or_why()
        if why is not None:
            raise ShortageError(why, path="index")

    def add(
        self, topic: str, all_keys: Sequence[Sequence[bytes]], physical_offsets: Sequence[int], timestamp_ms: int
    ) -> None:
        """Take the messages of a batch; those without keys are left out."""
        work = zip(repeat(topic), all_keys, physical_offsets, repeat(timestamp_ms))
        self.work += work if all(all_keys) else [each for each in work if each[1]]

    def add_packed(self, topic: str, keys: bytes, physical_offset: int, timestamp_ms: int) -> None:
        """Take the keys of a batch, as the kernels have them; ``physical_offset`` is that of its first message."""
        if keys:
            self.work.append((topic, keys, physical_offset, timestamp_ms))
            self._has_packed = True

    def end_burst(self) -> bool:
        """Hand the burst's keys over; False when the index has no space for more."""
        index = self._index
        if index is None or not self._is_begun:
            self.work.clear()
            return True
        if self._has_pool:
            index.pending += self.work
            self.work.clear()
        index.end_burst(has_packed=self._has_packed)
        self._has_packed = False
        return index.writable_or_why() is None
