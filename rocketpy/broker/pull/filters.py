"""The SQL92 filters of consumer groups: ``consumerFilter.json``.

A group's filter of a topic is compiled when a heartbeat registers it, and used by pulls. It is kept for
``filterDataCleanTimeSpan`` after the group has left: bit maps of messages stored meanwhile still record whether they
passed it, so a group that returns need not read messages that do not match.

Rule: a changed expression is a new filter with a new creation time (``bornTime``). A filter ignores bit maps of
messages stored up to its creation. So creation times never step back to before a message that an older filter has
matched.

Compatibility: ``ConsumerFilterManager`` and ``CommitLogDispatcherCalcBitMap`` (4.9.8). There a filter
from the file that does not compile is kept and lets every message pass; here it is dropped, and the group's next
heartbeat registers it again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.broker.pull.message_filter import Sql92MessageFilter
from rocketpy.clock import Clock
from rocketpy.log_files import event_fields
from rocketpy.protocol import fastjson
from rocketpy.protocol.bodies.codec import decode_value, encode_value
from rocketpy.protocol.bodies.filter import (
    BloomFilterData,
    ConsumerFilterData,
    ConsumerFilterWrapper,
    FilterDataMapByTopic,
)
from rocketpy.protocol.bodies.heartbeat import EXPRESSION_TYPE_SQL92, EXPRESSION_TYPE_TAG, SubscriptionData
from rocketpy.protocol.fastjson.file_notes import FileNotes
from rocketpy.protocol.selector.bloom import BloomFilter
from rocketpy.protocol.selector.sql92_errors import SIZE_MAX, SelectorError
from rocketpy.protocol.selector.tag import TagFilter
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk
from rocketpy.store.recovery.checkpoint import is_time_or_none
from rocketpy.store.results import MessageFilter

if TYPE_CHECKING:
    from rocketpy.protocol.selector.sql92 import Sql92Selector

FILTERS_MAX = 10_000
"""Filters that are kept, of groups online and offline; one beyond that is not registered."""

COMPILED_PER_HEARTBEAT_MAX = SIZE_MAX
"""Characters of new SQL that are compiled for one heartbeat; the rest waits for the next one."""

_DEAD_BEFORE_START_MS = 30_000
_SHOWN_MAX = 200

_log = logging.getLogger("rocketpy.broker.filter")


def is_tag_type(expression_type: str | None) -> bool:
    """Return whether a subscription selects by tags, which is the default type."""
    return not expression_type or expression_type == EXPRESSION_TYPE_TAG


def compile_expression(expression_type: str | None, expression: str) -> Sql92Selector:
    """Compile the expression of a subscription that does not select by tags; SelectorError with the reason."""
    if expression_type != EXPRESSION_TYPE_SQL92:
        shown = str(expression_type)[:_SHOWN_MAX]
        raise SelectorError(f"expected {EXPRESSION_TYPE_TAG} or {EXPRESSION_TYPE_SQL92}, found {shown}")
    from rocketpy.protocol.selector.sql92 import compile_sql92  # slow import, see message_filter

    return compile_sql92(expression)


@attrs.define(eq=False, slots=True)
class ConsumerFilter:
    """One group's filter of one topic. Dead (inactive): the group has dropped the subscription or is offline."""

    consumer_group: str
    topic: str
    expression: str
    expression_type: str
    selector: Sql92Selector
    bloom_filter_data: BloomFilterData
    bits: int
    born_time: int  # ms since the epoch
    client_version: int  # of the subscription, ms since the epoch
    message_filter: Sql92MessageFilter
    dead_time: int = 0

    @property
    def is_dead(self) -> bool:
        """Whether the filter is inactive, since ``dead_time``; RocketMQ's definition."""
        return self.dead_time >= self.born_time

    def data(self) -> ConsumerFilterData:
        """Return the filter as it is persisted."""
        return ConsumerFilterData(
            consumer_group=self.consumer_group,
            topic=self.topic,
            expression=self.expression,
            expression_type=self.expression_type,
            born_time=self.born_time,
            dead_time=self.dead_time,
            dead=self.is_dead,
            client_version=self.client_version,
            bloom_filter_data=self.bloom_filter_data,
        )


