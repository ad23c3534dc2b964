"""The bounds of automatic creation count entries and bytes, and follow the settings."""

from __future__ import annotations

from rocketpy.broker.metadata.auto_create_bounds import AutoCreateBounds


def bounds(*, count_max: int = 10, bytes_max: int = 1000) -> AutoCreateBounds:
    return AutoCreateBounds(
        entry_bytes=100, count_max=lambda: count_max, count_key="autoCreateTopicMax", bytes_max=lambda: bytes_max
    )


def test_the_number_of_entries_is_bounded() -> None:
    assert bounds(count_max=3).full_because(2) is None
    assert bounds(count_max=3).full_because(3) == "there are 3 already, see autoCreateTopicMax"


def test_bytes_are_bounded_and_a_name_counts_twice_as_it_is_in_the_file() -> None:
    found = bounds(bytes_max=212)
    found.added("four")
    assert found.full_because(1) is None, "100 bytes, and 6 twice"
    found.added("naïve")
    assert found.full_because(2) == "there are 2 already, of 228 bytes, see autoCreateTableBytesMax"
    found.removed("four")
    assert found.full_because(1) is None
    found.recount(["four", "four", "four"])
    assert found.full_because(3) == "there are 3 already, of 336 bytes, see autoCreateTableBytesMax"


def test_a_bound_that_changes_counts_at_once() -> None:
    most = [1]
    found = AutoCreateBounds(entry_bytes=1, count_max=lambda: most[0], count_key="key", bytes_max=lambda: 100)
    assert found.full_because(1) == "there are 1 already, see key"
    most[0] = 2
    assert found.full_because(1) is None
