"""Hooks are called for every send, pull and send-back, on every path; without any the fast path is taken."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.broker.hooks import (
    NO_HOOKS,
    BrokerHooks,
    ConsumeHooks,
    ConsumeMessageContext,
    SendMessageContext,
    load_consume_hooks,
    load_send_hooks,
    namespace_of,
)
from rocketpy.errors import RequestError, SettingsError
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.store.config import FlushDiskType
from tests.broker.message_broker import TOPIC, open_message_broker, send
from tests.broker.send.test_batch import item, send_batch
from tests.broker.send.test_request_reply import ask, reply, requester
from tests.broker.send.test_send_back import send_back, stored_offset


@attrs.define
class Recorder:
    """Both kinds of hook; records its calls."""

    hook_name: str = "recorder"
    calls: list[tuple[str, SendMessageContext | ConsumeMessageContext]] = attrs.field(factory=list)

    def send_message_before(self, context: SendMessageContext) -> None:
        self.calls.append(("before", attrs.evolve(context)))
        context.mq_trace_context = "mine"

    def send_message_after(self, context: SendMessageContext) -> None:
        assert context.mq_trace_context == "mine"
        self.calls.append(("after", attrs.evolve(context)))

    def consume_message_before(self, context: ConsumeMessageContext) -> None:
        self.calls.append(("pulled", context))

    def consume_message_after(self, context: ConsumeMessageContext) -> None:
        self.calls.append(("sent back", context))

    def sends(self) -> tuple[SendMessageContext, SendMessageContext]:
        """The calls for the only send: before and after."""
        (first, before), (second, after) = self.calls
        assert (first, second) == ("before", "after")
        assert isinstance(before, SendMessageContext)
        assert isinstance(after, SendMessageContext)
        return before, after


class Half:
    hook_name = "half"

    def send_message_before(self, context: SendMessageContext) -> None: ...


PROPERTIES = "UNIQ_KEY\x010A\x02TAGS\x01t"


def request(**fields: object) -> RemotingCommand:
    made = send(b"hello", **({"topic": TOPIC, "properties": PROPERTIES} | fields))  # type: ignore[arg-type]
    assert made.ext_fields is not None
    made.ext_fields["Owner"] = "somebody"
    return made


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2])
async def test_hooks_are_called_before_and_after_a_send(code: int) -> None:
    recorder = Recorder()
    async with open_message_broker(hooks=BrokerHooks(send=(recorder,))) as broker:
        answer = await broker.ask(request(code=code, queue_id=-1), broker.connect(("10.0.0.1", 9)))
        (stored,) = (await broker.records(TOPIC, int((answer.ext_fields or {})["queueId"])),)
    before, after = recorder.sends()
    assert before == SendMessageContext(
        namespace="",
        producer_group="P",
        topic=TOPIC,
        body_length=5,
        msg_props=PROPERTIES,
        msg_unique_key="0A",
        born_host="10.0.0.1:9",
        born_timestamp=1_700_000_000_123,
        broker_addr="127.0.0.1:10911",
        broker_region_id="DefaultRegion",
        queue_id=-1,
        commercial_owner="somebody",
    )
    fields = answer.ext_fields or {}
    assert (after.code, after.is_success, after.error_msg) == (ResponseCode.SUCCESS, True, None)
    assert (after.msg_id, str(after.queue_id), after.queue_offset) == (fields["msgId"], fields["queueId"], 0)
    assert (after.commercial_send_stats, after.commercial_send_times) == ("SEND_SUCCESS", 1)
    assert after.commercial_send_size == len(stored)


async def test_what_hooks_have_seen_tells_consumers_of_traces() -> None:
    async with open_message_broker(hooks=BrokerHooks(send=(Recorder(),)), trace_on=False) as broker:
        await broker.ask(request())
        (message,) = await broker.messages()
    assert message.properties == {
        "UNIQ_KEY": "0A", "TAGS": "t", "MSG_REGION": "DefaultRegion", "TRACE_ON": "false", "CLUSTER": "DefaultCluster"
    }  # fmt: skip


async def test_how_often_a_send_counts_is_a_setting() -> None:
    recorder = Recorder()
    hooks = BrokerHooks(send=(recorder,))
    async with open_message_broker(hooks=hooks, commercial_base_count=3) as broker:
        await broker.ask(request())
    assert recorder.sends()[1].commercial_send_times == 3


async def test_hooks_are_called_for_a_refused_send() -> None:
    recorder = Recorder()
    async with open_message_broker(hooks=BrokerHooks(send=(recorder,))) as broker:
        answer = await broker.ask(request(topic="SELF_TEST_TOPIC"))
    _, after = recorder.sends()
    assert (after.code, after.error_msg, after.is_success) == (answer.code, answer.remark, False)
    assert (after.commercial_send_stats, after.commercial_send_size) == ("SEND_FAILURE", 5)


async def test_hooks_are_called_for_a_batch_and_a_oneway() -> None:
    recorder = Recorder()
    async with open_message_broker(hooks=BrokerHooks(send=(recorder,))) as broker:
        await broker.ask(send_batch(item(b"1", b"") + item(b"2", b"")))
        _, after = recorder.sends()
        assert after.msg_id.count(",") == 1
        recorder.calls.clear()
        assert await broker.ask_all(request(oneway=True)) == []
        assert recorder.sends()[1].is_success


async def test_under_sync_flush_a_hook_does_not_wait_for_the_disk() -> None:
    recorder = Recorder()
    store = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}
    async with open_message_broker(hooks=BrokerHooks(send=(recorder,)), store=store) as broker:
        assert await broker.ask_all(request()) == []
        assert recorder.sends()[1].is_success


async def test_hooks_are_called_for_a_reply() -> None:
    recorder = Recorder()
    async with open_message_broker(hooks=BrokerHooks(send=(recorder,))) as broker:
        await ask(broker, reply(), requester(broker))
        assert recorder.sends()[1].is_success
        recorder.calls.clear()
        await ask(broker, reply(topic=""), None)
        assert recorder.sends()[1].code == ResponseCode.SYSTEM_ERROR


async def test_a_hook_may_refuse_a_send() -> None:
    class Strict(Recorder):
        def send_message_before(self, context: SendMessageContext) -> None:
            raise RequestError(ResponseCode.NO_PERMISSION, f"not for {context.producer_group}")

    async with open_message_broker(hooks=BrokerHooks(send=(Strict(),))) as broker:
        answer = await broker.ask(request())
        assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "not for P")
        assert broker.stored_bytes == 0


async def test_a_hook_that_fails_is_a_failed_request(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Recorder):
        def send_message_before(self, context: SendMessageContext) -> None:
            raise ZeroDivisionError("hook")

    async with open_message_broker(hooks=BrokerHooks(send=(Broken(),))) as broker:
        answer = await broker.ask(request())
        assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "ZeroDivisionError: hook")
        assert "Traceback" in caplog.text


async def test_hooks_are_called_in_their_order() -> None:
    first, second = Recorder(), Recorder()
    second.calls = first.calls
    async with open_message_broker(hooks=BrokerHooks(send=(first, second))) as broker:
        await broker.ask(request())
    assert [what for what, _ in first.calls] == ["before", "before", "after", "after"]


async def test_hooks_are_called_for_a_send_back() -> None:
    recorder = Recorder()
    async with open_message_broker(hooks=BrokerHooks(consume=(recorder,))) as broker:
        place = await stored_offset(broker)
        await broker.ask(send_back(place, origin_msg_id=" "))
        assert recorder.calls == []
        await broker.ask(send_back(place, group="NS%G", origin_msg_id="0A", origin_topic="T"))
    ((what, context),) = recorder.calls
    assert what == "sent back"
    assert context == ConsumeMessageContext(
        namespace="NS",
        consumer_group="NS%G",
        topic="T",
        commercial_rcv_stats="SEND_BACK",
        commercial_rcv_times=1,
    )


def test_no_hooks_are_false() -> None:
    assert not ConsumeHooks(NO_HOOKS.consume)
    assert ConsumeHooks([Recorder()])


async def test_without_hooks_there_is_a_fast_path() -> None:
    async with open_message_broker(hooks=BrokerHooks(consume=(Recorder(),))) as broker:
        await broker.ask(send())
        assert broker.send_path.taken == [True]


# ---- loading --------------------------------------------------------------------------------------------------------


def own(name: str) -> str:
    return f"{__name__}:{name}"


def test_hooks_are_loaded_by_name() -> None:
    assert load_send_hooks("") == []
    (hook,) = load_send_hooks(own("Recorder"))
    assert hook.hook_name == "recorder"
    assert len(load_consume_hooks(f"{own('Recorder')}, {own('Recorder')}")) == 2
    hooks = BrokerHooks(send=(Recorder("passed"),)).with_configured(own("Recorder"), "")
    assert [each.hook_name for each in hooks.send] == ["recorder", "passed"]
    assert hooks.consume == ()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("nonsense", "sendMessageHooks = 'nonsense': expected package.module:factory"),
        ("no_such_module_here:x", "no_such_module_here cannot be imported"),
        (f"{__name__}:PROPERTIES", "has no PROPERTIES that can be called"),
        (f"{__name__}:Half", "without send_message_after"),
    ],
)
def test_what_is_no_hook_is_refused(value: str, says: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        load_send_hooks(value)
    assert says in str(refusal.value)


def test_what_is_no_consume_hook_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^consumeMessageHooks = 'nonsense': expected package.module:factory"):
        load_consume_hooks("nonsense")


@pytest.mark.parametrize(
    ("resource", "namespace"),
    [("", ""), ("TopicTest", ""), ("NS%T", "NS"), ("%RETRY%NS%G", "NS"), ("%DLQ%G", ""), ("%LMQ%a", ""), ("%T", "")],
)
def test_a_namespace_is_what_stands_in_front(resource: str, namespace: str) -> None:
    assert namespace_of(resource) == namespace
