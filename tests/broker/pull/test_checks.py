"""Repeated checks of held pulls, the suggested broker, and consume hooks.

The checks of a first pull are in test_processor.py, those of SQL92 in test_sql.py.
"""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from rocketpy.broker.hooks import BrokerHooks, ConsumeMessageContext
from rocketpy.broker.pull import checks as pull_check
from rocketpy.broker.pull.request import PullRequest
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.connection import Connection
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import TOPIC, MessageBroker, open_message_broker, pull, send
from tests.broker.pull.pulling import LOG_FILE, SUBSCRIPTION, SUSPEND, bodies, hold, send_tags, subscribe


def held_pulls(broker: MessageBroker, monkeypatch: pytest.MonkeyPatch) -> list[PullRequest]:
    """Return the list of the pulls that are held from now on."""
    pulls: list[PullRequest] = []
    suspend = broker.hold.suspend

    def noted(pull_request: PullRequest, *limits: int) -> object:
        pulls.append(pull_request)
        return suspend(pull_request, *limits)

    monkeypatch.setattr(broker.hold, "suspend", noted)
    return pulls


def only(connection: Connection) -> RemotingCommand:
    (answer,) = received(connection)
    assert connection.deferred_count == 0
    return answer


# ---- held pulls are checked again ------------------------------------------------------------------------------------


async def test_a_group_that_was_switched_off_is_refused_when_a_message_arrives() -> None:
    async with open_message_broker() as broker:
        connection = await hold(broker)
        broker.tables.groups.disable_consume("G")
        await send_tags(broker, "a")
        answer = only(connection)
        assert (answer.code, answer.remark) == (16, "subscription group no permission, G")


async def test_a_topic_that_is_gone_or_not_readable_any_more() -> None:
    async with open_message_broker() as broker:
        connection = await hold(broker)
        broker.add_topic(perm=2)
        await send_tags(broker, "a")
        assert only(connection).code == ResponseCode.NO_PERMISSION


async def test_a_group_that_stopped_subscribing() -> None:
    async with open_message_broker() as broker:
        subscribe(broker, SubscriptionData(TOPIC, "*", 1))
        connection = await hold(broker, sys_flag=SUSPEND)
        subscribe(broker, SubscriptionData("Other", "*", 2))
        await send_tags(broker, "a")
        assert only(connection).code == ResponseCode.SUBSCRIPTION_NOT_EXIST


async def test_other_tags_count_from_where_the_pull_began() -> None:
    """Messages skipped by the old tags may match the new ones."""
    async with open_message_broker() as broker:
        subscribe(broker, SubscriptionData(TOPIC, "a", 1))
        connection = await hold(broker, sys_flag=SUSPEND)
        await send_tags(broker, "b", "c")
        assert received(connection) == []
        subscribe(broker, SubscriptionData(TOPIC, "b || d", 2))
        await send_tags(broker, "d")
        assert bodies(only(connection)) == ["b", "d"]


@pytest.mark.parametrize("brings_it", [True, False])
async def test_a_held_pull_parses_its_expression_once_until_its_group_brings_another(
    monkeypatch: pytest.MonkeyPatch, brings_it: bool
) -> None:
    """Each message of a queue wakes its pulls: were they parsed again, a few of them would stop the broker."""
    parsed: list[str | None] = []
    real = pull_check.parse_tag_expression

    def noted(topic: str, expression: str | None) -> SubscriptionData:
        parsed.append(expression)
        return real(topic, expression)

    monkeypatch.setattr(pull_check, "parse_tag_expression", noted)
    long = "||".join(f"tag{number}" for number in range(900))

    async def parse_others(broker: MessageBroker) -> None:
        """Pull with more long expressions than are cached."""
        for number in range(100):
            await broker.ask(pull(subscription=f"{number}" + "x" * 1000, queue_id=1))
        parsed[:] = [each for each in parsed if each in (long, "new")]

    async with open_message_broker() as broker:
        subscribe(broker, SubscriptionData(TOPIC, long, 1))
        connection = await hold(broker, subscription=long, sys_flag=SUSPEND | (SUBSCRIPTION if brings_it else 0))
        for _ in range(5):
            await parse_others(broker)
            await send_tags(broker, "a")
        assert parsed == [long]
        subscribe(broker, SubscriptionData(TOPIC, "new", 2))
        for _ in range(3):
            await parse_others(broker)
            await send_tags(broker, "b")
        assert parsed == [long] if brings_it else [long, "new"]
        assert connection.deferred_count == 1
        await send_tags(broker, "tag7" if brings_it else "new")
        assert len(bodies(only(connection))) == 1


async def test_what_a_held_pull_does_not_need_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_message_broker() as broker:
        pulls = held_pulls(broker, monkeypatch)
        subscribe(broker, SubscriptionData(TOPIC, "x", 1))
        await hold(broker, subscription="s" * 100_000, expression_type="e" * 100_000, sys_flag=SUSPEND)
        (pull_request,) = pulls
        assert (pull_request.header.subscription, pull_request.header.expression_type) == (None, None)
        assert pull_request.held_bytes == pull_check.HELD_BYTES


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("x" * 32_769, "expected at most 32768 characters of tags, found 32769"),
        ("||".join(["x"] * 1001), "expected at most 1000 tags in an expression, found 1001"),
    ],
)
async def test_expressions_of_tags_are_bounded(expression: str, why: str) -> None:
    async with open_message_broker() as broker:
        answer = await broker.ask(pull(subscription=expression))
        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
        assert answer.remark == f"parse the consumer's subscription failed: {why}"


