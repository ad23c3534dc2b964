"""One message that an administrator hands to a consumer."""

from __future__ import annotations

import pytest

from rocketpy.client.consumer.batch import MessageBatch
from rocketpy.client.consumer.direct_consumption import DirectConsumption
from rocketpy.client.consumer.statuses import ConsumeConcurrentlyStatus, ConsumeOrderlyStatus
from rocketpy.client.namespace import Namespace
from rocketpy.errors import RequestError
from rocketpy.protocol.message import MessageExt

Status = ConsumeConcurrentlyStatus | ConsumeOrderlyStatus | None


def direct(
    result: Status | Exception, seen: list[MessageBatch] | None = None, *, is_orderly: bool = True
) -> DirectConsumption:
    async def handler(batch: MessageBatch) -> Status:
        if seen is not None:
            seen.append(batch)
        if isinstance(result, Exception):
            raise result
        return result

    return DirectConsumption("%RETRY%g", is_orderly=is_orderly, auto_commit=False, handler=handler)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, "CR_SUCCESS"),
        (ConsumeConcurrentlyStatus.CONSUME_SUCCESS, "CR_SUCCESS"),
        (ConsumeConcurrentlyStatus.RECONSUME_LATER, "CR_LATER"),
        (ConsumeOrderlyStatus.SUCCESS, "CR_SUCCESS"),
        (ConsumeOrderlyStatus.COMMIT, "CR_COMMIT"),
        (ConsumeOrderlyStatus.ROLLBACK, "CR_ROLLBACK"),
        (ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT, "CR_LATER"),
    ],
)
async def test_results_have_the_names_of_java(status: Status, expected: str) -> None:
    is_orderly = not isinstance(status, ConsumeConcurrentlyStatus)
    found = await direct(status, is_orderly=is_orderly).consume(MessageExt("T", b"x"))
    assert (found.consume_result, found.order, found.auto_commit) == (expected, is_orderly, False)
    assert found.remark is None


@pytest.mark.parametrize("status", [True, "CR_SUCCESS", ConsumeConcurrentlyStatus.CONSUME_SUCCESS])
async def test_a_result_of_another_kind_is_a_failure(status: object) -> None:
    found = await direct(status).consume(MessageExt("T", b"x"))  # type: ignore[arg-type]
    assert found.consume_result == "CR_THROW_EXCEPTION"
    assert "expected ConsumeOrderlyStatus or None" in (found.remark or "")


async def test_a_handler_that_fails_is_reported() -> None:
    found = await direct(ZeroDivisionError("why")).consume(MessageExt("T", b"x"))
    assert (found.consume_result, found.remark) == ("CR_THROW_EXCEPTION", "ZeroDivisionError: why")


async def test_a_retry_has_its_original_topic() -> None:
    seen: list[MessageBatch] = []
    await direct(None, seen).consume(MessageExt("%RETRY%g", b"x", {"RETRY_TOPIC": "T"}, broker_name="b"))
    (batch,) = seen
    assert batch.messages[0].topic == "T"
    assert (batch.queue.topic, batch.queue.broker_name, batch.auto_commit) == ("T", "b", False)


async def test_without_a_handler_there_is_nothing_to_call() -> None:
    with pytest.raises(RequestError, match="no handler"):
        await DirectConsumption("%RETRY%g", is_orderly=False).consume(MessageExt("T", b"x"))


@pytest.mark.parametrize(
    "message", [MessageExt("NS%T", b"x"), MessageExt("%RETRY%NS%g", b"x", {"RETRY_TOPIC": "NS%T"})]
)
async def test_a_handler_sees_no_namespace(message: MessageExt) -> None:
    seen: list[str] = []

    async def handler(batch: MessageBatch) -> None:
        seen.extend((batch.queue.topic, batch.messages[0].topic))

    direct = DirectConsumption("%RETRY%NS%g", is_orderly=False, handler=handler, namespace=Namespace("NS"))
    await direct.consume(message)
    assert seen == ["T", "T"]
