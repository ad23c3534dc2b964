"""Requests that are signed by an account of the broker's own files: what a master with the same files accepts."""

from __future__ import annotations

import pytest

from rocketpy.broker.replication.signed_requests import SignedRequests, with_account
from rocketpy.errors import RemotingError, RequestError
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import RemotingCommand, make_request, make_response
from rocketpy.protocol.headers.offset import UpdateConsumerOffsetRequestHeader
from tests.broker.acl.accounts import ACCOUNTS, make_manager, peer_at

COMMIT = UpdateConsumerOffsetRequestHeader(consumer_group="readers", topic="orders", queue_id=0, commit_offset=7)
ADDRESS = "10.0.0.1:10911"


class Sent:
    """A client that keeps what it is given."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, RemotingCommand, float]] = []

    async def request(self, address: str, request: RemotingCommand, timeout_s: float = 1.0) -> RemotingCommand:
        self.requests.append((address, request, timeout_s))
        return make_response(request)


@pytest.mark.parametrize(
    "request_",
    [make_request(RequestCode.GET_ALL_CONSUMER_OFFSET), make_request(RequestCode.UPDATE_CONSUMER_OFFSET, COMMIT)],
)
async def test_a_broker_with_the_same_files_accepts_the_signature(request_: RemotingCommand) -> None:
    master, sent = make_manager(is_strict=True), Sent()
    master.serve_at([ADDRESS])
    with pytest.raises(RequestError):
        master.authorize(peer_at("10.0.0.2"), request_)
    answer = await SignedRequests(sent, accounts=make_manager(), access_key="theAdmin").request(ADDRESS, request_, 7.0)
    assert answer.is_response
    ((address, signed, timeout_s),) = sent.requests
    assert (address, timeout_s) == (ADDRESS, 7.0)
    master.authorize(peer_at("10.0.0.2"), signed)
    another = make_manager(is_strict=True)
    another.serve_at(["10.0.0.9:10911"])
    with pytest.raises(RequestError, match=f"found one for code={signed.code} at {ADDRESS}"):
        another.authorize(peer_at("10.0.0.2"), signed)
    (signed.ext_fields or {})["AccessKey"] = "RocketMQ"
    with pytest.raises(RequestError):
        master.authorize(peer_at("10.0.0.2"), signed)


async def test_an_account_that_is_missing_is_named() -> None:
    sent = Sent()
    requests = SignedRequests(sent, accounts=make_manager(), access_key="nobody")
    with pytest.raises(RemotingError, match=rf"^{ADDRESS} is not asked: replicationAccount = 'nobody': ex"):
        await requests.request(ADDRESS, make_request(RequestCode.GET_ALL_TOPIC_CONFIG))
    assert sent.requests == []


async def test_an_edited_account_counts_at_once() -> None:
    accounts = make_manager(ACCOUNTS.replace("theAdmin", "another"))
    requests = SignedRequests(Sent(), accounts=accounts, access_key="another")
    await requests.request(ADDRESS, make_request(RequestCode.GET_ALL_TOPIC_CONFIG))
    await accounts.delete_account("another")
    with pytest.raises(RemotingError):
        await requests.request(ADDRESS, make_request(RequestCode.GET_ALL_TOPIC_CONFIG))


def test_without_accounts_or_without_one_of_them_nothing_is_signed() -> None:
    sent = Sent()
    assert with_account(sent, accounts=None, access_key="theAdmin") is sent
    assert with_account(sent, accounts=make_manager(), access_key="") is sent
    assert with_account(sent, accounts=make_manager(), access_key="theAdmin") is not sent
