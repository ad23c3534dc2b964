"""The spellings of broker administration."""

from __future__ import annotations

import pytest

from rocketpy.protocol.headers import admin
from tests.protocol.headers.java_fields import check_fields

FIELDS: dict[type, str] = {
    admin.GetBrokerConfigResponseHeader: "version",
    admin.DeleteSubscriptionGroupRequestHeader: "group_name; boolean remove_offset",
    admin.GetConsumerConnectionListRequestHeader: "consumer_group",
    admin.GetProducerConnectionListRequestHeader: "producer_group",
    admin.GetAllProducerInfoRequestHeader: "",
    admin.GetConsumeStatsRequestHeader: "consumer_group; topic",
    admin.GetConsumeStatsInBrokerHeader: "; boolean is_order",
    admin.QueryCorrectionOffsetHeader: "compare_group, topic; filter_groups",
    admin.CloneGroupOffsetRequestHeader: "src_group, dest_group; topic, boolean offline",
    admin.ViewBrokerStatsDataRequestHeader: "stats_name, stats_key",
    admin.CreateAccessConfigRequestHeader: (
        "access_key; secret_key, white_remote_address, boolean admin, default_topic_perm, default_group_perm, "
        "topic_perms, group_perms"
    ),
    admin.DeleteAccessConfigRequestHeader: "access_key",
    admin.GetBrokerAclConfigResponseHeader: "version, broker_name, broker_addr, cluster_name; all_acl_file_version",
    admin.UpdateGlobalWhiteAddrsConfigRequestHeader: "global_white_addrs; acl_file_full_path",
    admin.RegisterFilterServerRequestHeader: "filter_server_addr",
    admin.RegisterFilterServerResponseHeader: "broker_name, long broker_id",
    admin.RegisterMessageFilterClassRequestHeader: "consumer_group, topic, class_name, int class_crc:classCRC",
}


@pytest.mark.parametrize("header_class", FIELDS, ids=lambda each: each.__name__)
def test_fields_are_spelled_as_in_java(header_class: type) -> None:
    check_fields(header_class, FIELDS[header_class])
