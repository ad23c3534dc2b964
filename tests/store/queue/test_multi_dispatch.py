"""Messages in several queues: what is stored of them, the units they get, what is refused, and what a crash leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import attrs
import pytest

from rocketpy.protocol.properties import PROPERTIES_SIZE_MAX, decode_properties, encode_properties
from rocketpy.protocol.stored_message import decode_message
from rocketpy.store.append.batch import MessageBatch
from rocketpy.store.layout import UNIT
from rocketpy.store.queue.multi_dispatch import NAMES_MAX, Addressed, LmqLimit, MultiDispatch, name_fault
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.disk import SimDisk
from tests.store import golden_store
from tests.store.deaths import different_disks, noted_deaths
from tests.store.parts import LOG_FILE_SIZE, Parts, Place

OFFSETS = "INNER_MULTI_QUEUE_OFFSET"
OK, ILLEGAL = PutMessageStatus.PUT_OK, PutMessageStatus.MESSAGE_ILLEGAL


@attrs.define
class OneQueue:
    next_offset: int


class SomeQueues(dict[tuple[str, int], OneQueue]):
    """Queues with their ends, by topic and queue id."""

    def get(self, topic: str, queue_id: int) -> OneQueue | None:  # type: ignore[override]
        return super().get((topic, queue_id))


def named(*names: str, more: str = "\x02TAGS\x01A") -> bytes:
    return f"INNER_MULTI_DISPATCH\x01{','.join(names)}{more}".encode()


def address(properties: bytes, queues: SomeQueues | None = None) -> Addressed | PutMessageStatus:
    return MultiDispatch(queues=queues or SomeQueues()).address("T", 3, properties)


def addressed(properties: bytes, queues: SomeQueues | None = None) -> Addressed:
    result = address(properties, queues)
    assert isinstance(result, Addressed)
    return result


# ---- addresses ------------------------------------------------------------------------------------------------------


def test_the_offset_in_each_queue_is_stored_with_the_message() -> None:
    queues = SomeQueues({("%LMQ%a", 0): OneQueue(7), ("Audit", 3): OneQueue(12), ("Audit", 0): OneQueue(99)})
    result = addressed(named("%LMQ%a", "%LMQ%b", "Audit"), queues)
    assert decode_properties(result.properties.decode()) == {
        "INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b,Audit", "TAGS": "A", OFFSETS: "7,0,12"
    }  # fmt: skip
    assert result.queue_keys == [("%LMQ%a", 0), ("%LMQ%b", 0), ("Audit", 3)]


def test_wait_is_left_out_and_offsets_of_a_client_do_not_count() -> None:
    result = addressed(named("A", more=f"\x02WAIT\x01false\x02{OFFSETS}\x01555"))
    assert decode_properties(result.properties.decode()) == {"INNER_MULTI_DISPATCH": "A", OFFSETS: "0"}


@pytest.mark.parametrize(
    "properties",
    [
        b"", b"TAGS\x01A\x02WAIT\x01true", b"INNER_MULTI_DISPATCH", b"INNER_MULTI_DISPATCH\x01",
        named(""), named("", ""), named(" \t"), b"X\x01INNER_MULTI_DISPATCH",
    ],
)  # fmt: skip
def test_without_names_the_properties_stay_as_they_are(properties: bytes) -> None:
    assert address(properties) == Addressed(properties)


def test_a_queue_named_twice_has_the_same_offset_twice_and_one_address() -> None:
    """RocketMQ counts names and offsets, and dispatches nothing when they are not as many."""
    queues = SomeQueues({("A", 3): OneQueue(5), ("T", 3): OneQueue(8)})
    result = addressed(named("A", "T", "A", "%LMQ%x", "%LMQ%x"), queues)
    assert decode_properties(result.properties.decode())[OFFSETS] == "5,8,5,0,0"
    assert result.queue_keys == [("A", 3), ("%LMQ%x", 0)], "its own queue gets it anyway"


@pytest.mark.parametrize(
    "names",
    [
        ("A", "", "B"), ("", "A"), ("..",), (".",), ("a/b",), ("/etc",), ("%LMQ%../../config",), ("a\0b",),
        ("x" * 128,), ("ü" * 64,), tuple(f"q{number}" for number in range(NAMES_MAX + 1)),
        tuple("a" for _ in range(9_000)),
    ],
)  # fmt: skip
def test_names_that_cannot_be_directories_or_are_too_many_are_illegal(names: tuple[str, ...]) -> None:
    assert address(named(*names)) is ILLEGAL


@pytest.mark.parametrize(
    "name",
    [
        "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC", "OFFSET_MOVED_EVENT", "rmq_sys_anything", "%RETRY%G", "%DLQ%G", "a b", "ä",
        "%LMQ%a\nb", "%LMQ%\x1b[31m", "%LMQ%" + "x" * 123,
    ],
)  # fmt: skip
def test_names_of_the_broker_of_groups_and_of_no_topic_are_illegal(name: str) -> None:
    """A record in the half topic or in a retry topic counts as the broker's own."""
    assert name_fault(name) is not None
    assert address(named("ok", name)) is ILLEGAL
    assert MultiDispatch(queues=SomeQueues()).refusal_of_waiting(named("ok", name)) is ILLEGAL


