"""A slave's rounds: order, what is taken, what fails, what is brought home, and the times."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import cast

import attrs
import pytest
import trio

from rocketpy.broker.delay.offsets import DelayProgress
from rocketpy.broker.metadata.topic_deletions import TopicDeletions
from rocketpy.broker.replication import slave_synchronize
from rocketpy.broker.replication.broker_tables import BrokerTables
from rocketpy.broker.replication.slave_synchronize import SlaveSynchronize
from rocketpy.errors import DiskFullError, RemotingTimeoutError
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rocketpy.protocol.bodies.topic import (
    DataVersion,
    RecordMark,
    ReplicatedTopics,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.offset import UpdateConsumerOffsetResponseHeader
from rocketpy.runner import run_inline
from rocketpy.store.message_store import MessageStore
from tests.broker.replication.scripted_broker import MASTER, ScriptedBroker, body_answer
from tests.broker.tables_of_a_broker import GOLDEN_CONFIG, Tables, make_tables

TOPICS, GROUPS = RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
OFFSETS, DELAYS = RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_ALL_DELAY_OFFSET
FIGURES = RequestCode.GET_BROKER_RUNTIME_INFO
COMMIT, QUERY, END = (
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.GET_MAX_OFFSET,
)


FIGURES_OF_A_GOOD_ROUND = {"slaveTablesFailing": "", "slaveOffsetsKept": "0"}


@attrs.define
class Log:
    """The ends of a slave's log, and the deletions in its queues."""

    max_physical_offset: int = 0
    durable_offset: int = 0
    flush_count: int = 0
    min_physical_offset: int = 0
    deleted: list[tuple[str, int]] = attrs.field(factory=list)

    async def delete_topic_before(self, topic: str, physical_offset: int) -> bool:
        self.deleted.append((topic, physical_offset))
        return True

    async def sync_removed_queues(self, topics: Collection[str]) -> None:
        """Nothing survives a loss of power here anyway."""

    async def flush(self) -> None:
        self.flush_count += 1


