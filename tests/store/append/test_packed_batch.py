"""A batch that the kernel has read is stored as the general path stores it, or is left to that path, untouched."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rocketpy.broker.send.properties import stored_batch
from rocketpy.protocol.batch import split_batch_body
from rocketpy.protocol.kernels.batch import BatchItems, read_batch
from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.protocol.kernels.test_batch import KEY, SUFFIX, body_of, item
from tests.store.append.test_batch import contents
from tests.store.parts import BORN_HOST, BORN_HOST_V6, STORE_HOST, STORE_HOST_V6, Parts, Place

USUAL = f"UNIQ_KEY\x01{KEY}\x02WAIT\x01true".encode()
TEXTS = st.sampled_from([USUAL, USUAL + b"\x02TAGS\x01t", b"KEYS\x01k1 k2\x02" + USUAL, b"", b"a\x01b\x02", b"a\x01b"])
ITEMS = st.tuples(st.integers(-(2**31), 2**31 - 1), st.binary(max_size=12), TEXTS)
INT = st.integers(-(2**31), 2**31 - 1)


def parts_with(store_host: bytes = STORE_HOST, **settings: object) -> Parts:
    """A store with a message in its burst, after another burst: its queue has room."""
    parts = Parts(
        Place(SimDisk(), "/store"),
        store_host=store_host,
        **{"log_file_size": 1 << 16, "queue_file_size": 400, **settings},  # type: ignore[arg-type]
    )
    parts.put_all([b"before"], "Tü", 3)
    parts.put(b"another", "Tü", 3)
    return parts


def items_of(body: bytes, suffix: bytes = SUFFIX) -> BatchItems:
    items = read_batch(body, len(suffix), 1000)
    assert items is not None
    return items


def put_packed(
    parts: Parts,
    body: bytes,
    *,
    queue_id: int = 3,
    suffix: bytes = SUFFIX,
    sys_flag: int = 0,
    born_timestamp: int = 1,
    born_host: bytes = BORN_HOST,
    reconsume_times: int = 0,
) -> tuple[list[int], int] | None:
    return parts.appender.put_packed(
        "Tü", queue_id, items_of(body, suffix), suffix, sys_flag, born_timestamp, born_host, reconsume_times
    )


@given(
    items=st.lists(ITEMS, min_size=1, max_size=6),
    sys_flag=st.sampled_from([0, 1, 2, 0x32]),
    born_timestamp=st.integers(0, 2**63 - 1),
    born_host=st.sampled_from([BORN_HOST, BORN_HOST_V6]),
    reconsume_times=INT,
)
@example([(7, b"x" * 128, USUAL)] * 3, 0, 1, BORN_HOST, 0)
@settings(deadline=None)
def test_a_batch_is_stored_as_by_the_general_path(
    items: list[tuple[int, bytes, bytes]],
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    reconsume_times: int,
) -> None:
    """Log, units, index work, arrivals and counts."""
    packed, general = parts_with(), parts_with()
    body = body_of(items)
    batch = stored_batch(split_batch_body(body), SUFFIX, suffix_has_no_tags_or_keys=True)
    given_to_both = (sys_flag, born_timestamp, born_host, reconsume_times)
    status, physical_offsets, queue_offset = general.appender.put_batch("Tü", 3, batch, *given_to_both)
    assert status is PutMessageStatus.PUT_OK
    found = packed.appender.put_packed("Tü", 3, items_of(body), SUFFIX, *given_to_both)
    assert found == (physical_offsets, queue_offset)
    for parts in (packed, general):
        parts.put(b"after", "Tü", 3)
    assert contents(packed) == contents(general)


@pytest.mark.parametrize(
    "unusual",
    [
        {"queue_id": 4},
        {"sys_flag": 4},
        {"sys_flag": 8},
        {"suffix": b"a\x01\0"},
        {"born_timestamp": 1 << 63},
        {"reconsume_times": 1 << 31},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_batch_that_the_general_path_is_for_changes_nothing(unusual: dict[str, object]) -> None:
    parts, untouched = parts_with(), parts_with()
    assert put_packed(parts, item(0, b"x", USUAL) * 3, **unusual) is None  # type: ignore[arg-type]
    assert parts.appender.wrote_offset == untouched.appender.wrote_offset
    assert contents(parts) == contents(untouched)


def test_a_batch_that_does_not_fit_the_file_of_the_log_is_left_to_the_general_path() -> None:
    parts = parts_with(log_file_size=2048)
    assert put_packed(parts, item(0, b"x" * 500, USUAL)) is not None
    assert put_packed(parts, item(0, b"x" * 500, USUAL) * 3) is None


def test_a_batch_that_does_not_fit_the_file_of_its_queue_is_left_to_the_general_path() -> None:
    parts = parts_with()  # files of 20 units, two of which are taken
    assert put_packed(parts, item(0, b"", b"") * 19) is None
    assert put_packed(parts, item(0, b"", b"") * 18) is not None
    assert put_packed(parts, item(0, b"", b"")) is None


def test_bodies_that_are_too_long_together_are_left_to_the_general_path() -> None:
    parts = parts_with(message_size_max=1000)
    assert put_packed(parts, item(0, b"x" * 500, b"") * 2) is not None
    assert put_packed(parts, item(0, b"x" * 501, b"") * 2) is None


def test_a_text_that_is_too_long_with_that_of_the_batch_is_left_to_the_general_path() -> None:
    own = b"a\x01" + b"b" * 100
    longest = b"c\x01" + b"d" * (PROPERTIES_SIZE_MAX - len(own) - len("c|") - 1)
    parts = parts_with(log_file_size=1 << 20)
    assert put_packed(parts, item(0, b"", own), suffix=longest) is not None
    assert put_packed(parts, item(0, b"", own), suffix=longest + b"e") is None


def test_a_store_with_an_address_of_ipv6_takes_no_fast_path() -> None:
    assert put_packed(parts_with(STORE_HOST_V6), item(0, b"x", b"")) is None


def test_a_store_that_refuses_is_left_to_the_general_path() -> None:
    parts = parts_with()
    parts.appender.refuse_all("a reason")
    assert put_packed(parts, item(0, b"x", b"")) is None
