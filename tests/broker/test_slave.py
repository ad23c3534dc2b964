"""A whole broker with the role SLAVE, asked over frames: what it refuses, with which code and remark, what it serves.

Its store was filled as a master's, and is a slave's from then on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.broker.start_settings import BrokerSettings
from rocketpy.protocol.batch import encode_batch_body
from rocketpy.protocol.bodies.codec import decode_body, encode_body
from rocketpy.protocol.bodies.group import ConsumerOffsetSerializeWrapper, SubscriptionGroupConfig
from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand, make_request
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.admin import DeleteSubscriptionGroupRequestHeader
from rocketpy.protocol.headers.offset import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from rocketpy.protocol.headers.query import QueryMessageRequestHeader, ViewMessageRequestHeader
from rocketpy.protocol.headers.queue_bounds import GetMaxOffsetRequestHeader, SearchOffsetRequestHeader
from rocketpy.protocol.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    EndTransactionRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
)
from rocketpy.protocol.headers.topic import CreateTopicRequestHeader, DeleteTopicRequestHeader
from rocketpy.protocol.message import Message
from rocketpy.protocol.message_id import decode_offset_msg_id
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.config import BrokerRole
from tests.broker.message_broker import TOPIC, pull, send
from tests.broker.whole_broker import Whole, broker_settings, open_whole_broker
from tests.patience import PATIENCE_SECONDS

SUBSCRIPTION, SUSPEND, COMMIT = 4, 2, 1
NOT_ON_A_SLAVE = "Can't modify topic or subscription group from slave broker, please execute it from master broker."
"""As recorded from Java."""


def settings_of(directory: Path, role: BrokerRole, **changes: object) -> BrokerSettings:
    settings = broker_settings(directory, broker_id=int(role is BrokerRole.SLAVE), **changes)
    return attrs.evolve(settings, store=attrs.evolve(settings.store, broker_role=role))


async def ask(whole: Whole, request: RemotingCommand) -> RemotingCommand:
    (answer,) = await whole.ask_frame(encode_frame(request), whole.connect())
    return answer


async def fill(directory: Path) -> str:
    """Store a message as a master; return its offset message id."""
    async with open_whole_broker(settings_of(directory, BrokerRole.ASYNC_MASTER)) as master:
        answer = await ask(master, send(properties="KEYS\x01key\x02UNIQ_KEY\x010A\x02WAIT\x01true"))
        assert answer.code == ResponseCode.SUCCESS
        commit = UpdateConsumerOffsetRequestHeader(consumer_group="G", topic=TOPIC, queue_id=0, commit_offset=1)
        assert (await ask(master, make_request(RequestCode.UPDATE_CONSUMER_OFFSET, commit))).code == 0
        return (answer.ext_fields or {})["msgId"]


@pytest.fixture
async def slave(tmp_path: Path) -> AsyncIterator[Whole]:
    await fill(tmp_path)
    async with open_whole_broker(settings_of(tmp_path, BrokerRole.SLAVE, slave_read_enable=True)) as whole:
        yield whole
        assert whole.errors.take() == []


# ---- what is refused ------------------------------------------------------------------------------------------------

BATCH = encode_batch_body([Message(TOPIC, b"one", {"UNIQ_KEY": "0A"}), Message(TOPIC, b"two", {"UNIQ_KEY": "0B"})])
SENDS = {
    "fast": send(),
    "V1": send(code=RequestCode.SEND_MESSAGE),
    "binary header": send(serialize_type=SerializeType.ROCKETMQ),
    "batch": send(BATCH, code=RequestCode.SEND_BATCH_MESSAGE, batch=True, properties="WAIT\x01true"),
    "delayed": send(properties="DELAY\x013\x02UNIQ_KEY\x010A\x02WAIT\x01true"),
    "not waiting": send(properties="UNIQ_KEY\x010A\x02WAIT\x01false"),
    "prepared": send(properties="TRAN_MSG\x01true\x02PGROUP\x01P\x02UNIQ_KEY\x010A\x02WAIT\x01true", sys_flag=4),
    "retry topic": send(topic="%RETRY%G", properties="UNIQ_KEY\x010A\x02WAIT\x01true"),
}


@pytest.mark.parametrize("request_", SENDS.values(), ids=SENDS)
async def test_no_send_is_accepted(slave: Whole, request_: RemotingCommand) -> None:
    before = log_end(slave)
    answer = await ask(slave, request_)
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert (answer.remark or "").startswith("service not available now")
    assert "slave" in (answer.remark or "")
    assert answer.serialize_type == request_.serialize_type
    assert log_end(slave) == before


async def test_no_message_is_sent_back(slave: Whole) -> None:
    before = log_end(slave)
    header = ConsumerSendMsgBackRequestHeader(offset=0, group="G", delay_level=0, origin_topic=TOPIC)
    answer = await ask(slave, make_request(RequestCode.CONSUMER_SEND_MSG_BACK, header))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("SERVICE_NOT_AVAILABLE")
    assert log_end(slave) == before


async def test_no_transaction_is_ended(slave: Whole) -> None:
    """The remark is the one that Java's answers have from their creation on."""
    header = EndTransactionRequestHeader(
        producer_group="P",
        tran_state_table_offset=0,
        commit_log_offset=0,
        commit_or_rollback=8,
        from_transaction_check=False,
        msg_id="0A",
        transaction_id="0A",
    )
    answer = await ask(slave, make_request(RequestCode.END_TRANSACTION, header))
    assert (answer.code, answer.remark) == (ResponseCode.SLAVE_NOT_AVAILABLE, "not set any response code")


