"""Whatever history two logs have, a slave follows its master or says where they part; never neither."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import pairwise

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpy.broker.replication.comparison import ComparisonStatistics, LogComparison, client_address_of
from rocketpy.broker.replication.master_addresses import MasterAddresses
from rocketpy.errors import RemotingSendRequestError, RemotingTimeoutError
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.stored_message import check_message
from rocketpy.store.ha.client import DivergedError
from rocketpy.store.ha.recorded_log import CommitLogRecords
from rocketpy.store.ha.slave_progress import SlaveBehindError
from rocketpy.store.log.commit_log import CommitLog
from tests.broker.replication.masters import (
    ADDRESS,
    FILE,
    HA_ADDRESS,
    JavaMaster,
    Master,
    OurMaster,
    history,
    log_of,
    not_found,
    records_of,
    rolled,
)
from tests.store.ha.test_log_source import run_now

BOTH = pytest.mark.parametrize("kind", [JavaMaster, OurMaster])
COMMON = history(b"", [10, 200, 30, 100, 250, 5, 60, 180, 20, 40])
LATER_MS = 1_800_000_000_000


@attrs.define
class Cuts:
    """Cuts that were requested; refused with ``refusal``."""

    refusal: str | None = None
    offsets: list[int] = attrs.field(factory=list)

    async def __call__(self, offset: int) -> str | None:
        await trio.lowlevel.checkpoint()
        self.offsets.append(offset)
        return self.refusal


def comparison(
    slave: bytes | CommitLogRecords, master: Master, *, cuts: Cuts | None = None, first_file: int = 0
) -> LogComparison:
    log = records_of(slave, first_file=first_file) if isinstance(slave, bytes) else slave
    addresses = MasterAddresses(own_addr="10.0.0.2:10911", ha_master_address=HA_ADDRESS)
    return LogComparison(
        log=log,
        client=master,
        client_address=lambda ha_address: client_address_of(addresses, ha_address),
        request_cut=cuts,
    )


async def diverged(slave: bytes, master: Master, *, first_file: int = 0) -> str:
    """Return the alarm that the slave's log raises, which must name the master."""
    with pytest.raises(DivergedError, match=f"that of the master {ADDRESS}") as failure:
        await comparison(slave, master, first_file=first_file).compare(HA_ADDRESS)
    return str(failure.value)


# ---- the logs are equal ---------------------------------------------------------------------------------------------


@BOTH
async def test_a_slave_that_is_behind_may_follow_after_one_question(kind: type[Master]) -> None:
    master = kind(content=history(COMMON, [10] * 20))
    for slave in (COMMON, master.content, COMMON[: records(COMMON)[1]]):
        compared = comparison(slave, master)
        master.asked.clear()
        await compared.compare(HA_ADDRESS)
        assert len(master.asked) == 1
        assert compared.statistics() == ComparisonStatistics(1, len(slave), 0, -1)


@BOTH
async def test_a_slave_that_began_later_may_follow(kind: type[Master]) -> None:
    """Its first files are not the master's: an empty slave gets the master's last file only."""
    await comparison(COMMON, kind(content=COMMON), first_file=1).compare(HA_ADDRESS)


@BOTH
async def test_a_master_may_have_deleted_its_first_files(kind: type[Master]) -> None:
    master = kind(content=history(COMMON, [10] * 20), first_file=1)
    await comparison(COMMON, master).compare(HA_ADDRESS)


async def test_what_no_unit_names_is_compared_too() -> None:
    """``OurMaster`` shows no record at all: as when all topics were deleted."""
    await comparison(COMMON, OurMaster(content=COMMON)).compare(HA_ADDRESS)
    await comparison(rolled(COMMON), OurMaster(content=rolled(COMMON))).compare(HA_ADDRESS)


# ---- an empty slave -------------------------------------------------------------------------------------------------


