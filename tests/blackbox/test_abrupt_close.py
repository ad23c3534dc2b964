"""A client that sends oneway and is gone at once: what it sent before it closed is stored.

Only truly oneway requests: where there are replies, one that reaches a client that has closed is answered with a reset,
which drops what its machine still had to send. No broker can help that, and the faster one answers the sooner it comes.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.blackbox.wire import SEND_MESSAGE_V2, Wire, encode_request, send_fields
from tests.interop.cluster import start_cluster
from tests.patience import wait_until

pytestmark = pytest.mark.blackbox

TARGET = os.environ.get("ROCKETPY_INTEROP_TARGET", "rocketpy")
ONEWAY = 2
COUNT = 300
ROUNDS = 4


def test_what_was_sent_oneway_is_stored_though_the_client_has_gone(tmp_path: Path) -> None:
    cluster = start_cluster(TARGET, tmp_path / "cluster")
    address = cluster.brokers["broker-0"]
    try:
        with Wire(address) as wire:
            cluster.create_topic("Abrupt", 1)
            for round_number in range(1, ROUNDS + 1):
                with Wire(address) as leaving:
                    for index in range(COUNT):
                        body = f"{round_number} {index}".encode()
                        fields = send_fields("Abrupt", 0)
                        leaving.write(encode_request(SEND_MESSAGE_V2, index, fields, body, flag=ONEWAY))
                end = round_number * COUNT
                wait_until(lambda end=end: wire.max_offset("Abrupt", 0) >= end, lambda end=end: f"not {end} are stored")
                assert wire.max_offset("Abrupt", 0) == end
            bodies = [each.body for each in wire.pull_all("Abrupt", 0, 0, ROUNDS * COUNT)]
        expected = [f"{each // COUNT + 1} {each % COUNT}".encode() for each in range(ROUNDS * COUNT)]
        # Java serves the requests of one connection in several threads.
        assert bodies == expected if TARGET == "rocketpy" else sorted(bodies) == sorted(expected)
    finally:
        cluster.stop()
