"""Which queue ``--queue`` means."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocketpy.cli.options import chosen_config, chosen_queue
from rocketpy.cli.outcome import CommandError
from rocketpy.client import config
from rocketpy.protocol.message import MessageQueue
from rocketpy.protocol.signature import SessionCredentials

ONE_BROKER = [MessageQueue("T", "a", number) for number in range(3)]
TWO_BROKERS = [*ONE_BROKER, MessageQueue("T", "b", 0)]


@pytest.mark.parametrize(
    ("text", "queues", "meant"),
    [
        ("2", ONE_BROKER, ONE_BROKER[2]),
        ("a:1", ONE_BROKER, ONE_BROKER[1]),
        ("b:0", TWO_BROKERS, TWO_BROKERS[3]),
        ("2", TWO_BROKERS, ONE_BROKER[2]),
    ],
)
def test_a_number_will_do_when_it_means_one_queue(text: str, queues: list[MessageQueue], meant: MessageQueue) -> None:
    assert chosen_queue(text, queues) == meant


@pytest.mark.parametrize(
    ("text", "fault"), [("0", "several queues '0'"), ("9", "no queue '9'"), ("c:0", "no queue"), ("x", "no queue 'x'")]
)
def test_otherwise_the_queues_are_listed(text: str, fault: str) -> None:
    with pytest.raises(CommandError, match=f"{fault}.*expected one of: a:0, a:1, a:2, b:0"):
        chosen_queue(text, TWO_BROKERS)


def test_credentials_are_the_clients(tmp_path: Path) -> None:
    path = tmp_path / "tools.yml"
    path.write_text("accessKey: RocketMQ\nsecretKey: 12345678\n")
    assert chosen_config(False, "", "").credentials is None
    assert chosen_config(True, "", str(path)) == config.ClientConfig(
        use_tls=True, credentials=SessionCredentials("RocketMQ", "12345678")
    )
