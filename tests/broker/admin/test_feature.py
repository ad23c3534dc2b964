"""What a change of settings by command has to do with other features."""

from __future__ import annotations

from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand
from tests.broker.broker_on_bytes import BrokerOnBytes


async def test_another_permission_of_the_broker_is_a_new_version_of_its_topics_that_is_registered(
    broker: BrokerOnBytes,
) -> None:
    version = broker.tables.topics.data_version
    for body in (b"brokerPermission=4\n", b"brokerPermission=4\nlongPollingEnable=false\n"):
        answer = await broker.ask(RemotingCommand(RequestCode.UPDATE_BROKER_CONFIG, body=body))
        assert answer.code == 0, answer.remark
        assert broker.tables.topics.data_version.counter == version.counter + 1
        assert broker.registered_count == 1
