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
from rocketpy.store.ha.connection import HATimes
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


Connect = Callable[[str], Awaitable[trio.abc.Stream]]
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
            self._connect_count += 1
            async with stream:
                began, count = trio.current_time(), self._record_count
                try:
                    await self._follow(stream)
                finally:  # what fails at once, each time, is no reason to come back soon
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

    async def _follow(self, stream: trio.abc.Stream) -> None:
        log, settings = self._log, self._settings
        frames = FrameReader(None if log.is_empty else log.end_offset, file_size=log.file_size)
        verified = None if log.is_empty else VerifiedStream(log.end_offset, file_size=log.file_size)
        await stream.send_all(encode_report(log.end_offset))
        reported_at = received_at = trio.current_time()
        while True:
            heartbeat_at = reported_at + settings().heartbeat_s
            silent_at = received_at + settings().housekeeping_s
            data: bytes | None = None
            with trio.move_on_at(min(heartbeat_at, silent_at)):
                data = bytes(await stream.receive_some(_READ_SIZE))
            now, end = trio.current_time(), log.end_offset
            if data is not None:
                if not data:
                    return
                received_at = now
                self._state, self._alarm = HAState.FOLLOWING, ""
                parts = frames.receive(data)
                if parts and verified is None:
                    verified = VerifiedStream(parts[0].offset, file_size=log.file_size)
                if verified is not None:
                    self._store(verified.receive(*[part.data for part in parts]))
            elif now >= silent_at:
                raise RemoteProtocolError(
                    f"expected a frame or a heartbeat within {settings().housekeeping_s:g} s, found silence"
                )
            if log.end_offset > end or now >= heartbeat_at:
                with trio.fail_after(settings().housekeeping_s):
                    await stream.send_all(encode_report(log.end_offset))
                reported_at = now

    def _store(self, pieces: list[VerifiedPiece]) -> None:
        for piece in pieces:
            self._log.append(piece)
            self._received_bytes += len(piece.data)
            self._record_count += piece.record_count