@attrs.define(eq=False)
class Slave:
    """A slave's tables, its service, and the master that it is answered by."""

    directory: Path
    master: ScriptedBroker = attrs.field(factory=ScriptedBroker)
    master_addr: str | None = MASTER
    log: Log = attrs.field(factory=Log)
    is_following: bool = True
    tables: Tables = attrs.field(init=False)
    service: SlaveSynchronize = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin another life, with what the files have."""
        self.tables = tables = make_tables(self.directory, broker_name="broker-a")
        for table in (tables.topics, tables.groups, tables.offsets, tables.delay_offsets, tables.offset_differences):
            table.load()
        tables.deleted_topics.load()
        tables.offsets.on_change = tables.offset_differences.committed
        self.service = SlaveSynchronize(
            master=self,
            tables=BrokerTables(self.master, run_inline),
            topics=tables.topics,
            groups=tables.groups,
            offsets=tables.offsets,
            delay_offsets=tables.delay_offsets,
            deletions=TopicDeletions(
                deleted=tables.deleted_topics, offsets=tables.offsets, store=cast(MessageStore, self.log)
            ),
            differences=tables.offset_differences,
            store=cast(MessageStore, self.log),
            is_following=lambda: self.is_following,
        )

    async def persist(self) -> None:
        """Write what the service of the tables would write."""
        for table in (self.tables.topics, self.tables.groups, self.tables.offsets, self.tables.offset_differences):
            await table.stored.persist()

    def offset(self, queue_id: int = 0, group: str = "G") -> int:
        return self.tables.offsets.query_offset(group, "T", queue_id)

    def commit(self, offset: int, queue_id: int = 0, group: str = "G") -> None:
        """Commit as a client of the slave does."""
        self.tables.offsets.commit_offset("peer", group, "T", queue_id, offset)

    def restart_master(self) -> None:
        """Let the master begin another run."""
        self.master.run += 1
        self.master.is_down = False


@pytest.fixture
def slave(tmp_path: Path) -> Slave:
    return Slave(tmp_path)


# ---- rounds and times -----------------------------------------------------------------------------------------------


async def test_groups_come_before_topics_and_topics_before_offsets(slave: Slave) -> None:
    """A group whose settings forbid consumption must not consume before they are here; an offset needs its topic."""
    await slave.service.synchronize()
    tables = [code for code in slave.master.codes if code != FIGURES]
    assert tables == [GROUPS, TOPICS, OFFSETS, DELAYS]


async def test_the_first_round_is_after_3_seconds_and_one_follows_every_10(
    slave: Slave, autojump_clock: trio.testing.MockClock
) -> None:
    begin = trio.current_time()
    times = []

    async def slow(request: RemotingCommand) -> RemotingCommand:
        times.append(trio.current_time() - begin)
        await trio.sleep(2 if len(times) < 3 else 25)
        return await body_answer(b"{}")(request)

    slave.master.scripts[GROUPS] = slow
    with trio.move_on_after(70):
        await slave.service.run()
    assert times == [3.0, 13.0, 23.0, 48.0]


async def test_without_a_master_nothing_is_asked(slave: Slave) -> None:
    slave.master_addr = None
    await slave.service.synchronize()
    assert slave.master.asked == []
    assert slave.service.statistics().round_count == 0


# ---- topics and groups ----------------------------------------------------------------------------------------------


async def test_topics_and_groups_are_taken_whole_with_their_versions(slave: Slave) -> None:
    slave.master.topics = TopicConfigSerializeWrapper({"T": TopicConfig("T", 3, 3)}, DataVersion(7, 2))
    slave.master.groups = SubscriptionGroupWrapper({"G": SubscriptionGroupConfig("G", broker_id=2)}, DataVersion(8, 3))
    slave.tables.topics.update_topic_config(TopicConfig("%RETRY%G", 1, 1))
    slave.tables.groups.find_subscription_group_config("Heartbeat")
    await slave.service.synchronize()
    topics, groups = slave.tables.topics, slave.tables.groups
    assert topics.topic_config_table["T"] == TopicConfig("T", 3, 3)
    assert "%RETRY%G" not in topics.topic_config_table
    assert topics.data_version == DataVersion(7, 2)
    assert groups.subscription_group_table == slave.master.groups.subscription_group_table
    assert groups.data_version == DataVersion(8, 3)
    assert topics.stored.has_changes
    assert groups.stored.has_changes


async def test_an_equal_table_is_neither_taken_nor_written(slave: Slave) -> None:
    slave.master.topics = TopicConfigSerializeWrapper({"T": TopicConfig("T", 3, 3)}, DataVersion(7, 2))
    await slave.service.synchronize()
    counts = slave.tables.topics.stored.change_count, slave.tables.groups.stored.change_count
    await slave.service.synchronize()
    assert (slave.tables.topics.stored.change_count, slave.tables.groups.stored.change_count) == counts


# ---- what fails -----------------------------------------------------------------------------------------------------


async def timeout(request: RemotingCommand) -> RemotingCommand:
    raise RemotingTimeoutError("wait response timeout")


async def failing(request: RemotingCommand) -> RemotingCommand:
    raise ZeroDivisionError


SCRIPTS = {
    "a timeout": timeout,
    "garbage": body_answer(b"\xff\x00garbage"),
    "a refusal": body_answer(None, ResponseCode.SYSTEM_ERROR, "No"),
    "no body": body_answer(None),
    "a bug": failing,
}


@pytest.mark.parametrize("code", [GROUPS, TOPICS, OFFSETS, DELAYS])
@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_part_that_fails_is_logged_once_and_stops_no_other(
    slave: Slave, caplog: pytest.LogCaptureFixture, code: RequestCode, script: str
) -> None:
    slave.master.topics = TopicConfigSerializeWrapper({"T": TopicConfig("T", 3, 3)}, DataVersion(7, 2))
    slave.master.groups = SubscriptionGroupWrapper({"G": SubscriptionGroupConfig("G")}, DataVersion(8, 3))
    slave.master.offsets = {"T@G": {0: 5}}
    slave.master.delay_offsets = {1: 4}
    slave.master.scripts[code] = SCRIPTS[script]
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            await slave.service.synchronize()
    taken = {
        GROUPS: "G" in slave.tables.groups.subscription_group_table,
        TOPICS: "T" in slave.tables.topics.topic_config_table,
        OFFSETS: slave.offset() == 5,
        DELAYS: slave.tables.delay_offsets.offset_table == {1: 4},
    }
    assert taken == {each: each != code for each in taken}
    texts = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert texts == ["a part of the master's tables could not be taken; it is tried again"]
    assert len(slave.service.statistics().failing) == 1
    del slave.master.scripts[code]
    caplog.clear()
    with caplog.at_level(logging.INFO):
        await slave.service.synchronize()
    assert "the master's tables are taken again" in [record.getMessage() for record in caplog.records]
    assert slave.service.statistics().failing == ()


async def test_the_figures_name_what_fails_and_count_what_is_kept(slave: Slave) -> None:
    await slave.service.synchronize()
    assert slave.service.figures() == FIGURES_OF_A_GOOD_ROUND
    slave.commit(8)
    for code in (GROUPS, COMMIT):
        slave.master.scripts[code] = body_answer(None, ResponseCode.NO_PERMISSION, "no")
    await slave.service.synchronize()
    assert slave.service.figures() == {"slaveTablesFailing": "groups, offsets to the master", "slaveOffsetsKept": "1"}
    slave.master.scripts.clear()
    await slave.service.synchronize()
    assert slave.service.figures() == FIGURES_OF_A_GOOD_ROUND


async def test_nothing_of_a_bad_table_is_taken(slave: Slave) -> None:
    slave.commit(4)
    slave.master.scripts[OFFSETS] = body_answer(b'{"offsetTable":{"T@G":{0:7},"T@H":{0:8},"U@G":{-1:1}}}')
    slave.master.scripts[TOPICS] = body_answer(b'{"topicConfigTable":{"T":{"topicName":"T"},"U":{"topicName":"V"}}}')
    await slave.service.synchronize()
    assert slave.offset() == 4
    assert "T" not in slave.tables.topics.topic_config_table


# ---- consumer offsets -----------------------------------------------------------------------------------------------


async def test_offsets_of_messages_that_are_not_here_yet_are_taken(slave: Slave) -> None:
    slave.master.offsets = {"T@G": {0: 1 << 40}}
    await slave.service.synchronize()
    assert slave.offset() == 1 << 40


async def test_a_reset_on_the_master_sets_back(slave: Slave) -> None:
    slave.master.offsets = {"T@G": {0: 9, 1: 9}, "T@H": {0: 3}}
    await slave.service.synchronize()
    slave.master.offsets = {"T@G": {0: 2}}
    await slave.service.synchronize()
    assert [slave.offset(), slave.offset(1), slave.offset(group="H")] == [2, -1, -1]


async def test_a_returning_master_sets_nothing_back(slave: Slave) -> None:
    """It lost the commits of its last seconds; the slave had them."""
    slave.master.offsets = {"T@G": {0: 9}, "T@H": {0: 3}}
    await slave.service.synchronize()
    slave.restart_master()
    slave.master.offsets = {"T@G": {0: 2}}
    await slave.service.synchronize()
    await slave.service.synchronize()
    assert [slave.offset(), slave.offset(group="H")] == [9, 3]
    assert slave.master.offsets == {"T@G": {0: 2}}, "nobody has committed them to the slave: a reset stays one"


async def test_a_restart_between_the_table_and_the_figures_sets_nothing_back(slave: Slave) -> None:
    """The figures are asked after the table: then a known run is the table's own."""
    slave.master.offsets = {"T@G": {0: 9}}
    await slave.service.synchronize()

    async def restarted(request: RemotingCommand) -> RemotingCommand:
        slave.restart_master()
        return await body_answer(b'{"offsetTable":{"T@G":{0:2}}}')(request)

    slave.master.scripts[OFFSETS] = restarted
    await slave.service.synchronize()
    assert slave.offset() == 9


