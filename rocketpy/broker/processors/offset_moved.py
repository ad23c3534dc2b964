"""Tells operators that a group asked for an offset that is gone: by a message in OFFSET_MOVED_EVENT, and a log line.

Compatibility: ``PullMessageProcessor.generateOffsetMovedEvent`` (4.9.8). Tags and keys are the group, the body is
:class:`~rocketpy.protocol.bodies.offset.OffsetMovedEvent`, queue 0.
"""

from __future__ import annotations

import logging

from rocketpy.broker.message_put import MessageExtBrokerInner, MessagePut
from rocketpy.broker.pull_request import PullHeader
from rocketpy.clock import Clock
from rocketpy.log_files import event_fields
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.offset import OffsetMovedEvent
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.properties import PROPERTY_KEYS, PROPERTY_TAGS
from rocketpy.store.message_store import MessageStore

OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"

_log = logging.getLogger("rocketpy.broker")


class OffsetMovedEvents:
    """Stores the events of one broker."""

    def __init__(
        self, *, store: MessageStore, message_put: MessagePut, broker_name: str, store_host: bytes, clock: Clock
    ) -> None:
        self._store = store
        self._message_put = message_put
        self._broker_name = broker_name
        self._store_host = store_host
        self._clock = clock

    def moved(self, header: PullHeader, offset_new: int) -> None:
        """Store one event, readable on return. One that the store refuses is not tried again: the answer says it."""
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
