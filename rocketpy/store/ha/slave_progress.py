"""What one connection of a slave has asked for, has been sent and has acknowledged; a pure rule of the master.

A report counts only if it can be true:

- The first one is a request, never an acknowledgement. It must lie within the master's log (or be 0, the request of an
  empty log): an offset beyond its end means that the slave has what the master lacks, one before its beginning that
  the master has deleted what the slave needs. Neither gets better by waiting.
- A later one acknowledges the log up to its offset: no less than the one before, and no more than what was sent on this
  connection.

An acknowledgement covers what was sent on this connection. What lies before the request is not covered, because nothing
in the protocol says that it is the same: the slave has compared the logs, but the master cannot tell which connection
is that slave's.

Compatibility: RocketMQ 4.9.8 (``HAConnection.ReadSocketService``) takes the first report for an acknowledgement,
whatever it says, and keeps the highest one for ever: after one report of a large number it answers PUT_OK without any
replication. It compares later reports with the end of its own log only, and sends heartbeats for ever to a slave that
asks for deleted files.
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketpy.errors import RemoteProtocolError


class SlaveAheadError(RemoteProtocolError):
    """The slave's log ends beyond the master's: one of them has lost or gained messages, and a person must decide."""


class SlaveBehindError(RemoteProtocolError):
    """The slave's log ends before the master's first file: it must be copied, or begin again empty."""


class SlaveProgress:
    """The state of one connection. Offsets are of the log, in bytes; -1 before there is one."""

    __slots__ = ("acknowledged_offset", "covered_from", "request_offset", "sent_offset")

    def __init__(self) -> None:
        self.request_offset = -1
        self.sent_offset = -1
        """End of what was sent on this connection."""
        self.acknowledged_offset = -1
        self.covered_from = -1
        """Beginning of what the acknowledgements cover."""

    @property
    def is_slave(self) -> bool:
        """Whether a valid request has come: until then it is any connection, for example of a port scan."""
        return self.request_offset >= 0

    @property
    def reached_offset(self) -> int:
        """The end of the slave's log as far as it is known: what it has acknowledged, before that what it asked for."""
        return max(self.acknowledged_offset, self.request_offset)

    def report(self, offset: int, *, log_min: int, log_max: int, file_size: int) -> None:
        """Take a report.

        The log has the bytes from ``log_min`` to ``log_max``, in files of ``file_size`` bytes. RemoteProtocolError when
        the report cannot be true: the connection must be closed, and its acknowledgements no longer count.
        """
        if not self.is_slave:
            self._request(offset, log_min, log_max, file_size)
            return
        if offset == self.request_offset == 0 and self.acknowledged_offset < 0:
            return  # the heartbeat of an empty log, until it has stored something
        least = max(self.request_offset, self.acknowledged_offset)
        if not least <= offset <= self.sent_offset:
            raise RemoteProtocolError(
                f"a slave's report: expected an offset from {least}, its last one, to {self.sent_offset}, the end of "
                f"what it was sent; found {offset}"
            )
        self.acknowledged_offset = offset

    def note_sent(self, end_offset: int) -> None:
        """Record that the log up to an offset was passed to the connection."""
        assert self.is_slave, end_offset
        assert end_offset >= self.sent_offset, (self.sent_offset, end_offset)
        self.sent_offset = end_offset

    def has(self, end_offset: int) -> bool:
        """Whether the slave has acknowledged a record that ends at an offset."""
        return 0 <= self.covered_from < end_offset <= self.acknowledged_offset

    def _request(self, offset: int, log_min: int, log_max: int, file_size: int) -> None:
        if offset < 0:
            raise RemoteProtocolError(f"a slave's request: expected an offset from 0, found {offset}")
        if offset > log_max:
            raise SlaveAheadError(
                f"a slave's request: expected at most {log_max}, the end of this log, found {offset}: the slave has "
                f"{offset - log_max} bytes that this master lacks"
            )
        if 0 < offset < log_min:
            raise SlaveBehindError(
                f"a slave's request: expected at least {log_min}, the beginning of this log, found {offset}: the "
                "files that the slave needs have been deleted"
            )
        self.request_offset = offset
        # As RocketMQ: an empty slave gets the last file only.
        self.sent_offset = self.covered_from = offset or max(log_min, log_max - log_max % file_size)


def replicated_offset(slaves: Iterable[SlaveProgress]) -> int:
    """Return the highest acknowledged offset of live connections, 0 without any; for figures and thresholds."""
    return max((slave.acknowledged_offset for slave in slaves), default=0)
