"""The client in plain code, with a broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rocketpy import client as trio_client_package
from rocketpy.client import ConsumeFromWhere, LitePullConfig, Message, blocking
from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerInThread]:
    with open_broker_in_thread(BrokerOptions()) as broker:
        yield broker


def test_messages_are_sent_and_pulled(broker: BrokerInThread) -> None:
    with blocking.open_client(broker.name_server) as client:
        with client.producer("g") as producer:
            for number in range(5):
                producer.send(Message("Blocking", b"%d" % number))
            assert producer.send_nowait(Message("Blocking", b"soon")).wait().msg_id
        with (
            client.pull_consumer("c") as consumer,
            consumer.open_messages("Blocking", start="beginning", until_end=True) as messages,
        ):
            bodies = [message.body for message in messages]
    assert sorted(bodies) == [b"0", b"1", b"2", b"3", b"4", b"soon"]


def test_messages_are_polled(broker: BrokerInThread) -> None:
    with blocking.open_producer(broker.name_server) as producer:
        for number in range(5):
            producer.send(Message("BlockingPolled", b"%d" % number))
    polled: list[bytes] = []
    first = LitePullConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    with blocking.open_lite_pull_consumer(
        broker.name_server, group="g", topics=["BlockingPolled"], consumer=first
    ) as consumer:
        queues = consumer.wait_assigned()
        consumer.pause(queues)
        assert consumer.paused == queues
        consumer.resume(queues)
        for messages in consumer:
            polled += [each.body for each in messages]
            consumer.commit()
            if len(polled) == 5:
                break
    assert sorted(polled) == [b"0", b"1", b"2", b"3", b"4"]


def test_every_opener_of_the_client_is_there(broker: BrokerInThread) -> None:
    openers = {name for name in trio_client_package.__all__ if name.startswith("open_")}
    assert {name for name in openers if not callable(getattr(blocking, name))} == set()
    with pytest.raises(AttributeError, match="open_nothing"):
        _ = blocking.open_nothing
    with blocking.open_admin_client(broker.name_server) as admin:
        admin.create_topic("Blocking2")
        assert "Blocking2" in admin.topics.names()
