"""The fast path of sends: which requests it takes, which it declines, and when its cache is invalidated.

Its equivalence with the general path is tested in ``test_fast_and_general_path``.
"""

from __future__ import annotations

import pytest

from rocketpy.broker.hooks import NO_HOOKS, BrokerHooks, SendMessageContext
from rocketpy.protocol.codes import RequestCode, ResponseCode, SerializeType
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from tests.broker.broker_on_bytes import received
from tests.broker.message_broker import MessageBroker, open_message_broker, send
from tests.broker.send.test_batch import item, send_batch
from tests.worst_requests import SLICE_SECONDS_MAX, processor_seconds


async def test_it_takes_plain_messages_and_batches(broker: MessageBroker) -> None:
    java = "KEYS\x01a b\x02UNIQ_KEY\x010A\x02WAIT\x01true\x02TAGS\x01t"
    for request in (send(), send(oneway=True), send(properties=java)):
        await broker.ask_all(request)
    await broker.ask(send_batch(item(b"1", b"") * 3))
    assert (broker.send_path.taken, broker.batch_path.taken) == ([True] * 3, [True])


@pytest.mark.parametrize(
    "request_",
    [
        send(properties=""),
        send(properties="DELAY\x011"),
        send(properties="TRAN_MSG\x01true"),
        send(properties="INNER_MULTI_DISPATCH\x01a"),
        send(properties="INNER_MULTI_QUEUE_OFFSET\x010"),
        send(properties="a\x01b\x02TRAN_PREPARED_QUEUE_OFFSET\x010"),
        send(properties="a\x01b\x02TRANSACTION_CHECK_TIMES\x010"),
        send(properties="WAIT\x01false\x02a\x01b"),
        send(queue_id=-1),
        send(queue_id=4),
        send(topic="Unknown"),
        send(topic="%RETRY%G"),
        send(topic="SELF_TEST_TOPIC"),
        send(batch=True),
    ],
)
async def test_it_leaves_the_rest(broker: MessageBroker, request_: RemotingCommand) -> None:
    await broker.ask(request_)
    assert broker.send_path.taken == [False]


async def test_other_codes_and_forms_are_not_offered_to_it(broker: MessageBroker) -> None:
    await broker.ask(send(code=RequestCode.SEND_MESSAGE))
    await broker.ask(send(serialize_type=SerializeType.ROCKETMQ))
    assert broker.send_path.taken == []


class NoHook:
    hook_name = "none"

    def send_message_before(self, context: SendMessageContext) -> None:
        pass

    def send_message_after(self, context: SendMessageContext) -> None:
        pass


@pytest.mark.parametrize("way", ["fast", "general", "hooks"])
@pytest.mark.parametrize(
    "properties",
    [
        "a\x01b\x02" * 35_000,
        "\x02".join(f"{number}\x011" for number in range(25_000)),
        "\x02".join(f"{number}\x011" for number in range(8000))[:65_000],
        "UNIQ_KEY\x01" + "k" * 400_000 + "\x02WAIT\x01true",
        "KEYS\x01" + "k " * 200_000,
        "DELAY\x01" + "1" * 400_000,
        "INNER_MULTI_DISPATCH\x01" + "a," * 200_000,
    ],
    ids=["one name", "many names", "as many as are taken apart", "a long key", "many keys", "delay", "queues"],
)
async def test_properties_as_long_as_a_header_do_not_block_the_loop(way: str, properties: str) -> None:
    """They are refused for their length before they are split, on every path into the store."""
    hooks = BrokerHooks(send=(NoHook(),)) if way == "hooks" else NO_HOOKS
    async with open_message_broker(hooks=hooks, has_fast_paths=way != "general") as broker:
        await broker.ask(send())
        frame = encode_frame(send(properties=properties))
        codes = set()

        def ask() -> None:
            connection = broker.connect()
            connection.receive(frame)
            connection.serve(1)
            codes.update(answer.code for answer in received(connection))

        assert processor_seconds(ask) < SLICE_SECONDS_MAX
        assert codes == {ResponseCode.MESSAGE_ILLEGAL}
        assert len(await broker.messages()) == 1
