"""Reconnects to brokers whose connection has ended, and introduces the groups of this client to them again.

A broker that was restarted knows no member of any group: it refuses their pulls until it has got a heartbeat. So each
broker whose connection has ended gets one as soon as it accepts connections again, and each that refuses a pull because
it does not know the group gets one at once. Readers that wait after a failure then pull again.

Rules: one task per broker, however many queues wait for it. A broker that goes on refusing gets its next heartbeat
after a pause, which doubles up to ``LONGEST_BACKOFF_SECONDS``. Nothing is done for a client without consumers: a
producer connects when it sends.

Compatibility: ``MQClientInstance`` (4.9.8) sends heartbeats every 30 seconds only, so that consumers stand still that
long after a restart.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Collection

import attrs
import trio

from rocketpy.containment import Contained
from rocketpy.errors import RemotingError

RETRY_SECONDS = 0.5
"""Pause between two attempts to reach a broker."""
PAUSE_SECONDS = 1.0
"""Minimum time between two heartbeats to a broker whose connection ends again and again."""
ATTEMPT_SECONDS = 1.0
"""How long one attempt may take."""
LONGEST_BACKOFF_SECONDS = 30.0
"""Longest pause before another heartbeat to a broker that refuses; the regular ones come as often."""
GRACE_SECONDS = 3.0
"""How long the members that a broker names are not believed after it has come back: the others come back too."""
UNROUTED_SECONDS = 120.0
"""How long a broker is waited for that no route names any more. A nameserver drops the route to a broker that stops."""

_log = logging.getLogger("rocketpy.client")


@attrs.define(eq=False)
class _Backoff:
    """Before ``until`` a broker that refuses a pull gets no further heartbeat for it."""

    pause_s: float
    until: float


class Reconnects:
    """The brokers that are away, and when those that were are back.

    ``addresses`` returns the brokers that have to know consumers of this client. ``introduce`` connects to one and
    sends it a heartbeat, whatever the answer; RemotingError when there is none. ``refresh_routes`` has the routes
    looked up soon.
    """

    def __init__(
        self,
        *,
        addresses: Callable[[], Collection[str]],
        introduce: Callable[[str], Awaitable[None]],
        refresh_routes: Callable[[], None],
    ) -> None:
        self._addresses = addresses
        self._introduce = introduce
        self._refresh_routes = refresh_routes
        self._wanted: list[str] = []  # those whose task has still to be started
        self._is_wanted = trio.Event()
        self._back: dict[str, trio.Event] = {}  # by broker that has a task, or will have; set when it is back
        self._backoffs: dict[str, _Backoff] = {}
        self._back_at: dict[str, float] = {}
        self._any_back = trio.Event()

    async def run(self) -> None:
        """Bring brokers back until cancelled."""
        async with trio.open_nursery() as nursery:
            while True:
                await self._is_wanted.wait()
                self._is_wanted = trio.Event()
                for address in self._wanted:
                    nursery.start_soon(self._bring_back, address)
                self._wanted.clear()

    def connection_ended(self, address: str) -> None:
        """Note that a connection of this client has ended."""
        if address in self._addresses():
            self._want(address)

    async def introduced(self, address: str) -> bool:
        """Wait until a broker that does not know a group has got a heartbeat; False while there is none because of it.

        It ends also when the broker is given up.
        """
        if address not in self._back and not self._may_introduce(address):
            return False
        await self._want(address).wait()
        return True

    async def wait_back(self) -> None:
        """Return when the next broker is back."""
        await self._any_back.wait()

    async def notify(self, listener: Callable[[], None]) -> None:
        """Call a listener each time that a broker is back, until cancelled."""
        while True:
            await self.wait_back()
            listener()

    def is_settling(self, address: str) -> bool:
        """Return whether a broker is away or has just come back: members of its groups may be missing there."""
        back_at = self._back_at.get(address)
        return address in self._back or (back_at is not None and trio.current_time() < back_at + GRACE_SECONDS)

    # ---- private --------------------------------------------------------------------------------------------------

    def _want(self, address: str) -> trio.Event:
        if address not in self._back:
            self._back[address] = trio.Event()
            self._wanted.append(address)
            self._is_wanted.set()
        return self._back[address]

    def _may_introduce(self, address: str) -> bool:
        """Return whether the pause after the last refusal is over; the next one begins then."""
        now, pause_s = trio.current_time(), RETRY_SECONDS
        backoff = self._backoffs.get(address)
        if backoff is not None:
            if now < backoff.until:
                return False
            if now < backoff.until + LONGEST_BACKOFF_SECONDS:
                pause_s = min(2 * backoff.pause_s, LONGEST_BACKOFF_SECONDS)
        self._backoffs[address] = _Backoff(pause_s, now + pause_s)
        return True

    async def _bring_back(self, address: str) -> None:
        with Contained(_log, "reconnecting to %s", address):
            await self._try_again_and_again(address)
        self._forget_unrouted()
        self._back.pop(address).set()

    async def _try_again_and_again(self, address: str) -> None:
        give_up_at = trio.current_time() + UNROUTED_SECONDS
        await trio.sleep_until(self._back_at.get(address, -math.inf) + PAUSE_SECONDS)
        while addresses := self._addresses():
            is_routed = address in addresses
            if not is_routed and trio.current_time() >= give_up_at:
                return
            has_answered = await self._has_answered(address)
            if has_answered and is_routed:
                self._note_back(address)
                return
            if has_answered:
                self._refresh_routes()
            await trio.sleep(RETRY_SECONDS)

    async def _has_answered(self, address: str) -> bool:
        with trio.move_on_after(ATTEMPT_SECONDS):
            try:
                await self._introduce(address)
            except RemotingError:
                return False
            return True
        return False

    def _note_back(self, address: str) -> None:
        self._back_at[address] = trio.current_time()
        any_back, self._any_back = self._any_back, trio.Event()
        any_back.set()

    def _forget_unrouted(self) -> None:
        addresses = self._addresses()
        for table in (self._backoffs, self._back_at):
            for gone in table.keys() - set(addresses):
                del table[gone]
