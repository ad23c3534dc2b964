"""The names of results are Java's."""

from __future__ import annotations

import pytest

from rocketpy.client.consumer.statuses import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus, checked_status


def test_the_names_are_those_of_java() -> None:
    assert [each.value for each in ConsumeConcurrentlyStatus] == ["CONSUME_SUCCESS", "RECONSUME_LATER"]
    assert [each.value for each in ConsumeOrderlyStatus] == [
        "SUCCESS",
        "ROLLBACK",
        "COMMIT",
        "SUSPEND_CURRENT_QUEUE_A_MOMENT",
    ]


def test_only_a_status_of_the_handlers_kind_or_none_is_a_result() -> None:
    assert checked_status(None, ConsumeOrderlyStatus) is None
    assert checked_status(ConsumeOrderlyStatus.COMMIT, ConsumeOrderlyStatus) is ConsumeOrderlyStatus.COMMIT
    for nonsense in (True, "SUCCESS", ConsumeConcurrentlyStatus.CONSUME_SUCCESS, "x" * 10_000):
        with pytest.raises(TypeError, match="expected ConsumeOrderlyStatus or None") as caught:
            checked_status(nonsense, ConsumeOrderlyStatus)
        assert len(str(caught.value)) < 200
