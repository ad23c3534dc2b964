"""SQL filters of consumer groups as a broker keeps them in ``consumerFilter.json``."""

from __future__ import annotations

import attrs

from rocketpy.protocol.bodies.codec import JavaSet
from rocketpy.protocol.headers.codec import Int32, Int64
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen
class BloomFilterData(ValueMethods):
    """The bits of a group's filter in the bit maps of ConsumeQueueExt units."""

    bit_pos: JavaSet[Int32] = attrs.field(factory=list)
    bit_num: Int32 = 0


@attrs.frozen
class ConsumerFilterData(ValueMethods):
    """A group's filter of a topic. ``dead`` follows from ``dead_time`` and is for readers of the file only."""

    consumer_group: str
    topic: str
    expression: str
    expression_type: str
    born_time: Int64 = 0
    dead_time: Int64 = 0
    dead: bool = False
    client_version: Int64 = 0
    bloom_filter_data: BloomFilterData | None = None


@attrs.frozen
class FilterDataMapByTopic(ValueMethods):
    """The filters of a topic by group."""

    topic: str
    group_filter_data: dict[str, ConsumerFilterData] = attrs.field(factory=dict)


@attrs.frozen
class ConsumerFilterWrapper(ValueMethods):
    """The whole file: the filters by topic."""

    filter_data_by_topic: dict[str, FilterDataMapByTopic] = attrs.field(factory=dict)
