"""A whole broker with aclStrict: what an account may not read it gets in no other way, and transactions are its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from rocketpy.broker.app import BrokerAddress
from rocketpy.clock import SystemClock
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import HeartbeatData, ProducerData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.send import (
    CheckTransactionStateRequestHeader,
    ConsumerSendMsgBackRequestHeader,
    EndTransactionRequestHeader,
    SendMessageResponseHeader,
)
from rocketpy.protocol.message_id import decode_offset_msg_id
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.protocol.stored_message import decode_message
from rocketpy.remoting.client import RemotingClient
from rocketpy.remoting.connection import Connection
from tests.broker.acl.test_running_broker import client_of
from tests.broker.test_app import pull, running, send, settings_at
from tests.patience import PATIENCE_SECONDS

ACCOUNTS = """\
accounts:
- accessKey: the-owner
  secretKey: a-secret
  topicPerms: [Secret=PUB|SUB]
  groupPerms: [g=SUB]
- accessKey: a-stranger
  secretKey: b-secret
  defaultTopicPerm: DENY
  groupPerms: [mine=SUB]
- accessKey: the-admin
  secretKey: c-secret
  admin: true
"""
OWNER, STRANGER, ADMIN = (
    SessionCredentials("the-owner", "a-secret"),
    SessionCredentials("a-stranger", "b-secret"),
    SessionCredentials("the-admin", "c-secret"),
)
HALF = "TRAN_MSG\x01true\x02PGROUP\x01finance\x02UNIQ_KEY\x01K"


@asynccontextmanager
async def strict_broker(directory: Path, **settings: object) -> AsyncIterator[BrokerAddress]:
    (directory / "plain_acl.yml").write_text(ACCOUNTS)
    broker = {"acl_enable": True, "acl_strict": True, "acl_directory": str(directory), **settings}
    async with running(settings_at(directory / "store", broker=broker)) as address:
        yield address


async def stored_offset(client: RemotingClient, address: str, properties: str = "") -> tuple[int, int]:
    """Send into Secret; return queue offset and physical offset."""
    request = send("Secret", b"confidential", properties)
    assert request.ext_fields is not None
    request.ext_fields["g"] = str(SystemClock().timestamp_ms())  # an old half message would be given up unasked
    answer = await client.request(address, request)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    sent_header = read_header(answer, SendMessageResponseHeader)
    return sent_header.queue_offset, decode_offset_msg_id(sent_header.msg_id)[1]


async def test_a_message_is_sent_back_only_to_who_may_read_it(tmp_path: Path) -> None:
    """Offsets can be counted, and the retry topic of one's own group is one's own."""
    async with (
        strict_broker(tmp_path) as at,
        client_of(OWNER) as owner,
        client_of(STRANGER) as stranger,
        client_of(ADMIN) as admin,
    ):
        _, physical_offset = await stored_offset(owner, at.address)
        for group, client in (("g", owner), ("mine", stranger)):
            body = b'{"groupName":"%s","retryQueueNums":1,"consumeEnable":true}' % group.encode()
            made = RemotingCommand(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)
            assert (await admin.request(at.address, made)).code == ResponseCode.SUCCESS
            header = ConsumerSendMsgBackRequestHeader(offset=physical_offset, group=group, delay_level=-1)
            answer = await client.request(at.address, make_request(RequestCode.CONSUMER_SEND_MSG_BACK, header))
            if client is owner:
                assert answer.code == ResponseCode.SUCCESS, answer.remark
            else:
                assert (answer.remark or "").endswith("No default permission for topic:Secret")
        listing = RemotingCommand(
            RequestCode.QUERY_CONSUME_QUEUE, {"topic": "Secret", "queueId": "0", "index": "0", "count": "9"}
        )
        assert (await owner.request(at.address, listing)).code == ResponseCode.SUCCESS
        answer = await stranger.request(at.address, listing)
        assert (answer.remark or "").endswith("No default permission for topic:Secret")


async def test_a_transaction_is_ended_by_the_account_that_began_it(tmp_path: Path) -> None:
    async with (
        strict_broker(tmp_path) as at,
        client_of(OWNER) as owner,
        client_of(STRANGER) as stranger,
        client_of(ADMIN) as admin,
    ):
        for ender in (owner, admin):
            queue_offset, physical_offset = await stored_offset(owner, at.address, HALF)
            header = EndTransactionRequestHeader(
                producer_group="finance",
                tran_state_table_offset=queue_offset,
                commit_log_offset=physical_offset,
                commit_or_rollback=8,
                msg_id="K",
            )
            answer = await stranger.request(at.address, make_request(RequestCode.END_TRANSACTION, header))
            assert (answer.remark or "").endswith("accessKey=a-stranger is not the account that sent the half message")
            answer = await ender.request(at.address, make_request(RequestCode.END_TRANSACTION, header))
            assert answer.code == ResponseCode.SUCCESS, answer.remark
        answer = await owner.request(at.address, pull("Secret"))
        assert answer.body is not None
        assert "ROCKETPY_ACCOUNT" not in decode_message(answer.body).properties


@pytest.mark.parametrize("forged", ["", "\x02ROCKETPY_ACCOUNT\x01a-stranger"])
async def test_only_connections_of_that_account_are_asked_about_a_transaction(tmp_path: Path, forged: str) -> None:
    checks: dict[str, list[RemotingCommand]] = {"owner": [], "stranger": []}
    asked = trio.Event()

    def noted(who: str, connection: Connection, request: RemotingCommand) -> None:
        checks[who].append(request)
        if len(checks["owner"]) == 3:
            asked.set()

    async with (
        strict_broker(tmp_path, transaction_check_interval=20, transaction_time_out=1) as at,
        client_of(OWNER) as owner,
        client_of(STRANGER) as stranger,
    ):
        for name, client in (("stranger", stranger), ("owner", owner)):
            client.register(
                RequestCode.CHECK_TRANSACTION_STATE,
                lambda connection, request, name=name: noted(name, connection, request),
            )
            body = encode_body(HeartbeatData(client_id=name, producer_data_set=[ProducerData("finance")]))
            assert (await client.request(at.address, RemotingCommand(34, {}, body))).code == ResponseCode.SUCCESS
        await stored_offset(owner, at.address, HALF + forged)
        with trio.fail_after(PATIENCE_SECONDS):
            await asked.wait()
        answer = await stranger.request(at.address, RemotingCommand(RequestCode.GET_ALL_TOPIC_CONFIG))
        assert answer.code == ResponseCode.SUCCESS, "whatever was for it would have come before"
    assert checks["stranger"] == []
    header = read_header(checks["owner"][0], CheckTransactionStateRequestHeader)
    assert header.tran_state_table_offset == 1
    message = decode_message(checks["owner"][0].body or b"")
    assert message.body == b"confidential"
    assert "ROCKETPY_ACCOUNT" not in message.properties