async def test_what_clients_committed_to_the_slave_is_brought_home(slave: Slave) -> None:
    slave.master.offsets = {"T@G": {0: 5, 1: 5}}
    await slave.service.synchronize()
    slave.master.is_down = True
    await slave.service.synchronize()
    slave.commit(8)
    slave.commit(4, group="New")
    slave.commit(3, queue_id=1)
    slave.restart_master()
    await slave.service.synchronize()
    assert slave.master.offsets == {"T@G": {0: 8, 1: 5}, "T@New": {0: 4}}
    assert [slave.offset(), slave.offset(1), slave.offset(group="New")] == [8, 5, 4]
    assert slave.service.statistics().brought_home_count == 2
    slave.master.offsets["T@G"] = {0: 6, 1: 5}
    await slave.service.synchronize()
    assert slave.offset() == 6, "afterwards a reset on the master counts as ever"
    assert slave.service.statistics().different_offset_count == 0


async def test_what_the_master_revokes_is_void_here_too(slave: Slave) -> None:
    """The group was reset in the first seconds of the master's run: its offset alone does not say so."""
    slave.master.offsets = {"T@G": {0: 6}, "T@H": {0: 5}}
    await slave.service.synchronize()
    slave.commit(11)
    slave.commit(8, group="H")
    slave.tables.time.now += 2.5
    slave.restart_master()
    slave.master.offsets = {"T@G": {0: 0}, "T@H": {0: 5}}
    told = {}

    async def revoke_one(request: RemotingCommand) -> RemotingCommand:
        fields = request.ext_fields or {}
        told[fields["consumerGroup"]] = fields["commitOffset"], fields["broughtHome"], fields["committedAgo"]
        is_revoked = fields["consumerGroup"] == "G" or None
        return make_response(request, header=UpdateConsumerOffsetResponseHeader(is_revoked=is_revoked))

    slave.master.scripts[COMMIT] = revoke_one
    await slave.service.synchronize()
    assert told == {"G": ("11", "true", "2500"), "H": ("8", "true", "2500")}
    assert [slave.offset(), slave.offset(group="H")] == [0, 8]
    assert slave.service.statistics().brought_home_count == 1
    assert slave.service.statistics().different_offset_count == 0