class ConsumerFilterManager:
    """The filters of one broker."""

    def __init__(self, *, config: BrokerConfig, path: str, disk: Disk, run_blocking: RunBlocking, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self.bloom_filter = BloomFilter(config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter)
        self.stored = StoredTable(path=path, disk=disk, run_blocking=run_blocking, snapshot=self._snapshot)
        self._filters: dict[str, dict[str, ConsumerFilter]] = {}  # topic -> group -> filter
        self._topics_of: dict[str, set[str]] = {}  # group -> topics, so that a heartbeat costs O(its own)
        self._count = 0
        self._newest_ms = 0  # latest time at which a message was matched

    def load(self) -> None:
        """Read the file; its active filters become inactive. StartError when file and backup are unreadable.

        If the length of bit maps or the number of hashes has changed, the whole file is ignored, as in RocketMQ.
        """
        if self._config.enable_property_filter:
            compile_expression(EXPRESSION_TYPE_SQL92, "TRUE")  # builds the parser now, not within a request
        everything = self.stored.load(_decode_file)
        if everything is None:
            return
        if not all(self.bloom_filter.is_valid(filter_data.bloom_filter_data) for filter_data in everything):
            _log.warning("%s has bit maps of another size: its filters are ignored", self.stored.path)
            return
        now = self._now()
        for filter_data in everything:
            self._load(filter_data, now)

    def __len__(self) -> int:
        return self._count

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        """Return a group's filter of a topic, active or inactive."""
        of_topic = self._filters.get(topic)
        return None if of_topic is None else of_topic.get(group)

    def selector(self, topic: str, group: str) -> Sql92Selector | None:
        """Return the selector of a group's filter of a topic."""
        found = self.get(topic, group)
        return None if found is None else found.selector

    def filter_of(self, group: str, subscription: SubscriptionData) -> tuple[MessageFilter, str]:
        """Return a group's message filter, and its registered filter as pretty JSON (``null`` without one)."""
        found = None if is_tag_type(subscription.expression_type) else self.get(subscription.topic, group)
        if found is None:
            return TagFilter(subscription), "null"
        return found.message_filter, fastjson.dumps(encode_value(found.data()), pretty=True)

    def bit_map_of(self, topic: str, properties: Mapping[str, str]) -> bytes | None:
        """Return the bit map of a message, the bits of every filter of its topic that matches; None without filters."""
        of_topic = self._filters.get(topic)
        if not of_topic:
            return None
        self._now()
        bits = 0
        for each in of_topic.values():
            if each.selector.matches(properties):
                bits |= each.bits
        return self.bloom_filter.bit_map(bits)

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Register the filters in a group's heartbeat; deactivate those of topics that it does not name."""
        left = COMPILED_PER_HEARTBEAT_MAX
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if not is_tag_type(subscription.expression_type) and subscription.sub_string:
                left -= self._register(group, subscription, left)
        for topic in self._topics_of.get(group, set()) - topics:
            self._deactivate(self._filters[topic][group])

    def unregister(self, group: str) -> None:
        """Deactivate all filters of a group that has gone offline."""
        for topic in self._topics_of.get(group, ()):
            self._deactivate(self._filters[topic][group])

    def clean(self) -> int:
        """Remove filters that have been inactive for ``filterDataCleanTimeSpan``; return how many."""
        oldest = self._now() - self._config.filter_data_clean_time_span
        old = [
            each
            for of_topic in self._filters.values()
            for each in of_topic.values()
            if each.is_dead and each.dead_time <= oldest
        ]
        for each in old:
            _note("filter removed: inactive for too long", each.consumer_group, each.topic)
            self._remove(each)
        if old:
            self.stored.changed()
        return len(old)

    # ---- private --------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        """Return the time, which never steps back here: see the module's rule."""
        self._newest_ms = max(self._newest_ms, self._clock.timestamp_ms())
        return self._newest_ms

    def _register(self, group: str, subscription: SubscriptionData, compiled_max: int) -> int:
        """Register one filter; return how many characters were compiled for it."""
        topic, expression = subscription.topic, subscription.sub_string
        expression_type, version = subscription.expression_type or "", subscription.sub_version
        old = self.get(topic, group)
        if old is not None:
            is_same = expression == old.expression and expression_type == old.expression_type
            if version < old.client_version or (version == old.client_version and not old.is_dead):
                if not is_same:
                    _note("filter not registered: its version is not newer", group, topic, expression, version=version)
                return 0
            if is_same or version == old.client_version:
                old.client_version = version
                if old.is_dead:
                    _note("filter active again", group, topic)
                    old.dead_time = 0
                self.stored.changed()
                return 0
        if len(expression) > compiled_max:
            _note("filter not registered: too much SQL in one heartbeat", group, topic, level=logging.WARNING)
            return 0
        self._replace(group, subscription, old)
        return len(expression)

    def _replace(self, group: str, subscription: SubscriptionData, old: ConsumerFilter | None) -> None:
        """Compile a filter and replace the old one, which is removed even if the new one does not compile."""
        topic = subscription.topic
        if old is not None:
            self._remove(old)
            self.stored.changed()
        elif self._count >= FILTERS_MAX:
            _note(f"filter not registered: there are {FILTERS_MAX}", group, topic, level=logging.ERROR)
            return
        try:
            selector = compile_expression(subscription.expression_type, subscription.sub_string)
        except SelectorError as failure:
            why = str(failure)[:_SHOWN_MAX]
            _note("filter does not compile", group, topic, subscription.sub_string, level=logging.ERROR, why=why)
            return
        data = self.bloom_filter.generate(f"{group}#{topic}")
        self._add(
            group, topic, selector, subscription.expression_type or "", data, self._now(), subscription.sub_version
        )
        _note("filter registered", group, topic, subscription.sub_string)
        self.stored.changed()

    def _add(
        self,
        group: str,
        topic: str,
        selector: Sql92Selector,
        expression_type: str,
        bloom_filter_data: BloomFilterData,
        born_time: int,
        client_version: int,
    ) -> ConsumerFilter:
        bloom_filter = self.bloom_filter
        bits = bloom_filter.bits(bloom_filter_data)
        added = ConsumerFilter(
            consumer_group=group,
            topic=topic,
            expression=selector.text,
            expression_type=expression_type,
            selector=selector,
            bloom_filter_data=bloom_filter_data,
            bits=bits,
            born_time=born_time,
            client_version=client_version,
            message_filter=Sql92MessageFilter(
                selector, bits=bits, bit_map_size=bloom_filter.bit_count // 8, born_timestamp_ms=born_time
            ),
        )
        self._filters.setdefault(topic, {})[group] = added
        self._topics_of.setdefault(group, set()).add(topic)
        self._count += 1
        return added

    def _remove(self, old: ConsumerFilter) -> None:
        of_topic, topics = self._filters[old.topic], self._topics_of[old.consumer_group]
        del of_topic[old.consumer_group]
        topics.discard(old.topic)
        if not of_topic:
            del self._filters[old.topic]
        if not topics:
            del self._topics_of[old.consumer_group]
        self._count -= 1

    def _deactivate(self, each: ConsumerFilter) -> None:
        if not each.is_dead:
            each.dead_time = self._now()
            _note("filter inactive", each.consumer_group, each.topic)
            self.stored.changed()

    def _load(self, filter_data: ConsumerFilterData, now: int) -> None:
        group, topic = filter_data.consumer_group, filter_data.topic
        try:
            selector = compile_expression(filter_data.expression_type, filter_data.expression)
        except SelectorError:
            _note("filter in the file does not compile", group, topic, filter_data.expression, level=logging.ERROR)
            return
        assert filter_data.bloom_filter_data is not None
        loaded = self._add(
            group,
            topic,
            selector,
            filter_data.expression_type,
            filter_data.bloom_filter_data,
            filter_data.born_time,
            filter_data.client_version,
        )
        self._newest_ms = max(self._newest_ms, filter_data.born_time, filter_data.dead_time)
        loaded.dead_time = filter_data.dead_time or max(filter_data.born_time, now - _DEAD_BEFORE_START_MS)

    def _snapshot(self) -> object:
        return ConsumerFilterWrapper(
            {
                topic: FilterDataMapByTopic(topic, {group: each.data() for group, each in of_topic.items()})
                for topic, of_topic in self._filters.items()
            }
        )


def _decode_file(content: object, notes: FileNotes) -> list[ConsumerFilterData]:
    """Return the filters of a file that can be used. One that cannot is registered again by its group's heartbeat."""
    wrapper = decode_value(content, ConsumerFilterWrapper, notes)
    found: list[ConsumerFilterData] = []
    left_out = "the filter is left out until the group's next heartbeat"
    for topic, of_topic in wrapper.filter_data_by_topic.items():
        for group, each in of_topic.group_filter_data.items():
            path = f"filterDataByTopic.{topic}.groupFilterData.{group}"
            times = {"bornTime": each.born_time, "deadTime": each.dead_time, "clientVersion": each.client_version}
            wrong = next((name for name, time_ms in times.items() if not is_time_or_none(time_ms)), None)
            if (each.topic, each.consumer_group) != (topic, group):
                notes.value(path, f"{each.topic} {each.consumer_group}", "the filter of its keys", left_out)
            elif wrong is not None:
                # Creation times never step back: one in the far future would be that of every filter from now on.
                notes.value(f"{path}.{wrong}", times[wrong], "milliseconds since 1970", left_out)
            elif len(found) == FILTERS_MAX:
                notes.value(path, FILTERS_MAX + 1, f"at most {FILTERS_MAX} filters", left_out)
            else:
                found.append(each)
    return found


def _note(
    text: str, group: str, topic: str, expression: str | None = None, *, level: int = logging.INFO, **more: object
) -> None:
    fields: dict[str, object] = {"group": group, "topic": topic}
    if expression is not None:
        fields["expression"] = expression[:_SHOWN_MAX]
    _log.log(level, text, extra=event_fields(**fields, **more))
