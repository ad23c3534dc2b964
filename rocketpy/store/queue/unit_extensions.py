"""What goes into the tagsCode fields of units in a store with enableConsumeQueueExt: addresses of extensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rocketpy.protocol.properties import decode_properties
from rocketpy.store.recovery.dispatcher import BitMapOf


class ExtendedQueue(Protocol):
    """A queue that gives its units extensions."""

    topic: str

    def extended_tags_code(self, tags_code: int, store_timestamp_ms: int, bit_map: bytes | None) -> int:
        """Return what goes into the tagsCode field of the next unit."""
        ...


class UnitExtensions:
    """Extends the units of messages that were accepted. Messages that nobody filters have no bit map."""

    def __init__(self, *, bit_map_of: BitMapOf | None) -> None:
        self._bit_map_of = bit_map_of

    def extend(
        self, queue: ExtendedQueue, tags_codes: Sequence[int], all_properties: Sequence[bytes], timestamp_ms: int
    ) -> list[int]:
        """Return the fields of a queue's next units, from tags codes and stored properties. StoreError is final."""
        fields = []
        for tags_code, properties in zip(tags_codes, all_properties, strict=True):
            bit_map = None
            if self._bit_map_of is not None:
                bit_map = self._bit_map_of(queue.topic, decode_properties(properties.decode("utf-8", "replace")))
            fields.append(queue.extended_tags_code(tags_code, timestamp_ms, bit_map))
        return fields