@BOTH
async def test_an_empty_slave_is_told_once_what_it_will_not_get(
    kind: type[Master], caplog: pytest.LogCaptureFixture
) -> None:
    master = kind(content=history(COMMON, [10] * 20), first_file=1)
    compared = comparison(b"", master)
    with caplog.at_level(logging.WARNING):
        await compared.compare(HA_ADDRESS)
        await compared.compare(HA_ADDRESS)
    begin = len(master.content) - len(master.content) % FILE
    (text,) = caplog.messages
    assert f"the {begin - FILE} bytes of its log from {FILE} to {begin} will be missing" in text
    assert compared.statistics() == ComparisonStatistics(0, -1, 0, begin - FILE)
    assert not master.viewed


async def test_an_empty_slave_is_told_what_it_will_not_get_when_its_master_has_more_than_a_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    master = JavaMaster(content=b"")
    compared = comparison(b"", master)
    await compared.compare(HA_ADDRESS)
    assert not caplog.messages
    for _ in range(2):
        master.content = history(master.content, [200] * 10)
        await compared.compare(HA_ADDRESS)
        begin = len(master.content) - len(master.content) % FILE
        assert compared.statistics().missing_history_bytes == begin
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("content", [b"", COMMON[:500], COMMON[:FILE]])
@BOTH
async def test_an_empty_slave_misses_nothing_of_a_master_with_one_file_or_none(
    kind: type[Master], content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    compared = comparison(b"", kind(content=content))
    await compared.compare(HA_ADDRESS)
    missing = len(content) if len(content) == FILE else 0  # it begins with the next file
    assert compared.statistics().missing_history_bytes == missing
    assert bool(caplog.messages) == bool(missing)


async def test_a_slave_with_an_empty_file_has_nothing_to_compare() -> None:
    """It begins anew, where the master's last file begins."""
    log = log_of(b"")
    log.add_file()
    compared = comparison(CommitLogRecords(log, run_blocking=run_now), JavaMaster(content=COMMON))
    await compared.compare(HA_ADDRESS)
    assert compared.statistics().missing_history_bytes == len(COMMON) - len(COMMON) % FILE


# ---- the logs part --------------------------------------------------------------------------------------------------


@BOTH
async def test_a_master_that_has_lost_its_tail(kind: type[Master]) -> None:
    """It was restored from an older copy, or lost power: the slave is ahead."""
    slave = history(COMMON, [7, 8, 9], who="slave", time_ms=LATER_MS)
    text = await diverged(slave, kind(content=COMMON))
    last = records(COMMON)[-2]
    assert f"part at {len(COMMON)}; their last common record is at {last} stored 2023-11-1" in text
    assert f"this slave has {len(slave) - len(COMMON)} bytes, 3 records from 2027-01-15T08:00:0" in text
    assert text.endswith("the master 0 bytes")


@BOTH
async def test_a_master_that_has_gone_on_elsewhere(kind: type[Master]) -> None:
    """The slave was promoted and taken back, or lost its master's last records: equal up to a point."""
    slave = history(COMMON, [7], who="slave", time_ms=LATER_MS)
    master = kind(content=history(COMMON, [17] * 12, who="master", time_ms=LATER_MS + 60_000))
    compared = comparison(slave, master)
    with pytest.raises(DivergedError) as failure:
        await compared.compare(HA_ADDRESS)
    text = str(failure.value)
    assert f"part at {len(COMMON)}; " in text
    assert "1 record from 2027-01-15T08:00:0" in text
    assert f"the master {len(master.content) - len(COMMON)} bytes" in text
    if kind is JavaMaster:  # ours names no record of a deleted topic
        assert "bytes from 2027-01-15T08:01:0" in text
    assert compared.statistics() == ComparisonStatistics(1, len(COMMON), len(slave) - len(COMMON), -1)


@BOTH
async def test_the_log_of_another_cluster(kind: type[Master]) -> None:
    """Its records have the same sizes, so that offsets and heads fit: an aligned foreign history."""
    sizes = [10, 200, 30, 100, 250, 5, 60, 180, 20, 40]
    other = history(b"", sizes, who="foreig", time_ms=LATER_MS)
    assert records(other) == records(COMMON)
    text = await diverged(other, kind(content=history(COMMON, [10] * 20)))
    assert "have no record in common from 0 on" in text
    assert f"this slave has {len(other)} bytes, 10 records" in text


@BOTH
async def test_a_master_without_its_first_files_cannot_say_more_than_it_has(kind: type[Master]) -> None:
    other = history(b"", [10, 200, 30, 100, 250, 5, 60, 180, 20, 40], who="other", time_ms=LATER_MS)
    text = await diverged(other, kind(content=history(COMMON, [10] * 20), first_file=1))
    assert f"have no record in common from {FILE} on, where the comparison began" in text


@BOTH
async def test_a_slave_that_needs_deleted_files(kind: type[Master]) -> None:
    master = kind(content=history(COMMON, [100] * 40), first_file=4)
    end = len(COMMON[:FILE])
    with pytest.raises(SlaveBehindError, match=f"the log ends at {end}, .* has deleted what came before {4 * FILE}"):
        await comparison(COMMON[:FILE], master).compare(HA_ADDRESS)
    with pytest.raises(SlaveBehindError):
        await comparison(rolled(history(b"", [100] * 20))[: 4 * FILE], master).compare(HA_ADDRESS)


@BOTH
async def test_a_file_that_only_the_slave_has_ended(kind: type[Master]) -> None:
    """The last record is common: without a look at the BLANK the master's next records would be missed in silence."""
    common = history(b"", [10, 20])
    text = await diverged(rolled(common), kind(content=history(common, [9] * 10, who="master")))
    assert f"part at {len(common)}; " in text
    assert f"this slave has {FILE - len(common)} bytes, 0 records" in text


@BOTH
async def test_a_file_that_only_the_master_has_ended(kind: type[Master]) -> None:
    common = history(b"", [10, 20])
    master = kind(content=history(rolled(common), [9] * 10, who="master"))
    assert f"part at {len(common)}; " in await diverged(history(common, [9], who="slave"), master)


@BOTH
async def test_files_that_end_alike_are_not_equal_for_that(kind: type[Master]) -> None:
    """Messages of one size: the BLANK at the end of both files is the same, and the records before it are not."""
    common = history(b"", [100])
    own = rolled(history(common, [100] * 3, who="slave", time_ms=LATER_MS))
    master = kind(content=rolled(history(common, [100] * 3, who="other", time_ms=LATER_MS)))
    assert own[-8:] == master.content[-8:]
    assert f"part at {len(common)}; " in await diverged(own, master)


async def test_a_long_tail_is_not_counted_to_its_end() -> None:
    slave = history(COMMON, [300] * 40, who="slave")
    assert "at least " in await diverged(slave, JavaMaster(content=COMMON))


# ---- any two histories ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [JavaMaster, OurMaster])
@settings(deadline=None)
@given(
    common=st.lists(st.integers(0, 400), max_size=12),
    slave=st.lists(st.integers(0, 400), max_size=8),
    master=st.lists(st.integers(0, 400), max_size=8),
    data=st.data(),
)
def test_the_logs_part_where_a_look_at_each_byte_says(
    kind: type[Master], common: list[int], slave: list[int], master: list[int], data: st.DataObject
) -> None:
    begin = history(b"", common)
    own = _with_end(history(begin, slave, who="slave", time_ms=LATER_MS), data, "the slave's file has ended")
    theirs = _with_end(history(begin, master, who="m", time_ms=LATER_MS + 1), data, "the master's file has ended")
    own_first = data.draw(st.integers(0, max(0, (len(own) - 1) // FILE)), label="files that the slave never had")
    first = data.draw(st.integers(0, max(0, (len(theirs) - 1) // FILE)), label="files that the master has deleted")
    peer = kind(content=theirs, first_file=first)
    cuts = Cuts()
    outcome = trio.run(_outcome, comparison(own, peer, cuts=cuts, first_file=own_first))
    places = [place for place in records(own) if place >= own_first * FILE]
    spans = list(pairwise(places))
    visible = [span for span in spans if span[0] >= first * FILE]
    # A BLANK is its first 8 bytes; and RocketMQ's own answer to it needs the whole file to be there.
    equal = [theirs[a : a + _compared(own, a, b)] == own[a : a + _compared(own, a, b)] for a, b in visible]
    count = (equal + [False]).index(False)
    if not spans or (visible and count == len(visible)):
        assert outcome == "equal"
    elif not visible:
        assert outcome == "behind"
    elif count == 0:
        assert f"have no record in common from {visible[0][0]} on" in outcome
        assert not cuts.offsets
    else:
        assert f"part at {visible[count][0]}; " in outcome
        assert f"this slave has {len(own) - visible[count][0]} bytes" in outcome
        assert cuts.offsets == [visible[count][0]]


def _with_end(content: bytes, data: st.DataObject, label: str) -> bytes:
    return rolled(content) if content and len(content) % FILE and data.draw(st.booleans(), label=label) else content


async def _outcome(compared: LogComparison) -> str:
    try:
        await compared.compare(HA_ADDRESS)
    except DivergedError as failure:
        return str(failure)
    except SlaveBehindError:
        return "behind"
    return "equal"


def records(content: bytes) -> list[int]:
    """Return where each record and BLANK of a log begins, and its end."""
    places, position = [], 0
    while position < len(content):
        places.append(position)
        position += check_message(content, position, len(content) - position).size
    return [*places, position]


def _compared(content: bytes, begin: int, end: int) -> int:
    return end - begin if check_message(content, begin, end - begin).topic else 8


# ---- cutting --------------------------------------------------------------------------------------------------------


@BOTH
async def test_a_certain_point_is_cut_once(kind: type[Master]) -> None:
    cuts = Cuts()
    slave = history(COMMON, [7, 8, 9], who="slave", time_ms=LATER_MS)
    master = kind(content=history(COMMON, [7] * 9, who="m"))
    compared = comparison(slave, master, cuts=cuts)
    for _ in range(3):
        with pytest.raises(DivergedError, match=r"; the tail is kept in a file, and cut$"):
            await compared.compare(HA_ADDRESS)
        master.content = slave  # nothing may be appended to a log that will be cut, whatever the master has now
    assert cuts.offsets == [len(COMMON)]


async def test_a_refused_cut_says_why() -> None:
    slave = history(COMMON, [7], who="slave")
    compared = comparison(slave, JavaMaster(content=COMMON), cuts=Cuts("no space"))
    with pytest.raises(DivergedError, match=r"; nothing is cut: no space$"):
        await compared.compare(HA_ADDRESS)


async def test_a_cut_is_ordered_once_nothing_forbids_it_any_more() -> None:
    """A person has made room, while the broker runs."""
    slave = history(COMMON, [7], who="slave")
    cuts = Cuts("no space")
    compared = comparison(slave, JavaMaster(content=COMMON), cuts=cuts)
    texts = []
    for refusal in ("no space", "no space", None, None):
        cuts.refusal = refusal
        with pytest.raises(DivergedError) as failure:
            await compared.compare(HA_ADDRESS)
        texts.append(str(failure.value).rpartition("; ")[2])
    assert texts == ["nothing is cut: no space"] * 2 + ["the tail is kept in a file, and cut"] * 2
    assert len(cuts.offsets) == 3, "once it is ordered nothing is asked"


async def test_logs_with_nothing_in_common_are_never_cut() -> None:
    cuts = Cuts()
    compared = comparison(history(b"", [7], who="slave"), JavaMaster(content=COMMON), cuts=cuts)
    with pytest.raises(DivergedError, match=r"; nothing is cut, because no common record was found$"):
        await compared.compare(HA_ADDRESS)
    assert not cuts.offsets


@pytest.mark.parametrize("is_answered", [False, True])
async def test_nothing_is_cut_where_the_master_does_not_answer_clearly(is_answered: bool) -> None:
    """No answer about the first different record is no proof that it is different; nor is "not found" within the log.

    The master has a record where the last common one ends, or its log ends there.
    """
    slave = history(COMMON, [7], who="slave")
    cuts = Cuts()

    def fails(request: RemotingCommand) -> RemotingCommand | None:
        if request.code == 33 and int((request.ext_fields or {})["offset"]) == len(COMMON):
            if is_answered:
                return not_found(request, len(COMMON))
            raise RemotingSendRequestError("the connection ended before it answered")
        return None

    master = JavaMaster(content=history(COMMON, [50] * 9), fails=fails)
    compared = comparison(slave, master, cuts=cuts)
    for _ in range(2):
        with pytest.raises(DivergedError, match="; nothing is cut, because the master does not say what it has there"):
            await compared.compare(HA_ADDRESS)
    assert not cuts.offsets
    master.fails = None
    with pytest.raises(DivergedError, match="; the tail is kept in a file, and cut"):
        await compared.compare(HA_ADDRESS)
    assert cuts.offsets == [len(COMMON)]


# ---- what is no result ----------------------------------------------------------------------------------------------


@BOTH
async def test_one_failed_question_is_no_divergence(kind: type[Master]) -> None:
    """The connection ends at any one question, although the master answers all others: then it is asked again."""
    slave = history(COMMON, [7] * 5, who="slave")
    cuts = Cuts()
    master = kind(content=history(COMMON, [50] * 9))
    compared = comparison(slave, master, cuts=cuts)
    with pytest.raises(DivergedError):
        await compared.compare(HA_ADDRESS)
    count = len(master.asked)
    for broken in range(count):
        cuts = Cuts()
        peer = kind(content=master.content)
        peer.fails = _Breaks(broken)
        compared = comparison(slave, peer, cuts=cuts)
        with pytest.raises((DivergedError, OSError)) as failure:
            await compared.compare(HA_ADDRESS)
        assert set(cuts.offsets) <= {len(COMMON)}, (broken, str(failure.value))


@attrs.define
class _Breaks:
    """Ends the connection at one question, instead of an answer."""

    at: int
    count: int = 0

    def __call__(self, request: RemotingCommand) -> None:
        self.count += 1
        if self.count == self.at + 1:
            raise RemotingSendRequestError("the connection ended before it answered")


async def test_a_master_that_cannot_be_asked_is_no_divergence() -> None:
    def fails(request: RemotingCommand) -> None:
        raise RemotingTimeoutError("no answer")

    compared = comparison(COMMON, JavaMaster(content=COMMON, fails=fails))
    with pytest.raises(OSError, match="the master cannot be asked about its log: no answer"):
        await compared.compare(HA_ADDRESS)
    with pytest.raises(OSError, match="no answer"):
        await comparison(b"", JavaMaster(content=COMMON, fails=fails)).compare(HA_ADDRESS)
    assert compared.statistics() == ComparisonStatistics(0, -1, 0, -1)


async def test_the_alarm_keeps_its_words_until_something_changes() -> None:
    """It is logged when it changes; the master's log grows all the time."""
    slave = history(COMMON, [7], who="slave")
    master = JavaMaster(content=history(COMMON, [50] * 9))
    compared = comparison(slave, master)
    texts = []
    for more in (0, 5, 5):
        master.content = history(master.content, [10] * more)
        master.asked.clear()
        with pytest.raises(DivergedError) as failure:
            await compared.compare(HA_ADDRESS)
        texts.append(str(failure.value))
    assert len(set(texts)) == 1
    assert len(master.asked) == 3, "the last record, and the two on either side of the point"
    master.content = slave
    await compared.compare(HA_ADDRESS)
    master.content = COMMON[: records(COMMON)[5]]
    with pytest.raises(DivergedError, match=f"part at {records(COMMON)[5]};"):
        await compared.compare(HA_ADDRESS)


async def test_files_that_the_master_deletes_meanwhile_are_no_divergence() -> None:
    master = JavaMaster(content=history(COMMON, [50] * 9))

    def fails(request: RemotingCommand) -> None:
        if len(master.asked) == 5:
            master.first_file = 1

    master.fails = fails
    with pytest.raises(OSError, match="has changed while it was compared"):
        await comparison(history(COMMON, [7], who="slave"), master).compare(HA_ADDRESS)


async def test_own_files_that_expire_meanwhile_are_no_divergence() -> None:
    log = log_of(history(COMMON, [7], who="slave"))
    master = JavaMaster(content=history(COMMON, [50] * 9))

    def fails(request: RemotingCommand) -> None:
        if len(master.asked) == 4:
            log.files.remove_first(lambda file: file.close())

    master.fails = fails
    compared = comparison(CommitLogRecords(log, run_blocking=run_now), master)
    with pytest.raises(OSError, match="files of the own log have been deleted while it was compared"):
        await compared.compare(HA_ADDRESS)
    with pytest.raises(DivergedError, match=f"part at {len(COMMON)}; "):
        await compared.compare(HA_ADDRESS)


async def test_a_damaged_own_log_is_no_divergence() -> None:
    log: CommitLog = log_of(COMMON[:FILE] + COMMON[FILE:].replace(b"\xda\xa3\x20\xa7", b"\0\0\0\0"))
    compared = comparison(CommitLogRecords(log, run_blocking=run_now), JavaMaster(content=COMMON))
    with pytest.raises(OSError, match=f"expected a record of the own log at {FILE}, before its end at {len(COMMON)}"):
        await compared.compare(HA_ADDRESS)


# ---- whom to ask ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("registered", "configured", "ha_address", "expected"),
    [
        (("10.0.0.1:9000", "10.9.0.1:9005"), None, "10.9.0.1:9005", "10.0.0.1:9000"),
        (("10.0.0.1:9000", "10.9.0.1:9005"), "10.9.0.1:9005", "10.9.0.1:9005", "10.0.0.1:9000"),
        (("10.0.0.1:9000", "10.9.0.1:9005"), "10.0.0.7:10912", "10.0.0.7:10912", "10.0.0.7:10911"),
        ((None, None), "10.0.0.7:10912", "10.0.0.7:10912", "10.0.0.7:10911"),
        ((None, None), "[::1]:10912", "[::1]:10912", "[::1]:10911"),
        ((None, None), "10.0.0.7", "10.0.0.7", None),
        ((None, None), "10.0.0.7:1", "10.0.0.7:1", None),
    ],
)
def test_the_log_that_is_compared_is_the_one_that_is_followed(
    registered: Sequence[str | None], configured: str | None, ha_address: str, expected: str | None
) -> None:
    """A configured address may name another broker than the nameservers do."""
    addresses = MasterAddresses(own_addr="10.0.0.2:10911", ha_master_address=configured)
    addresses.take("n", *registered)
    assert client_address_of(addresses, ha_address) == expected


def test_a_master_that_left_the_nameservers_is_asked_at_the_port_below() -> None:
    addresses = MasterAddresses(own_addr="10.0.0.2:10911")
    addresses.take("n", "10.0.0.1:9000", "10.9.0.1:9005")
    addresses.take("n", None, None)
    assert client_address_of(addresses, "10.9.0.1:9005") == "10.9.0.1:9004"


async def test_without_an_address_nothing_is_requested() -> None:
    compared = LogComparison(log=records_of(COMMON), client=JavaMaster(content=COMMON), client_address=lambda _: None)
    with pytest.raises(OSError, match="expected a master's HOST:PORT, found 'nowhere'"):
        await compared.compare("nowhere")
