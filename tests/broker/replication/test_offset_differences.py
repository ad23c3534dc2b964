"""A slave's consumer offsets: what it takes, keeps and brings home, life by life of its master; and the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketpy.broker.metadata.ages import Ages
from rocketpy.broker.replication.offset_differences import CommittedOffset, OffsetDifferences
from rocketpy.clock import ManualClock
from rocketpy.errors import StartError
from rocketpy.runner import run_inline
from rocketpy.store.disk.os_disk import OsDisk

KEY = "T@G"


class Clocks:
    """The clocks of a machine, which go on together."""

    def __init__(self) -> None:
        self.wall, self.seconds = ManualClock(), 50.0

    def pass_ms(self, milliseconds: int) -> None:
        self.wall.advance_ms(milliseconds)
        self.seconds += milliseconds / 1000


def differences_in(directory: Path, clocks: Clocks | None = None) -> OffsetDifferences:
    path, clocks = str(directory / "slaveOffsets.json"), clocks or Clocks()
    ages = Ages(clocks.wall, lambda: clocks.seconds)
    return OffsetDifferences(path=path, disk=OsDisk(), run_blocking=run_inline, ages=ages)


class Slave:
    """The offsets of one group in one topic on a slave, by queue id."""

    def __init__(self, directory: Path) -> None:
        self.clocks = Clocks()
        self.differences = differences_in(directory, self.clocks)
        self.own: dict[int, int] = {}

    def commit(self, queue_id: int, offset: int) -> None:
        """Commit as a client does."""
        before = self.own.get(queue_id)
        self.own[queue_id] = offset
        self.differences.committed(KEY, queue_id, before, offset)

    def home(self, run: int | None, master: dict[int, int]) -> dict[int, int]:
        """Return what is to be brought home, by queue id."""
        found = self.differences.to_bring_home(
            {KEY: self.own}, {KEY: master}, is_same_run=self.differences.is_same_run(run)
        )
        assert all(each.key == KEY for each in found)
        return {each.queue_id: each.consumer_offset for each in found}

    def synchronize(self, run: int | None, master: dict[int, int], *, brings_home: bool = True) -> dict[int, int]:
        """Do what a round does; ``master`` takes what is brought home. Return the own offsets."""
        if brings_home:
            master.update(self.home(run, master))
        is_same_run = self.differences.is_same_run(run)
        self.own = self.differences.settle(KEY, self.own, master, is_same_run=is_same_run)
        self.differences.synchronized(run)
        return self.own


@pytest.fixture
def slave(tmp_path: Path) -> Slave:
    return Slave(tmp_path)


def test_what_the_master_has_is_taken(slave: Slave) -> None:
    assert slave.synchronize(1, {0: 5, 1: 6}) == {0: 5, 1: 6}
    assert slave.synchronize(1, {0: 9, 1: 6}) == {0: 9, 1: 6}
    assert slave.synchronize(2, {0: 10, 1: 6, 2: 1}) == {0: 10, 1: 6, 2: 1}
    assert slave.differences.count == 0


def test_a_reset_in_the_same_run_is_taken(slave: Slave) -> None:
    slave.synchronize(1, {0: 9, 1: 9})
    assert slave.synchronize(1, {0: 3}) == {0: 3}, "queue 1 was removed on the master"
    assert slave.differences.count == 0


def test_a_returning_master_sets_nothing_back(slave: Slave) -> None:
    """It has lost the commits of its last seconds, which the slave has: rocketmq#1094."""
    slave.synchronize(1, {0: 9, 1: 9})
    assert slave.synchronize(2, {0: 4}) == {0: 9, 1: 9}
    assert slave.home(2, {0: 4}) == {}, "nobody has committed it here: it may have been reset on the master"


def test_a_kept_offset_follows_the_master_again_when_that_has_passed_it(slave: Slave) -> None:
    slave.synchronize(1, {0: 9})
    for master, own in ((4, 9), (6, 9), (9, 9), (12, 12), (11, 11)):
        assert slave.synchronize(2, {0: master}) == {0: own}
    assert slave.differences.count == 0


def test_a_kept_offset_falls_when_the_masters_falls_again(slave: Slave) -> None:
    slave.synchronize(1, {0: 9})
    assert slave.synchronize(2, {0: 4}) == {0: 9}
    assert slave.synchronize(2, {0: 2}) == {0: 2}


