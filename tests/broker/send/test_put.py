"""A put of a message built by the broker stores the same record as a send."""

from __future__ import annotations

from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.send.put import MessageExtBrokerInner, MessagePut
from tests.broker.message_broker import TOPIC, MessageBroker


async def test_a_message_is_stored_with_tags_keys_and_everything_it_says(broker: MessageBroker) -> None:
    put = MessagePut(store=broker.store, levels=DelayLevels.parse("1s 5s"))
    result = put.put(
        MessageExtBrokerInner(
            topic=TOPIC,
            queue_id=1,
            body=b"body",
            properties={"TAGS": "t", "KEYS": "a b", "UNIQ_KEY": "u"},
            flag=7,
            sys_flag=0x8,
            born_timestamp=5,
            born_host=b"\x0a\0\0\x01\0\0\0\x01",
            reconsume_times=2,
            prepared_transaction_offset=99,
        )
    )
    assert result.is_ok
    assert (result.topic, result.queue_id, result.queue_offset, result.physical_offset) == (TOPIC, 1, 0, 0)
    (message,) = await broker.messages(queue_id=1)
    assert message.properties == {"TAGS": "t", "KEYS": "a b", "UNIQ_KEY": "u"}
    assert (message.flag, message.sys_flag, message.born_timestamp) == (7, 8, 5)
    assert (message.born_host, message.reconsume_times) == ("10.0.0.1:1", 2)
    assert message.prepared_transaction_offset == 99
