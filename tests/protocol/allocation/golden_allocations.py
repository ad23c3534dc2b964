"""What Java's strategies answered: for each case one list, or one error, for each member."""

from __future__ import annotations

import attrs

from rocketpy.protocol.allocation.strategy import AllocateMessageQueueStrategy
from rocketpy.protocol.message import MessageQueue
from tests.recorded import VECTORS

ALLOCATIONS = VECTORS["allocate"]
TOPIC = "T"


@attrs.frozen
class Case:
    """Queues, members, and the answer by strategy name and member."""

    queues: list[MessageQueue]
    client_ids: list[str]
    results: dict[str, list[object]]


def _queue(text: str) -> MessageQueue:
    broker_name, _, number = text.rpartition(":")
    return MessageQueue(TOPIC, broker_name, int(number))


CASES = [
    Case(
        [_queue(each) for each in filter(None, vector["queues"].split(","))],
        vector["consumers"],
        vector["result_per_consumer"],
    )
    for vector in ALLOCATIONS
    if "result_per_consumer" in vector
]


def answers(strategy: AllocateMessageQueueStrategy, case: Case) -> list[object]:
    """What a strategy of ours answers each member, in the form of the vectors."""
    return [_answer(strategy, case, client_id) for client_id in case.client_ids]


def _answer(strategy: AllocateMessageQueueStrategy, case: Case, client_id: str) -> object:
    try:
        share = strategy.allocate("g", client_id, case.queues, case.client_ids)
    except ValueError as failure:
        return {"error": "java.lang.IllegalArgumentException", "message": str(failure)}
    return [f"{queue.broker_name}:{queue.queue_id}" for queue in share]


def check(strategy: AllocateMessageQueueStrategy, recorded_as: str) -> None:
    """Compare a strategy with every recorded case."""
    assert len(CASES) == 96
    for case in CASES:
        assert answers(strategy, case) == case.results[recorded_as], case
