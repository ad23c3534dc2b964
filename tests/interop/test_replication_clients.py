"""Official clients and a pair of brokers: they consume from the slave when the master is gone, and go back to it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.blackbox.wire import SUCCESS, Wire
from tests.interop import tools
from tests.interop.clients import Program
from tests.interop.conftest import TARGET
from tests.interop.pair import Member, Pair, open_pair

pytestmark = pytest.mark.java

TOPIC = "pairs"
QUEUES = 4
PER_QUEUE = 100  # a pull brings 32 at most


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, namesrv: str) -> Iterator[Pair]:
    """A master and a slave of the make under test, at a nameserver of ours."""
    with open_pair(tmp_path_factory.mktemp("pair"), namesrv, (TARGET, TARGET), "ASYNC_MASTER") as pair:
        pair.start()
        yield pair


def send(pair: Pair, begin: int) -> list[bytes]:
    """Send messages to each queue of the master and wait until the slave has them; their bodies are numbers."""
    bodies = [b"%d" % number for number in range(begin, begin + QUEUES * PER_QUEUE)]
    with Wire(pair.master.address) as wire:
        for number, body in enumerate(bodies):
            response = wire.send(TOPIC, number % QUEUES, body, f"TAGS\x01t\x02KEYS\x01k{number}\x02")
            assert response.code == SUCCESS, response
    pair.wait_equal()
    return bodies


def consumer(language: str, pair: Pair, topic: str, home: Path, group: str) -> Program:
    """Start a consumer of a language, in a group of its own."""
    return Program(language, "consume", home / group, namesrv=pair.master.namesrv, group=group, topic=topic)


def wait_bodies(program: Program, bodies: list[bytes]) -> None:
    """Wait until it has received these and no others, each once."""
    found = program.wait_messages(len(bodies))
    assert sorted(each.body for each in found) == sorted(bodies)


def committed(member: Member, topic: str, group: str) -> list[int]:
    """Return what a member knows of the offsets of a group."""
    with Wire(member.address) as wire:
        return [wire.consumer_offset(topic, group, queue_id) for queue_id in range(QUEUES)]


def test_consumers_go_on_at_the_slave_and_go_back(pair: Pair, tmp_path: Path) -> None:
    """One outage for the clients of all languages: it takes them up to half a minute to see it, or its end.

    Go's is not among them: a consumer of it that starts without a master gets nothing, from a Java slave neither.
    """
    with Wire(pair.master.address) as wire:
        assert wire.create_topic(TOPIC, QUEUES).code == SUCCESS
    with Wire(pair.slave.address) as wire:
        pair.slave.wait(lambda: f'"{TOPIC}"' in wire.topic_table(), "it does not know the topic")
    with ExitStack() as running:
        first = running.enter_context(consumer("java", pair, TOPIC, tmp_path, "before"))
        bodies = send(pair, 0)
        wait_bodies(first, bodies)
        first.send_signal(signal.SIGSTOP)  # so that messages are left for it when the master is gone
        bodies += send(pair, len(bodies))
        pair.master.kill()
        first.send_signal(signal.SIGCONT)
        wait_bodies(first, bodies)
        during = [
            running.enter_context(consumer(language, pair, TOPIC, tmp_path, f"during-{language}"))
            for language in ("java", "cpp", "node")
            if tools.is_available(language)
        ]
        for each in during:
            wait_bodies(each, bodies)
        ends = [len(bodies) // QUEUES] * QUEUES
        with consumer("java", pair, TOPIC, tmp_path, "ended") as ended:
            wait_bodies(ended, bodies)
        pair.slave.wait(lambda: committed(pair.slave, TOPIC, "ended") == ends, "it has no offsets of a group")
        pair.master.start()
        if TARGET != "java":  # RocketMQ's master does not ask, and its slave forgets them ten seconds later
            assert committed(pair.master, TOPIC, "ended") == ends
        pair.wait_following()
        bodies += send(pair, len(bodies))
        for each in (first, *during):
            wait_bodies(each, bodies)
    # Java's clients commit when they end; the others' do not, or to no broker.
    for group in ("before", "during-java"):
        assert committed(pair.master, TOPIC, group) == [len(bodies) // QUEUES] * QUEUES
