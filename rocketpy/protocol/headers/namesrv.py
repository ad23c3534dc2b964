"""Headers of the nameserver's requests, but for those of a broker that registers itself."""

from __future__ import annotations

import attrs

from rocketpy.protocol.headers.codec import Int32
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen(kw_only=True)
class PutKVConfigRequestHeader(ValueMethods):
    """Request 100; a missing ``value`` is stored as null, as in RocketMQ."""

    namespace: str
    key: str
    value: str | None = None


@attrs.frozen(kw_only=True)
class GetKVConfigRequestHeader(ValueMethods):
    """Request 101."""

    namespace: str
    key: str


@attrs.frozen
class GetKVConfigResponseHeader(ValueMethods):
    """Answer to 101."""

    value: str | None = None


@attrs.frozen(kw_only=True)
class DeleteKVConfigRequestHeader(ValueMethods):
    """Request 102."""

    namespace: str
    key: str


@attrs.frozen
class GetKVListByNamespaceRequestHeader(ValueMethods):
    """Request 219."""

    namespace: str


@attrs.frozen(kw_only=True)
class GetRouteInfoRequestHeader(ValueMethods):
    """Request 105."""

    topic: str
    accept_standard_json_only: bool | None = None


@attrs.frozen
class WipeWritePermOfBrokerRequestHeader(ValueMethods):
    """Request 205."""

    broker_name: str


@attrs.frozen
class WipeWritePermOfBrokerResponseHeader(ValueMethods):
    """Answer to 205: how many topics were touched."""

    wipe_topic_count: Int32


@attrs.frozen
class AddWritePermOfBrokerRequestHeader(ValueMethods):
    """Request 327."""

    broker_name: str


@attrs.frozen
class AddWritePermOfBrokerResponseHeader(ValueMethods):
    """Answer to 327: how many topics were touched."""

    add_topic_count: Int32


@attrs.frozen(kw_only=True)
class DeleteTopicFromNamesrvRequestHeader(ValueMethods):
    """Request 216; with a ``cluster_name`` only that cluster's brokers lose the topic."""

    topic: str
    cluster_name: str | None = None


@attrs.frozen
class GetTopicsByClusterRequestHeader(ValueMethods):
    """Request 224."""

    cluster: str


@attrs.frozen(kw_only=True)
class RegisterOrderTopicRequestHeader(ValueMethods):
    """Declared by RocketMQ; no request carries it."""

    topic: str
    order_topic_string: str