async def test_a_commit_to_the_master_meanwhile_is_not_set_back(slave: Slave) -> None:
    """The table that the slave has is older than the request by which it brings an offset home."""
    slave.commit(8)

    async def and_then_a_commit(request: RemotingCommand) -> RemotingCommand:
        slave.master.offsets = {"T@G": {0: 11}}
        return await body_answer(b'{"offsetTable":{"T@G":{0:5}}}')(request)

    slave.master.scripts[OFFSETS] = and_then_a_commit
    await slave.service.synchronize()
    assert COMMIT not in slave.master.codes
    assert slave.master.offsets == {"T@G": {0: 11}}
    assert slave.offset() == 11


async def test_no_offset_is_brought_past_the_end_of_the_masters_queue(slave: Slave) -> None:
    """A master that lost its last messages would skip those that take their places."""
    slave.master.offsets = {"T@G": {0: 5}}
    await slave.service.synchronize()
    slave.commit(9)
    slave.commit(9, queue_id=1)
    slave.master.queue_ends = {("T", 0): 7, ("T", 1): 0}
    await slave.service.synchronize()
    assert slave.master.offsets == {"T@G": {0: 7}}
    assert [slave.offset(), slave.offset(1)] == [9, 9]
    await slave.service.synchronize()
    assert slave.master.codes.count(COMMIT) == 1
    slave.master.queue_ends = {("T", 0): 20, ("T", 1): 20}
    await slave.service.synchronize()
    assert slave.master.offsets == {"T@G": {0: 9, 1: 9}}


async def test_an_offset_that_the_master_refuses_stops_no_other(slave: Slave, caplog: pytest.LogCaptureFixture) -> None:
    slave.master.offsets = {"T@Other": {0: 1}}
    for group in ("G", "H"):
        slave.commit(8, group=group)
    refusals = []

    async def refuse_first(request: RemotingCommand) -> RemotingCommand:
        if (request.ext_fields or {})["consumerGroup"] == "G":
            refusals.append(request)
            return await body_answer(None, ResponseCode.NO_PERMISSION, "no")(request)
        del slave.master.scripts[COMMIT]
        answer = await slave.master.request(MASTER, request, 1.0)
        slave.master.scripts[COMMIT] = refuse_first
        return answer

    slave.master.scripts[COMMIT] = refuse_first
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            await slave.service.synchronize()
    assert slave.master.offsets == {"T@Other": {0: 1}, "T@H": {0: 8}}
    assert [slave.offset(), slave.offset(group="Other")] == [8, 1], "all else goes on"
    assert len(refusals) == 2, "it is tried again"
    assert len([record for record in caplog.records if "refuses" in record.getMessage()]) == 1
    slave.master.scripts.clear()
    await slave.service.synchronize()
    assert slave.master.offsets["T@G"] == {0: 8}
    assert slave.service.statistics().failing == ()


