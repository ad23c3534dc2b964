"""Records found in a buffer: where a walk stops, and why."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra: spark)")

import numpy as np

from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import RECORD_SIZE_MAX, encode_blank, encode_message
from rocketpy.spark.columns.records import RecordBlock, Stop, check_records, find_records

BASE = 4096


def record(physical_offset: int, body: bytes = b"body", **changes: object) -> bytes:
    fields: dict[str, object] = {"topic": "T", "properties": {"K": "v"}, "store_host": "10.0.0.2:10911"}
    return encode_message(MessageExt(body=body, physical_offset=physical_offset, **(fields | changes)))  # type: ignore[arg-type]


def log(*bodies: bytes, base: int = BASE, **changes: object) -> bytes:
    content = b""
    for body in bodies:
        content += record(base + len(content), body, **changes)
    return content


def damaged(content: bytes, position: int, replacement: bytes) -> bytes:
    return content[:position] + replacement + content[position + len(replacement) :]


def test_records_back_to_back_are_found_to_the_end() -> None:
    content = log(b"a", b"", b"three" * 50)
    found = find_records(content, base_offset=BASE)
    assert (found.stop, found.end, found.why) == (Stop.END, len(content), "")
    assert found.block.starts.tolist() == [0, 96, 191]
    assert (found.block.starts + found.block.sizes).tolist() == [96, 191, len(content)]


@pytest.mark.parametrize("hosts", [("1.2.3.4:5", "[::1]:6"), ("[::1]:5", "1.2.3.4:6"), ("[::1]:5", "[::2]:6")])
def test_records_with_hosts_of_ipv6_are_found(hosts: tuple[str, str]) -> None:
    content = log(b"a", b"bb", born_host=hosts[0], store_host=hosts[1])
    assert len(find_records(content, base_offset=BASE).block) == 2


def test_a_walk_begins_and_ends_where_it_is_told_to() -> None:
    """The last record begins before the end and may reach beyond it, so that ranges neither lose nor double one."""
    content = log(b"a", b"a", b"a", b"a")
    found = find_records(content, start=96, end=193, base_offset=BASE)
    assert found.block.starts.tolist() == [96, 192]
    assert (found.stop, found.end) == (Stop.END, 288)


@pytest.mark.parametrize("run", [4, 5, 6, 7, 12])
@pytest.mark.parametrize("end", [300, 1000, 1100, 5000])
def test_runs_of_records_of_one_size_are_found_as_any_others(run: int, end: int) -> None:
    """They are stepped over together."""
    bodies = [b"a"] * run + [b"bbb"] * run + [b"a"] * 2 + [b"ccccc"] * run
    content = log(*bodies)
    expected = [sum(95 + len(body) for body in bodies[:number]) for number in range(len(bodies))]
    found = find_records(content, base_offset=BASE, end=end)
    assert found.block.starts.tolist() == [start for start in expected if start < end]
    cut = find_records(content[: expected[-2] + 50], base_offset=BASE)
    assert (cut.block.starts.tolist(), cut.stop, cut.size) == (expected[:-2], Stop.INCOMPLETE, 100)
    broken = damaged(content, expected[run + 3] + 4, b"\0")
    assert find_records(broken, base_offset=BASE).end == expected[run + 3]


@pytest.mark.parametrize("cut", range(1, 97))
def test_a_record_that_the_buffer_ends_inside_of_says_how_long_it_is(cut: int) -> None:
    content = log(b"a", b"a")[: 96 + cut]
    found = find_records(content, base_offset=BASE)
    if cut == 96:
        assert (found.stop, len(found.block)) == (Stop.END, 2)
    else:
        assert (found.stop, found.end, len(found.block)) == (Stop.INCOMPLETE, 96, 1)
        assert found.size == (8 if cut < 8 else 96)


def test_the_blank_record_of_a_full_file_is_told_from_the_rest() -> None:
    for size in (8, 77, 200, 5000):
        found = find_records(log(b"a") + encode_blank(size) + b"\0" * 300, base_offset=BASE)
        assert (found.stop, found.end, found.size) == (Stop.BLANK, 96, size)
    assert find_records(encode_blank(7) + bytes(99)).stop is Stop.DAMAGED


@pytest.mark.parametrize("rest", [bytes(100), b"\xff" * 100])
def test_space_without_a_record_is_nothing(rest: bytes) -> None:
    found = find_records(log(b"a") + rest, base_offset=BASE)
    assert (found.stop, found.end) == (Stop.NOTHING, 96)
    assert "expected a record" in found.why


@pytest.mark.parametrize(
    ("position", "replacement", "why"),
    [
        (0, (90).to_bytes(4, "big"), "expected a record of 91 to"),
        (0, (-1).to_bytes(4, "big", signed=True), "expected a record of 91 to"),
        (0, (RECORD_SIZE_MAX + 1).to_bytes(4, "big"), "expected a record of 91 to"),
        (0, (95).to_bytes(4, "big"), "expected properties of"),
        (8, b"\1", "expected body CRC"),
        (28, b"\1", "expected physical offset"),
        (39, b"\x10", "expected"),  # says that the born host is IPv6
        (84, (2**31 - 1).to_bytes(4, "big"), "expected a body of"),
        (84, (-1).to_bytes(4, "big", signed=True), "expected a body of"),
        (88, b"b", "expected body CRC"),
        (89, b"\x7f", "expected a topic of"),
        (89, b"\x80", "expected a topic of"),
        (90, b"\0", "expected no NUL"),
        (91, b"\xff\xff", "expected properties of"),
        (95, b"\0", "expected no NUL"),
    ],
)
def test_a_damaged_record_ends_the_walk_with_what_was_expected(position: int, replacement: bytes, why: str) -> None:
    content = log(b"a", b"a", b"a")
    found = find_records(damaged(content, 96 + position, replacement), base_offset=BASE)
    assert (found.stop, found.end, found.block.starts.tolist()) == (Stop.DAMAGED, 96, [0])
    assert why in found.why


def test_crc_and_offset_are_checked_only_if_told_to() -> None:
    content = damaged(log(b"a", b"a"), 88, b"b")
    assert find_records(content, base_offset=BASE).stop is Stop.DAMAGED
    assert find_records(content, base_offset=BASE, check_crc=False).stop is Stop.END
    assert find_records(log(b"a"), base_offset=BASE + 1).stop is Stop.DAMAGED
    assert find_records(log(b"a")).stop is Stop.END


def test_what_looks_like_a_record_in_a_body_is_no_record() -> None:
    content = log(b"a", log(b"fake", b"fake"), b"z")
    assert len(find_records(content, base_offset=BASE).block) == 3


@pytest.mark.parametrize("content", [b"", b"\0", bytes(7)])
def test_a_buffer_without_room_for_a_record_gives_none(content: bytes) -> None:
    assert len(find_records(content).block) == 0


def test_a_view_and_a_bytearray_will_do() -> None:
    content = log(b"a", b"a")
    for buffer in (bytearray(content), memoryview(content)):
        assert len(find_records(buffer, base_offset=BASE).block) == 2


def test_records_named_by_units_are_checked_one_by_one() -> None:
    content = damaged(damaged(log(b"a", b"a", b"a", b"a"), 96 + 88, b"b"), 3 * 96 + 28, b"\1")
    block = RecordBlock(content, np.arange(4) * 96, np.full(4, 96))
    valid, invalid = check_records(block, BASE + np.arange(4) * 96)
    assert valid.starts.tolist() == [0, 192]
    assert [number for number, _ in invalid] == [1, 3]
    assert [why.split()[1] for _, why in invalid] == ["body", "physical"]


def test_records_named_by_wrong_units_are_invalid() -> None:
    content = log(b"a", b"a")
    block = RecordBlock(content, np.array([0, 90, 180, 191]), np.array([90, 10, 96, 2]))
    valid, invalid = check_records(block)
    assert len(valid) == 0
    assert [number for number, _ in invalid] == [0, 1, 2, 3]


def test_a_record_named_inside_of_another_one_is_invalid() -> None:
    """A body may hold whole records, and units are no more than claims."""
    content = log(b"a") + log(log(b"fake"), base=BASE + 96)
    block = RecordBlock(content, np.array([0, 96, 96 + 88]), np.array([96, len(content) - 96, 99]))
    valid, [(number, why)] = check_records(block)
    assert (valid.starts.tolist(), number) == ([0, 96], 2)
    assert "inside it" in why


def test_a_block_is_cut_by_slice_and_by_mask() -> None:
    block = find_records(log(b"a", b"a", b"a"), path="/f", file_base_offset=9).block
    assert block.select(slice(1, 3)).starts.tolist() == [96, 192]
    last = block.select(np.array([False, False, True]))
    assert (last.starts.tolist(), last.path, last.base_offset) == ([192], "/f", 9)


def test_a_buffer_too_large_for_arrow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rocketpy.spark.columns.records.BUFFER_SIZE_MAX", 95)
    with pytest.raises(ValueError, match="at most 95 bytes, found 96"):
        find_records(log(b"a"))
