"""Which queues and messages options mean."""

from __future__ import annotations

import pytest

from rocketpy.errors import ClientError, SettingsError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.message import MessageQueue
from rocketpy.spark.live.cluster import Cluster, Replicas
from rocketpy.spark.live.subscription import (
    CHOOSES_EVERYTHING,
    Expression,
    Subscription,
    expression_of,
    is_subscribed,
    subscription_of,
)
from rocketpy.spark.options.option import Mode
from rocketpy.spark.options.parsing import parse

HERE = Replicas("b", {0: "127.0.0.1:1"}, "127.0.0.1:2")


class FakeCluster(Cluster):
    """Knows topics with two queues each; ``listed`` is in the list, and has no route."""

    def __init__(self) -> None:
        self.known = ["orders", "orders-eu", "%RETRY%g", "TBW102"]

    def topics(self) -> list[str]:
        return [*self.known, "orders-listed"]

    def queues(self, topic: str) -> dict[MessageQueue, Replicas]:
        if topic not in self.known:
            raise ClientError(ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} is not known")
        return {MessageQueue(topic, "b", number): HERE for number in range(2)}


def queues(**options: str) -> list[str]:
    found = subscription_of(parse(options, Mode.LIVE)).queues(FakeCluster())
    return sorted(f"{queue.topic}/{queue.queue_id}" for queue in found)


def mistake(**options: str) -> str:
    with pytest.raises(SettingsError) as caught:
        values = parse(options, Mode.LIVE)
        expression_of(values)
        subscription_of(values)
    return str(caught.value)


@pytest.mark.parametrize("name", ["topic", "subscribe", "consumer.topic"])
def test_topics_by_name(name: str) -> None:
    assert queues(**{name: "orders, orders-eu"}) == ["orders-eu/0", "orders-eu/1", "orders/0", "orders/1"]


def test_topics_by_pattern_are_whole_names_and_none_of_the_brokers_own() -> None:
    assert queues(subscribePattern="orders") == ["orders/0", "orders/1"]
    assert queues(subscribePattern="orders.*") == ["orders-eu/0", "orders-eu/1", "orders/0", "orders/1"]
    assert queues(subscribePattern=".*") == queues(subscribePattern="orders.*")
    assert queues(subscribePattern="%RETRY%.*") == ["%RETRY%g/0", "%RETRY%g/1"]
    assert queues(subscribePattern="nothing") == []


def test_system_topics_are_never_subscribed_by_a_pattern() -> None:
    for topic in ("TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_REVIVE"):
        assert not is_subscribed(".*", topic)
        assert not is_subscribed(topic, topic)
    assert not is_subscribed(".*", "%DLQ%g")


def test_queues_by_name() -> None:
    assert queues(assign='{"orders": {"b": [1]}, "orders-eu": {"b": [0]}}') == ["orders-eu/0", "orders/1"]


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(ClientError, match="option assign: topic orders broker b queue 7 is not there"):
        queues(assign='{"orders": {"b": [7]}}')
    with pytest.raises(ClientError, match="topic nowhere is not known"):
        queues(topic="orders,nowhere")


def test_exactly_one_of_them() -> None:
    assert "also needs one of the options topic or subscribe" in mistake()
    assert mistake(subscribe="T", subscribePattern="T").startswith("options subscribe and subscribePattern: expected")
    assert "topic and assign" in mistake(topic="T", assign='{"T": {"b": [0]}}')
    assert "expected a regular expression, found '(': " in mistake(subscribePattern="(")


def expression(**options: str) -> Expression:
    return expression_of(parse(options, Mode.LIVE))


def test_what_the_broker_chooses() -> None:
    assert expression() is CHOOSES_EVERYTHING
    assert expression(tags="*") is CHOOSES_EVERYTHING
    assert CHOOSES_EVERYTHING.is_everything
    assert expression(subExpression="A || B") == Expression("TAG", "A || B", frozenset({"A", "B"}))
    found = expression(sql="a > 3 AND TAGS = 'x'")
    assert found == Expression("SQL92", "a > 3 AND TAGS = 'x'")
    assert not found.is_everything


def test_wrong_expressions_are_refused_before_a_broker_sees_them() -> None:
    assert "option sql: expected an SQL92 expression, found 'a >'" in mistake(sql="a >")
    assert "option tags: expected tags as 'TagA || TagB', found '||'" in mistake(tags="||")
    assert "expected one of them" in mistake(tags="A", sql="a > 3")


def test_a_subscription_is_a_value() -> None:
    assert subscription_of(parse({"topic": "T"}, Mode.LIVE)) == Subscription(topics=("T",))
