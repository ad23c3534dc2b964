"""Messages as values."""

from __future__ import annotations

from rocketpy.protocol.message import Message, MessageExt, MessageQueue


def test_queues_are_ordered_by_topic_broker_and_number() -> None:
    queues = [
        MessageQueue("T", "b", 1),
        MessageQueue("S", "c", 9),
        MessageQueue("T", "a", 2),
        MessageQueue("T", "b", 0),
    ]
    assert sorted(queues) == [queues[1], queues[2], queues[3], queues[0]]
    assert len({MessageQueue("T", "b", 1), *queues}) == 4


def test_tags_and_keys_are_properties() -> None:
    message = Message("T", b"", {"TAGS": "A", "KEYS": "k1 k2"})
    assert (message.tags, message.keys) == ("A", "k1 k2")
    stored = MessageExt("T", b"", {"TAGS": "A", "KEYS": "k1 k2"})
    assert (stored.tags, stored.keys) == ("A", "k1 k2")
    assert (MessageExt("T", b"").tags, Message("T", b"").keys) == (None, None)


def test_the_message_id_is_the_clients_or_without_one_the_brokers() -> None:
    stored = MessageExt("T", b"", physical_offset=1024, store_host="10.0.0.2:10911")
    assert stored.offset_msg_id == stored.msg_id == "0A00000200002A9F0000000000000400"
    stored.properties["UNIQ_KEY"] = "U"
    assert stored.msg_id == "U"
    assert stored.offset_msg_id == "0A00000200002A9F0000000000000400"


def test_a_message_is_created_with_rocketmqs_own_properties() -> None:
    message = Message.create(
        "T",
        b"x",
        tags="a",
        keys=["k1", "k2"],
        delay_level=3,
        wait_store_msg_ok=False,
        buyer_id="b",
        properties={"colour": "blue"},
        flag=7,
    )
    assert message == Message(
        "T",
        b"x",
        {"colour": "blue", "TAGS": "a", "KEYS": "k1 k2", "DELAY": "3", "BUYER_ID": "b", "WAIT": "false"},
        7,
    )
    assert (message.tags, message.keys) == ("a", "k1 k2")


def test_what_is_not_given_is_not_set_but_that_the_sender_waits() -> None:
    assert Message.create("T", b"x") == Message("T", b"x", {"WAIT": "true"})
    assert Message.create("T", b"x", keys="k").keys == "k"
