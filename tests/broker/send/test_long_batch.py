"""Long batches: the same records and responses as for short ones, processed in slices that do not block the loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy.broker.hooks import BrokerHooks, SendMessageContext
from rocketpy.broker.send import long_batch
from rocketpy.broker.send import processor as send_module
from rocketpy.broker.send.long_batch import LongBatches, is_long, stored_batch_in_slices
from rocketpy.broker.send.properties import client_columns, stored_batch
from rocketpy.protocol.batch import BatchColumns, split_batch_body
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.remoting.config import ConnectionLimits
from rocketpy.remoting.connection import Connection
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.index.service import PENDING_MAX
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker
from tests.broker.send.test_batch import item, send_batch
from tests.broker.send.test_fast_and_general_path import contents
from tests.worst_requests import SLICE_SECONDS_MAX, longest_slice

ROOMY_STORE = {
    "mapped_file_size_commit_log": 1 << 25,
    "mapped_file_size_consume_queue": 20 * 40_000,
    "max_message_size": 1 << 22,
    "max_hash_slot_num": 50_000,
    "max_index_num": 400_000,
}
LONG = item(b"x" * 200, b"") * (long_batch.AT_ONCE_COUNT + 1)
"""The body of a batch that is just long."""

SUFFIX = b"WAIT\x01true\x02CLUSTER\x01c"


def usual(number: int) -> bytes:
    text = b"KEYS\x01key%06d\x02UNIQ_KEY\x01AC1100017F0018B4AAC2%08X\x02WAIT\x01true\x02TAGS\x01TagA" % (number, number)
    return item(b"x" * 30, text)


def varied(number: int) -> bytes:
    text = b"KEYS\x01k%d k k2\x02a\x01b\x02UNIQ_KEY\x01AC%08X\x02WAIT\x01true\x02TAGS\x01Tag%d" % (
        number,
        number,
        number,
    )
    return item(b"x" * (number % 7), text, flag=number % 3)


def brokers_word(number: int) -> bytes:
    return item(b"%d" % number, b"TRAN_PREPARED_QUEUE_OFFSET\x01%d\x02a\x01%d" % (number, number))


FORMS: dict[str, Callable[[int], bytes]] = {
    "usual": usual,
    "varied": varied,
    "empty": lambda number: item(b"", b""),
    "many keys": lambda number: item(b"", b"KEYS\x01" + b"k " * 13 + b"k%d" % number),
    "many properties": lambda number: item(b"", b"\x02".join(b"%d%d\x01b" % (number, other) for other in range(15))),
    "separators": lambda number: item(b"", b"\x02" * 18),
    "long tags": lambda number: item(b"", b"TAGS\x01" + b"%d" % number * 60),
    "no UTF-8": lambda number: item(b"", b"TAGS\x01%d" % number + b"\xff" * 100),
    "what only a broker may say": brokers_word,
}


def batch_of(form: Callable[[int], bytes], count: int) -> bytes:
    return b"".join(map(form, range(count)))


def long_body(count: int = 2000) -> bytes:
    """A body of messages of several forms, in turn."""
    forms = list(FORMS.values())
    return b"".join(forms[number % len(forms)](number) for number in range(count))


@asynccontextmanager
async def roomy_broker(**given: object) -> AsyncIterator[MessageBroker]:
    store = {**ROOMY_STORE, **given.pop("store", {})}  # type: ignore[dict-item]
    async with open_message_broker(store=store, **given) as broker:  # type: ignore[arg-type]
        yield broker


@pytest.fixture
async def broker() -> AsyncIterator[MessageBroker]:
    async with roomy_broker() as broker:
        yield broker


def batches_of(broker: MessageBroker) -> LongBatches:
    return broker.send_feature.long_batches


def start(broker: MessageBroker, request: RemotingCommand, connection: Connection | None = None) -> Connection:
    """Serve a request until its task waits to be run."""
    connection = connection or broker.connect()
    before = len(broker.transport.tasks)
    broker.serve(encode_frame(request), connection)
    assert len(broker.transport.tasks) == before + 1, received(connection)
    assert received(connection) == []
    return connection


# ---- the same as at once --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", ["WAIT\x01true", "TAGS\x01all\x02KEYS\x01a b", "KEYS\x01a", "UNIQ_KEY\x01u", ""])
@pytest.mark.parametrize("oneway", [False, True])
async def test_a_long_batch_becomes_what_it_would_at_once(
    shared: str, oneway: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = send_batch(long_body(), shared, oneway=oneway)
    seen: list[object] = []
    for at_once in (False, True):
        if at_once:
            monkeypatch.setattr(send_module, "is_long", lambda columns, body: False)
        async with roomy_broker() as broker:
            connection = broker.connect(("10.0.0.1", 5000))
            broker.serve(encode_frame(request), connection)
            assert len(broker.transport.tasks) == (0 if at_once else 1)
            assert connection.deferred_count == (0 if at_once else 1)
            await broker.run_tasks()
            assert connection.deferred_count == 0
            answers = connection.take_outgoing()
            assert bool(answers) is not oneway
            found = await broker.store.query_message(TOPIC, "a" if "KEYS" in shared else "key000009", 10, 0, 1 << 60)
            assert found.body
            seen.append((answers, await contents(broker), found.body))
            assert broker.store.max_offset_in_queue(TOPIC, 0) == 2000
    assert seen[0] == seen[1]


OWN = st.lists(
    st.sampled_from(
        [b"", b"a\x01b", b"TAGS\x01t", b"KEYS\x01a b\x02", b"UNIQ_KEY\x01u\x02WAIT\x01true", b"\xff", b"x" * 90]
    )
    | st.just(b"TRAN_PREPARED_QUEUE_OFFSET\x011\x02a\x01b"),
    min_size=1,
    max_size=40,
)


@given(
    own=OWN,
    slice_count=st.integers(1, 10),
    slice_bytes=st.integers(0, 200),
    suffix=st.sampled_from([SUFFIX, SUFFIX + b"\x02TAGS\x01all", SUFFIX + b"\x02KEYS\x01a  b\x02UNIQ_KEY\x01u"]),
)
@settings(deadline=None)
async def test_slices_of_any_size_say_the_same(
    own: list[bytes], slice_count: int, slice_bytes: int, suffix: bytes
) -> None:
    columns = BatchColumns(list(range(len(own))), [b"%d" % number for number in range(len(own))], own)
    has_no_tags_or_keys = suffix == SUFFIX
    sliced = await stored_batch_in_slices(
        columns,
        suffix,
        suffix_has_no_tags_or_keys=has_no_tags_or_keys,
        may_have_broker_only=True,
        slice_count=slice_count,
        slice_bytes=slice_bytes,
    )
    whole = stored_batch(client_columns(columns), suffix, suffix_has_no_tags_or_keys=has_no_tags_or_keys)
    assert tuple(map(list, sliced)) == tuple(map(list, whole))


def test_what_is_long() -> None:
    def asked(body: bytes) -> bool:
        return is_long(split_batch_body(body), body)

    assert not asked(item(b"", b"") * (long_batch.AT_ONCE_BYTES // 22)), "many messages, but nothing in them"
    assert not asked(item(b"x" * 1000, b"a\x01b") * long_batch.AT_ONCE_COUNT), "long bodies cost little"
    assert asked(item(b"x" * 200, b"a\x01b") * (long_batch.AT_ONCE_COUNT + 1))
    assert asked(item(b"", b"a\x01" + b"x" * 30_000) * 5)


# ---- the loop is not blocked ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("form", "has_fast_path"), [*((form, True) for form in FORMS), ("varied", False)])
async def test_a_long_batch_does_not_keep_the_loop(form: str, has_fast_path: bool, tmp_path: Path) -> None:
    """As many messages as a batch may have; the end of the burst, where the store writes, included."""
    frame = encode_frame(send_batch(batch_of(FORMS[form], 10_000)))
    async with roomy_broker(disk=OsDisk(), root=str(tmp_path), has_fast_paths=has_fast_path) as broker:
        await assert_short_slices(broker, frame)


@pytest.mark.parametrize(
    ("body", "shared"),
    [
        (item(b"", b"TAGS\x01" + b"x" * 32_000) * 120, ""),
        (item(b"", b"KEYS\x01" + b"k " * 120) * 480, ""),
        (item(b"", b"") * 400, "TAGS\x01" + "x" * 30_000),
        (item(b"", b"") * 400, "KEYS\x01" + "k " * 15_000),
        (item(b"", b"") * 1_500, "KEYS\x01" + " ".join(map(str, range(120)))),
        (item(b"", b"") * 5_900, "a\x01" + "x" * 950),
    ],
    ids=["tags", "keys", "tags of all", "keys of all", "keys of many", "long properties of all"],
)
async def test_no_batch_keeps_the_loop(body: bytes, shared: str, tmp_path: Path) -> None:
    async with roomy_broker(disk=OsDisk(), root=str(tmp_path)) as broker:
        await assert_short_slices(broker, encode_frame(send_batch(body, shared)))


async def assert_short_slices(broker: MessageBroker, frame: bytes) -> None:
    async def serve(connection: Connection) -> None:
        with broker.dispatcher.burst:
            connection.serve(8)
        await broker.run_tasks()

    async def work() -> None:
        connection = broker.connect()
        connection.receive(frame)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, connection)
        (answer,) = received(connection)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        await broker.settle()

    assert await longest_slice(work) < SLICE_SECONDS_MAX


# ---- while it waits -------------------------------------------------------------------------------------------------


async def run_tasks_together(broker: MessageBroker) -> None:
    tasks, broker.transport.tasks = broker.transport.tasks, []
    async with trio.open_nursery() as nursery:
        for function, arguments in tasks:
            nursery.start_soon(function, *arguments)
            await trio.testing.wait_all_tasks_blocked()


async def test_long_batches_are_stored_in_the_order_in_which_they_came(broker: MessageBroker) -> None:
    connection = broker.connect()
    for flag in (1, 2, 3):
        start(broker, send_batch(item(b"x" * 200, b"a\x01b", flag) * 1001, opaque=flag), connection)
    await run_tasks_together(broker)
    assert [answer.opaque for answer in received(connection)] == [1, 2, 3]
    messages = await broker.messages()
    assert [message.flag for message in messages] == [1] * 1001 + [2] * 1001 + [3] * 1001


async def test_what_waits_is_bounded(broker: MessageBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_batch, "WAITING_BYTES_MAX", 1_000_000)
    request = send_batch(LONG)
    connection = start(broker, request)
    assert 2 * 222 * 1001 < batches_of(broker).waiting_bytes < 1_000_000
    (answer,) = refusals_of(broker, request)
    assert answer.code == ResponseCode.SYSTEM_BUSY
    assert answer.remark == "[OVERLOAD]system busy, start flow control for a while: too many long batches wait"
    assert (answer.ext_fields or {})["MSG_REGION"] == "DefaultRegion"
    await broker.run_tasks()
    assert [answer.code for answer in received(connection)] == [ResponseCode.SUCCESS]
    assert batches_of(broker).waiting_bytes == 0
    monkeypatch.setattr(long_batch, "WAITING_BYTES_MAX", 1)
    assert (await broker.ask(request)).code == ResponseCode.SUCCESS, "one alone is always taken"


def refusals_of(broker: MessageBroker, request: RemotingCommand) -> list[RemotingCommand]:
    connection = broker.connect()
    broker.serve(encode_frame(request), connection)
    assert connection.deferred_count == 0
    return received(connection)


async def test_no_more_waits_than_may_be_deferred(broker: MessageBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    request = send_batch(LONG)
    connection = start(broker, request, broker.connect(limits=ConnectionLimits(deferred_replies_max=1)))
    broker.serve(encode_frame(request), connection)
    assert [answer.code for answer in received(connection)] == [ResponseCode.SYSTEM_BUSY]
    await broker.run_tasks()
    monkeypatch.setattr(broker.transport, "start_task", lambda *arguments: False)
    assert [answer.code for answer in refusals_of(broker, request)] == [ResponseCode.SYSTEM_BUSY]
    assert batches_of(broker).waiting_bytes == 0


async def test_a_oneway_is_not_refused_for_replies_that_are_deferred(broker: MessageBroker) -> None:
    """It has none, and its producer would not learn of the refusal: a short one is stored, too."""
    connection = start(broker, send_batch(LONG), broker.connect(limits=ConnectionLimits(deferred_replies_max=1)))
    start(broker, send_batch(LONG, oneway=True), connection)
    await broker.run_tasks()
    assert [answer.code for answer in received(connection)] == [ResponseCode.SUCCESS]
    assert len(await broker.messages()) == 2 * 1001
    assert (connection.deferred_count, batches_of(broker).waiting_bytes) == (0, 0)


async def test_a_oneway_that_is_dropped_is_logged(
    broker: MessageBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    request = send_batch(LONG, oneway=True)
    monkeypatch.setattr(broker.transport, "start_task", lambda *arguments: False)
    for _ in range(3):
        assert refusals_of(broker, request) == []
    assert refusals_of(broker, send_batch(LONG)) != [], "what is answered is not logged"
    lines = [record.getMessage() for record in caplog.records if "is dropped" in record.getMessage()]
    assert [line.partition(" so far: ")[0][-1] for line in lines] == ["1", "2"]
    assert all(repr(TOPIC) in line and "too many long batches and reads" in line for line in lines)
    monkeypatch.undo()
    monkeypatch.setattr(long_batch, "WAITING_BYTES_MAX", 1_000_000)
    start(broker, send_batch(LONG))
    assert refusals_of(broker, request) == refusals_of(broker, request) == []
    assert "4 so far: [OVERLOAD]system busy" in caplog.messages[-1]
    await broker.run_tasks()
    assert (len(await broker.messages()), batches_of(broker).waiting_bytes) == (1001, 0)


async def test_a_connection_that_ends_meanwhile_has_sent_its_batch(broker: MessageBroker) -> None:
    connection = start(broker, send_batch(LONG))
    async with trio.open_nursery() as nursery:
        (function, arguments), broker.transport.tasks = broker.transport.tasks[0], []
        nursery.start_soon(function, *arguments)
        await trio.lowlevel.checkpoint()
        assert broker.stored_bytes == 0
        connection.close()
    assert len(await broker.messages()) == 1001
    assert (connection.deferred_count, connection.dropped_replies) == (0, 1)
    assert batches_of(broker).waiting_bytes == 0


async def test_a_gate_that_closes_meanwhile_refuses_it(broker: MessageBroker) -> None:
    connection = start(broker, send_batch(LONG))
    broker.send_feature.gate.close(lambda connection: "[REJECTREQUEST]busy")
    await broker.run_tasks()
    (answer,) = received(connection)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_BUSY, "[REJECTREQUEST]busy")
    assert (broker.stored_bytes, batches_of(broker).waiting_bytes, connection.deferred_count) == (0, 0, 0)


async def test_a_topic_that_goes_meanwhile_gets_nothing(broker: MessageBroker) -> None:
    connection = start(broker, send_batch(LONG, default_topic="none"))
    broker.tables.topics.delete_topic_config(TOPIC)
    await broker.run_tasks()
    assert [answer.code for answer in received(connection)] == [ResponseCode.TOPIC_NOT_EXIST]
    assert broker.stored_bytes == 0


async def test_what_only_a_broker_may_write_is_refused(broker: MessageBroker) -> None:
    body = LONG + item(b"", b"INNER_MULTI_QUEUE_OFFSET\x010")
    answer = await broker.ask(send_batch(body))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert broker.stored_bytes == 0


async def test_a_refusal_of_the_store_is_answered(broker: MessageBroker) -> None:
    body = LONG + item(b"", b"a\x01\0")
    answer = await broker.ask(send_batch(body))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert (answer.remark or "").endswith("with a NUL among them")
    assert broker.stored_bytes == 0


async def test_a_failure_is_answered_and_the_next_one_is_served(
    broker: MessageBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = send_batch(LONG)
    with monkeypatch.context() as patch:
        patch.setattr(long_batch, "stored_batch", None)
        answer = await broker.ask(request)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (broker.stored_bytes, batches_of(broker).waiting_bytes) == (0, 0)
    assert (await broker.ask(request)).code == ResponseCode.SUCCESS


# ---- SYNC_FLUSH, hooks, the index -----------------------------------------------------------------------------------


async def test_hooks_see_a_long_batch_once() -> None:
    class Hook:
        hook_name = "hook"

        def __init__(self) -> None:
            self.seen: list[object] = []

        def send_message_before(self, context: SendMessageContext) -> None:
            self.seen.append("before")

        def send_message_after(self, context: SendMessageContext) -> None:
            self.seen.append((context.code, bool(context.msg_id)))

    hook = Hook()
    async with roomy_broker(hooks=BrokerHooks(send=(hook,))) as broker:
        request = send_batch(LONG)
        assert (await broker.ask(request)).code == ResponseCode.SUCCESS
        assert hook.seen == ["before", (ResponseCode.SUCCESS, True)]
        hook.seen.clear()
        start(broker, request)
        broker.send_feature.gate.close(lambda connection: "[REJECTREQUEST]busy")
        await broker.run_tasks()
        assert hook.seen == ["before", (ResponseCode.SYSTEM_BUSY, False)]


async def test_batches_wait_while_too_many_keys_do(broker: MessageBroker) -> None:
    """A batch may bring more keys than may wait, so none is put on top of that, however short it is."""
    body = item(b"", b"KEYS\x01" + b"k " * 120) * 500
    assert (await broker.ask(send_batch(body))).code == ResponseCode.SUCCESS
    behind = [broker.store.is_index_behind]
    connection = start(broker, send_batch(item(b"1", b"")))
    assert broker.batch_path.taken[-1] is False
    await broker.run_tasks()
    assert [answer.code for answer in received(connection)] == [ResponseCode.SUCCESS]
    behind.append(broker.store.is_index_behind)
    assert behind == [True, False]
    assert broker.store.index_behind <= PENDING_MAX


async def test_keys_of_the_whole_batch_count_for_each_message(broker: MessageBroker) -> None:
    answer = await broker.ask(send_batch(item(b"", b"") * 2000, "KEYS\x01" + " ".join(map(str, range(128)))))
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert answer.remark == "the messages of the batch have 256000 properties, the limit is 200000"


@pytest.mark.parametrize("has_fast_path", [True, False], ids=["fast path", "general path"])
async def test_a_body_longer_than_a_message_is_refused(has_fast_path: bool) -> None:
    """Compatibility: RocketMQ compares the whole body of a batch, properties and all, with maxMessageSize."""
    async with open_message_broker(store={"max_message_size": 1000}, has_fast_paths=has_fast_path) as broker:
        answer = await broker.ask(send_batch(item(b"", b"a\x01" + b"x" * 20) * 23))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "limit 1000B" in (answer.remark or "")
        assert (await broker.ask(send_batch(item(b"", b"a\x01" + b"x" * 20) * 22))).code == ResponseCode.SUCCESS
