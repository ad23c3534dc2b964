"""Whether the log of another broker is a beginning of the own one, or goes on after it: then offsets mean the same.

The own record that ends where the shorter of both logs ends decides, because logs that part never have the same record
again. The other broker is asked whether it has it, by its digest. A stranger could say so. So it must also show one of
the last records that both have, which only a broker can that has read the log.

Compatibility: a slave of Java's answers both questions, as its master does (:mod:`.remote_log`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rocketpy.store.ha.divergence import RecordedLog, RecordRange

if TYPE_CHECKING:  # a master without slaves does not load it
    from rocketpy.broker.replication.remote_log import Client

SHOWN_MAX = 8
"""Records that may be asked for: one whose topic was deleted is in the log, and answers no request."""


class OwnLog(RecordedLog, Protocol):
    """The own log."""

    @property
    def end_offset(self) -> int:
        """Its end."""
        ...

    async def records_up_to(self, end_offset: int) -> list[RecordRange]:
        """Return the last records up to an offset, of one file, in order; none if no record ends there."""
        ...

    async def compared_bytes(self, record: RecordRange) -> bytes:
        """Return the bytes of a record that are compared."""
        ...


class CommonLog:
    """Questions to other brokers of this name."""

    def __init__(self, log: OwnLog, client: Client) -> None:
        self._log = log
        self._client = client

    async def difference(self, address: str) -> str:
        """Return why the log of the broker at an address is not known to have the own one's history; "" if it is.

        OSError when it does not answer.
        """
        from rocketpy.broker.replication.remote_log import Found, RemoteLog

        other = RemoteLog(self._client, address, who="the slave")
        bounds = await other.bounds()
        end = min(bounds.max_offset, self._log.end_offset)
        if end <= 0:
            return "one of the logs is empty"
        records = await self._log.records_up_to(end)
        if not records:
            return f"its log ends at {bounds.max_offset}, where no record of this log ends"
        last = records[-1]
        if await other.find(last, await self._log.compared_bytes(last)) is not Found.EQUAL:
            return f"its log has not the record of this log that ends at {end}"
        for record in reversed(records[-SHOWN_MAX:]):
            if not record.is_blank and await other.shows(record, await self._log.compared_bytes(record)):
                return ""
        return f"it shows none of the last records of this log up to {end}"
