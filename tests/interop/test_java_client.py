"""Java's client alone: its members hand queues over."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.clients import Program, ToSend, produce
from tests.interop.cluster import Cluster
from tests.patience import PATIENCE_MS

pytestmark = pytest.mark.java


def numbered(topic: str, count: int) -> list[ToSend]:
    """Return messages whose body is their number, and whose queue in mode orderly goes round."""
    return [ToSend(topic=topic, body=b"%d" % index, keys=f"key{index}", shard=index % 4) for index in range(count)]


def consumer(cluster: Cluster, directory: Path, group: str, topic: str, **more: object) -> Program:
    """Start Java's push consumer."""
    return Program("java", "consume", directory, namesrv=cluster.namesrv, group=group, topic=topic, **more)


def queues_of(program: Program) -> set[str]:
    """Return the queues that a Java consumer said last that it has."""
    said = program.lines("queues")
    found = said[-1]["queues"] if said else []
    assert isinstance(found, list)
    return {str(each) for each in found}


# The broker tells each member of a change at once: long before they would look again by themselves.
LOOKS_AGAIN_MS = 4 * PATIENCE_MS


def wait_share(first: Program, second: Program) -> None:
    """Wait until both have started, and then until each has two queues."""
    for each in (first, second):
        each.wait_started()
    for each in (first, second):
        each.wait_until(lambda each=each: len(queues_of(each)) == 2, "two queues")


@pytest.mark.sample
def test_when_a_consumer_leaves_the_other_takes_its_queues_where_it_stopped(
    cluster: Cluster, tmp_path: Path, topic: str, group: str
) -> None:
    more = {"rebalance_ms": LOOKS_AGAIN_MS}
    with consumer(cluster, tmp_path / "first", group, topic, **more) as first:
        with consumer(cluster, tmp_path / "second", group, topic, **more) as second:
            wait_share(first, second)
            produce("java", cluster.namesrv, numbered(topic, 40), tmp_path / "produce-1", mode="orderly")
            first.wait_messages(20)
            second.wait_messages(20)
        first.wait_until(lambda: len(queues_of(first)) == 4, "four queues")
        produce("java", cluster.namesrv, numbered(topic, 40), tmp_path / "produce-2", mode="orderly")
        first.wait_messages(60)
    assert len(first.messages()) + len(second.messages()) == 80
    assert len({(each.queue_id, each.queue_offset) for each in [*first.messages(), *second.messages()]}) == 80