@pytest.mark.parametrize(
    "name", ["Audit", "%LMQ%a", "%LMQ%home%+%light", "%LMQ%#", "%LMQ%SCHEDULE_TOPIC_XXXX", "%x|-_1"]
)
def test_names_that_are_legal(name: str) -> None:
    assert name_fault(name) is None
    assert isinstance(address(named(name)), Addressed)


def test_the_owner_of_the_store_has_the_last_word() -> None:
    dispatch = MultiDispatch(queues=SomeQueues(), may_be_named={"A", "%LMQ%x"}.__contains__)
    assert isinstance(dispatch.address("T", 0, named("A", "%LMQ%x")), Addressed)
    assert dispatch.address("T", 0, named("A", "B")) is ILLEGAL
    assert dispatch.refusal_of_waiting(named("A", "B")) is ILLEGAL
    assert dispatch.refusal_of_waiting(named("A", "%LMQ%x")) is None


def test_the_offsets_of_a_message_that_is_to_wait_may_become_as_long_as_any() -> None:
    dispatch = MultiDispatch(queues=SomeQueues({("A", 0): OneQueue(10**18)}))
    room = PROPERTIES_SIZE_MAX - len(addressed(named("A", more="\x02X\x01x")).properties)
    for fill, fits in ((room - 17, True), (room - 16, False)):
        properties = named("A", more="\x02X\x01" + "x" * fill)
        exceeded = PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
        assert dispatch.refusal_of_waiting(properties) is (None if fits else exceeded)
        assert isinstance(dispatch.address("T", 0, properties), Addressed) is fits


def test_a_message_that_is_to_wait_is_refused_for_a_light_queue_of_its_own_too() -> None:
    dispatch = MultiDispatch(queues=SomeQueues(), limit=LmqLimit(topics={"%LMQ%a": [0]}, count_max=1))
    exceeded = PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
    assert dispatch.refusal_of_waiting(b"REAL_TOPIC\x01%LMQ%b") is exceeded
    assert dispatch.refusal_of_waiting(b"REAL_TOPIC\x01T\x02INNER_MULTI_DISPATCH\x01%LMQ%b") is exceeded
    assert dispatch.refusal_of_waiting(b"REAL_TOPIC\x01T") is None


def test_light_queues_are_counted_only_when_there_are_many_topics() -> None:
    topics: dict[str, list[int]] = {f"%LMQ%{number}": [] for number in range(3)}
    limit = LmqLimit(topics=topics, count_max=3)
    topics["T"] = topics["U"] = []
    assert not limit.is_exceeded_for("%LMQ%0")
    topics["%LMQ%3"] = []
    assert limit.is_exceeded_for("%LMQ%0")
    assert not limit.is_exceeded_for("T"), "others can be read"


# ---- appended -------------------------------------------------------------------------------------------------------


def parts_at(place: Place, *, is_clean: bool = True, **more: int) -> Parts:
    return Parts(place, is_clean=is_clean, has_multi_dispatch=True, **more)  # type: ignore[arg-type]


def put(parts: Parts, body: bytes, *names: str, queue_id: int = 0, sys_flag: int = 0) -> tuple[int, int]:
    status, physical_offset, queue_offset = parts.put(
        body, queue_id=queue_id, properties=named(*names) if names else b"TAGS\x01A", tags="A", sys_flag=sys_flag
    )
    assert status is OK
    return physical_offset, queue_offset


def contents(parts: Parts) -> dict[tuple[str, int], list[bytes]]:
    """The bodies that units lead to, by queue."""
    found: dict[tuple[str, int], list[bytes]] = {}
    for queue in parts.queues:
        units = [queue.unit_at(number) for number in range(queue.min_offset, queue.max_offset)]
        if units:
            found[queue.topic, queue.queue_id] = [body_at(parts, place, size) for place, size, _ in units]
    return found


def body_at(parts: Parts, physical_offset: int, size: int) -> bytes:
    located = parts.commit_log.locate(physical_offset, size)
    assert located is not None
    return decode_message(located[0].file().read(located[1], size), check_crc=True).body


