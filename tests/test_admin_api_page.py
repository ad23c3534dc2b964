"""The table "Admin API" of ``docs/compatibility.md``: every call of Java's has one of ours, and a test of it."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest

from rocketpy.client import AdminClient

ROOT = Path(__file__).parent.parent
SECTION = (ROOT / "docs" / "compatibility.md").read_text().split("\n## Admin API\n", 1)[1].split("\n## ", 1)[0]
ROW = re.compile(r"^\| `([^`]+)` \| `([a-z_.]+)` \| `(test_\w+\.py)` \| .*\|$", re.MULTILINE)
ROWS = ROW.findall(SECTION)

JAVA_CALLS = frozenset(
    [
        "addWritePermOfBroker",
        "cleanExpiredConsumerQueue",
        "cleanExpiredConsumerQueueByAddr",
        "cleanUnusedTopic",
        "cleanUnusedTopicByAddr",
        "cloneGroupOffset",
        "consumeMessageDirectly",
        "createAndUpdateKvConfig",
        "createAndUpdatePlainAccessConfig",
        "createAndUpdateSubscriptionGroupConfig",
        "createAndUpdateTopicConfig",
        "createOrUpdateOrderConf",
        "createTopic",
        "deleteExpiredCommitLog",
        "deleteExpiredCommitLogByAddr",
        "deleteKvConfig",
        "deletePlainAccessConfig",
        "deleteSubscriptionGroup",
        "deleteTopicInBroker",
        "deleteTopicInNameServer",
        "earliestMsgStoreTime",
        "examineBrokerClusterAclVersionInfo",
        "examineBrokerClusterInfo",
        "examineConsumeStats",
        "examineConsumerConnectionInfo",
        "examineProducerConnectionInfo",
        "examineSubscriptionGroupConfig",
        "examineTopicConfig",
        "examineTopicRouteInfo",
        "examineTopicStats",
        "fetchAllTopicList",
        "fetchBrokerRuntimeStats",
        "fetchConsumeStatsInBroker",
        "fetchPublishMessageQueues",
        "fetchSubscribeMessageQueues",
        "fetchTopicsByCLuster",
        "getAllProducerInfo",
        "getAllSubscriptionGroup",
        "getAllTopicConfig",
        "getBrokerConfig",
        "getClusterList",
        "getConsumeStatus",
        "getConsumerRunningInfo",
        "getKVConfig",
        "getKVListByNamespace",
        "getNameServerAddressList",
        "getNameServerConfig",
        "getTopicClusterList",
        "getUserSubscriptionGroup",
        "getUserTopicConfig",
        "maxOffset",
        "messageTrackDetail",
        "minOffset",
        "putKVConfig",
        "queryConsumeQueue",
        "queryConsumeTimeSpan",
        "queryMessage",
        "queryMessageByUniqKey",
        "queryTopicConsumeByWho",
        "resetOffsetByTimestamp",
        "resetOffsetByTimestampOld",
        "resetOffsetNew",
        "resumeCheckHalfMessage",
        "searchOffset",
        "updateBrokerConfig",
        "updateConsumeOffset",
        "updateGlobalWhiteAddrConfig",
        "updateNameServerConfig",
        "viewBrokerStatsData",
        "viewMessage",
        "wipeWritePermOfBroker",
    ]
)
"""The calls of ``MQAdminExt``, ``MQAdmin`` and ``MQAdminImpl`` (4.9.8) but ``start`` and ``shutdown``."""


def test_every_call_of_java_has_a_row() -> None:
    named = {re.sub(r"\(.*", "", name) for row in ROWS for name in re.split(r", (?![^(]*\))", row[0])}
    assert len(ROWS) == SECTION.count("\n| ") - 1, "a row is not in the usual form"
    assert JAVA_CALLS - named == set()


@pytest.mark.parametrize(("ours", "test"), sorted({row[1:] for row in ROWS}))
def test_our_call_is_there_and_tested(ours: str, test: str) -> None:
    member: object = AdminClient(instance=typing.cast(typing.Any, None))
    *subjects, name = ours.split(".")
    for subject in subjects:
        member = getattr(member, subject)
    assert hasattr(type(member), name)
    source = (ROOT / "tests" / "client" / "admin" / test).read_text()
    assert re.search(rf"\.{name}\b", source), f"{test} does not call {ours}"
