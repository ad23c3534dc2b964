"""Signatures by an account of the broker's own files: what a master with the same files accepts."""

from __future__ import annotations

import pytest

from rocketpy.broker.replication.account_signature import AccountSignature
from rocketpy.errors import LocalProtocolError, RequestError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.offset import UpdateConsumerOffsetRequestHeader
from tests.broker.acl.accounts import ACCOUNTS, make_manager, peer_at

COMMIT = UpdateConsumerOffsetRequestHeader(consumer_group="readers", topic="orders", queue_id=0, commit_offset=7)


@pytest.mark.parametrize(
    "request_",
    [make_request(RequestCode.GET_ALL_CONSUMER_OFFSET), make_request(RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT)],
)
def test_a_broker_with_the_same_files_accepts_the_signature(request_: RemotingCommand) -> None:
    master = make_manager()
    with pytest.raises(RequestError):
        master.authorize(peer_at("10.0.0.2"), request_)
    AccountSignature(make_manager(), "theAdmin")(request_)
    master.authorize(peer_at("10.0.0.2"), request_)
    (request_.ext_fields or {})["AccessKey"] = "RocketMQ"
    with pytest.raises(RequestError):
        master.authorize(peer_at("10.0.0.2"), request_)


def test_an_account_that_is_missing_is_named() -> None:
    sign = AccountSignature(make_manager(), "nobody")
    with pytest.raises(LocalProtocolError, match=r"^replicationAccount = 'nobody': expected an account of plain_acl"):
        sign(make_request(RequestCode.GET_ALL_TOPIC_CONFIG))


async def test_an_edited_account_counts_at_once() -> None:
    accounts = make_manager(ACCOUNTS.replace("theAdmin", "another"))
    sign = AccountSignature(accounts, "another")
    sign(make_request(RequestCode.GET_ALL_TOPIC_CONFIG))
    await accounts.delete_account("another")
    with pytest.raises(LocalProtocolError):
        sign(make_request(RequestCode.GET_ALL_TOPIC_CONFIG))