def test_a_message_stands_in_every_queue_it_names(place: Place) -> None:
    parts = parts_at(place)
    put(parts, b"0", "%LMQ%a")
    put(parts, b"1", "%LMQ%a", "Audit", queue_id=1)
    put(parts, b"2")
    put(parts, b"3", "Audit", "%LMQ%b", queue_id=1)
    parts.appender.end_burst()
    assert contents(parts) == {
        ("TopicTest", 0): [b"0", b"2"],
        ("TopicTest", 1): [b"1", b"3"],
        ("%LMQ%a", 0): [b"0", b"1"],
        ("%LMQ%b", 0): [b"3"],
        ("Audit", 1): [b"1", b"3"],
    }
    assert {arrival[:2] for arrival in parts.arrivals} == set(contents(parts)), "waiting pulls are notified"
    assert parts.appender.counts.put_count == 4, "messages, not units"


@pytest.mark.parametrize("sys_flag", [0x4, 0xC])
def test_a_transaction_s_prepared_record_has_offsets_and_no_unit(place: Place, sys_flag: int) -> None:
    parts = parts_at(place)
    put(parts, b"half", "%LMQ%a", sys_flag=sys_flag)
    put(parts, b"done", "%LMQ%a", sys_flag=0x8)
    parts.appender.end_burst()
    assert contents(parts) == {("TopicTest", 0): [b"done"], ("%LMQ%a", 0): [b"done"]}


def test_batches_are_not_dispatched(place: Place) -> None:
    """As in RocketMQ: a batch is stored as it comes."""
    parts = parts_at(place)
    status, _, _ = parts.appender.put_batch(
        "T", 0, MessageBatch.of([(0, b"body", named("%LMQ%a"), 0, ())]), 0, 1, b"12345678", 0
    )
    parts.appender.end_burst()
    assert status is OK
    assert contents(parts) == {("T", 0): [b"body"]}
    parts.kill()
    assert contents(parts_at(place, is_clean=False)) == {("T", 0): [b"body"]}


def test_without_multi_dispatch_the_property_means_nothing(place: Place) -> None:
    parts = Parts(place)
    put(parts, b"body", "%LMQ%a", "../x")
    parts.appender.end_burst()
    assert contents(parts) == {("TopicTest", 0): [b"body"]}


def test_what_is_refused_leaves_no_trace(place: Place) -> None:
    parts = parts_at(place)
    for names in (("good", ".."), tuple(f"q{number}" for number in range(5_000))):
        assert parts.put(b"body", properties=named(*names))[0] is ILLEGAL
    too_long = named("good", more="\x02X\x01" + "x" * (PROPERTIES_SIZE_MAX - 30))
    assert len(too_long) <= PROPERTIES_SIZE_MAX
    assert parts.put(b"body", properties=too_long)[0] is PutMessageStatus.PROPERTIES_SIZE_EXCEEDED
    assert parts.put(b"body", properties=named("good"), queue_id=1 << 31)[0] is ILLEGAL
    parts.appender.end_burst()
    assert contents(parts) == {}
    assert parts.appender.wrote_offset == parts.commit_log.end_of_file - LOG_FILE_SIZE
    assert not any(topic.startswith("q") for topic in parts.queues.topics)
    put(parts, b"first", "good")
    parts.appender.end_burst()
    assert parts.queues.find("good", 0).max_offset == 1


def test_without_space_for_all_units_a_message_gets_none() -> None:
    disk = SimDisk(capacity_bytes=LOG_FILE_SIZE + 8 * 4096)
    parts = parts_at(Place(disk, "/store"))
    accepted = 0
    while True:
        status, _, _ = parts.put(b"%d" % accepted, properties=named(f"%LMQ%{accepted}", "All", f"Q{accepted}"))
        if status is not OK:
            break
        accepted += 1
    parts.appender.end_burst()
    assert status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert accepted > 0
    bodies = [b"%d" % number for number in range(accepted)]
    wanted = {("TopicTest", 0): bodies, ("All", 0): bodies}
    for number, body in enumerate(bodies):
        wanted |= {(f"%LMQ%{number}", 0): [body], (f"Q{number}", 0): [body]}
    assert contents(parts) == wanted


# ---- recovered ------------------------------------------------------------------------------------------------------


def life(parts: Parts, names: Iterator[int]) -> None:
    """Put messages with all kinds of names, in bursts."""
    for number in names:
        put(parts, b"%d" % number, *[("%LMQ%a",), ("%LMQ%a", "Audit"), (), ("Audit", "TopicTest", "Audit")][number % 4])
        if number % 3 == 2:
            parts.appender.end_burst()
    parts.appender.end_burst()


