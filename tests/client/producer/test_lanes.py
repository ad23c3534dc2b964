"""Queues of sends that wait for the same."""

from __future__ import annotations

import trio
import trio.testing

from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.delivery import Delivery
from rocketpy.client.producer.lanes import Lane, Lanes
from rocketpy.client.producer.retry_rules import sync_rules


def waiting() -> Delivery:
    delivery = Delivery(None, sync_rules(ProducerConfig()))  # type: ignore[arg-type] - a lane does not look at it
    delivery.attempts = 1
    delivery.is_waiting = True
    return delivery


def test_attempts_leave_in_order_and_those_given_up_are_skipped() -> None:
    lane, sends = Lane("T"), [waiting() for _ in range(4)]
    for each in sends:
        lane.add(each)
    sends[0].is_waiting = False
    sends[2].attempts = 2  # a later attempt, which does not wait here
    assert lane.first() is sends[1]
    assert lane.first() is sends[1]
    assert lane.take_first()
    assert lane.first() is sends[3]
    sends[3].is_waiting = False
    assert not lane.take_first()
    assert lane.first() is None


async def test_a_lane_is_there_as_long_as_something_serves_it() -> None:
    served: list[Delivery] = []
    go_on = trio.Event()

    async def serve(lane: Lane) -> None:
        while (delivery := lane.first()) is not None:
            await go_on.wait()
            assert lane.take_first()
            served.append(delivery)

    async with trio.open_nursery() as nursery:
        lanes, sends = Lanes(nursery.start_soon, serve), [waiting(), waiting()]
        lanes.open("T", sends[0])
        await trio.testing.wait_all_tasks_blocked()
        lane = lanes.get("T")
        assert lane is not None
        assert lanes.get("U") is None
        lane.add(sends[1])
        go_on.set()
    assert served == sends
    assert lanes.get("T") is None
