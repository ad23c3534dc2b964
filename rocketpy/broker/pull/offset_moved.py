"""Events about pulls from an offset that is no longer stored: a message in OFFSET_MOVED_EVENT and a log line.

Rule: a group and queue have one event and one line per EVENT_SECONDS, and all together EVENTS_MAX. Pulls beyond that
are counted and reported in one line later, so that a client with read permission only cannot fill the log.

Compatibility: ``PullMessageProcessor.generateOffsetMovedEvent`` (4.9.8), which stores one for each pull. Tags and keys
are the group, the body is :class:`~rocketpy.protocol.bodies.offset.OffsetMovedEvent`, queue 0.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from rocketpy.broker.pull.request import PullHeader
from rocketpy.broker.send.put import MessageExtBrokerInner, MessagePut
from rocketpy.clock import Clock
from rocketpy.log_files import event_fields
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.offset import OffsetMovedEvent
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.properties import PROPERTY_KEYS, PROPERTY_TAGS
from rocketpy.protocol.topic_name import OFFSET_MOVED_TOPIC
from rocketpy.store.message_store import MessageStore

EVENT_SECONDS = 60.0
EVENTS_MAX = 1000
"""Groups and queues that may have an event in that time; consumers that correct their offset need one."""

_log = logging.getLogger("rocketpy.broker")


class OffsetMovedEvents:
    """Writer of one broker's events, with their rate limit."""

    def __init__(
        self,
        *,
        store: MessageStore,
        message_put: MessagePut,
        broker_name: str,
        store_host: bytes,
        clock: Clock,
        current_time: Callable[[], float] = trio.current_time,
    ) -> None:
        self._store = store
        self._message_put = message_put
        self._broker_name = broker_name
        self._store_host = store_host
        self._clock = clock
        self._current_time = current_time  # seconds that never step back
        self._events: dict[tuple[str, str, int], float] = {}  # group and queue -> time of the last event, oldest first
        self._suppressed_count = 0

    def moved(self, header: PullHeader, offset_new: int) -> None:
        """Store one event, readable on return, unless the rate limit suppresses it.

        An event that the store refuses is not retried: the response to the pull has the offset to continue from.
        """
        now = self._current_time()
        self._drop_expired(now)
        key = (header.consumer_group, header.topic, header.queue_id)
        if key in self._events or len(self._events) >= EVENTS_MAX:
            self._suppressed_count += 1
            return
        self._events[key] = now
        if self._suppressed_count:
            _log.warning("more offsets have moved", extra=event_fields(pulls=self._suppressed_count))
            self._suppressed_count = 0
        event = OffsetMovedEvent(
            header.consumer_group,
            MessageQueue(header.topic, self._broker_name, header.queue_id),
            header.queue_offset,
            offset_new,
        )
        result = self._message_put.put(
            MessageExtBrokerInner(
                topic=OFFSET_MOVED_TOPIC,
                queue_id=0,
                body=encode_body(event),
                properties={PROPERTY_TAGS: header.consumer_group, PROPERTY_KEYS: header.consumer_group},
                born_timestamp=self._clock.timestamp_ms(),
                born_host=self._store_host,
            )
        )
        self._store.end_burst()
        _log.warning(
            "offset moved",
            extra=event_fields(
                group=header.consumer_group,
                topic=header.topic,
                queueId=header.queue_id,
                asked=header.queue_offset,
                new=offset_new,
                event=result.status.name,
            ),
        )

    def _drop_expired(self, now: float) -> None:
        """Remove the groups and queues that may have another event."""
        while self._events:
            key, stored_at = next(iter(self._events.items()))
            if now - stored_at < EVENT_SECONDS:
                return
            del self._events[key]