async def test_no_transaction_is_checked_again(slave: Whole) -> None:
    """Its answer does not wait for the table of open transactions, which a slave does not load."""
    header = ResumeCheckHalfMessageRequestHeader(msg_id="7F00000100002A9F0000000000000000")
    with trio.fail_after(PATIENCE_SECONDS):
        answer = await ask(slave, make_request(RequestCode.RESUME_CHECK_HALF_MESSAGE, header))
    remark = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)


CHANGES = {
    "create topic": make_request(
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        CreateTopicRequestHeader(
            topic="New",
            default_topic="TBW102",
            read_queue_nums=1,
            write_queue_nums=1,
            perm=6,
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=False,
        ),
    ),
    "delete topic": make_request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequestHeader(topic=TOPIC)),
    "create group": make_request(
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_body(SubscriptionGroupConfig("New"))
    ),
    "delete group": make_request(
        RequestCode.DELETE_SUBSCRIPTIONGROUP,
        DeleteSubscriptionGroupRequestHeader(group_name="G", remove_offset=True),
    ),
    "without fields": make_request(RequestCode.UPDATE_AND_CREATE_TOPIC),
    "without a body": make_request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP),
}


@pytest.mark.parametrize("request_", CHANGES.values(), ids=CHANGES)
async def test_topics_and_groups_are_not_changed(slave: Whole, request_: RemotingCommand) -> None:
    before = slave.kept()
    answer = await ask(slave, request_)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, NOT_ON_A_SLAVE)
    assert slave.kept() == before


# ---- what is served -------------------------------------------------------------------------------------------------


async def test_messages_are_served(tmp_path: Path) -> None:
    msg_id = await fill(tmp_path)
    _, physical_offset = decode_offset_msg_id(msg_id)
    async with open_whole_broker(settings_of(tmp_path, BrokerRole.SLAVE)) as slave:
        pulled = await ask(slave, pull())
        (message,) = decode_messages(pulled.body or b"")
        assert (pulled.code, message.body) == (ResponseCode.SUCCESS, b"hello")
        viewed = await ask(
            slave, make_request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=physical_offset))
        )
        assert (viewed.code, viewed.body) == (ResponseCode.SUCCESS, pulled.body)
        by_key = QueryMessageRequestHeader(topic=TOPIC, key="key", max_num=32, begin_timestamp=0, end_timestamp=1 << 62)
        queried = await ask(slave, make_request(RequestCode.QUERY_MESSAGE, by_key))
        assert (queried.code, queried.body) == (ResponseCode.SUCCESS, pulled.body)