async def test_so_many_offsets_are_brought_home_in_one_round(slave: Slave, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slave_synchronize, "BROUGHT_HOME_PER_ROUND_MAX", 3)
    slave.master.offsets = {"T@Other": {0: 1}}
    for queue_id in range(5):
        slave.commit(8, queue_id=queue_id)
    await slave.service.synchronize()
    assert slave.master.offsets["T@G"] == {0: 8, 1: 8, 2: 8}
    await slave.service.synchronize()
    assert slave.master.offsets["T@G"] == dict.fromkeys(range(5), 8)


async def test_a_master_that_tells_no_run_is_followed_upwards(slave: Slave) -> None:
    slave.master.scripts[FIGURES] = body_answer(b'{"table":{"commitLogMaxOffset":"0"}}')
    for offset, own in ((5, 5), (9, 9), (2, 9), (12, 12)):
        slave.master.offsets = {"T@G": {0: offset}}
        await slave.service.synchronize()
        assert slave.offset() == own
    assert slave.service.statistics().failing == ()


async def test_a_master_that_does_not_tell_the_end_of_its_log_is_not_followed_and_that_is_said(slave: Slave) -> None:
    slave.master.scripts[FIGURES] = body_answer(None, ResponseCode.NO_PERMISSION, "no")
    slave.master.offsets, slave.master.delay_offsets = {"T@G": {0: 5}}, {1: 4}
    await slave.service.synchronize()
    assert (slave.offset(), slave.tables.delay_offsets.offset_table) == (-1, {})
    assert slave.service.statistics().failing == ("consumer offsets", "delay offsets")


async def test_offsets_are_taken_when_the_log_has_what_they_stand_for(
    slave: Slave, autojump_clock: trio.testing.MockClock
) -> None:
    """Until then those of an older moment count, not newer ones: what they stand for has not arrived either."""
    slave.master.offsets = {"T@G": {0: 5}}
    await slave.service.synchronize()
    slave.master.offsets, slave.master.log_end = {"T@G": {0: 9}}, 500
    await slave.service.synchronize()
    assert slave.offset() == 5
    slave.master.offsets, slave.master.log_end = {"T@G": {0: 11}}, 700
    slave.log.max_physical_offset = 600
    await slave.service.synchronize()
    assert slave.offset() == 9
    slave.log.max_physical_offset = 700
    await slave.service.synchronize()
    assert slave.offset() == 11


async def test_a_round_waits_a_moment_for_the_log(slave: Slave, autojump_clock: trio.testing.MockClock) -> None:
    slave.master.offsets, slave.master.log_end = {"T@G": {0: 9}}, 500
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slave.service.synchronize)
        await trio.sleep(0.5)
        slave.log.max_physical_offset = 500
    assert slave.offset() == 9


@pytest.mark.parametrize("what", ["not following", "another run", "another master"])
async def test_offsets_of_another_log_are_forgotten(
    what: str, slave: Slave, autojump_clock: trio.testing.MockClock
) -> None:
    slave.master.offsets, slave.master.log_end = {"T@G": {0: 9}}, 500
    await slave.service.synchronize()
    if what == "not following":
        slave.is_following = False
        await slave.service.synchronize()
        slave.is_following = True
    elif what == "another run":
        slave.restart_master()
    else:
        slave.master.address = slave.master_addr = "127.0.0.2:10911"
    slave.master.offsets, slave.log.max_physical_offset = {"T@G": {0: 7}}, 500
    await slave.service.synchronize()
    assert slave.offset() == 7


async def test_a_slave_that_does_not_follow_takes_no_offsets_and_brings_none_home(slave: Slave) -> None:
    slave.master.offsets, slave.is_following = {"T@G": {0: 5, 1: 5}}, False
    slave.commit(8)
    await slave.service.synchronize()
    assert (slave.offset(), slave.offset(1)) == (8, -1)
    assert slave.master.offsets == {"T@G": {0: 5, 1: 5}}
    slave.is_following = True
    await slave.service.synchronize()
    assert (slave.offset(), slave.offset(1), slave.master.offsets) == (8, 5, {"T@G": {0: 8, 1: 5}})


async def test_both_may_restart(slave: Slave) -> None:
    """The slave alone served its consumers, was restarted, and the master returns after that."""
    slave.master.offsets = {"T@G": {0: 5, 1: 5}}
    await slave.service.synchronize()
    slave.commit(8)
    await slave.persist()
    slave.restart()
    slave.restart_master()
    await slave.service.synchronize()
    assert slave.master.offsets == {"T@G": {0: 8, 1: 5}}
    await slave.persist()
    slave.restart()
    slave.master.offsets = {"T@G": {0: 8, 1: 2}}
    await slave.service.synchronize()
    assert slave.offset(1) == 2, "in the same run of the master, that is a reset while the slave was down"


