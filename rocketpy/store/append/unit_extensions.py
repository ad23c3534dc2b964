"""Extensions of the units of accepted messages, in a store with ``enableConsumeQueueExt``."""

from __future__ import annotations

from collections.abc import Sequence

from rocketpy.protocol.properties import decode_properties
from rocketpy.store.queue.consume_queue import ConsumeQueue
from rocketpy.store.queue.extension import BitMapOf


class UnitExtensions:
    """Gives each unit an extension, and so an address. Messages of topics without filters have no bit map."""

    def __init__(self, *, bit_map_of: BitMapOf | None) -> None:
        self._bit_map_of = bit_map_of

    def extend(
        self, queue: ConsumeQueue, tags_codes: Sequence[int], all_properties: Sequence[bytes], timestamp_ms: int
    ) -> list[int]:
        """Return the fields of a queue's next units, from tags codes and stored properties. StoreError is final."""
        fields = []
        for tags_code, properties in zip(tags_codes, all_properties, strict=True):
            bit_map = None
            if self._bit_map_of is not None:
                bit_map = self._bit_map_of(queue.topic, decode_properties(properties.decode("utf-8", "replace")))
            fields.append(queue.extended_tags_code(tags_code, timestamp_ms, bit_map))
        return fields