def test_what_was_committed_here_is_kept_and_brought_home(slave: Slave) -> None:
    slave.synchronize(1, {0: 5, 1: 5})
    slave.commit(0, 8)
    slave.commit(2, 3)
    assert slave.home(2, {0: 5, 1: 5}) == {0: 8, 2: 3}
    refusing = {0: 5, 1: 5}
    assert slave.synchronize(2, refusing, brings_home=False) == {0: 8, 1: 5, 2: 3}
    assert slave.home(2, refusing) == {0: 8, 2: 3}, "it is tried again"
    master = dict(refusing)
    assert slave.synchronize(2, master) == {0: 8, 1: 5, 2: 3} == master
    assert slave.differences.count == 0
    assert slave.synchronize(2, {0: 6, 1: 5, 2: 3}) == {0: 6, 1: 5, 2: 3}, "a reset afterwards counts"


def test_without_a_restart_too(slave: Slave) -> None:
    """The network between the two was cut, and clients reached only the slave."""
    slave.synchronize(1, {0: 5})
    slave.commit(0, 8)
    assert slave.home(1, {0: 5}) == {0: 8}
    assert slave.home(1, {0: 7}) == {0: 8}
    assert slave.home(1, {0: 8}) == {}
    assert slave.synchronize(1, {0: 9}, brings_home=False) == {0: 9}


def test_a_reset_on_the_master_voids_commits_to_the_slave(slave: Slave) -> None:
    slave.synchronize(1, {0: 5})
    slave.commit(0, 8)
    assert slave.home(1, {0: 2}) == {}
    assert slave.synchronize(1, {0: 2}) == {0: 2}
    slave.commit(3, 4)
    assert slave.home(1, {0: 2}) == {3: 4}, "a group that the master never had was not removed there"


def one_to_bring_home(slave: Slave, master: dict[int, int]) -> CommittedOffset:
    [found] = slave.differences.to_bring_home({KEY: slave.own}, {KEY: master}, is_same_run=False)
    return found


def test_an_offset_that_the_master_has_revoked_falls_at_once(slave: Slave) -> None:
    """Although the run of the master is another one, where a lower offset alone says nothing."""
    slave.synchronize(1, {0: 6, 1: 6})
    slave.commit(0, 11)
    slave.differences.revoked(one_to_bring_home(slave, {0: 0, 1: 6}))
    assert slave.synchronize(2, {0: 0, 1: 6}, brings_home=False) == {0: 0, 1: 6}
    assert slave.differences.count == 0
    slave.commit(0, 5)
    slave.differences.revoked(one_to_bring_home(slave, {1: 6}))
    assert slave.synchronize(3, {1: 6}, brings_home=False) == {1: 6}, "it was removed there"


@pytest.mark.parametrize(("later", "passing_ms"), [(12, 0), (11, 5), (12, 5)])
def test_a_commit_after_the_question_is_not_revoked(slave: Slave, later: int, passing_ms: int) -> None:
    slave.synchronize(1, {0: 6})
    slave.commit(0, 11)
    asked = one_to_bring_home(slave, {0: 0})
    slave.clocks.pass_ms(passing_ms)
    slave.commit(0, later)
    slave.differences.revoked(asked)
    assert slave.synchronize(2, {0: 0}, brings_home=False) == {0: later}
    slave.differences.revoked(one_to_bring_home(slave, {0: 0}))
    slave.commit(0, 13)
    assert slave.synchronize(2, {0: 0}, brings_home=False) == {0: 13}, "nor one after the answer"


def test_what_is_no_longer_known_can_be_revoked(slave: Slave) -> None:
    slave.commit(0, 11)
    asked = one_to_bring_home(slave, {})
    slave.differences.log_was_cut()
    slave.differences.revoked(asked)
    assert slave.differences.count == 0


async def test_how_long_ago_a_commit_was_is_known_after_a_restart(tmp_path: Path, slave: Slave) -> None:
    slave.synchronize(1, {0: 6, 1: 6})
    slave.commit(0, 11)
    slave.clocks.pass_ms(4_000)
    assert slave.differences.ago_ms(one_to_bring_home(slave, {0: 6})) == 4_000
    await slave.differences.stored.persist()
    later = Slave(tmp_path)
    later.clocks.seconds = 3.0
    later.clocks.wall.advance_ms(10_000)
    later.differences.load()
    later.own = dict(slave.own)
    assert later.differences.committed_offsets == {KEY: {0: 11}}
    assert later.differences.ago_ms(one_to_bring_home(later, {0: 6})) == 10_000


def test_how_long_ago_a_commit_was_is_not_in_an_older_file(tmp_path: Path) -> None:
    text = '{"committedOffsets":{"T@G":{0:12}},"masterBootTimestamp":1,"masterOffsets":{"T@G":{0:7,1:7}}}'
    (tmp_path / "slaveOffsets.json").write_text(text)
    slave = Slave(tmp_path)
    slave.differences.load()
    slave.own = {0: 12, 1: 9}
    assert slave.differences.ago_ms(one_to_bring_home(slave, {})) is None


