"""The units of a ConsumeQueue as ``queryCq`` shows them."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.headers.codec import Int32, Int64
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen
class ConsumeQueueData(ValueMethods):
    """A unit, with the size of its record in bytes.

    ``eval`` is whether the group's filter lets it through, ``msg`` why it could not be judged.
    """

    physic_offset: Int64 = 0
    physic_size: Int32 = 0
    tags_code: Int64 = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


@attrs.frozen
class QueryConsumeQueueResponseBody(ValueMethods):
    """Some units of a queue and the bounds of the queue."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: Sequence[ConsumeQueueData] | None = None
    max_queue_index: Int64 = 0
    min_queue_index: Int64 = 0
