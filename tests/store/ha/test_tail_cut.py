"""Cutting a log where it parts from a master's: what is left, what is kept, and what deaths in the middle may do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from random import Random

import attrs
import pytest

from rocketpy.store import layout
from rocketpy.store.config import BrokerRole, FlushDiskType, MessageStoreConfig
from rocketpy.store.ha.tail_cut import (
    KEPT_TAILS_MAX,
    SPARE_BYTES,
    CutOrder,
    CutReport,
    TailCut,
    load_order,
    order_cut,
)
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.sim.disk_state import DiskState
from rocketpy.testing.store_model import Found, Sent
from rocketpy.testing.store_world import LifeEnded, StoreWorld
from tests.store.deaths import different_disks, noted_deaths

MASTER = MessageStoreConfig(
    store_path_root_dir="/store",
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=10,
    max_index_num=20,
)
KEPT = "/store/diverged"
COUNT = 24


def slave(*, ha_truncate_diverged_log: bool = True) -> MessageStoreConfig:
    return attrs.evolve(MASTER, broker_role=BrokerRole.SLAVE, ha_truncate_diverged_log=ha_truncate_diverged_log)


def a_store(*, is_stopped: bool = True, count: int = COUNT, **options: object) -> tuple[StoreWorld, list[Sent]]:
    """Return a closed store with messages in two queues over several files of log and index, and the messages."""
    world = StoreWorld(attrs.evolve(MASTER, **options))
    world.open()
    sent: list[Sent] = []
    for number in range(count):
        message = world.put(f"Topic{number % 2}", 0, b"%03d" % number + b"x" * 300, keys=[f"key{number}"])
        assert isinstance(message, Sent)
        sent.append(message)
        world.end_burst()
        world.pass_time(1000)
    if is_stopped:
        assert world.stop()
    else:
        assert world.flush()  # what power takes away before it is copied is not in the copy
        world.kill()
    world.config = attrs.evolve(slave(), **options)
    return world, sent


def log_bytes(disk: SimDisk, directory: str = "/store/commitlog") -> dict[int, bytes]:
    """Return the files of a log by their offsets."""
    return {int(name): content for name, content in disk.peek(directory).items()}


def joined(files: dict[int, bytes], begin: int, end: int) -> bytes:
    """Return the bytes of a range of a log, which may begin within a file."""
    found = b"".join(content for _, content in sorted(files.items()))
    first = min(files)
    return found[begin - first : end - first]


def end_of(sent: Sequence[Sent], disk: SimDisk) -> int:
    """Return the end of the log whose last record this is."""
    last = sent[-1].physical_offset
    return last + int.from_bytes(joined(log_bytes(disk), last, last + 4), "big")


def ordered(world: StoreWorld, sent: Sequence[Sent], index: int) -> CutOrder:
    """Order a cut at a message, and return the order."""
    order = CutOrder(sent[index].physical_offset, end_of(sent, world.disk), 1_700_000_000_123)
    assert order_cut(world.disk, world.config, order) is None
    assert load_order(world.disk, "/store") == order
    return order


def kept_of(disk: SimDisk) -> dict[int, bytes]:
    (name,) = disk.list_directory(KEPT)
    return log_bytes(disk, f"{KEPT}/{name}")


@pytest.mark.parametrize("is_stopped", [True, False])
@pytest.mark.parametrize("index", [1, 8, 9, 10, 19, 20, COUNT - 1])
def test_what_comes_after_the_offset_is_cut_and_kept(index: int, is_stopped: bool) -> None:
    world, sent = a_store(is_stopped=is_stopped)
    order = ordered(world, sent, index)
    before = joined(log_bytes(world.disk), order.offset, order.end_offset)
    found = world.open()
    assert found.log == sent[:index]
    assert found.queues == {
        key: [each for each in sent[:index] if each.topic == key[0]] for key in (("Topic0", 0), ("Topic1", 0))
        if key in found.queues
    }  # fmt: skip
    kept = kept_of(world.disk)
    assert min(kept) == order.offset
    assert joined(kept, order.offset, order.end_offset) == before
    assert all(begin % 4096 == 0 for begin in sorted(kept)[1:])
    assert world.disk.list_directory(KEPT) == [f"{order.offset:020d}-20231114T221320123Z"]
    assert load_order(world.disk, "/store") is None
    for number in (index - 1, index):
        result = world.ask(lambda store, n=number: store.query_message(f"Topic{n % 2}", f"key{n}", 32, 0, 1 << 60))
        assert bool(result.body) == (number < index), "the index follows"
    assert world.stop()


@pytest.mark.parametrize(
    "options",
    [
        {"flush_disk_type": FlushDiskType.SYNC_FLUSH},
        {"enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": 128},
        {"enable_multi_dispatch": True, "enable_lmq": True},
        {"message_index_enable": False},
        {"store_path_commit_log": "/one,/two,/three"},
    ],
)
@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_store_of_any_kind_is_cut(options: dict[str, object], is_stopped: bool) -> None:
    for index in (5, 15):
        world, sent = a_store(is_stopped=is_stopped, **options)
        paths = world.config.commit_log_paths
        files = {base: content for path in paths for base, content in log_bytes(world.disk, path).items()}
        end = max(base + len(content.rstrip(b"\0")) for base, content in files.items() if content.strip(b"\0"))
        before = joined(files, sent[index].physical_offset, end)
        order = CutOrder(sent[index].physical_offset, end, 5)
        assert order_cut(world.disk, world.config, order) is None
        found = world.open()
        assert in_log_order(found) == sent[:index]
        assert joined(kept_of(world.disk), order.offset, end) == before
        assert world.stop()
        world.config = attrs.evolve(world.config, broker_role=BrokerRole.ASYNC_MASTER)
        world.open()
        message = world.put("Topic0", 0, b"next", tags="TagA")
        assert isinstance(message, Sent)
        assert (message.physical_offset, message.queue_offset) == (sent[index].physical_offset, (index + 1) // 2)
        world.end_burst()
        world.kill()
        assert in_log_order(world.open()) == [*sent[:index], message]
        world.kill()


def test_files_of_a_directory_that_gets_no_new_ones_are_part_of_the_log() -> None:
    """They lie between those of the other: without them the log seems to have gaps."""
    world, sent = a_store(store_path_commit_log="/one,/two")
    world.config = attrs.evolve(world.config, store_path_commit_log="/one", read_only_commit_log_store_paths="/two")
    files = {base: content for path in ("/one", "/two") for base, content in log_bytes(world.disk, path).items()}
    end = max(base + len(content.rstrip(b"\0")) for base, content in files.items() if content.strip(b"\0"))
    order = CutOrder(sent[15].physical_offset, end, 5)
    before = joined(files, order.offset, end)
    assert order_cut(world.disk, world.config, order) is None
    assert in_log_order(world.open()) == sent[:15]
    assert joined(kept_of(world.disk), order.offset, end) == before
    world.kill()


def in_log_order(found: Found) -> list[Sent]:
    """Return what all queues have, also of a log in several directories."""
    return sorted((each for queue in found.queues.values() for each in queue), key=lambda each: each.physical_offset)


def test_a_log_may_be_cut_where_a_file_begins_or_at_its_blank() -> None:
    """A BLANK is a record that two logs may have in common, or not."""
    for at_blank in (False, True):
        world, sent = a_store()
        first_of_file = next(index for index, each in enumerate(sent) if each.physical_offset == 4096)
        end = end_of(sent, world.disk)
        offset = end_of(sent[:first_of_file], world.disk) if at_blank else 4096
        before = joined(log_bytes(world.disk), offset, end)
        assert order_cut(world.disk, slave(), CutOrder(offset, end, 5)) is None
        found = world.open()
        assert found.log == sent[:first_of_file]
        assert world.store.max_physical_offset == offset, "what a slave requests"
        assert joined(kept_of(world.disk), offset, end) == before
        assert world.stop()
        world.open()
        assert world.store.max_physical_offset == offset
        world.kill()


def test_a_log_may_be_cut_within_its_first_file_only_after_a_record() -> None:
    world, sent = a_store()
    for offset in (0, -1, end_of(sent, world.disk), 1 << 40):
        refusal = order_cut(world.disk, slave(), CutOrder(offset, end_of(sent, world.disk), 1))
        assert refusal is not None
        assert f"found {offset}" in refusal
    assert load_order(world.disk, "/store") is None


# ---- deaths ---------------------------------------------------------------------------------------------------------


def nothing(count: int) -> int:
    return 0


Loses = Callable[[int], int] | None
"""What a loss of power takes away; None for a kill, which takes nothing."""


@attrs.frozen
class Deaths:
    """Deaths of an opening that cuts a store at its message 4."""

    sent: Sequence[Sent]
    order: CutOrder
    tail: bytes
    """What the log had from the cut on."""
    disks: Sequence[DiskState]

    def worlds(self, config: MessageStoreConfig, loses: Loses) -> Iterator[StoreWorld]:
        """Return the store after each of them."""
        for disk in different_disks(self.disks, loses):
            with StoreWorld(config, disk=disk) as world:
                yield world

    def assert_kept(self, disk: SimDisk) -> None:
        """Check that the copy has all of the tail."""
        assert joined(kept_of(disk), self.order.offset, self.order.end_offset) == self.tail


@cache
def deaths(*, is_stopped: bool = True) -> Deaths:
    """Open a store that is cut; note what a death at each change of the disk leaves."""
    world, sent = a_store(is_stopped=is_stopped, count=12)
    order = ordered(world, sent, 4)
    tail = joined(log_bytes(world.disk), order.offset, order.end_offset)
    with noted_deaths(world.disk) as disks:
        world.begin()
    world.kill()
    assert len(disks) > 20, "it is cut in many steps"
    return Deaths(sent, order, tail, disks)


@pytest.mark.parametrize("is_stopped", [True, False])
@pytest.mark.parametrize("loses", [None, nothing, Random(5).randrange])
def test_a_death_anywhere_leads_to_the_same_store(loses: Loses, is_stopped: bool) -> None:
    """Killed, or with power lost, at each change of the disk: the next opening does it again, or it was done."""
    death = deaths(is_stopped=is_stopped)
    for world in death.worlds(slave(), loses):
        found = world.open()
        assert found.log == death.sent[:4]
        assert sum(len(each) for each in found.queues.values()) == 4
        death.assert_kept(world.disk)
        assert load_order(world.disk, "/store") is None


@pytest.mark.parametrize("loses", [None, nothing, Random(7).randrange])
def test_a_slave_that_is_promoted_in_the_middle_opens_and_loses_nothing_without_a_copy(loses: Loses) -> None:
    """A master never cuts: it opens with what is there, and what is not there is in the copy."""
    death = deaths()
    for world in death.worlds(MASTER, loses):
        found = world.open()
        assert found.log == death.sent[: len(found.log)]
        assert len(found.log) >= 4
        if len(found.log) < len(death.sent):
            death.assert_kept(world.disk)


def test_a_cut_that_was_done_is_never_done_again() -> None:
    """After a loss of power the order must not come back: it would cut what was stored since."""
    world, sent = a_store()
    ordered(world, sent, 10)
    world.open()
    world.lose_power(nothing)
    assert load_order(world.disk, "/store") is None
    assert len(world.open().log) == 10
    world.kill()


# ---- refusals -------------------------------------------------------------------------------------------------------


def execute(world: StoreWorld) -> CutReport:
    cut = TailCut(world.config, disk=world.disk)
    for _ in cut.run():
        pass
    assert cut.report is not None
    assert load_order(world.disk, "/store") is None, "an order that cannot be executed is dropped"
    return cut.report


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (attrs.evolve(slave(), broker_role=BrokerRole.ASYNC_MASTER), "this broker is ASYNC_MASTER"),
        (attrs.evolve(slave(), broker_role=BrokerRole.SYNC_MASTER), "only a slave cuts its log"),
        (slave(ha_truncate_diverged_log=False), "haTruncateDivergedLog is false"),
    ],
)
def test_only_a_slave_that_may_cuts(config: MessageStoreConfig, why: str) -> None:
    world, sent = a_store()
    order = ordered(world, sent, 10)
    assert why in (order_cut(world.disk, config, order) or "")
    world.config = config
    assert why in execute(world).refusal
    assert world.open().log == sent
    assert not world.disk.is_directory(KEPT)
    world.kill()


def test_a_log_that_has_changed_since_is_not_cut() -> None:
    world, sent = a_store()
    at_end = end_of(sent, world.disk)
    for order, why in (
        (
            CutOrder(sent[3].physical_offset + 1, at_end, 1),
            f"expected a record at {sent[3].physical_offset + 1}, found",
        ),
        (CutOrder(sent[3].physical_offset, sent[20].physical_offset, 1), "found a record there"),
    ):
        assert order_cut(world.disk, slave(), order) is None
        report = execute(world)
        assert why in report.refusal
        assert (report.order, report.kept_path) == (order, "")
    order = ordered(world, sent, 3)
    world.disk.unlink("/store/commitlog/00000000000000000000")
    assert "expected a log that begins before" in execute(world).refusal
    assert sum(len(each) for each in log_bytes(world.disk).values()) > 0


def test_kept_tails_are_bounded_and_need_space() -> None:
    world, sent = a_store()
    order = CutOrder(sent[3].physical_offset, end_of(sent, world.disk), 1)
    for number in range(KEPT_TAILS_MAX):
        world.disk.make_directories(f"{KEPT}/{number}")
    refusal = order_cut(world.disk, slave(), order)
    assert refusal == f"{KEPT} keeps 16 tails, expected fewer than 16: look at them and remove some"
    for number in range(KEPT_TAILS_MAX):
        world.disk.remove_directory(f"{KEPT}/{number}")
    assert order_cut(world.disk, slave(), order) is None
    world.disk.capacity_bytes = world.disk.used_bytes("/store") + SPARE_BYTES
    assert "bytes are needed for a copy" in (order_cut(world.disk, slave(), order) or "")
    assert "bytes are needed for a copy" in execute(world).refusal
    assert world.open().log == sent
    world.kill()


@pytest.mark.parametrize("call", range(1, 12))
def test_without_a_descriptor_nothing_is_cut_or_all_of_it(call: int) -> None:
    world, sent = a_store()
    ordered(world, sent, 10)
    world.disk.run_out_of_descriptors(call + 1)
    try:
        world.begin()
    except LifeEnded:  # the next opening goes on
        world.kill()
    else:
        world.kill()
    log = world.open().log
    assert log in (sent, sent[:10])
    assert len(log) == 10 or not world.disk.list_directory(KEPT), "half a copy is removed"
    world.kill()


@pytest.mark.parametrize(
    "text", ["", "1", "1 cut 5 6", "1 cut 5 6 x", "1 drop 5 6 7", "2 cut 5 6 7", "1 cut -5 6 7", "\xff"]
)
def test_what_is_no_order_orders_nothing(text: str) -> None:
    world, sent = a_store()
    file = world.disk.open(f"/store/{layout.CUT_FILE}", create=True)
    file.write(0, text.encode())
    file.close()
    assert load_order(world.disk, "/store") is None
    cut = TailCut(world.config, disk=world.disk)
    list(cut.run())
    assert cut.report is not None
    assert cut.report.refusal == "/store/cut was no order, and is removed"
    assert not world.disk.exists(f"/store/{layout.CUT_FILE}")
    assert world.open().log == sent
    world.kill()


# ---- through the store ----------------------------------------------------------------------------------------------


def test_an_open_store_orders_the_cut_at_its_end_and_the_next_start_has_done_it() -> None:
    world, sent = a_store()
    world.open()
    offset = sent[10].physical_offset
    assert world.ask(lambda store: store.order_cut(offset)) is None
    order = load_order(world.disk, "/store")
    assert order is not None
    assert (order.offset, order.end_offset) == (offset, world.store.max_physical_offset)
    assert world.stop()
    assert world.open().log == sent[:10]
    assert world.store.max_physical_offset == offset
    assert world.stop()


def test_a_start_that_could_not_cut_does_not_order_it_again() -> None:
    """Otherwise a broker that starts again to have it done would do so for ever."""
    world, sent = a_store()
    order = CutOrder(sent[3].physical_offset + 1, end_of(sent, world.disk), 1)
    assert order_cut(world.disk, slave(), order) is None
    world.open()
    refusal = world.ask(lambda store: store.order_cut(sent[3].physical_offset))
    assert refusal is not None
    assert f"this start was to cut at {order.offset}, and could not: expected a record" in refusal
    assert load_order(world.disk, "/store") is None
    world.kill()