# ---- delayed messages -----------------------------------------------------------------------------------------------


async def test_progress_of_delayed_messages_is_stored_for_a_promotion(slave: Slave) -> None:
    """As in the file of a Java slave, and with the offset from which on the log may have more deliveries."""
    golden = (GOLDEN_CONFIG / "slave-delayOffset.json").read_bytes()
    slave.master.scripts[DELAYS] = body_answer(golden)
    slave.log.durable_offset = 300
    await slave.service.synchronize()
    promoted = make_tables(slave.directory)
    promoted.delay_offsets.load()
    java = make_tables(slave.directory / "java")
    await trio.Path(slave.directory / "java").mkdir()
    await trio.Path(slave.directory / "java" / "delayOffset.json").write_bytes(golden)
    java.delay_offsets.load()
    assert promoted.delay_offsets.noted == DelayProgress(java.delay_offsets.noted.offsets, 300)
    assert promoted.delay_offsets.offset_table
    assert slave.log.flush_count == 1, "the file is never ahead of the durable log"
    assert slave.tables.delay_offsets.offset_table == promoted.delay_offsets.offset_table


async def test_progress_waits_for_the_messages_that_were_delivered(slave: Slave) -> None:
    """A slave that is promoted without them would never deliver them."""
    slave.master.delay_offsets = {1: 4}
    slave.master.log_end, slave.log.max_physical_offset, slave.log.durable_offset = 500, 400, 350
    await slave.service.synchronize()
    assert slave.tables.delay_offsets.offset_table == {}
    slave.master.delay_offsets, slave.master.log_end = {1: 9}, 900
    await slave.service.synchronize()
    assert slave.tables.delay_offsets.offset_table == {}
    slave.log.max_physical_offset = slave.log.durable_offset = 500
    await slave.service.synchronize()
    assert slave.tables.delay_offsets.noted == DelayProgress({1: 4}, 350), "a busy master does not put it off for ever"
    await slave.service.synchronize()
    assert slave.tables.delay_offsets.offset_table == {1: 4}
    slave.log.max_physical_offset = 900
    await slave.service.synchronize()
    assert slave.tables.delay_offsets.noted == DelayProgress({1: 9}, 500)


async def test_progress_of_another_master_does_not_count(slave: Slave) -> None:
    slave.master.delay_offsets = {1: 4}
    slave.master.log_end = 500
    await slave.service.synchronize()
    slave.master.address = slave.master_addr = "127.0.0.2:10911"
    slave.master.delay_offsets, slave.master.log_end = {1: 2}, 0
    await slave.service.synchronize()
    assert slave.tables.delay_offsets.offset_table == {1: 2}


async def test_a_slave_whose_log_is_not_its_masters_keeps_its_own_progress(slave: Slave) -> None:
    """After a change of roles it may have delivered more than the master; promoted again, it would deliver it again."""
    slave.tables.delay_offsets.take(DelayProgress({1: 7}, 600))
    slave.master.delay_offsets, slave.is_following = {1: 4}, False
    await slave.service.synchronize()
    assert slave.tables.delay_offsets.noted == DelayProgress({1: 7}, 600)
    slave.is_following = True
    await slave.service.synchronize()
    assert slave.tables.delay_offsets.offset_table == {1: 4}


async def test_progress_from_before_the_replication_ended_does_not_count(slave: Slave) -> None:
    """The master may have lost the tail that had those deliveries."""
    slave.master.delay_offsets = {1: 4}
    slave.master.log_end, slave.log.max_physical_offset = 500, 400
    await slave.service.synchronize()
    slave.is_following = False
    await slave.service.synchronize()
    slave.is_following, slave.log.max_physical_offset = True, 500
    slave.master.delay_offsets = {1: 3}
    await slave.service.synchronize()
    assert slave.tables.delay_offsets.offset_table == {1: 3}


async def test_progress_of_an_earlier_run_of_the_master_does_not_count(slave: Slave) -> None:
    slave.master.delay_offsets = {1: 4}
    slave.master.log_end, slave.log.max_physical_offset = 500, 400
    await slave.service.synchronize()
    slave.restart_master()
    slave.master.delay_offsets, slave.log.max_physical_offset = {1: 3}, 500
    await slave.service.synchronize()
    assert slave.tables.delay_offsets.offset_table == {1: 3}


