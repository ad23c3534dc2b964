"""The spellings of broker administration."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rocketpy.protocol.headers import admin

CASES = [
    (admin.GetBrokerConfigResponseHeader(version="version"), {"version": "version"}, "version"),
    (
        admin.DeleteSubscriptionGroupRequestHeader(group_name="group name", remove_offset=True),
        {"groupName": "group name", "removeOffset": "true"},
        "groupName",
    ),
    (
        admin.GetConsumerConnectionListRequestHeader(consumer_group="consumer group"),
        {"consumerGroup": "consumer group"},
        "consumerGroup",
    ),
    (
        admin.GetProducerConnectionListRequestHeader(producer_group="producer group"),
        {"producerGroup": "producer group"},
        "producerGroup",
    ),
    (admin.GetAllProducerInfoRequestHeader(), {}, ""),
    (
        admin.GetConsumeStatsRequestHeader(consumer_group="consumer group", topic="topic"),
        {"consumerGroup": "consumer group", "topic": "topic"},
        "consumerGroup",
    ),
    (admin.GetConsumeStatsInBrokerHeader(is_order=True), {"isOrder": "true"}, ""),
    (
        admin.QueryCorrectionOffsetHeader(filter_groups="filter groups", compare_group="compare group", topic="topic"),
        {"filterGroups": "filter groups", "compareGroup": "compare group", "topic": "topic"},
        "compareGroup topic",
    ),
    (
        admin.CloneGroupOffsetRequestHeader(
            src_group="src group", dest_group="dest group", topic="topic", offline=True
        ),
        {"srcGroup": "src group", "destGroup": "dest group", "topic": "topic", "offline": "true"},
        "srcGroup destGroup",
    ),
    (
        admin.ViewBrokerStatsDataRequestHeader(stats_name="stats name", stats_key="stats key"),
        {"statsName": "stats name", "statsKey": "stats key"},
        "statsName statsKey",
    ),
    (
        admin.CreateAccessConfigRequestHeader(
            access_key="access key",
            secret_key="secret key",
            white_remote_address="white remote address",
            admin=True,
            default_topic_perm="default topic perm",
            default_group_perm="default group perm",
            topic_perms="topic perms",
            group_perms="group perms",
        ),
        {
            "accessKey": "access key",
            "secretKey": "secret key",
            "whiteRemoteAddress": "white remote address",
            "admin": "true",
            "defaultTopicPerm": "default topic perm",
            "defaultGroupPerm": "default group perm",
            "topicPerms": "topic perms",
            "groupPerms": "group perms",
        },
        "accessKey",
    ),
    (admin.DeleteAccessConfigRequestHeader(access_key="access key"), {"accessKey": "access key"}, "accessKey"),
    (
        admin.GetBrokerAclConfigResponseHeader(
            version="version",
            all_acl_file_version="all acl file version",
            broker_name="broker name",
            broker_addr="broker addr",
            cluster_name="cluster name",
        ),
        {
            "version": "version",
            "allAclFileVersion": "all acl file version",
            "brokerName": "broker name",
            "brokerAddr": "broker addr",
            "clusterName": "cluster name",
        },
        "version brokerName brokerAddr clusterName",
    ),
    (
        admin.UpdateGlobalWhiteAddrsConfigRequestHeader(
            global_white_addrs="global white addrs", acl_file_full_path="acl file full path"
        ),
        {"globalWhiteAddrs": "global white addrs", "aclFileFullPath": "acl file full path"},
        "globalWhiteAddrs",
    ),
    (
        admin.RegisterFilterServerRequestHeader(filter_server_addr="filter server addr"),
        {"filterServerAddr": "filter server addr"},
        "filterServerAddr",
    ),
    (
        admin.RegisterFilterServerResponseHeader(broker_name="broker name", broker_id=1099511627777),
        {"brokerName": "broker name", "brokerId": "1099511627777"},
        "brokerName brokerId",
    ),
    (
        admin.RegisterMessageFilterClassRequestHeader(
            consumer_group="consumer group", topic="topic", class_name="class name", class_crc=4
        ),
        {"consumerGroup": "consumer group", "topic": "topic", "className": "class name", "classCRC": "4"},
        "consumerGroup topic className classCRC",
    ),
]


@pytest.mark.parametrize(("header", "fields", "required"), CASES, ids=lambda value: type(value).__name__)
def test_header(check_header: Callable[..., None], header: object, fields: dict[str, str], required: str) -> None:
    check_header(header, fields, required=required)
