"""The slave's side of replication: follows a master and stores what it sends.

Before anything is requested the logs are compared (``compare``); a slave whose log is not the beginning of the master's
stops with an alarm. What arrives is stored record by record, after its checks, and acknowledged at once. So the log
always ends with a record and is always a prefix of the master's.

A master that sends nothing, not even a heartbeat, for ``haHousekeepingInterval`` counts as gone. A full disk ends the
connection; it is tried again, and nothing is acknowledged meanwhile. No failure ends the service but StoreError and our
own bugs.

Compatibility: ``HAService.HAClient`` (4.9.8), same bytes. RocketMQ appends what comes without a look, sends its first
report after 5 s, and notices a vanished master only by TCP.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from enum import Enum
from random import Random
from typing import Protocol

import attrs
import trio

from rocketpy.errors import RemoteProtocolError, ShortageError
from rocketpy.store.ha.connection import HAStream, HATimes, close_forcefully
from rocketpy.store.ha.protocol import FrameReader, encode_report
from rocketpy.store.ha.verified_stream import VerifiedPiece, VerifiedStream

CONNECT_SECONDS = 5.0
RETRY_SECONDS = 5.0
"""The longest pause after a failed attempt, half to all of it: slaves of one master do not all come back at once."""
FIRST_RETRY_SECONDS = 0.2
"""The pause after replication has ended; twice as long after each attempt that fails."""

_READ_SIZE = 512 << 10

_log = logging.getLogger("rocketpy.store.ha")


class FollowingLog(Protocol):
    """The slave's log. Offsets in bytes."""

    @property
    def end_offset(self) -> int:
        """The end of the log: of its last record, or of its last file."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether it has no file: it then begins where the master's last file begins."""
        ...

    @property
    def file_size(self) -> int:
        """The size of a file."""
        ...

    def append(self, piece: VerifiedPiece) -> None:
        """Store a piece at the end, and dispatch its records to queues and index.

        The first piece of an empty log makes it begin there. RemoteProtocolError for what cannot be the next piece of
        this log. ShortageError, and that, leave a whole number of records stored; any other StoreError is final.
        """
        ...


class HAState(Enum):
    """What the slave is doing."""

    NO_ADDRESS = "no address of a master is known"
    CONNECTING = "connecting"
    COMPARING = "comparing the logs"
    FOLLOWING = "following"
    STOPPED = "stopped"


@attrs.frozen
class HAClientStatistics:
    """State, and counters since the start."""

    state: HAState
    alarm: str
    """Why nothing is replicated; empty while it is, or about to be."""
    master_address: str
    connect_count: int
    received_bytes: int
    record_count: int


class DivergedError(RemoteProtocolError):
    """The slave's log is not the beginning of the master's."""


Connect = Callable[[str], Awaitable[HAStream]]
Compare = Callable[[str], Awaitable[None]]


