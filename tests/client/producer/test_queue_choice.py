"""Queues take turns, failed brokers are skipped, slow ones avoided."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from rocketpy.client.producer import queue_choice
from rocketpy.client.producer.broker_health import BrokerHealth
from rocketpy.client.producer.queue_choice import QueueChoice
from rocketpy.protocol.message import MessageQueue
from tests.forgotten import sizes_within

QUEUES = tuple(MessageQueue("T", broker, number) for broker in ("a", "b") for number in range(2))


async def test_queues_take_turns_from_a_random_one_on() -> None:
    choice = QueueChoice(randomness=Random(1))
    chosen = [choice.choose("T", QUEUES, None) for _ in range(8)]
    assert set(chosen[:4]) == set(QUEUES)
    assert chosen[:4] == chosen[4:]
    assert len({QueueChoice(randomness=Random(seed)).choose("T", QUEUES, None) for seed in range(30)}) == 4


async def test_topics_that_alternate_use_all_of_their_queues() -> None:
    choice = QueueChoice(randomness=Random(1))
    used = Counter(choice.choose(topic, QUEUES, None) for _ in range(4) for topic in ("T", "U"))
    assert used == dict.fromkeys(QUEUES, 2)


async def test_the_broker_that_failed_is_skipped_unless_there_is_no_other() -> None:
    choice = QueueChoice(randomness=Random(1))
    assert {choice.choose("T", QUEUES, "a").broker_name for _ in range(8)} == {"b"}
    assert {choice.choose("T", QUEUES[:2], "a").queue_id for _ in range(8)} == {0, 1}


async def test_an_unavailable_broker_is_avoided() -> None:
    choice = QueueChoice(randomness=Random(1), health=BrokerHealth())
    choice.note_answer("a", 0.7, isolation=False)
    chosen = [choice.choose("T", QUEUES, "b") for _ in range(8)]
    assert {each.broker_name for each in chosen} == {"b"}, "also when it was the last one, as in Java"
    choice.note_answer("a", 0.01, isolation=False)
    assert {choice.choose("T", QUEUES, None).broker_name for _ in range(8)} == {"a", "b"}


async def test_without_an_available_broker_the_best_one_gets_it() -> None:
    choice = QueueChoice(randomness=Random(1), health=BrokerHealth())
    choice.note_answer("a", 0.7, isolation=False)
    choice.note_answer("b", 9.0, isolation=False)
    chosen = {choice.choose("T", QUEUES, None) for _ in range(8)}
    assert chosen == {MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)}


async def test_a_broker_that_no_longer_has_the_topic_is_forgotten() -> None:
    health = BrokerHealth()
    choice = QueueChoice(randomness=Random(1), health=health)
    choice.note_answer("gone", 0.6, isolation=False)
    choice.note_answer("a", 0.7, isolation=False)
    choice.note_answer("b", 0.8, isolation=False)
    assert choice.choose("T", QUEUES, None) in QUEUES
    assert health.is_available("gone", 0.0)


async def test_without_latency_fault_tolerance_answers_change_nothing() -> None:
    choice = QueueChoice(randomness=Random(1))
    choice.note_answer("a", 99, isolation=True)
    assert {choice.choose("T", QUEUES, None).broker_name for _ in range(4)} == {"a", "b"}


async def test_the_turns_of_topics_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_choice, "TURNS_MAX", 3)
    choice = QueueChoice(randomness=Random(1))
    for number in range(50):
        assert choice.choose(f"T{number}", QUEUES, None) in QUEUES
        assert sizes_within(choice)["QueueChoice._turns"] <= 3
