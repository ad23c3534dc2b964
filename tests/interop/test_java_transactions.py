"""Transactions with Java's producer: committed, rolled back, decided by a check, and never decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.interop.clients import Program, ToSend
from tests.interop.cluster import Cluster, start_cluster
from tests.interop.test_java_client import consumer

pytestmark = pytest.mark.java

FAST_CHECKS = {"transactionTimeOut": 1500, "transactionCheckInterval": 5000, "transactionCheckMax": 2}
GIVEN_UP = "TRANS_CHECK_MAX_TIME_TOPIC"


@pytest.fixture(scope="module")
def fast_checks(tmp_path_factory: pytest.TempPathFactory, java_jars: Path) -> Iterator[Cluster]:
    """A cluster of ours that asks every five seconds, two times: there is time for an answer in between.

    What a producer decides by itself it has decided before it is asked, a second and a half later at the earliest.
    """
    cluster = start_cluster("rocketpy", tmp_path_factory.mktemp("transactions"), settings=FAST_CHECKS)
    try:
        yield cluster
    finally:
        statuses = cluster.stop()
    assert not any(statuses), cluster.logs()


def to_send(topic: str, first: str, then: str) -> ToSend:
    return ToSend(
        topic=topic, body=f"{first} {then}".encode(), keys=f"{first}-{then}", properties={"first": first, "then": then}
    )


@contextmanager
def producer(cluster: Cluster, home: Path, group: str, first: ToSend) -> Iterator[Program]:
    """A producer that has sent something and that the brokers know: they ask no other, and count that as a check."""
    with Program("java", "transact", home, namesrv=cluster.namesrv, group=group) as sending:
        sending.write([first.line()])
        sending.wait_until(lambda: len(sending.lines("sent")) == 1, "sent")
        cluster.wait_producer(group)
        yield sending


def test_what_is_committed_arrives_and_nothing_else(fast_checks: Cluster, tmp_path: Path, group: str) -> None:
    topic = fast_checks.create_topic("transacted")
    decided = [to_send(topic, first, "unknown") for first in ("commit", "rollback", "commit", "rollback")]
    checked = [to_send(topic, "unknown", then) for then in ("commit", "rollback", "unknown")]
    with consumer(fast_checks, tmp_path / "consume", f"{group}_c", topic) as taking:
        taking.wait_started()
        with producer(fast_checks, tmp_path / "transact", group, decided[0]) as transacting:
            transacting.write(each.line() for each in (*decided[1:], *checked))
            transacting.wait_until(lambda: len(transacting.lines("sent")) == 7, "7 sent")
            messages = taking.wait_messages(3)
            transacting.wait_until(lambda: len(transacting.lines("checked")) >= 4, "4 checks")
            fast_checks.wait_route(GIVEN_UP)
            with consumer(fast_checks, tmp_path / "given-up", f"{group}_g", GIVEN_UP) as given_up:
                (lost,) = given_up.wait_messages(1)
            checks = Counter(str(line["keys"]) for line in transacting.lines("checked"))
        assert len(taking.messages()) == 3
    assert sorted(each.body for each in messages) == [b"commit unknown", b"commit unknown", b"unknown commit"]
    assert {each.topic for each in messages} == {topic}
    assert checks == {"unknown-commit": 1, "unknown-rollback": 1, "unknown-unknown": 2}
    assert lost.body == b"unknown unknown"
    assert (lost.properties["REAL_TOPIC"], lost.properties["TRANSACTION_CHECK_TIMES"]) == (topic, "2")


def test_another_producer_of_the_group_answers_for_one_that_is_gone(
    fast_checks: Cluster, tmp_path: Path, group: str
) -> None:
    topic = fast_checks.create_topic("inherited")
    with consumer(fast_checks, tmp_path / "consume", f"{group}_c", topic) as taking:
        taking.wait_started()
        with producer(fast_checks, tmp_path / "other", group, to_send(topic, "rollback", "unknown")) as other:
            first = Program("java", "transact", tmp_path / "first", namesrv=fast_checks.namesrv, group=group)
            first.write([to_send(topic, "unknown", "commit").line()])
            first.wait_until(lambda: len(first.lines("sent")) == 1, "sent")
            first.kill()
            (message,) = taking.wait_messages(1)
            assert {str(line["keys"]) for line in other.lines("checked")} <= {"unknown-commit"}
    assert message.body == b"unknown commit"
