"""The names of results are Java's."""

from __future__ import annotations

from rocketpy.client.consumer.statuses import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus


def test_the_names_are_those_of_java() -> None:
    assert [each.value for each in ConsumeConcurrentlyStatus] == ["CONSUME_SUCCESS", "RECONSUME_LATER"]
    assert [each.value for each in ConsumeOrderlyStatus] == [
        "SUCCESS",
        "ROLLBACK",
        "COMMIT",
        "SUSPEND_CURRENT_QUEUE_A_MOMENT",
    ]
