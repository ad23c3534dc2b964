"""The configured list, as Java's."""

from __future__ import annotations

from rocketpy.protocol.allocation.by_config import AllocateByConfig
from rocketpy.protocol.message import MessageQueue
from tests.protocol.allocation.golden_allocations import check


def test_every_client_gets_the_configured_queues_whatever_there_is() -> None:
    check(AllocateByConfig([MessageQueue("T", "b", 3)]), "CONFIG")
