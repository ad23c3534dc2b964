"""Comparison of a slave's log with its master's, before anything is requested: equal, or an alarm with both tails.

The last record decides in the usual case: one question. Otherwise the point where the logs part is found by bisection
(:mod:`rocketpy.store.ha.divergence`), and replication stops. An empty slave has nothing to compare; it is told which
part of the history it will never get.

The log that is compared must be the one that is followed: see :func:`client_address_of`.

Compatibility: RocketMQ 4.9.8 compares nothing. Its masters answer these questions.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Protocol

import attrs

from rocketpy.broker.replication.master_addresses import MasterAddresses
from rocketpy.broker.replication.remote_log import Client, Found, LogBounds, RemoteLog
from rocketpy.errors import RemotingConnectError
from rocketpy.protocol.host import host_of
from rocketpy.remoting.network import split_address
from rocketpy.store.ha.client import DivergedError
from rocketpy.store.ha.divergence import Parting, RecordedLog, RecordRange, find_parting
from rocketpy.store.ha.slave_progress import SlaveBehindError

TAIL_FILES_COUNTED_MAX = 4
"""Files whose records are counted for the alarm, of the part of the log that only the slave has."""

_log = logging.getLogger("rocketpy.ha")


class OwnLog(RecordedLog, Protocol):
    """The slave's log, with what the alarm says of it."""

    @property
    def end_offset(self) -> int:
        """The end of the log."""
        ...

    @property
    def file_size(self) -> int:
        """The size of new files."""
        ...

    async def compared_bytes(self, record: RecordRange) -> bytes:
        """Return the bytes of a record that are compared."""
        ...

    async def store_timestamp_ms(self, record: RecordRange) -> int:
        """Return the storeTimestamp of a record, 0 for a BLANK."""
        ...


RequestCut = Callable[[int], Awaitable[str | None]]
"""Requests to cut the log at an offset, in a moment; returns why that cannot be."""


@attrs.frozen
class ComparisonStatistics:
    """Counters since the start, and what was found. Offsets and sizes in bytes, -1 where nothing is known."""

    compared_count: int
    equal_end: int
    """Up to where both logs were found to be equal; the whole own log, or where it parts from the master's."""
    diverged_bytes: int
    """What the own log has beyond that; 0 when it has nothing else."""
    missing_history_bytes: int
    """What the master has, and will not send to this slave, because it began empty."""


