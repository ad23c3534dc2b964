"""What becomes of a message that its consumer does not want yet, and of a request: shown with Java's client."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.interop.clients import Program, ToSend, produce
from tests.interop.cluster import Cluster
from tests.interop.test_java_client import consumer, numbered

pytestmark = pytest.mark.java

OFTEN = {"rebalance_ms": 500}  # topics of retries and dead letters appear while the consumer runs


def test_a_message_that_failed_comes_again_until_it_does_not(
    cluster: Cluster, tmp_path: Path, topic: str, group: str
) -> None:
    asked = numbered(topic, 5, tags="kept")
    with consumer(cluster, tmp_path / "consume", group, topic, fails=2, **OFTEN) as taking:
        taking.wait_started()
        sent = produce("java", cluster.namesrv, asked, tmp_path / "produce")
        messages = taking.wait_messages(15)
    tries = sorted((each.body, each.reconsume_times) for each in messages)
    assert tries == [(str(index).encode(), times) for index in range(5) for times in range(3)]
    ids = {str(index).encode(): answer.offset_msg_id for index, answer in enumerate(sent)}
    for each in messages:
        assert (each.topic, each.tags) == (topic, "kept")
        if each.reconsume_times:
            assert each.properties["ORIGIN_MESSAGE_ID"] == ids[each.body]
            assert each.properties["REAL_TOPIC"] == f"%RETRY%{group}"


def test_a_message_that_always_fails_is_a_dead_letter(cluster: Cluster, tmp_path: Path, topic: str, group: str) -> None:
    asked = [ToSend(topic=topic, body=b"never good", keys="k")]
    with consumer(cluster, tmp_path / "consume", group, topic, fails=99, tries=2, **OFTEN) as taking:
        taking.wait_started()
        (sent,) = produce("java", cluster.namesrv, asked, tmp_path / "produce")
        taking.wait_messages(3)
        cluster.wait_route(f"%DLQ%{group}")
        with consumer(cluster, tmp_path / "letters", f"{group}_letters", f"%DLQ%{group}", **OFTEN) as letters:
            (letter,) = letters.wait_messages(1)
    assert [each.reconsume_times for each in taking.messages()] == [0, 1, 2]
    assert (letter.body, letter.keys, letter.reconsume_times) == (b"never good", "k", 3)
    assert letter.properties["RETRY_TOPIC"] == topic
    assert letter.properties["ORIGIN_MESSAGE_ID"] == sent.offset_msg_id


def test_a_request_gets_its_reply(cluster: Cluster, tmp_path: Path, topic: str, group: str) -> None:
    asked = [ToSend(topic=topic, body=body) for body in (b"stressed", b"abc" * 3000)]
    program = Program("java", "request", tmp_path, namesrv=cluster.namesrv, group=group, topic=topic)
    lines = program.run(each.line() for each in asked)
    replies = [line for line in lines if line["event"] == "message"]  # they have no id
    assert [base64.b64decode(str(line["body"])) for line in replies] == [each.body[::-1] for each in asked]
    for line in replies:
        properties = line["properties"]
        assert isinstance(properties, dict)
        assert properties["MSG_TYPE"] == "reply"
        assert int(properties["ARRIVE_TIME"]) >= int(properties["PUSH_REPLY_TIME"])
