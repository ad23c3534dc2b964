"""Filters as they are kept."""

from __future__ import annotations

from pathlib import Path

from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.bodies.filter import BloomFilterData, ConsumerFilterWrapper

CONFIG = Path(__file__).parents[2] / "golden" / "config"


def test_the_file_of_java_is_understood() -> None:
    wrapper = decode_body((CONFIG / "consumerFilter.json").read_text(), ConsumerFilterWrapper)
    data = wrapper.filter_data_by_topic["GoldFilter"].group_filter_data["GoldSqlGroup"]
    assert data.expression == "a > 1 AND TAGS = 'TagA'"
    assert data.bloom_filter_data == BloomFilterData([13, 98, 71], 112)
    assert (data.dead, data.dead_time) == (True, 1795252005401)