class LogComparison:
    """Compares one log with those of masters; :meth:`compare` is what :class:`~rocketpy.store.ha.client.HAClient`
    calls before each attempt to follow.
    """

    def __init__(
        self,
        *,
        log: OwnLog,
        client: Client,
        client_address: Callable[[str], str | None],
        request_cut: RequestCut | None = None,
    ) -> None:
        """``request_cut`` is called where the logs part, if that is certain; without one the tail is only reported."""
        self._log = log
        self._client = client
        self._client_address = client_address
        self._request_cut = request_cut
        self._alarm: _Alarm | None = None
        self._is_cut_ordered = False
        self._compared_count = 0
        self._equal_end = -1
        self._diverged_bytes = 0
        self._missing_history_bytes = -1

    def statistics(self) -> ComparisonStatistics:
        """Return counters and findings."""
        return ComparisonStatistics(
            self._compared_count, self._equal_end, self._diverged_bytes, self._missing_history_bytes
        )

    async def compare(self, ha_address: str) -> None:
        """Return when the log is the beginning of the one that a master offers to slaves at an address.

        DivergedError, with both tails, when it is not; SlaveBehindError when the master has deleted what would have to
        be compared; OSError when the master cannot be asked.
        """
        if self._alarm is not None and self._is_cut_ordered:  # nothing may be appended to a log that will be cut
            raise DivergedError(self._alarm.text)
        address = self._client_address(ha_address)
        if address is None:
            raise OSError(f"the logs cannot be compared: expected a master's HOST:PORT, found {ha_address!r}")
        master = RemoteLog(self._client, address)
        last = await self._log.last_record()
        if last is None:
            await self._warn_of_missing_history(master)
            return
        if last.end_offset != self._log.end_offset:
            raise OSError(
                f"the logs cannot be compared: expected a record of the own log at {last.end_offset}, before its end "
                f"at {self._log.end_offset}, found none"
            )
        found = await self._find(master, last)
        if last.is_blank and found is Found.EQUAL:
            found = await self._find_before(master, last)
        self._compared_count += 1
        if found is Found.EQUAL:
            self._alarm, self._equal_end, self._diverged_bytes = None, last.end_offset, 0
            return
        await self._locate(master, last)

    async def _find_before(self, master: RemoteLog, blank: RecordRange) -> Found:
        """Ask for the record before a BLANK: two logs with files that end alike have the same BLANK there."""
        file_offset = max(offset for offset in self._log.file_offsets if offset <= blank.offset)
        records = await self._log.records_from(file_offset)
        return await self._find(master, records[-2]) if len(records) > 1 else Found.EQUAL

    # ---- an empty log ---------------------------------------------------------------------------------------------

    async def _warn_of_missing_history(self, master: RemoteLog) -> None:
        """Tell once what an empty slave will not get: a master sends it its last file only."""
        bounds = await master.bounds()
        begin = bounds.max_offset - bounds.max_offset % self._log.file_size
        was_told = self._missing_history_bytes > 0
        self._missing_history_bytes = max(0, begin - bounds.min_offset)
        if self._missing_history_bytes and not was_told:
            _log.warning(
                "this slave is empty, and the master %s sends its last file only: the %d bytes of its log from %d to "
                "%d will be missing here; copy its store to have them",
                master.address, self._missing_history_bytes, bounds.min_offset, begin)  # fmt: skip

    # ---- two logs that part ---------------------------------------------------------------------------------------

    async def _locate(self, master: RemoteLog, last: RecordRange) -> None:
        """Raise the error that says where the logs part, having requested the cut if there is to be one."""
        alarm = self._alarm
        if alarm is not None and alarm.address == master.address and await self._is_still(master, alarm.parting):
            # The same words, which are logged once; unless what has forbidden the cut forbids it no more.
            is_certain = alarm.is_certain or await self._is_certain(master, alarm.parting)
            cut = await self._cut(alarm.parting, is_certain=is_certain)
            self._alarm = alarm = attrs.evolve(alarm, is_certain=is_certain, cut=cut)
            raise DivergedError(alarm.text)
        bounds = await master.bounds()
        if last.offset < bounds.min_offset:
            raise SlaveBehindError(
                f"the log ends at {last.end_offset}, and the master {master.address} has deleted what came before "
                f"{bounds.min_offset}: nothing is left to compare, and what lies between is lost; copy the master's "
                "store, or begin with an empty one"
            )

        async def is_common(record: RecordRange) -> bool:
            return await self._find(master, record) is Found.EQUAL

        files = list(self._log.file_offsets)
        parting = await find_parting(self._log, is_common, master_begin=bounds.min_offset)
        if list(self._log.file_offsets) != files:
            raise OSError("files of the own log have been deleted while it was compared")
        is_certain = await self._is_certain(master, parting)
        if parting.different is None or (await master.bounds()).min_offset != bounds.min_offset:
            raise OSError(f"the log of the master {master.address} has changed while it was compared")
        self._equal_end = parting.common_end if parting.common is not None else -1
        self._diverged_bytes = self._log.end_offset - parting.different.offset
        where = await self._describe(master, bounds, parting, last)
        cut = await self._cut(parting, is_certain=is_certain)
        self._alarm = _Alarm(master.address, parting, is_certain, where, cut)
        raise DivergedError(self._alarm.text)

    async def _is_still(self, master: RemoteLog, parting: Parting) -> bool:
        """Whether the logs part where they did."""
        common, different = parting.common, parting.different
        if different is None or await self._find(master, different) is Found.EQUAL:
            return False
        return common is None or await self._find(master, common) is Found.EQUAL

    async def _is_certain(self, master: RemoteLog, parting: Parting) -> bool:
        """Whether the master surely has something else, or nothing, after the last common record.

        OSError if it has the same after all: a question has failed meanwhile.
        """
        if parting.different is None:
            return False
        found = await self._find(master, parting.different)
        if found is Found.EQUAL:
            raise OSError(f"the log of the master {master.address} has changed while it was compared")
        if found is Found.NOTHING:
            return (await master.bounds()).max_offset <= parting.different.offset
        return found is Found.DIFFERENT

    async def _cut(self, parting: Parting, *, is_certain: bool) -> str:
        """Request the cut if it may be; return what the alarm says of it."""
        if self._request_cut is None:
            return ""
        if parting.common is None:
            return "; nothing is cut, because no common record was found"
        if not is_certain:
            return "; nothing is cut, because the master does not say what it has there instead"
        refusal = await self._request_cut(parting.common_end)
        self._is_cut_ordered = refusal is None
        return "; the tail is kept in a file, and cut" if refusal is None else f"; nothing is cut: {refusal}"

    async def _find(self, master: RemoteLog, record: RecordRange) -> Found:
        return await master.find(record, await self._log.compared_bytes(record))

    # ---- what the alarm says --------------------------------------------------------------------------------------

    async def _describe(self, master: RemoteLog, bounds: LogBounds, parting: Parting, last: RecordRange) -> str:
        different = parting.different
        assert different is not None
        begin = different.offset
        if parting.common is None:
            where = f"have no record in common from {begin} on, where the comparison began"
        else:
            stored = _time(await self._log.store_timestamp_ms(parting.common), "stored")
            where = f"part at {begin}; their last common record is at {parting.common.offset}{stored}"
        own_begin = _time(await self._log.store_timestamp_ms(different))
        own_end = _time(await self._log.store_timestamp_ms(last), "to")
        own = f"{self._log.end_offset - begin} bytes, {await self._count(different)}{own_begin}{own_end}"
        masters = f"{max(0, bounds.max_offset - begin)} bytes"
        if bounds.max_offset > begin:
            masters += _time(await master.store_timestamp_ms(begin))
        between = f"this log and that of the master {master.address}"
        return f"{between} {where}; from there this slave has {own}, the master {masters}"

    async def _count(self, different: RecordRange) -> str:
        """Return how many records the own log has from one on."""
        files = [offset for offset in self._log.file_offsets if offset > different.offset]
        counted = files[: TAIL_FILES_COUNTED_MAX - 1]
        count = 0
        for offset in (different.offset, *counted):
            count += _count_of(await self._log.records_from(offset))
        at_least = "" if len(counted) == len(files) else "at least "
        return f"{at_least}{count} {'record' if count == 1 else 'records'}"


@attrs.frozen
class _Alarm:
    address: str
    parting: Parting
    is_certain: bool
    where: str
    cut: str

    @property
    def text(self) -> str:
        return self.where + self.cut


def client_address_of(addresses: MasterAddresses, ha_address: str) -> str | None:
    """Return the address for requests of the broker that offers its log at ``ha_address``; None if that has no port.

    It is the one that a nameserver gives together with this address for replication. A broker that no nameserver gives
    now, as one that only ``haMasterAddress`` names, is asked at the port below: a broker listens for slaves at
    ``listenPort`` + 1.
    """
    if ha_address == addresses.registered_ha_server_addr and addresses.master_addr is not None:
        return addresses.master_addr
    try:
        _, port = split_address(ha_address)
    except RemotingConnectError:
        return None
    return f"{host_of(ha_address)}:{port - 1}" if port > 1 else None


def _count_of(records: Sequence[RecordRange]) -> int:
    return len(records) - (len(records) > 0 and records[-1].is_blank)


def _time(timestamp_ms: int, word: str = "from") -> str:
    """Return " from 2026-01-31T23:59:59.123Z", or an empty text for an unknown time."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return ""
    return f" {word} {moment.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}" if timestamp_ms > 0 else ""
