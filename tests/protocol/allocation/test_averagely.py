"""Equal shares, as Java's."""

from __future__ import annotations

from rocketpy.protocol.allocation.averagely import AllocateAveragely, AllocateByCircle
from tests.protocol.allocation.golden_allocations import CASES, check


def test_consecutive_shares_are_those_of_java() -> None:
    check(AllocateAveragely(), "AVG")


def test_dealt_shares_are_those_of_java() -> None:
    check(AllocateByCircle(), "AVG_BY_CIRCLE")


def test_each_queue_has_exactly_one_owner() -> None:
    for strategy in (AllocateAveragely(), AllocateByCircle()):
        for case in CASES:
            if case.queues and case.client_ids:
                shares = [strategy.allocate("g", each, case.queues, case.client_ids) for each in case.client_ids]
                assert sorted(queue for share in shares for queue in share) == sorted(case.queues)