# ---- the suggested broker --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("is_slow", "slave_read_enable", "broker_id"),
    [(False, False, 0), (True, False, 0), (False, True, 5), (True, True, 7)],
)
async def test_a_group_says_which_broker_its_consumers_ask(
    monkeypatch: pytest.MonkeyPatch, is_slow: bool, slave_read_enable: bool, broker_id: int
) -> None:
    async with open_message_broker(slave_read_enable=slave_read_enable) as broker:
        config = SubscriptionGroupConfig("G", broker_id=5, which_broker_when_consume_slowly=7)
        broker.tables.groups.update_subscription_group_config(config)
        await send_tags(broker, "a")
        read = broker.store.get_message_nowait

        def slow(*arguments: object) -> object:
            result = read(*arguments)  # type: ignore[arg-type]
            assert result is not None
            return attrs.evolve(result, suggest_pulling_from_slave=is_slow)

        if not is_slow:  # messages at the end of the log, which the fast path reads
            assert offsets_and_broker(await broker.ask(pull())) == (1, broker_id)
        monkeypatch.setattr(broker.store, "get_plain_nowait", lambda *arguments: None)
        monkeypatch.setattr(broker.store, "get_message_nowait", slow)
        assert offsets_and_broker(await broker.ask(pull())) == (1, broker_id)


def offsets_and_broker(answer: RemotingCommand) -> tuple[int, int]:
    fields = answer.ext_fields or {}
    return int(fields["nextBeginOffset"]), int(fields["suggestWhichBrokerId"])


# ---- hooks -----------------------------------------------------------------------------------------------------------


@attrs.define
class Hook:
    hook_name: str = "noting"
    contexts: list[ConsumeMessageContext] = attrs.Factory(list)
    failure: Exception | None = None

    def consume_message_before(self, context: ConsumeMessageContext) -> None:
        self.contexts.append(context)
        if self.failure is not None:
            raise self.failure

    def consume_message_after(self, context: ConsumeMessageContext) -> None:
        raise AssertionError("nothing was sent back")


async def test_hooks_are_called_for_every_answer(autojump_clock: trio.testing.MockClock) -> None:
    hook = Hook()
    async with open_message_broker(hooks=BrokerHooks(consume=(hook,)), commercial_base_count=3) as broker:
        broker.use_general_path()
        await broker.ask(send(b"x" * 70_000))
        await broker.ask(send(b"small"))
        request = pull(consumer_group="NS%G")
        assert request.ext_fields is not None
        request.ext_fields["Owner"] = "me"
        found = await broker.ask(request)
        await broker.ask(pull(queue_offset=2))
        await broker.ask(pull(queue_offset=9))
        connection = await hold(broker, queue_offset=2)
        assert len(hook.contexts) == 3, "a pull that is held has no answer yet"
        first, *others = hook.contexts
        assert attrs.evolve(first) == ConsumeMessageContext(
            namespace="NS",
            consumer_group="NS%G",
            topic=TOPIC,
            queue_id=0,
            commercial_owner="me",
            commercial_rcv_stats="RCV_SUCCESS",
            commercial_rcv_times=(2 + 1) * 3,
            commercial_rcv_size=len(found.body or b""),
        )
        assert [(each.commercial_rcv_stats, each.commercial_rcv_times) for each in others] == [("RCV_EPOLLS", 1)] * 2
        await send_tags(broker, "a")
        assert only(connection).code == 0
        assert hook.contexts[-1].commercial_rcv_stats == "RCV_SUCCESS"


async def test_hooks_disable_the_fast_path_which_does_not_read_the_owner() -> None:
    async with open_message_broker(hooks=BrokerHooks(consume=(Hook(),))) as broker:
        prefix = b'{"code":%d,"' % RequestCode.PULL_MESSAGE
        assert prefix not in broker.dispatcher.fast_paths
        assert (await broker.ask(pull())).code == ResponseCode.PULL_NOT_FOUND


@pytest.mark.parametrize("way", ["at once", "held", "out of time", "cold"])
async def test_a_hook_that_raises_fails_its_pull_and_nothing_else(
    way: str, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery, caplog: pytest.LogCaptureFixture
) -> None:
    """As hooks.py says, whenever the pull is answered."""
    hook, disk = Hook(failure=ValueError("a bug of the hook")), SimDisk()
    async with open_message_broker(disk=disk, hooks=BrokerHooks(consume=(hook,))) as broker:
        await nursery.start(broker.hold.run)
        connection = broker.connect()
        request = pull(sys_flag=SUBSCRIPTION | SUSPEND, opaque=77, suspend_timeout_millis=5000)
        if way in ("at once", "cold"):
            await send_tags(broker, "a")
        if way == "cold":
            disk.evict(LOG_FILE)
        answers = await broker.ask_all(request, connection)
        if way == "held":
            await send_tags(broker, "a")
        elif way == "out of time":
            await trio.sleep(6)
        (answer,) = answers or received(connection)
        assert (answer.code, answer.opaque) == (ResponseCode.SYSTEM_ERROR, 77)
        assert connection.deferred_count == 0
        assert broker.hold.statistics().held == 0
        (record,) = [record for record in caplog.records if record.exc_info is not None]
        assert record.exc_info is not None
        assert record.exc_info[1] is hook.failure
        hook.failure = None
        if way == "out of time":
            await send_tags(broker, "a")
        assert bodies(await broker.ask(pull(), connection)) == ["a"], "the broker lives"
        nursery.cancel_scope.cancel()
