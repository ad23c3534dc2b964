"""A load of 32 clients in virtual time: each acknowledged message is consumed, in the order of its queue.

See ``many_clients.py``. A run that fails names its number; ``Load(number).run()`` is that run again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from property_tests.hunts import skip_where_compiled
from property_tests.many_clients import QUEUES, Load, LoadBroken
from rocketpy.broker.delay.delivery import ScheduleMessageService
from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager

RUNS = {"dev": 1, "ci": 6, "deep": 200}[os.environ.get("ROCKETPY_TIER", "dev")]
QUIET_TICKS_ENOUGH = 100
"""In so many all is consumed in run 0, in which bugs are looked for."""

Function = Callable[..., Any]


@pytest.mark.parametrize("number", range(RUNS))
def test_each_message_is_consumed_in_order(number: int) -> None:
    load = Load(number)
    load.run()
    assert len(load.acknowledged) > 1_000
    assert load.sent_back_count > 20
    repeated = sum(count > 1 for count in load.done.values())
    assert repeated < len(load.acknowledged) // 2, "some repeat after rebalancing and crashes, most do not"


def test_a_number_is_a_run() -> None:
    run = Load(1).run()
    assert Load(1).run() == run
    assert Load(2).run() != run


def _one_too_far(query_offset: Function) -> Function:
    def queried(self: Any, group: str, topic: str, queue_id: int) -> int:
        offset = int(query_offset(self, group, topic, queue_id))
        return offset + (offset > 20)

    return queried


def _never_comes_back(deliver: Function) -> Function:
    def delivered(self: Any, queue: Any, unit: Any, record: Any) -> bool:
        return True

    return delivered


@pytest.mark.parametrize(
    ("owner", "name", "change"),
    [
        (ConsumerOffsetManager, "query_offset", _one_too_far),
        (ScheduleMessageService, "_deliver_one", _never_comes_back),
    ],
)
def test_planted_bugs_are_found(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, change: Callable[[Function], Function]
) -> None:
    skip_where_compiled(owner)
    monkeypatch.setattr(owner, name, change(getattr(owner, name)))
    with pytest.raises(LoadBroken, match="run 0: "):
        Load(0, quiet_ticks_max=QUIET_TICKS_ENOUGH).run()


def test_the_run_with_bugs_is_a_good_one_without_them() -> None:
    Load(0, quiet_ticks_max=QUIET_TICKS_ENOUGH).run()


def test_the_load_is_what_it_says() -> None:
    assert len(QUEUES) == 13
    assert DelayLevels.parse("1s 2s 4s 8s").delays_ms[2] == 4_000  # of the first retry
