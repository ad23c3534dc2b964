"""Replay: what arrives, in which order, what is skipped, and what a run that was interrupted leaves to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

from pyspark.sql import SparkSession

from rocketpy.errors import StartError
from rocketpy.protocol.message import MessageExt
from rocketpy.spark.pipelines.replay import (
    EMPTY_BODY,
    NO_TARGET,
    PROPERTY_REPLAYED_MESSAGE_ID,
    SENT_BEFORE,
    Target,
    replay,
    replay_rows,
)
from rocketpy.testing.fixture.in_thread import BrokerInThread
from tests.spark.pipelines.messages import frame, message


def bodies_by_queue(messages: list[MessageExt]) -> dict[int, list[str]]:
    """Return the bodies of each queue of the target, in its order."""
    ordered = sorted(messages, key=lambda each: each.queue_offset)
    queues = {each.queue_id for each in messages}
    return {queue: [each.body.decode() for each in ordered if each.queue_id == queue] for queue in queues}


def test_rows_keep_what_is_the_users_and_drop_what_is_rocketmqs(spark: SparkSession) -> None:
    properties = {"mine": "1", "KEYS": "k", "UNIQ_KEY": "U", "DELAY": "3", "SPARK_ROW_KEY": "x", "TRAN_MSG": "true"}
    rows = [message("T", 0, 0, properties=properties), message("U", 0, 0), message("T", 1, 1, body=b"")]
    target = Target(name_server="", topics={"T": "again"})
    first, second, third = replay_rows(frame(spark, rows), target).collect()
    assert first.properties == {"mine": "1", PROPERTY_REPLAYED_MESSAGE_ID: "T-0-0"}
    assert (first.topic, first.body, first.tags, first["keys"]) == ("again", b"T/0/0", "even", "k0 all")
    assert (first.sharding_key, third.sharding_key) == ("T/b/0", "T/b/1")
    assert [row.skipped for row in (first, second, third)] == [None, NO_TARGET, EMPTY_BODY]


def test_a_replay_that_was_interrupted_goes_on_where_it_was(
    spark: SparkSession, rocketmq: BrokerInThread, tmp_path: Path
) -> None:
    """Its messages arrive in the order of their queues, with what was the users', and the source is read no more."""
    rows = [message("T", queue, offset) for queue in (0, 1, 2) for offset in range(7)]
    rows.append(message("T", 3, 0, body=b""))
    again, work = rocketmq.topic("Again"), str(tmp_path / "work")
    target = Target(name_server=rocketmq.name_server, topics=again)
    seen: list[tuple[int, int]] = []

    def interrupted(done: int, total: int) -> None:
        seen.append((done, total))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(frame(spark, rows), target, work=work, slice_messages=7, rate=500, progress=interrupted)
    [(before, total)] = seen
    assert 0 < before < total == 21
    assert len(rocketmq.messages(again)) == before

    with pytest.raises(StartError, match="work of a replay with topics 'Again', found 'other'"):
        replay(frame(spark, []), Target(name_server=rocketmq.name_server, topics="other"), work=work)
    summary = replay(frame(spark, []), target, work=work)
    assert (summary.read, summary.written) == (22, 21 - before)
    assert summary.skipped == {EMPTY_BODY: 1, NO_TARGET: 0, SENT_BEFORE: before}

    arrived = rocketmq.messages(again)
    assert sorted(each.body.decode() for each in arrived) == sorted(f"T/{q}/{o}" for q in (0, 1, 2) for o in range(7))
    for bodies in bodies_by_queue(arrived).values():
        for origin in {body.rpartition("/")[0] for body in bodies}:
            mine = [body for body in bodies if body.startswith(f"{origin}/")]
            assert mine == [f"{origin}/{offset}" for offset in range(7)]  # whole and in order, in one queue
    (one,) = [each for each in arrived if each.body == b"T/1/3"]
    assert (one.properties["TAGS"], one.properties["KEYS"], one.properties["mine"]) == ("odd", "k3 all", "1")
    assert one.properties[PROPERTY_REPLAYED_MESSAGE_ID] == "T-1-3"
    assert one.properties["UNIQ_KEY"] != "U3"


def test_messages_can_keep_their_topics_and_queues(spark: SparkSession, rocketmq: BrokerInThread) -> None:
    rocketmq.topic("T")
    rows = [message("T", queue, offset) for queue in (1, 3) for offset in range(3)]
    summary = replay(frame(spark, rows), Target(name_server=rocketmq.name_server, keeps_queues=True))
    assert (summary.read, summary.written, summary.skipped_count) == (6, 6, 0)
    expected = {queue: [f"T/{queue}/{offset}" for offset in range(3)] for queue in (1, 3)}
    assert bodies_by_queue(rocketmq.messages("T")) == expected


def test_nothing_selected_is_nothing_sent(spark: SparkSession) -> None:
    """Not even a connection is made."""
    summary = replay(frame(spark, []), Target(name_server="127.0.0.1:1"))
    assert (summary.read, summary.written) == (0, 0)
