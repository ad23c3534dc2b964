"""Message ids, held against Java's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.host import encode_host
from rocketpy.protocol.message_id import (
    UniqKeyFactory,
    decode_offset_msg_id,
    encode_offset_msg_id,
    month_of,
    uniq_key_timestamp_ms,
)
from tests.recorded import VECTORS


def milliseconds(*date: int, zone: timezone | ZoneInfo = UTC) -> int:  # type: ignore[assignment]
    return int(datetime(*date, tzinfo=zone).timestamp()) * 1000  # type: ignore[arg-type, misc]


NOVEMBER = milliseconds(2026, 11, 1)


def factory(address: bytes = b"\x7f\0\0\1") -> UniqKeyFactory:
    return UniqKeyFactory(address=address, process_id=4000, constant=0x18B4AAC2, zone=UTC)


@pytest.mark.parametrize("vector", VECTORS["message_id"], ids=lambda vector: vector["id"])
def test_broker_ids_are_those_of_java(vector: dict[str, object]) -> None:
    host = str(vector["host"])
    store_host = encode_host(f"[{host}]:{vector['port']}" if ":" in host else f"{host}:{vector['port']}")
    physical_offset = int(str(vector["offset"]))
    assert encode_offset_msg_id(store_host, physical_offset) == vector["id"]
    assert decode_offset_msg_id(str(vector["id"])) == (store_host, physical_offset)
    assert decode_offset_msg_id(str(vector["id"]).lower()) == (store_host, physical_offset)


@pytest.mark.parametrize(
    "text",
    ["", "7F", "7F00000100002A9F000000000000000G", " " * 32, "0" * 31, "0" * 34, "0" * 57, "00 " * 10 + "00", "é" * 32],
)
def test_anything_else_is_no_id(text: str) -> None:
    with pytest.raises(RemoteProtocolError, match="expected 32 or 56 hexadecimal digits"):
        decode_offset_msg_id(text)
    with pytest.raises(RemoteProtocolError, match="expected 32 or 56 hexadecimal digits"):
        uniq_key_timestamp_ms(text, now_ms=NOVEMBER)


@pytest.mark.parametrize("vector", VECTORS["unique_id"], ids=lambda vector: vector["id"])
def test_the_age_of_a_unique_key_is_what_java_says(vector: dict[str, int]) -> None:
    found = uniq_key_timestamp_ms(str(vector["id"]), now_ms=vector["now_ms"], zone=UTC)
    assert found == vector["nearly_time_ms_utc"]


def test_a_unique_key_has_address_process_time_and_counter() -> None:
    """The second vector of Java's, made again from its parts."""
    vector = VECTORS["unique_id"][1]
    keys = factory()
    assert keys.create(NOVEMBER) == "7F0000010FA018B4AAC2000000000000"
    assert keys.create(vector["nearly_time_ms_utc"]) == vector["id"]
    assert len(factory(bytes(16)).create(NOVEMBER)) == 56


def test_the_counter_starts_again_after_65536() -> None:
    keys = factory()
    made = [keys.create(NOVEMBER) for _ in range(65537)]
    assert len(set(made[:65536])) == 65536
    assert made[65536] == made[0]


@pytest.mark.parametrize("counts", [[1], [3, 1, 5], [65536], [65530, 10, 2]])
def test_many_at_once_are_those_that_would_be_made_one_by_one(counts: list[int]) -> None:
    at_once, one_by_one = factory(), factory()
    for number, count in enumerate(counts):
        time = NOVEMBER + number
        assert at_once.create_many(time, count) == [one_by_one.create(time) for _ in range(count)]
    assert at_once.create(NOVEMBER) == one_by_one.create(NOVEMBER)


def test_time_is_counted_from_the_first_of_the_month() -> None:
    keys = factory()
    december = milliseconds(2026, 12, 1)
    times = [keys.create(moment)[20:28] for moment in (december - 1, december, december + 5)]
    assert times == [f"{30 * 86_400_000 - 1:08X}", "00000000", "00000005"]


def test_a_clock_that_steps_back_a_little_over_the_start_of_a_month_stands_still() -> None:
    keys = factory()
    keys.create(NOVEMBER)
    assert keys.create(NOVEMBER - 999_999)[20:28] == "00000000"
    assert keys.create(NOVEMBER - 1_000_000)[20:28] == f"{2**32 - 1_000_000:08X}"


def test_months_begin_at_local_midnight_also_where_clocks_change() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    start, end = month_of(milliseconds(2026, 10, 31, 12), berlin)
    assert start == milliseconds(2026, 9, 30, 22)
    assert end == milliseconds(2026, 10, 31, 23)
    plus_9 = timezone(timedelta(hours=9))
    assert month_of(milliseconds(2026, 12, 31, 15), plus_9)[0] == milliseconds(2026, 12, 31, 15)


def test_without_a_zone_the_machines_is_taken() -> None:
    start, end = month_of(NOVEMBER)
    local = [datetime.fromtimestamp(each / 1000) for each in (start, end)]
    assert all((each.day, each.hour, each.minute) == (1, 0, 0) for each in local)
    assert start <= NOVEMBER < end


@given(st.integers(0, 4_000_000_000_000), st.integers(0, 27 * 86_400_000))
def test_the_time_of_a_key_younger_than_a_month_is_found(made_ms: int, age_ms: int) -> None:
    key = factory().create(made_ms)
    assert uniq_key_timestamp_ms(key, now_ms=made_ms + age_ms + 1, zone=UTC) == made_ms