async def test_questions_about_queues_and_offsets_are_served(slave: Whole) -> None:
    end = await ask(slave, make_request(RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic=TOPIC, queue_id=0)))
    assert end.ext_fields == {"offset": "1"}
    by_time = SearchOffsetRequestHeader(topic=TOPIC, queue_id=0, timestamp=0)
    found = await ask(slave, make_request(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, by_time))
    assert found.ext_fields == {"offset": "0"}
    query = QueryConsumerOffsetRequestHeader(consumer_group="G", topic=TOPIC, queue_id=0)
    assert (await ask(slave, make_request(RequestCode.QUERY_CONSUMER_OFFSET, query))).ext_fields == {"offset": "1"}
    for code in (
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_DELAY_OFFSET,
        RequestCode.GET_BROKER_RUNTIME_INFO,
    ):
        answer = await ask(slave, make_request(code))
        assert (answer.code, bool(answer.body)) == (ResponseCode.SUCCESS, True)


async def test_commits_are_accepted_but_not_those_of_pulls(slave: Whole) -> None:
    await ask(slave, pull(sys_flag=SUBSCRIPTION | COMMIT, commit_offset=0))
    query = make_request(
        RequestCode.QUERY_CONSUMER_OFFSET,
        QueryConsumerOffsetRequestHeader(consumer_group="G", topic=TOPIC, queue_id=0),
    )
    assert (await ask(slave, query)).ext_fields == {"offset": "1"}
    commit = UpdateConsumerOffsetRequestHeader(consumer_group="G", topic=TOPIC, queue_id=0, commit_offset=7)
    assert (await ask(slave, make_request(RequestCode.UPDATE_CONSUMER_OFFSET, commit))).code == ResponseCode.SUCCESS
    assert (await ask(slave, query)).ext_fields == {"offset": "7"}
    offsets = await ask(slave, make_request(RequestCode.GET_ALL_CONSUMER_OFFSET))
    told = decode_body(offsets.body or b"", ConsumerOffsetSerializeWrapper)
    assert told.committed_offsets == {f"{TOPIC}@G": {0: 7}}, "a master that starts has to know whose they are"


@pytest.mark.parametrize(("is_read", "broker_id"), [(False, "0"), (True, "3")])
async def test_a_consumer_is_sent_to_the_broker_of_its_group(tmp_path: Path, is_read: bool, broker_id: str) -> None:
    """Without slaveReadEnable it is sent back to the master, and is served all the same."""
    master = settings_of(tmp_path, BrokerRole.ASYNC_MASTER)
    async with open_whole_broker(master) as whole:
        group = encode_body(SubscriptionGroupConfig("G", broker_id=3))
        assert (await ask(whole, make_request(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=group))).code == 0
        assert (await ask(whole, send())).code == 0
    async with open_whole_broker(settings_of(tmp_path, BrokerRole.SLAVE, slave_read_enable=is_read)) as slave:
        answer = await ask(slave, pull())
        assert (answer.code, (answer.ext_fields or {})["suggestWhichBrokerId"]) == (ResponseCode.SUCCESS, broker_id)


async def test_an_offset_of_a_message_that_is_not_here_yet_is_echoed(slave: Whole) -> None:
    """The slave may be behind: the consumer asks again from there, the master if the group has no other broker."""
    for queue_offset in (2, 900):
        answer = await ask(slave, pull(queue_offset=queue_offset))
        fields = answer.ext_fields or {}
        assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert (fields["nextBeginOffset"], fields["suggestWhichBrokerId"]) == (str(queue_offset), "0")


def log_end(whole: Whole) -> str:
    """Return the line about the log's end of all that the broker keeps."""
    (line,) = (line for line in whole.kept().splitlines() if line.startswith("log end"))
    return line
