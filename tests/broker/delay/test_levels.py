"""Delay levels: which messages are delayed, in which queue and until when."""

from __future__ import annotations

import pytest

from rocketpy.broker.delay.levels import DelayLevels
from rocketpy.broker.send.put import MessageExtBrokerInner
from rocketpy.errors import SettingsError
from rocketpy.protocol.java_hash import tags_code

LEVELS = DelayLevels.parse("1s 5s 1m")


def message(sys_flag: int = 0, **properties: str) -> MessageExtBrokerInner:
    return MessageExtBrokerInner(
        topic="T",
        queue_id=7,
        body=b"",
        properties=properties,
        sys_flag=sys_flag,
        born_timestamp=0,
        born_host=b"\x7f\0\0\x01\0\0\0\x01",
    )


def test_a_wrong_setting_names_key_value_and_part() -> None:
    with pytest.raises(SettingsError, match=r"messageDelayLevel = '1s x': level 2 is 'x', expected a number"):
        DelayLevels.parse("1s x")


@pytest.mark.parametrize(
    ("delay", "level"),
    [(None, 0), ("0", 0), ("1", 1), ("3", 3), ("4", 3), ("2147483647", 3), ("-5", 0), ("x", 0), ("99999999999", 0)],
)
def test_levels_are_between_none_and_the_highest(delay: str | None, level: int) -> None:
    assert LEVELS.level_of({} if delay is None else {"DELAY": delay}) == level


def test_times_of_delivery() -> None:
    assert LEVELS.deliver_timestamp_ms(3, 1_000) == 61_000
    assert LEVELS.deliver_timestamp_ms(1, 0) == 1_000
    assert LEVELS.deliver_timestamp_ms(4, 500) == LEVELS.deliver_timestamp_ms(0, 500) == 1_500


def test_a_delayed_message_is_sent_where_it_waits() -> None:
    delayed = message(DELAY="9", TAGS="t")
    assert LEVELS.rewrite(delayed) == 3
    assert (delayed.topic, delayed.queue_id) == ("SCHEDULE_TOPIC_XXXX", 2)
    assert delayed.properties == {"DELAY": "3", "TAGS": "t", "REAL_TOPIC": "T", "REAL_QID": "7"}


def test_who_sets_the_target_is_the_broker() -> None:
    delayed = message(DELAY="1", REAL_TOPIC="../../config", REAL_QID="-1")
    LEVELS.rewrite(delayed)
    assert (delayed.properties["REAL_TOPIC"], delayed.properties["REAL_QID"]) == ("T", "7")


@pytest.mark.parametrize("delay", ["0", "-1", "never"])
def test_others_stay_as_they_are(delay: str) -> None:
    plain = message(DELAY=delay)
    assert LEVELS.rewrite(plain) == 0
    assert (plain.topic, plain.queue_id, plain.properties) == ("T", 7, {"DELAY": delay})


@pytest.mark.parametrize(("sys_flag", "level"), [(0, 1), (4, 0), (8, 1), (12, 0), (9, 1)])
def test_half_messages_are_not_delayed_before_they_are_committed(sys_flag: int, level: int) -> None:
    assert LEVELS.rewrite(message(sys_flag, DELAY="1")) == level


def test_a_unit_of_a_delayed_message_holds_its_time_of_delivery() -> None:
    assert LEVELS.tags_code("SCHEDULE_TOPIC_XXXX", {"DELAY": "2", "TAGS": "t"}, 10) == 5_010
    assert LEVELS.tags_code("SCHEDULE_TOPIC_XXXX", {"DELAY": "50"}, 10) == 60_010


@pytest.mark.parametrize("properties", [{"TAGS": "t"}, {"TAGS": "t", "DELAY": "0"}, {"TAGS": "t", "DELAY": "x"}])
def test_every_other_unit_holds_the_hash_of_the_tags(properties: dict[str, str]) -> None:
    assert LEVELS.tags_code("SCHEDULE_TOPIC_XXXX", properties, 10) == tags_code("t")
    assert LEVELS.tags_code("T", {"DELAY": "2", **properties}, 10) == tags_code("t")
    assert LEVELS.tags_code("T", {"DELAY": "2"}, 10) == 0