class HAClient:
    """Follows whichever master ``address`` names, until cancelled.

    ``address_changed`` returns after the next change of the address, which ends a pause. ``connect`` opens a stream or
    raises OSError. ``compare`` returns when the log is the beginning of the master's and raises DivergedError when it
    is not, or OSError when the master cannot be asked.
    """

    def __init__(
        self,
        *,
        log: FollowingLog,
        address: Callable[[], str | None],
        connect: Connect,
        compare: Compare,
        settings: Callable[[], HATimes],
        randomness: Random,
        address_changed: Callable[[], Awaitable[None]] = trio.sleep_forever,
    ) -> None:
        self._log = log
        self._address = address
        self._address_changed = address_changed
        self._connect = connect
        self._compare = compare
        self._settings = settings
        self._randomness = randomness
        self._state = HAState.NO_ADDRESS
        self._alarm = ""
        self._master_address = ""
        self._connect_count = 0
        self._received_bytes = 0
        self._record_count = 0
        self._pause_s = FIRST_RETRY_SECONDS

    def statistics(self) -> HAClientStatistics:
        """Return state and counters."""
        return HAClientStatistics(
            self._state,
            self._alarm,
            self._master_address,
            self._connect_count,
            self._received_bytes,
            self._record_count,
        )

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Follow until cancelled; StoreError ends it."""
        task_status.started()
        while True:
            address = self._address()
            if address is None:
                self._state = HAState.NO_ADDRESS
                pause_s = RETRY_SECONDS  # its change ends the pause, and no attempt has failed
            else:
                await self._attempt(address)
                pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, RETRY_SECONDS)
            with trio.move_on_after(pause_s * (0.5 + self._randomness.random() / 2)):
                await self._wait_for_another(address)

    async def _wait_for_another(self, address: str | None) -> None:
        """Return when the address is another one than that of the last attempt, during which it may have changed."""
        while self._address() in (address, None):
            await self._address_changed()

    async def _attempt(self, address: str) -> None:
        """Connect and follow until that fails; sets the alarm to the reason."""
        self._master_address = address
        try:
            self._state = HAState.COMPARING
            await self._compare(address)
            self._state = HAState.CONNECTING
            with trio.fail_after(CONNECT_SECONDS):
                stream = await self._connect(address)
            if self._address() not in (address, None):  # meanwhile: this one may be a slave of the new master by now
                await close_forcefully(stream)
                return
            self._connect_count += 1
            began, count = trio.current_time(), self._record_count
            try:
                await self._follow(stream)
            finally:
                await close_forcefully(stream)
                # What fails at once, each time, is no reason to come back soon.
                if self._record_count > count or trio.current_time() - began >= RETRY_SECONDS:
                    self._pause_s = FIRST_RETRY_SECONDS
            self._raise_alarm("the master has closed the connection")
        except trio.TooSlowError:
            self._raise_alarm(f"no connection within {CONNECT_SECONDS:g} s")
        except DivergedError as failure:
            self._raise_alarm(str(failure))
            self._state = HAState.STOPPED
        except (OSError, trio.BrokenResourceError, RemoteProtocolError, ShortageError) as failure:
            self._raise_alarm(str(failure) or repr(failure))

    def _raise_alarm(self, why: str) -> None:
        if self._alarm != why:  # once, not with each attempt
            _log.warning("nothing is replicated from %s: %s", self._master_address, why)
        self._alarm = why
        self._state = HAState.CONNECTING

    async def _follow(self, stream: HAStream) -> None:
        """Store what the master sends until it closes; an exception says why the connection is to be closed."""
        log, settings = self._log, self._settings
        following = _Following(stream, log)
        await stream.send_all(encode_report(log.end_offset))
        following.reported_at = following.received_at = trio.current_time()
        while True:
            heartbeat_at = following.reported_at + settings().heartbeat_s
            silent_at = following.received_at + settings().housekeeping_s
            # One scope for many frames: to enter one costs as much as to read a frame. When it ends there may be
            # nothing to do, because frames have come and reports have left meanwhile.
            with trio.move_on_at(min(heartbeat_at, silent_at)):
                if not await self._take_frames(following):
                    return
            now = trio.current_time()
            if now >= following.received_at + settings().housekeeping_s:
                raise RemoteProtocolError(
                    f"expected a frame or a heartbeat within {settings().housekeeping_s:g} s, found silence"
                )
            if not following.unsent and now >= following.reported_at + settings().heartbeat_s:
                following.report(now)
            if following.unsent:
                with trio.fail_after(settings().housekeeping_s):
                    await stream.send_all(following.unsent)
                following.unsent = b""

    async def _take_frames(self, following: _Following) -> bool:
        """Store and report until the stream does not take a report; False when the master has closed it."""
        log, receive_some = self._log, following.stream.receive_some
        while not following.unsent:
            data = bytes(await receive_some(_READ_SIZE))
            if not data:
                return False
            now, end = trio.current_time(), log.end_offset
            following.received_at = now
            self._state, self._alarm = HAState.FOLLOWING, ""
            self._store(following.pieces(data))
            if log.end_offset > end:
                following.report(now)
        return True

    def _store(self, pieces: list[VerifiedPiece]) -> None:
        for piece in pieces:
            self._log.append(piece)
            self._received_bytes += len(piece.data)
            self._record_count += piece.record_count


class _Following:
    """One connection to the master: what has come on it, and what was reported."""

    def __init__(self, stream: HAStream, log: FollowingLog) -> None:
        self.stream = stream
        self.reported_at = 0.0
        self.received_at = 0.0
        self.unsent = b""
        """Of the last report: what the stream did not take at once. It is sent before the next one."""
        self._log = log
        self._frames = FrameReader(None if log.is_empty else log.end_offset, file_size=log.file_size)
        self._verified = None if log.is_empty else VerifiedStream(log.end_offset, file_size=log.file_size)

    def pieces(self, data: bytes) -> list[VerifiedPiece]:
        """Return what is complete with received bytes; RemoteProtocolError for what cannot be part of a log."""
        parts = self._frames.receive(data)
        if parts and self._verified is None:
            self._verified = VerifiedStream(parts[0].offset, file_size=self._log.file_size)
        return [] if self._verified is None else self._verified.receive(*[part.data for part in parts])

    def report(self, now: float) -> None:
        """Report the end of the log; it is acknowledged at once, or when ``unsent`` is sent."""
        assert not self.unsent, "the rest of the report before"
        report = encode_report(self._log.end_offset)
        self.unsent = report[self.stream.send_nowait(report) :]
        self.reported_at = now
