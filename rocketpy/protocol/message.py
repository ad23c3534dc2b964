"""Messages as values: what a producer sends, what a consumer receives, and the queue they are in.

Nothing here knows bytes: records are :mod:`rocketpy.protocol.stored_message`, batches :mod:`rocketpy.protocol.batch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Self

import attrs

from rocketpy.protocol.headers.codec import Int32
from rocketpy.protocol.host import encode_host
from rocketpy.protocol.message_id import encode_offset_msg_id
from rocketpy.protocol.properties import (
    KEY_SEPARATOR,
    PROPERTY_BUYER_ID,
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX,
    PROPERTY_WAIT_STORE_MSG_OK,
)


@attrs.frozen(order=True)
class MessageQueue:
    """One queue of a topic on one broker, ordered by topic, broker and number as in Java."""

    topic: str
    broker_name: str
    queue_id: Int32


@attrs.define
class Message:
    """A message to send. ``flag`` is the user's own; RocketMQ does not interpret it."""

    topic: str
    body: bytes
    properties: dict[str, str] = attrs.field(factory=dict)
    flag: int = 0

    @classmethod
    def create(
        cls,
        topic: str,
        body: bytes,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] = (),
        delay_level: int = 0,
        wait_store_msg_ok: bool = True,
        buyer_id: str | None = None,
        properties: Mapping[str, str] | None = None,
        flag: int = 0,
    ) -> Self:
        """Return a message with RocketMQ's own properties set from arguments; ``properties`` are the program's.

        Several ``keys`` are joined by blanks. A ``delay_level`` of 0 is no delay.
        """
        own = dict(properties or {})
        text = keys if isinstance(keys, str) else KEY_SEPARATOR.join(keys)
        if tags:
            own[PROPERTY_TAGS] = tags
        if text:
            own[PROPERTY_KEYS] = text
        if delay_level:
            own[PROPERTY_DELAY_TIME_LEVEL] = str(delay_level)
        if buyer_id:
            own[PROPERTY_BUYER_ID] = buyer_id
        own[PROPERTY_WAIT_STORE_MSG_OK] = "true" if wait_store_msg_ok else "false"
        return cls(topic, body, own, flag)

    @property
    def tags(self) -> str | None:
        """The tag of the message (RocketMQ 4.9 has one, whatever the name says)."""
        return self.properties.get(PROPERTY_TAGS)

    @property
    def keys(self) -> str | None:
        """The index keys, separated by spaces."""
        return self.properties.get(PROPERTY_KEYS)


@attrs.define
class MessageExt:
    """A stored message. Not frozen only because a consumer makes many of them and freezing doubles the price.

    ``body`` is what the sender compressed or not, depending on how the record was decoded; ``body_crc`` and
    ``store_size`` (bytes) are of the record as stored. Hosts are ``ip:port``, an IPv6 address in brackets.
    """

    topic: str
    body: bytes
    properties: dict[str, str] = attrs.field(factory=dict)
    queue_id: int = 0
    flag: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    sys_flag: int = 0
    born_timestamp: int = 0
    born_host: str = "0.0.0.0:0"
    store_timestamp: int = 0
    store_host: str = "0.0.0.0:0"
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_crc: int = 0
    store_size: int = 0
    broker_name: str = ""

    @property
    def tags(self) -> str | None:
        """The tag of the message."""
        return self.properties.get(PROPERTY_TAGS)

    @property
    def keys(self) -> str | None:
        """The index keys, separated by spaces."""
        return self.properties.get(PROPERTY_KEYS)

    @property
    def msg_id(self) -> str:
        """The message id as users know it: the client's UNIQ_KEY, or without one the id of the broker."""
        return self.properties.get(PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX) or self.offset_msg_id

    @property
    def offset_msg_id(self) -> str:
        """The broker's id: where the record is, good for one look-up without an index."""
        return encode_offset_msg_id(encode_host(self.store_host), self.physical_offset)