async def test_equal_progress_is_written_again_only_after_much_of_the_log(slave: Slave) -> None:
    """A start reads the log from there on."""
    slave.master.delay_offsets = {1: 4}
    for durable_offset in (300, 400, slave_synchronize.NOTE_AFTER_BYTES + 300):
        slave.log.durable_offset = durable_offset
        await slave.service.synchronize()
    assert slave.log.flush_count == 2
    assert slave.tables.delay_offsets.noted == DelayProgress({1: 4}, slave_synchronize.NOTE_AFTER_BYTES + 300)


async def test_a_full_disk_is_no_end(slave: Slave, monkeypatch: pytest.MonkeyPatch) -> None:
    slave.master.delay_offsets = {1: 4}

    async def full() -> None:
        raise DiskFullError(path="delayOffset.json", wanted_bytes=1, free_bytes=0)

    with monkeypatch.context() as patched:
        patched.setattr(slave.tables.delay_offsets.stored, "persist", full)
        await slave.service.synchronize()
    assert slave.service.statistics().failing == ("delay offsets",)
    await slave.service.synchronize()
    assert slave.service.statistics().failing == ()
    assert not slave.tables.delay_offsets.stored.has_changes


# ---- topics that were deleted ---------------------------------------------------------------------------------------

MARK = RecordMark(200, 100, "0" * 64)


def topics_answer(*topics: str, deleted: Mapping[str, RecordMark] | None = None) -> object:
    table = {topic: TopicConfig(topic) for topic in topics}
    return body_answer(encode_body(ReplicatedTopics(table, DataVersion(7, len(topics)), dict(deleted or {}))))


async def test_a_deletion_takes_queues_and_offsets_once_and_the_offsets_that_wait(slave: Slave) -> None:
    slave.commit(5)
    slave.log.max_physical_offset = 300
    slave.master.scripts[TOPICS] = topics_answer("T", deleted={"T": MARK})
    slave.master.offsets = {"T@G": {0: 3}}
    await slave.service.synchronize()
    assert slave.log.deleted == [("T", 200)]
    assert slave.offset() == 3, "the group's progress in the topic as it was made again"
    assert "T" in slave.tables.topics.topic_config_table
    await slave.service.synchronize()
    assert slave.log.deleted == [("T", 200)]
    slave.restart()
    assert slave.offset() == -1, "what the file has is of after the deletion"


async def test_a_deletion_that_is_ahead_of_the_log_is_done_again_when_the_log_has_grown(slave: Slave) -> None:
    slave.master.scripts[TOPICS] = topics_answer(deleted={"T": MARK})
    for end in (100, 150, 250, 300):
        slave.log.max_physical_offset = end
        await slave.service.synchronize()
    assert slave.log.deleted == [("T", 100), ("T", 150), ("T", 200)]


async def test_offsets_that_wait_for_the_log_go_with_the_topic(slave: Slave) -> None:
    """They were taken before the deletion."""
    slave.master.offsets, slave.master.log_end = {"T@G": {0: 3}}, 300
    slave.log.max_physical_offset = 100
    await slave.service.synchronize()
    assert slave.offset() == -1, "the log has not what it stands for"
    slave.master.scripts[TOPICS] = topics_answer(deleted={"T": MARK})
    slave.master.offsets = {}
    slave.log.max_physical_offset = 300
    await slave.service.synchronize()
    assert slave.offset() == -1


async def test_without_following_no_topic_goes_and_nothing_is_deleted(slave: Slave) -> None:
    """The log may be of other messages, or the master may have lost its disk."""
    slave.master.scripts[TOPICS] = topics_answer("T", "Other")
    await slave.service.synchronize()
    slave.is_following = False
    slave.log.max_physical_offset = 300
    slave.commit(5)
    slave.master.scripts[TOPICS] = topics_answer("New", deleted={"T": MARK})
    await slave.service.synchronize()
    assert {"T", "Other", "New"} <= slave.tables.topics.topic_config_table.keys()
    assert (slave.log.deleted, slave.offset()) == ([], 5)
    slave.is_following = True
    await slave.service.synchronize()
    assert slave.log.deleted == [("T", 200)]
    assert not {"T", "Other"} & slave.tables.topics.topic_config_table.keys()
