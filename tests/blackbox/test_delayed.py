"""A broker process is killed while it delivers, again and again: each delayed message is delivered once, in order."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.blackbox.lives import OurLives
from tests.blackbox.wire import SUCCESS, Record, Wire
from tests.patience import wait_until

pytestmark = pytest.mark.blackbox

TOPIC = "Delayed"
ROUNDS = 4
PER_ROUND = 200
DELAYS_MS = {1: 1_000, 2: 2_000}
SETTINGS = {
    "messageDelayLevel": "1s 2s",
    "flushDelayOffsetInterval": 700,
    "mappedFileSizeCommitLog": 1 << 18,
    "mappedFileSizeConsumeQueue": 20_000,
}
LAST = {b"last of 1", b"last of 2"}


def send_some(wire: Wire, round_number: int) -> list[tuple[int, bytes]]:
    """Send messages of both levels; return those that were acknowledged."""
    acknowledged = []
    for index in range(PER_ROUND):
        level = 1 + index % 2
        acknowledged.append((level, send_delayed(wire, f"{round_number} {index}".encode(), level)))
    return acknowledged


def send_delayed(wire: Wire, body: bytes, level: int) -> bytes:
    """Send a message and return its body, which is acknowledged then."""
    response = wire.send(TOPIC, 0, body, f"DELAY\x01{level}\x02WAIT\x01true\x02")
    assert response.code == SUCCESS, response
    return body


def delivered_of(wire: Wire) -> list[Record]:
    """Return what has been delivered so far."""
    return list(wire.pull_all(TOPIC, 0, 0, wire.max_offset(TOPIC, 0)))


def test_each_message_is_delivered_once_over_kills(tmp_path: Path) -> None:
    chance = random.Random(0)
    lives = OurLives(tmp_path)
    acknowledged: list[tuple[int, bytes]] = []
    try:
        for round_number in range(ROUNDS):
            with Wire(lives.live(SETTINGS)) as wire:
                if not round_number:
                    assert wire.create_topic(TOPIC, 1).code == SUCCESS
                acknowledged += send_some(wire, round_number)
                time.sleep(chance.uniform(0.3, 2.2))  # the kill comes before, in and after the deliveries
            if round_number == ROUNDS // 2:
                assert lives.stop() == 0
            else:
                lives.kill()
        with Wire(lives.live(SETTINGS)) as wire:
            wait_until(lambda: wire.max_offset(TOPIC, 0) >= len(acknowledged))
            # Each level is delivered in its order. So what is sent last comes after all that would come again.
            acknowledged += [(level, send_delayed(wire, f"last of {level}".encode(), level)) for level in DELAYS_MS]
            wait_until(lambda: {each.body for each in delivered_of(wire)} >= LAST)
            delivered = [each.body for each in delivered_of(wire)]
    finally:
        lives.kill()
    assert sorted(delivered) == sorted(body for _, body in acknowledged)
    for level in DELAYS_MS:
        expected = [body for each, body in acknowledged if each == level]
        of_level = set(expected)
        assert [body for body in delivered if body in of_level] == expected