@pytest.mark.parametrize("queues_lost", [False, True])
def test_recovery_makes_the_same_units(place: Place, queues_lost: bool) -> None:
    parts = parts_at(place)
    life(parts, iter(range(90)))
    before = contents(parts)
    assert [len(bodies) for _, bodies in sorted(before.items())] == [46, 45, 90]
    parts.kill()
    if queues_lost:
        place.remove_tree(place.consume_queue)
    again = parts_at(place, is_clean=False)
    assert contents(again) == before
    life(again, iter(range(90, 99)))
    assert len(contents(again)["TopicTest", 0]) == 99


def test_death_at_every_call() -> None:
    """Whatever a crash leaves, each message that is there is in all of its queues."""
    disk = SimDisk()
    with noted_deaths(disk) as deaths:
        life(parts_at(Place(disk, "/store"), queue_file_size=200), iter(range(24)))
    assert len(deaths) > 40
    for dead in (*different_disks(deaths[::2], None), *different_disks(deaths[1::2], Random(1).randrange)):
        parts = parts_at(Place(dead, "/store"), is_clean=False, queue_file_size=200)
        count = len(contents(parts).get(("TopicTest", 0), []))
        wanted: dict[tuple[str, int], list[bytes]] = {}
        for number in range(count):
            topics = {"TopicTest", *(("%LMQ%a",), ("%LMQ%a", "Audit"), (), ("Audit",))[number % 4]}
            for topic in topics:
                wanted.setdefault((topic, 0), []).append(b"%d" % number)
        assert contents(parts) == wanted
        parts.kill()


# ---- beside Java ----------------------------------------------------------------------------------------------------


def test_what_java_s_broker_was_sent_becomes_the_same_store(tmp_path: Path, place: Place) -> None:
    """Every record of the recorded store, put again without what the broker added: same offsets, same units."""
    root = golden_store.unpack_store("store-multi", tmp_path / "golden")
    lines = golden_store.expected("store-multi")
    parts = parts_at(place, log_file_size=65536, queue_file_size=6000)
    for record, java in zip(golden_store.records(root), lines["record"], strict=True):
        properties = {name: value for name, value in record.properties.items() if name != OFFSETS}
        parts.clock.advance_ms(record.store_timestamp - parts.clock.timestamp_ms())
        status, physical_offset, queue_offset = parts.put(
            bytes(java["bodyLength"]),
            record.topic,
            record.queue_id,
            properties=encode_properties(properties).encode(),
            tags=properties.get("TAGS", ""),
            sys_flag=record.sys_flag,
        )
        assert (status, physical_offset, queue_offset) == (OK, java["offset"], java["queueOffset"])
        parts.appender.end_burst()
        located = parts.commit_log.locate(physical_offset, java["size"])
        assert located is not None
        stored = decode_message(located[0].file().read(located[1], java["size"]))
        assert stored.properties == java["properties"]
    for line in lines["units"]:
        content = place.read(place.queue_file(line["topic"], line["queueId"]))
        ours = [list(UNIT.unpack_from(content, number * UNIT.size)) for number in range(len(line["units"]))]
        assert ours == line["units"], line["topic"]


def test_light_queues_are_made_up_to_the_limit() -> None:
    queues = SomeQueues({("%LMQ%a", 0): OneQueue(7), ("T", 0): OneQueue(1)})
    topics = {"%LMQ%a": [0], "T": [0]}
    limit = LmqLimit(topics=topics, count_max=2)
    dispatch = MultiDispatch(queues=queues, limit=limit)
    for fits in (("%LMQ%a",), ("%LMQ%b", "%LMQ%a"), ("%LMQ%b", "%LMQ%b"), ("Audit", "Other")):
        assert isinstance(dispatch.address("T", 0, named(*fits)), Addressed)
    exceeded = PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
    assert dispatch.address("T", 0, named("%LMQ%b", "%LMQ%c")) is exceeded
    topics["%LMQ%b"] = [0]
    assert dispatch.address("T", 0, named("%LMQ%c")) is exceeded
    assert limit.refuses(["%LMQ%c"])
    assert not limit.refuses(["%LMQ%a", "%LMQ%b", "U"])
    assert limit.refuses_waiting(b"REAL_TOPIC\x01%LMQ%c")
    assert not limit.refuses_waiting(b"REAL_TOPIC\x01%LMQ%a")
    assert not limit.refuses_waiting(b"X\x01%LMQ%c")
    assert isinstance(MultiDispatch(queues=queues).address("T", 0, named("%LMQ%c", "%LMQ%d")), Addressed)
