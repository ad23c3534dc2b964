"""Repairs: what was promised of each kind of damage, on stores of Java's and ours, and after dying anywhere within."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from rocketpy.errors import DiskFullError, StartError, StoreError
from rocketpy.protocol.message import MessageExt
from rocketpy.protocol.stored_message import decode_message, decode_messages, encode_message
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.inspection.repair.kept_pieces import KEPT_PREFIX, NOTES_FILE
from rocketpy.store.inspection.repair.placeholders import PROPERTY_DAMAGED
from rocketpy.store.inspection.repair.repair import RepairReport, plan_repair, repair_store
from rocketpy.store.inspection.repair.steps import RepairStep
from rocketpy.store.message_store import MessageStore
from rocketpy.testing.sim.disk import SimDisk
from tests.store import broken_stores
from tests.store.broken_stores import LOG_DAMAGES, OTHER_DAMAGES, BrokenStore, inspect, severe, unpack
from tests.store.damaged import QUEUES, ROOT, Snapshot, killed_store, look, stopped_store, write_store
from tests.store.deaths import different_disks, noted_deaths
from tests.store.golden_store import expected
from tests.store.opened_store import opened
from tests.store.parts import Place
from tests.store.whole.test_bad_stores import RefusingDisk
from tests.store.whole.test_golden_stores import unit_tags_code

NOW_MS = 1_700_000_000_000
SIZES = {
    "mapped_file_size_commit_log": 65536,
    "mapped_file_size_consume_queue": 6000,
    "max_hash_slot_num": 500,
    "max_index_num": 2000,
}
"""Of the files of the stores that Java wrote."""

JAVA_STORES = ("store-clean", "store-crash", "store-torn", "store-empty", "store-ipv6", "store-ext", "store-multi")
CRASH_DAMAGES = (broken_stores.remove_log_file, broken_stores.garbage_without_queues, *OTHER_DAMAGES)


def repair(store: BrokenStore, *, cut: bool = False) -> RepairReport:
    return repair_store(OsDisk(), str(store.root), timestamp_ms=NOW_MS, cut=cut)


def described(step: RepairStep) -> tuple[object, ...]:
    return step.path, step.begin, step.end, step.does, step.why


def everything(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


async def messages(root: Path, *, topic: str = "GoldB", queue_id: int = 0) -> list[MessageExt]:
    """Open a store as a broker does, and return what a consumer of a queue gets."""
    async with opened(Place(OsDisk(), str(root)), **SIZES, tags_code=unit_tags_code) as store:
        return await queue_of(store, topic, queue_id)


async def queue_of(store: MessageStore, topic: str, queue_id: int) -> list[MessageExt]:
    found: list[MessageExt] = []
    queue_offset = store.min_offset_in_queue(topic, queue_id)
    while queue_offset < store.max_offset_in_queue(topic, queue_id):
        result = await store.get_message(topic, queue_id, queue_offset, 32)
        found += decode_messages(result.body, decompress=False)
        assert result.next_begin_offset > queue_offset, result
        queue_offset = result.next_begin_offset
    return found


# ---- stores of Java's -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", JAVA_STORES)
def test_nothing_is_planned_for_a_store_that_a_start_can_deal_with(name: str, tmp_path: Path) -> None:
    store = unpack(name, tmp_path)
    before = everything(tmp_path)
    assert plan_repair(OsDisk(), str(store.root)).steps == ()
    assert repair(store).steps == ()
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *(("store-clean", damage) for damage in (*LOG_DAMAGES, *OTHER_DAMAGES)),
        *(("store-crash", damage) for damage in CRASH_DAMAGES),
    ],
)
async def test_after_a_repair_nothing_severe_is_left_and_the_store_opens(
    name: str, damage: Callable[[BrokenStore], None], tmp_path: Path
) -> None:
    store = unpack(name, tmp_path)
    damage(store)
    before = everything(tmp_path)
    planned = plan_repair(OsDisk(), str(store.root)).steps
    assert planned
    assert everything(tmp_path) == before, "a plan changes nothing"
    report = repair(store)
    assert list(map(described, report.steps)) == list(map(described, planned))
    inspection = store.inspect()
    assert not any(finding.severity.is_severe for finding in inspection.findings)
    assert inspection.summary().record_count >= len(expected(name)["record"]), (
        "for each record that was there something is"
    )
    assert everything(tmp_path).keys() >= before.keys() - kept_away(report, tmp_path)
    found = await messages(store.root)
    assert [message.queue_offset for message in found] == list(range(len(found)))
    good = {message.queue_offset: message.body for message in found if PROPERTY_DAMAGED not in message.properties}
    bodies = body_lengths_of_java(name)
    assert all(len(body) == bodies[queue_offset] for queue_offset, body in good.items())
    assert len(found) == len(bodies)
    again = repair(store)
    assert (again.steps, again.left) == ((), ()), "one repair is enough"


def kept_away(report: RepairReport, root: Path) -> set[str]:
    """The files that a repair has moved away, or removed from the end of queues."""
    moved = {str(Path(step.path).relative_to(root)) for step in report.steps}
    return moved | everything_under_queues(root)


def everything_under_queues(root: Path) -> set[str]:
    names = {f"consumequeue/GoldB/0/{base:020d}" for base in range(0, 24_000, 6000)}
    return names | {f"index/{path.name}" for path in (root / "index").iterdir()}


def body_lengths_of_java(name: str) -> dict[int, int]:
    """The stored body of each message of the queue that is looked at, as Java knows it."""
    lines = expected(name)["record"]
    return {
        line["queueOffset"]: line["bodyLength"] for line in lines if (line["topic"], line["queueId"]) == ("GoldB", 0)
    }


async def test_a_flipped_bit_costs_one_message_and_its_placeholder_says_so(tmp_path: Path) -> None:
    store = unpack("store-clean", tmp_path)
    record = store.record()
    before = await messages(store.root)
    broken_stores.flip_body(store)
    damaged = store.log_file(0).read_bytes()[record.physical_offset : record.physical_offset + record.size]
    repair(store)
    after = await messages(store.root)
    place = record.queue_offset
    assert [each.body for each in after[:place] + after[place + 1 :]] == [
        each.body for each in before[:place] + before[place + 1 :]
    ]
    placeholder = after[place]
    assert placeholder.properties[PROPERTY_DAMAGED] == str(record.physical_offset)
    assert (placeholder.store_size, placeholder.queue_offset) == (record.size, record.queue_offset)
    assert placeholder.body.strip(b"\0") == b""
    assert placeholder.store_timestamp == before[place - 1].store_timestamp
    assert list(store.kept().values()) == [damaged]


async def test_cut_ends_the_log_at_the_first_damage_and_backs_up_the_rest(tmp_path: Path) -> None:
    store = unpack("store-clean", tmp_path)
    broken_stores.garbage_in_log(store)
    files = [store.log_file(base) for base in range(0, 5 * 65536, 65536)]
    before = [path.read_bytes() for path in files]
    damage = store.inspect().damages[0]
    repair(store, cut=True)
    assert store.inspect().log_end == damage.begin_offset
    assert store.severe() == []
    assert [path.exists() for path in files] == [True, True, False, False, False]
    kept = store.kept()
    position = damage.begin_offset - 65536
    assert kept.pop("0005-commitlog-00000000000000065536") == before[1][position:]
    assert [kept[f"000{4 - each}-commitlog-{each * 65536 + 131072:020d}"] for each in range(3)] == before[2:]
    found = await messages(store.root)
    assert found[-1].physical_offset < damage.begin_offset
    assert len(found) == found[-1].queue_offset + 1


def test_a_hole_that_no_record_fits_is_where_the_log_ends(tmp_path: Path) -> None:
    """Fifty bytes between two valid records, which no queue knows: the one before has been made shorter."""
    store = unpack("store-clean", tmp_path)
    record = next(each for each in store.records() if (each.topic, each.queue_id, each.queue_offset) == ("GoldA", 1, 1))
    path, position = store.log_file(131072), record.physical_offset - 131072
    message = decode_message(path.read_bytes(), position, decompress=False)
    message.body = message.body[:-50]
    shorter = encode_message(message)
    store.overwrite(path, position, shorter + b"x" * 50)
    unit_position = message.queue_offset * 20 + 8
    queue_path = store.queue_file(message.topic, 0, message.queue_id)
    store.overwrite(queue_path, unit_position, len(shorter).to_bytes(4, "big"))
    (damage,) = store.inspect().damages
    assert (damage.begin_offset, damage.size) == (message.physical_offset + len(shorter), 50)
    repair(store)
    assert store.severe() == []
    assert store.inspect().log_end == damage.begin_offset


def test_messages_of_several_queues_get_placeholders_in_all_of_them(tmp_path: Path) -> None:
    store = unpack("store-multi", tmp_path)
    record = next(each for each in store.records() if "INNER_MULTI_DISPATCH" in each.properties)
    store.flip_log(record.physical_offset + 90)
    store.flip_log(record.physical_offset + 3, 8)
    repair(store)
    assert store.severe() == []
    found = next(each for each in store.records() if each.physical_offset == record.physical_offset)
    assert (found.topic, found.queue_id, found.queue_offset) == (record.topic, record.queue_id, record.queue_offset)
    assert sorted(found.properties["INNER_MULTI_DISPATCH"].split(",")) == sorted(
        record.properties["INNER_MULTI_DISPATCH"].split(",")
    )


# ---- what a repair refuses ------------------------------------------------------------------------------------------


def test_a_locked_store_is_left_alone(tmp_path: Path) -> None:
    store = unpack("store-clean", tmp_path)
    broken_stores.flip_body(store)
    disk = OsDisk()
    lock = disk.lock(str(store.root / "lock"))
    before = everything(tmp_path)
    with pytest.raises(StartError):
        repair_store(disk, str(store.root), timestamp_ms=NOW_MS)
    lock.release()
    assert everything(tmp_path) == before
    repair(store)


def test_a_file_that_cannot_be_opened_is_never_taken_for_an_empty_one() -> None:
    disk = RefusingDisk()
    place = Place(disk, ROOT)
    write_store(place, stopped_store().files)
    before = place.files(ROOT)
    disk.refused = place.log_file(0)
    with pytest.raises(StoreError, match="cannot repair what cannot be read"):
        repair_store(disk, ROOT, timestamp_ms=NOW_MS)
    disk.refused = ""
    assert place.files(ROOT) == before


def test_without_space_for_what_is_kept_nothing_changes() -> None:
    disk = SimDisk()
    place = Place(disk, ROOT)
    write_store(place, stopped_store().files)
    place.write(place.log_file(8192), b"x" * 3000, 1000)
    disk.lock(f"{ROOT}/lock").release()
    disk.capacity_bytes = disk.capacity_bytes - disk.free_bytes(ROOT)
    before = place.files(ROOT)
    with pytest.raises(DiskFullError):
        repair_store(disk, ROOT, timestamp_ms=NOW_MS)
    assert place.files(ROOT) == before


# ---- dying in the middle --------------------------------------------------------------------------------------------


def garbage(place: Place) -> None:
    place.write(place.log_file(8192), Random(2).randbytes(3000), 1000)


def garbage_over_two_files(place: Place) -> None:
    place.write(place.log_file(8192), Random(2).randbytes(3000), 8192 - 3000)
    place.write(place.log_file(16384), Random(3).randbytes(500), 0)


def missing_file(place: Place) -> None:
    place.disk.unlink(place.log_file(8192))


def short_file(place: Place) -> None:
    file = place.disk.open(place.log_file(8192))
    file.truncate(3000)
    file.close()


def garbage_without_a_queue(place: Place) -> None:
    garbage(place)
    place.disk.unlink(place.queue_file("Orders", 0, 0))
    place.disk.unlink(place.queue_file("Orders", 0, 400))


def wrong_unit(place: Place) -> None:
    place.write(place.queue_file("Orders", 0, 0), b"\0\0\0\0\0\0\x33\x33", 100)


def garbage_and_wrong_unit(place: Place) -> None:
    garbage(place)
    wrong_unit(place)


def lost_end(place: Place) -> None:
    names = place.disk.list_directory(place.commit_log)
    place.disk.unlink(f"{place.commit_log}/{names[-1]}")
    place.disk.unlink(f"{place.commit_log}/{names[-2]}")


DAMAGES = (
    garbage,
    garbage_over_two_files,
    missing_file,
    short_file,
    garbage_without_a_queue,
    wrong_unit,
    garbage_and_wrong_unit,
    lost_end,
)
SNAPSHOTS: tuple[Callable[[], Snapshot], ...] = (stopped_store, killed_store)


def damaged(snapshot: Snapshot, damage: Callable[[Place], None]) -> Place:
    """A store whose bytes are durable, damaged."""
    disk = SimDisk()
    place = Place(disk, ROOT)
    write_store(place, snapshot.files)
    damage(place)
    disk.lose_power(lambda count: count - 1)
    return place


@pytest.mark.parametrize(
    ("snapshot", "damage", "cut"),
    [
        *((stopped_store, damage, False) for damage in DAMAGES),
        (killed_store, garbage, False),
        (killed_store, garbage_and_wrong_unit, False),
        (stopped_store, garbage_and_wrong_unit, True),
        (killed_store, missing_file, True),
    ],
)
def test_a_repair_that_dies_anywhere_is_begun_again(
    snapshot: Callable[[], Snapshot], damage: Callable[[Place], None], cut: bool
) -> None:
    undisturbed = damaged(snapshot(), damage)
    assert isinstance(undisturbed.disk, SimDisk)
    before = undisturbed.files(ROOT)
    with noted_deaths(undisturbed.disk) as deaths:
        repair_store(undisturbed.disk, ROOT, timestamp_ms=NOW_MS, cut=cut)
    log_end = sound_end(undisturbed)
    for loses in (None, Random(len(deaths)).randrange):
        for number, disk in enumerate(different_disks(deaths, loses)):
            place = Place(disk, ROOT)
            repair_store(disk, ROOT, timestamp_ms=NOW_MS + 1, cut=cut)
            assert sound_end(place) == log_end, (number, loses)
            assert_kept(place, before)


def sound_end(place: Place) -> int:
    """Return where the log of a store ends in which nothing severe is found."""
    inspection = inspect(place.disk, ROOT)
    assert not any(finding.severity.is_severe for finding in inspection.findings)
    return inspection.log_end


def assert_kept(place: Place, before: dict[str, bytes]) -> None:
    """Putting every kept piece back where it was, the last one first, gives the store as it was before the repairs."""
    files = {name: bytearray(content) for name, content in place.files(ROOT).items()}
    kept = sorted({name.split("/")[0] for name in files if name.startswith(KEPT_PREFIX)}, reverse=True)
    for directory in kept:
        notes = files[f"{directory}/{NOTES_FILE}"].decode().splitlines() if f"{directory}/{NOTES_FILE}" in files else []
        for note in reversed(notes):
            ranged = re.match(rf"(\S+): bytes (\d+) to (\d+) of {ROOT}/(\S+): ", note)
            whole = re.match(rf"(\S+): {ROOT}/(\S+) as a whole: ", note)
            if ranged:
                piece = files[f"{directory}/{ranged[1]}"]
                content = files.setdefault(ranged[4], bytearray())
                content.extend(bytes(max(0, int(ranged[3]) - len(content))))
                content[int(ranged[2]) : int(ranged[3])] = piece
            elif whole and f"{directory}/{whole[1]}" in files:
                files[whole[2]] = files[f"{directory}/{whole[1]}"]
    for name, content in before.items():
        if name != "lock":
            assert files[name].rstrip(b"\0") == content.rstrip(b"\0"), name


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("snapshot", SNAPSHOTS)
def test_what_was_good_is_served_afterwards(snapshot: Callable[[], Snapshot], damage: Callable[[Place], None]) -> None:
    """Ours opens the store; every record that was not damaged is where it was, with its keys."""
    place = damaged(snapshot(), damage)
    lost = inspect(place.disk, ROOT)
    log_end = lost.log_end
    repair_store(place.disk, ROOT, timestamp_ms=NOW_MS)
    seen = look(place)
    assert not isinstance(seen, Exception), seen
    for queue in QUEUES:
        wanted = snapshot().records[queue]
        found = seen.records[queue]
        for number, record in enumerate(wanted):
            physical_offset = int.from_bytes(record[28:36], "big")
            if physical_offset >= log_end:
                assert len(found) <= number
                break
            is_lost = any(each.begin_offset <= physical_offset < each.end_offset for each in lost.damages)
            assert (found[number] == record) is not is_lost, (queue, number)
            if queue != QUEUES[0] or damage is not garbage_without_a_queue:
                assert len(found[number]) == len(record)
            key = f"{queue[0]}-{queue[1]}-{number}"
            assert (seen.keys.get(key) == record) is (number % 2 == 0 and not is_lost)


# ---- any damage -----------------------------------------------------------------------------------------------------


def damage_at_random(files: dict[str, bytes], random: Random) -> None:
    """Flip, overwrite, cut, lengthen or remove something."""
    name = random.choice([name for name in files if name != "lock" and not name.startswith("config/")])
    content = bytearray(files[name])
    position = random.randrange(len(content) + 1)
    match random.randrange(6):
        case 0 if content:
            content[position - 1] ^= 1 << random.randrange(8)
        case 1:
            content[position : position + 3000] = random.randbytes(min(len(content) - position, 3000))
        case 2:
            content[position:] = bytes(len(content) - position)
        case 3:
            del content[position:]
        case 4:
            content += random.randbytes(random.randrange(1, 300))
        case _:
            del files[name]
            return
    files[name] = bytes(content)


@pytest.mark.parametrize("seed", range(40))
def test_any_damage_is_mended_or_named(seed: int) -> None:
    """Whatever happens to a store, it opens after a repair, unless the repair has said what it cannot mend."""
    random = Random(seed)
    snapshot = random.choice(SNAPSHOTS)()
    files = dict(snapshot.files)
    for _ in range(random.choice((1, 1, 2, 4))):
        damage_at_random(files, random)
    place = Place(SimDisk(), ROOT)
    write_store(place, files)
    report = repair_store(place.disk, ROOT, timestamp_ms=NOW_MS, cut=random.random() < 0.2)
    assert tuple(severe(place.disk, ROOT)) == report.left
    seen = look(place)
    assert not isinstance(seen, Exception) or report.left
    assert not severe(place.disk, ROOT) or report.left
