"""Versions by number: the ordinals that RocketMQ's enum has."""

from __future__ import annotations

import pytest

from rocketpy.protocol.codes import MQ_VERSION
from rocketpy.protocol.mq_version import V3_0_7_SNAPSHOT, V3_1_8_SNAPSHOT, version_desc


@pytest.mark.parametrize(
    ("version", "name"),
    [
        (0, "V3_0_0_SNAPSHOT"),
        (7, "V3_0_0_BETA6_SNAPSHOT"),
        (15, "V3_0_0_FINAL"),
        (16, "V3_0_1_SNAPSHOT"),
        (V3_0_7_SNAPSHOT, "V3_0_7_SNAPSHOT"),
        (V3_1_8_SNAPSHOT, "V3_1_8_SNAPSHOT"),
        (85, "V3_2_9"),
        (86, "V3_3_1_SNAPSHOT"),
        (121, "V3_4_9"),
        (407, "V4_9_7"),
        (MQ_VERSION, "V4_9_8"),
        (611, "V5_9_9"),
        (612, "HIGHER_VERSION"),
        (-1, "HIGHER_VERSION"),
    ],
)
def test_names_and_numbers(version: int, name: str) -> None:
    assert version_desc(version) == name
