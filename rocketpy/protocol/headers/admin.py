"""Headers of administration at a broker: groups, connections, statistics, access control."""

from __future__ import annotations

import attrs

from rocketpy.protocol.headers.codec import Int32, Int64, wire
from rocketpy.protocol.value_methods import ValueMethods


@attrs.frozen
class GetBrokerConfigResponseHeader(ValueMethods):
    """Answer to 26; ``version`` is a DataVersion in JSON, the settings are the body."""

    version: str


@attrs.frozen(kw_only=True)
class DeleteSubscriptionGroupRequestHeader(ValueMethods):
    """Request 207."""

    group_name: str
    remove_offset: bool = False


@attrs.frozen
class GetConsumerConnectionListRequestHeader(ValueMethods):
    """Request 203."""

    consumer_group: str


@attrs.frozen
class GetProducerConnectionListRequestHeader(ValueMethods):
    """Request 204."""

    producer_group: str


@attrs.frozen
class GetAllProducerInfoRequestHeader(ValueMethods):
    """Request 328; it has no fields."""


@attrs.frozen(kw_only=True)
class GetConsumeStatsRequestHeader(ValueMethods):
    """Request 208; without a topic, all of the group's."""

    consumer_group: str
    topic: str | None = None


@attrs.frozen
class GetConsumeStatsInBrokerHeader(ValueMethods):
    """Request 317."""

    is_order: bool = False


@attrs.frozen(kw_only=True)
class QueryCorrectionOffsetHeader(ValueMethods):
    """Request 308; ``filter_groups`` is a comma list."""

    filter_groups: str | None = None
    compare_group: str
    topic: str


@attrs.frozen(kw_only=True)
class CloneGroupOffsetRequestHeader(ValueMethods):
    """Request 314."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@attrs.frozen(kw_only=True)
class ViewBrokerStatsDataRequestHeader(ValueMethods):
    """Request 315."""

    stats_name: str
    stats_key: str


@attrs.frozen(kw_only=True)
class CreateAccessConfigRequestHeader(ValueMethods):
    """Request 50; the two permission lists are comma-joined ``resource=PERM``."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


@attrs.frozen
class DeleteAccessConfigRequestHeader(ValueMethods):
    """Request 51."""

    access_key: str


@attrs.frozen(kw_only=True)
class GetBrokerAclConfigResponseHeader(ValueMethods):
    """Answer to 52; ``version`` is a DataVersion in JSON, ``all_acl_file_version`` an object of path to DataVersion."""

    version: str
    all_acl_file_version: str | None = None
    broker_name: str
    broker_addr: str
    cluster_name: str


@attrs.frozen(kw_only=True)
class UpdateGlobalWhiteAddrsConfigRequestHeader(ValueMethods):
    """Request 53; ``global_white_addrs`` is a comma list, no path means the default file."""

    global_white_addrs: str
    acl_file_full_path: str | None = None  # declared not-null in RocketMQ, and absent from its own admin's requests


@attrs.frozen
class RegisterFilterServerRequestHeader(ValueMethods):
    """Request 301, which 4.9.8 no longer serves."""

    filter_server_addr: str


@attrs.frozen(kw_only=True)
class RegisterFilterServerResponseHeader(ValueMethods):
    """Answer to 301, which 4.9.8 no longer serves."""

    broker_name: str
    broker_id: Int64


@attrs.frozen(kw_only=True)
class RegisterMessageFilterClassRequestHeader(ValueMethods):
    """Request 302, which 4.9.8 no longer serves."""

    consumer_group: str
    topic: str
    class_name: str
    class_crc: Int32 = attrs.field(metadata=wire("classCRC"))
