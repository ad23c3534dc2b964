"""Tables between brokers of either make: a slave takes its master's, and progress that was committed to it comes home.

Neither slave nor master knows the other's make. A Java slave of a Java master is left out: it sets progress back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.blackbox.processes import running_nameserver
from tests.blackbox.wire import SUCCESS, Wire
from tests.interop.pair import Member, open_pair

pytestmark = pytest.mark.java

Kinds = tuple[str, str]
KINDS: Sequence[Kinds] = [("java", "rocketpy"), ("rocketpy", "java")]
"""Of which make master and slave are. Of ours alone: ``tests/broker/replication``."""

TOPIC, GROUP = "tables", "readers"
COMMIT, DELAY_OFFSETS = 15, 45
COUNT = 20


def commit(member: Member, offset: int) -> None:
    fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "commitOffset": offset}
    with Wire(member.address) as wire:
        assert wire.request(COMMIT, dict(fields)).code == SUCCESS


def progress(member: Member) -> int:
    with Wire(member.address) as wire:
        return wire.consumer_offset(TOPIC, GROUP, 0)


def topics_of(member: Member) -> dict[str, object]:
    """Return the table of topics with its version, as a dict."""
    with Wire(member.address) as wire:
        table: dict[str, object] = json.loads(wire.topic_table())
        return table


def stored_delays(member: Member) -> dict[str, str]:
    """Return the progress of delay levels in a member's file."""
    path = member.store / "config" / "delayOffset.json"
    text = path.read_text() if path.exists() else ""
    return dict(re.findall(r"(\d+):(\d+)", text.partition("}")[0]))


def live(kinds: Kinds, directory: Path) -> None:
    """Let a master and a slave of these kinds, with a nameserver of their own, live through all of it."""
    directory.mkdir()
    with running_nameserver(directory) as namesrv, open_pair(directory, namesrv, kinds, "ASYNC_MASTER") as pair:
        master, slave = pair.master, pair.slave
        pair.start()
        with Wire(master.address) as wire:
            assert wire.create_topic(TOPIC, 2).code == SUCCESS
            for _ in range(COUNT):
                assert wire.send(TOPIC, 0, b"x").code == SUCCESS
            assert wire.send(TOPIC, 1, b"delayed", "DELAY\x011\x02").code == SUCCESS
            master.wait(lambda: wire.max_offset(TOPIC, 1) == 1, "it does not deliver")
        commit(master, 5)
        slave.wait(lambda: progress(slave) == 5, "it does not take the progress")
        slave.wait(lambda: topics_of(slave) == topics_of(master), "it does not take the topics")
        slave.wait(lambda: stored_delays(slave).get("1") == "1", "it does not store the progress of delayed messages")
        commit(master, 3)
        slave.wait(lambda: progress(slave) == 3, "it does not take a reset")
        pair.wait_equal()
        master.kill()
        commit(slave, 12)
        master.start()
        master.wait(lambda: progress(master) == 12, "the progress does not come home")
        commit(master, 13)
        slave.wait(lambda: progress(slave) == 13, "it does not take the progress of another life")
        master.stop()
        slave.stop()


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory, java_jars: Path) -> Iterator[Mapping[Kinds, Future[None]]]:
    """All pairs at the same time: each does little but wait for four rounds of its slave, which are 10 s apart."""
    directory = tmp_path_factory.mktemp("pairs")
    with ThreadPoolExecutor(len(KINDS)) as threads:
        yield {kinds: threads.submit(live, kinds, directory / "-".join(kinds)) for kinds in KINDS}


@pytest.mark.parametrize("kinds", KINDS)
def test_a_slave_has_its_masters_tables_and_progress_comes_home(
    kinds: Kinds, lives: Mapping[Kinds, Future[None]]
) -> None:
    lives[kinds].result()
