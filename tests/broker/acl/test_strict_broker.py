"""A whole broker with aclStrict: what an account may not read it gets in no other way, and transactions are its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from rocketpy.broker.app import BrokerAddress
from rocketpy.client.client import open_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.config import ConsumerConfig
from rocketpy.client.consumer.message_selector import MessageSelector
from rocketpy.clock import SystemClock
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.heartbeat import ConsumeFromWhere, HeartbeatData, ProducerData
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
from tests.broker.acl.test_running_broker import client_of, running_nameserver
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
FROM_THE_BEGINNING = ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, consume_timestamp=1)
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
        answer = await stranger.request(at.address, RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG))
        assert answer.code == ResponseCode.SUCCESS, "whatever was for it would have come before"
    assert checks["stranger"] == []
    header = read_header(checks["owner"][0], CheckTransactionStateRequestHeader)
    assert header.tran_state_table_offset == 1
    message = decode_message(checks["owner"][0].body or b"")
    assert message.body == b"confidential"
    assert "ROCKETPY_ACCOUNT" not in message.properties


async def test_the_producers_of_an_account_that_has_gone_are_not_asked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A check brings the body of the message, and a heartbeat counts for two minutes."""
    checks: list[int] = []
    asked = trio.Event()

    def noted(connection: Connection, request: RemotingCommand) -> None:
        checks.append(request.opaque)
        asked.set()

    async with (
        strict_broker(tmp_path, transaction_check_interval=20, transaction_time_out=1) as at,
        client_of(OWNER) as owner,
        client_of(ADMIN) as admin,
    ):
        owner.register(RequestCode.CHECK_TRANSACTION_STATE, noted)
        body = encode_body(HeartbeatData(client_id="owner", producer_data_set=[ProducerData("finance")]))
        assert (await owner.request(at.address, RemotingCommand(34, {}, body))).code == ResponseCode.SUCCESS
        await stored_offset(owner, at.address, HALF)
        with trio.fail_after(PATIENCE_SECONDS):
            await asked.wait()
            removal = RemotingCommand(RequestCode.DELETE_ACL_CONFIG, {"accessKey": "the-owner"})
            assert (await admin.request(at.address, removal)).code == ResponseCode.SUCCESS
            answer = await owner.request(at.address, RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG))
            assert (answer.remark or "").endswith("No acl config for the-owner"), "what was on its way has come"
            count = len(checks)
            while sum("no producer of finance is online" in each for each in caplog.messages) < 2:
                await trio.sleep(0.01)
        await owner.request(at.address, RemotingCommand(RequestCode.CHECK_CLIENT_CONFIG))
        assert len(checks) == count


LOOKS = [
    (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {"topic": "Secret", "queueId": "0", "timestamp": "0"}),
    (RequestCode.GET_MAX_OFFSET, {"topic": "Secret", "queueId": "0"}),
    (RequestCode.GET_MIN_OFFSET, {"topic": "Secret", "queueId": "0"}),
    (RequestCode.GET_EARLIEST_MSG_STORETIME, {"topic": "Secret", "queueId": "0"}),
    (RequestCode.GET_TOPIC_STATS_INFO, {"topic": "Secret"}),
    (RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "Secret"}),
    (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"}),
    (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g", "topic": "Secret"}),
    (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "Secret", "group": "g"}),
]
FOR_ADMINISTRATORS = [
    (RequestCode.GET_ALL_TOPIC_CONFIG, {}),
    (RequestCode.GET_BROKER_RUNTIME_INFO, {}),
    (RequestCode.GET_ALL_DELAY_OFFSET, {}),
    (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {}),
    (RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, {}),
    (RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"}),
    (RequestCode.GET_ALL_PRODUCER_INFO, {}),
]


async def test_nothing_is_told_of_topics_and_groups_to_who_has_no_right_on_them(tmp_path: Path) -> None:
    async with (
        strict_broker(tmp_path) as at,
        client_of(OWNER) as owner,
        client_of(STRANGER) as stranger,
        client_of(ADMIN) as admin,
    ):
        await stored_offset(owner, at.address)
        for code, fields in LOOKS:
            answer = await owner.request(at.address, RemotingCommand(code, dict(fields)))
            assert answer.code == ResponseCode.SUCCESS, (code, answer.remark)
            answer = await stranger.request(at.address, RemotingCommand(code, dict(fields)))
            assert answer.code == ResponseCode.SYSTEM_ERROR, code
            assert "No default permission for" in (answer.remark or ""), (code, answer.remark)
        for code, fields in FOR_ADMINISTRATORS:
            for client in (owner, stranger):
                answer = await client.request(at.address, RemotingCommand(code, dict(fields)))
                assert (answer.remark or "").endswith("is not"), (code, answer.remark)
            answer = await admin.request(at.address, RemotingCommand(code, dict(fields)))
            assert answer.code == ResponseCode.SUCCESS, (code, answer.remark)


async def test_a_right_on_the_group_alone_is_not_enough_where_a_topic_is_named(tmp_path: Path) -> None:
    looks = [
        (RequestCode.GET_CONSUME_STATS, {"consumerGroup": "mine", "topic": "Secret"}),
        (RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "Secret", "group": "mine"}),
        (RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": "Secret", "group": "mine"}),
    ]
    async with strict_broker(tmp_path) as at, client_of(OWNER) as owner, client_of(STRANGER) as stranger:
        await stored_offset(owner, at.address)
        for code, fields in looks:
            answer = await stranger.request(at.address, RemotingCommand(code, fields))
            assert (answer.remark or "").endswith("No default permission for topic:Secret"), code


async def test_our_consumers_need_no_more_than_rights_on_their_topic_and_group(tmp_path: Path) -> None:
    """An orderly one looks for where to begin, finds its members, and locks its queues; one pulls by itself."""
    async with (
        running_nameserver(tmp_path) as namesrv,
        strict_broker(tmp_path, namesrv_addr=namesrv, enable_property_filter=True) as at,
        client_of(OWNER) as sender,
        open_client(namesrv, config=ClientConfig(credentials=OWNER)) as client,
    ):
        with trio.fail_after(PATIENCE_SECONDS):
            await stored_offset(sender, at.address)
            seen: list[bytes] = []
            is_seen = trio.Event()

            async def handle(batch: MessageBatch) -> None:
                seen.extend(each.body for each in batch.messages)
                is_seen.set()

            selected = {"Secret": MessageSelector.by_sql("TRUE")}
            async with (
                client.consumer("g", subscriptions=selected, config=FROM_THE_BEGINNING) as consumer,
                trio.open_nursery() as nursery,
            ):
                await nursery.start(consumer.run_orderly, handle)
                await is_seen.wait()
                nursery.cancel_scope.cancel()
            assert seen == [b"confidential"]
            async with client.pull_consumer("g") as puller:
                queue = next(each for each in await puller.queues("Secret") if each.queue_id == 0)
                assert (await puller.min_offset(queue), await puller.max_offset(queue)) == (0, 1)
                assert await puller.search_offset(queue, 0) == 0