def test_a_lower_commit_here_loses_to_the_master(slave: Slave) -> None:
    slave.synchronize(1, {0: 5})
    slave.commit(0, 2)
    assert slave.synchronize(2, {0: 5}) == {0: 5}


def test_only_the_offset_that_was_committed_last_is_brought_home(slave: Slave) -> None:
    """The table may have changed otherwise since: as a master's, after a promotion."""
    slave.synchronize(1, {0: 5})
    slave.commit(0, 8)
    slave.own[0] = 7
    assert slave.home(2, {0: 5}) == {}


def test_the_run_of_a_master_that_tells_none_is_never_the_same(slave: Slave) -> None:
    slave.synchronize(None, {0: 9})
    assert slave.synchronize(None, {0: 4}) == {0: 9}


async def test_a_restart_of_the_slave_changes_nothing(tmp_path: Path, slave: Slave) -> None:
    slave.synchronize(1, {0: 9, 1: 9, 2: 9})
    slave.commit(1, 12)
    slave.synchronize(2, {0: 4, 1: 9, 2: 9}, brings_home=False)
    await slave.differences.stored.persist()
    later = Slave(tmp_path)
    later.differences.load()
    later.own = dict(slave.own)
    assert later.home(2, {0: 4, 1: 9, 2: 9}) == {1: 12}
    assert later.synchronize(2, {0: 4, 1: 9, 2: 3}) == {0: 9, 1: 12, 2: 3}, "2 was reset, 0 was lost"
    assert later.synchronize(2, {0: 3, 1: 12, 2: 3}) == {0: 3, 1: 12, 2: 3}


async def test_whether_a_broker_has_followed_a_master_is_remembered(tmp_path: Path, slave: Slave) -> None:
    """It then may have offsets past the ends of its queues."""
    assert not slave.differences.has_followed
    slave.synchronize(None, {0: 9})
    assert slave.differences.has_followed
    await slave.differences.stored.persist()
    later = differences_in(tmp_path)
    later.load()
    assert later.has_followed


def test_equal_offsets_leave_the_file_alone(slave: Slave) -> None:
    slave.synchronize(1, {0: 9})
    count = slave.differences.stored.change_count
    slave.synchronize(1, {0: 9})
    slave.synchronize(1, {0: 10})
    assert slave.differences.stored.change_count == count


def test_a_removed_offset_is_no_difference(slave: Slave) -> None:
    slave.commit(0, 8)
    slave.differences.committed(KEY, 0, 8, None)
    assert slave.differences.count == 0


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"committedOffsets":{},"masterBootTimestamp":"x","masterOffsets":{}}',
        '{"committedOffsets":{},"masterBootTimestamp":1}',
        '{"committedOffsets":7,"masterBootTimestamp":1,"masterOffsets":{}}',
    ],
)
def test_a_malformed_file_stops_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "slaveOffsets.json").write_text(text)
    with pytest.raises(StartError, match="slaveOffsets"):
        differences_in(tmp_path).load()


KINDS = ("client", "client", "flush", "crash", "round", "round", "slave", "reset")
EVENTS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 5)), max_size=30)


@given(EVENTS)
def test_an_offset_falls_on_a_slave_only_by_a_reset(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, int]]
) -> None:
    """Whatever a master loses in a crash. A reset that the slave has not seen yet may come with any round."""
    slave = Slave(tmp_path_factory.getbasetemp())
    master: dict[int, int] = {}
    on_disk: dict[int, int] = {}
    run, was_reset = 1, False
    for kind, step in events:
        before = slave.own.get(0, -1)
        if kind == "client":
            master[0] = master.get(0, 0) + step
        elif kind == "flush":
            on_disk = dict(master)
        elif kind == "crash":
            run, master = run + 1, dict(on_disk)
        elif kind == "slave":
            slave.commit(0, max(before, 0) + step)
        elif kind == "reset":
            was_reset |= step < master.get(0, -1)
            master[0] = step
        else:
            slave.synchronize(run, master)
            assert slave.own.get(0, -1) >= before or was_reset
            was_reset = was_reset and slave.own.get(0, -1) > master.get(0, -1)


def test_keys_are_separate(tmp_path: Path) -> None:
    differences = differences_in(tmp_path)
    differences.committed("T@G", 0, None, 4)
    differences.committed("T@H", 1, 2, 5)
    own = {"T@G": {0: 4}, "T@H": {0: 9, 1: 5}}
    assert differences.to_bring_home(own, {"T@H": {0: 9, 1: 2}}, is_same_run=True) == [
        CommittedOffset("T@G", 0, 4, 50_000),
        CommittedOffset("T@H", 1, 5, 50_000),
    ]
