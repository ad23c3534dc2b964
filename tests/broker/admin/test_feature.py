"""Every administration code is served, with the tables and the store of this broker."""

from __future__ import annotations

import pytest

from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from tests.broker.broker_on_bytes import BrokerOnBytes


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.GET_BROKER_RUNTIME_INFO,
        RequestCode.GET_BROKER_CONFIG,
        RequestCode.UPDATE_BROKER_CONFIG,
        RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.GET_ALL_DELAY_OFFSET,
        RequestCode.VIEW_BROKER_STATS_DATA,
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.QUERY_CONSUME_QUEUE,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
        RequestCode.CLONE_GROUP_OFFSET,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        RequestCode.GET_CONSUME_STATS,
    ],
)
async def test_each_processor_has_its_codes(broker: BrokerOnBytes, code: RequestCode) -> None:
    await broker.ask_all(RemotingCommand(code))
    assert broker.unsupported == []


async def test_a_changed_permission_is_a_new_version_that_is_registered(broker: BrokerOnBytes) -> None:
    version = broker.tables.topics.data_version
    request = RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=4\n")
    answer = await broker.ask(request)
    assert answer.code == 0, answer.remark
    assert broker.tables.topics.data_version.counter == version.counter + 1
    assert broker.registered_count == 1
