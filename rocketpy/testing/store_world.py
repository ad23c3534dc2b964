"""Deterministic simulation of a whole store: disk, time and crashes are plain calls.

The store is the real one, ``open_message_store`` with all its services, over a simulated disk, in virtual time. Between
two calls of :class:`StoreWorld` nothing moves, so a state machine can say in its rules what happens when; and what the
store says in return comes as values of the reference model: :class:`~rocketpy.testing.store_model.Sent` for a message
that was accepted, :class:`~rocketpy.testing.store_model.Found` for what an opened store has.

::

    with StoreWorld(config) as world:
        world.open()                                   a life begins: recovery, and everything read back
        world.put("T", 0, b"body"); world.end_burst()
        world.disk.die_at_call(7)                      the process will die in its seventh change of the disk
        world.pass_time(60_000)                        raises LifeEnded if it did
        world.lose_power(choose); world.open()         and what is there now?

A life ends by :meth:`StoreWorld.stop` in order, by :meth:`StoreWorld.kill` or :meth:`StoreWorld.lose_power`, or with
:class:`LifeEnded` in whatever call its death was arranged for. A store that fails ends its process, as in the broker.

Only one world of a thread may be open at a time, and none inside a Trio run: see ``stepped_run``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Self, TypeAlias, TypeVar

import attrs
import trio

from rocketpy.clock import ManualClock
from rocketpy.errors import StoreError, single_failures
from rocketpy.protocol.java_hash import tags_code as hash_of_tags
from rocketpy.protocol.properties import PROPERTY_DELAY_TIME_LEVEL, PROPERTY_KEYS, PROPERTY_TAGS, encode_properties
from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.runner import RunBlocking
from rocketpy.store.append.batch import MessageBatch
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.store.results import PutMessageStatus
from rocketpy.testing.sim.choices import Choose
from rocketpy.testing.sim.disk import ProcessDied, SimDisk
from rocketpy.testing.sim.stepped_run import SteppedRun
from rocketpy.testing.store_contents import delay_ms, read_contents, tags_code_of
from rocketpy.testing.store_model import Found, Sent

T = TypeVar("T")

OpenLife: TypeAlias = Callable[[RunBlocking], AbstractAsyncContextManager[MessageStore]]
"""Opens a store; blocking calls go through the runner that is passed in, because they die with the life."""

BORN_HOST = bytes((10, 0, 0, 1)) + (50_000).to_bytes(4, "big")
STORE_HOST = bytes((10, 0, 0, 2)) + (10_911).to_bytes(4, "big")

_STOP_SECONDS_MAX = 600.0
_ROUNDING_MS = 1e-6


class LifeEnded(Exception):
    """The store has ended in the middle of a call: the process died, or it failed. Open it again.

    ``cause`` is :class:`~rocketpy.testing.sim.disk.ProcessDied` where that was arranged, or the StoreError.
    """

    def __init__(self, cause: ProcessDied | StoreError) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.cause = cause


class StoreWorld:
    """One store directory, the disk it is on, and one life after the other in it."""

    def __init__(
        self,
        config: MessageStoreConfig,
        *,
        disk: SimDisk | None = None,
        clock: ManualClock | None = None,
        open_life: OpenLife | None = None,
    ) -> None:
        """Begin with no life. ``open_life`` opens the store with more around it, which then lives and dies with it."""
        self.config = config
        """How the next life is opened; it may be changed between lives."""
        self.disk = disk if disk is not None else SimDisk()
        self.clock = clock if clock is not None else ManualClock()
        """Wall time: it moves with :meth:`pass_time`, and may be set at will."""
        self.disk_delay_ms = 0.0
        """How long a call in a worker thread takes before it is done, and again until that is noticed."""
        self.durable_end = 0
        """The end of the log that this life has called durable: in an acknowledgement, or in its own figures."""
        self._open_life = open_life or self._open_store
        self._run: SteppedRun | None = None
        self._store: MessageStore | None = None
        self._wake = trio.lowlevel.ParkingLot()
        self._request: Callable[[MessageStore], Awaitable[None]] | None = None
        self._is_reading = False
        self._is_killed = False
        self._owed_ms = 0.0  # parts of a millisecond that have passed and that the clock does not show

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the current life, whatever happened."""
        self.kill()

    # ---- a life begins and ends -----------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether a life is going on."""
        return self._run is not None

    @property
    def store(self) -> MessageStore:
        """The open store, for what can be asked without waiting."""
        assert self._store is not None, "the store is open"
        return self._store

    def open(self) -> Found:
        """Begin a life; return what recovery found."""
        abort_file_was_there = self.disk.exists(f"{self.config.root}/abort")
        self.begin()
        queues, log = self.contents()
        return Found(queues, log, abort_file_was_there, self.durable_end)

    def begin(self) -> None:
        """Begin a life, without looking at what is there."""
        assert self._run is None, "the store is closed"
        self.durable_end = 0
        self._is_killed = False
        self._request = None
        self._run = SteppedRun(self._live, time_passes=self._time_passes)
        self._go(lambda run: run.run_until(lambda: self._store is not None, _STOP_SECONDS_MAX))

    def stop(self) -> bool:
        """End the life in order; return whether the abort file is gone, as it is after a clean stop."""
        self._request = _stop
        self._wake.unpark_all()
        self._end()
        return not self.disk.exists(f"{self.config.root}/abort")

    def kill(self) -> None:
        """End the process, between two calls: nothing more reaches the page cache, and what is there stays."""
        if self._run is None:
            self.disk.kill_process()
            return
        # What its tasks still do while they end finds dead files, and may make or change no others.
        self.disk.kill_process()
        self.disk.die_at_call(1)
        self._fail(_Killed())

    def lose_power(self, choose: Choose) -> None:
        """End the machine; ``choose`` says what the disk has of what was not synced."""
        self.kill()
        self.disk.lose_power(choose)

    def remove(self, path: str) -> None:
        """Remove a file, or a directory with all that is in itwithout a sync, as a person would."""
        if self.disk.exists(path):
            self._remove_tree(path)

    # ---- what a life does -----------------------------------------------------------------------------------------

    def put(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        *,
        keys: Sequence[str] = (),
        tags: str = "",
        flag: int = 0,
        delay_level: int = 0,
    ) -> Sent | PutMessageStatus:
        """Send a message; return it with its offsets, or the status that refused it. The burst stays open.

        With a delay level it goes where delayed messages wait, and its unit holds the time of delivery.
        """
        topic = SCHEDULE_TOPIC if delay_level else topic
        properties = _properties(keys, tags, delay_level)
        now_ms = self.clock.timestamp_ms()
        tags_code = now_ms + delay_ms(delay_level) if delay_level else hash_of_tags(tags or None)
        with self.failing():
            status, physical_offset, queue_offset = self.store.put(
                topic, queue_id, body, properties, tags_code, _encoded(keys), flag, 0, now_ms, BORN_HOST, 0
            )
        if status is not PutMessageStatus.PUT_OK:
            return status
        known_tags_code = delay_ms(delay_level) if delay_level else tags_code
        return Sent(topic, queue_id, queue_offset, physical_offset, body, properties, flag, known_tags_code)

    def put_batch(
        self,
        topic: str,
        queue_id: int,
        bodies: Sequence[bytes],
        *,
        keys: Sequence[str] = (),
        tags: str = "",
        more: Mapping[str, str] | None = None,
    ) -> list[Sent] | PutMessageStatus:
        """Send messages in one batch, each with the same properties; return them, or why all were refused.

        ``more`` are properties that the store has no reason to look at.
        """
        properties = _properties(keys, tags, 0, more)
        tags_code = hash_of_tags(tags or None)
        records = [(0, body, properties, tags_code, _encoded(keys)) for body in bodies]
        with self.failing():
            status, offsets, queue_offset = self.store.put_batch(
                topic, queue_id, MessageBatch.of(records), 0, self.clock.timestamp_ms(), BORN_HOST, 0
            )
        if status is not PutMessageStatus.PUT_OK:
            return status
        return [
            Sent(topic, queue_id, at, physical_offset, body, properties, 0, tags_code)
            for at, (physical_offset, body) in enumerate(zip(offsets, bodies, strict=True), queue_offset)
        ]

    def end_burst(self) -> None:
        """Write what was put. Under SYNC_FLUSH its sender waits from here on: :attr:`durable_end` is what he knows."""
        store = self.store
        with self.failing():
            store.end_burst()
        if self.config.is_sync_flush:
            store.wait_stored(store.wrote_offset, _Sender(self, store.wrote_offset))

    @property
    def written_end(self) -> int:
        """The end of what is written, units too; the rest is in the burst, or in a transient store pool."""
        statistics = self.store.statistics()
        return min(statistics.commit_log_max_offset, self.store.wrote_offset - statistics.uncommitted_bytes)

    def pass_time(self, milliseconds: float) -> None:
        """Let the services work. End the burst first: no burst lasts, in the broker either."""
        self._go(lambda run: run.pass_time(milliseconds / 1000))

    def flush(self) -> bool:
        """Let time pass until everything that was written is durable; False if that takes longer than it may."""
        end = self.store.max_physical_offset
        seconds_max = 2 * self.config.flush_commit_log_thorough_interval / 1000 + 1
        self._go(lambda run: run.run_until(lambda: self._known_durable() >= end, seconds_max))
        return self.durable_end >= end

    @contextmanager
    def failing(self) -> Iterator[None]:
        """Around plain calls of :attr:`store`: one that fails ends the process, as in the broker, with LifeEnded."""
        try:
            yield
        except (ProcessDied, StoreError) as error:
            self._known_durable()
            self._fail(error)
            raise LifeEnded(error) from error

    def ask(self, question: Callable[[MessageStore], Awaitable[T]]) -> T:
        """Return what the open store answers to a call that may wait for the disk."""
        answers: list[T] = []

        async def request(store: MessageStore) -> None:
            answers.append(await question(store))

        self._request = request
        self._wake.unpark_all()
        self._is_reading = True
        try:
            self._go(lambda run: run.run_until(lambda: bool(answers), _STOP_SECONDS_MAX))
        finally:
            self._is_reading = False
        assert answers, f"no answer in {_STOP_SECONDS_MAX} s"
        return answers[0]

    def contents(self) -> tuple[dict[tuple[str, int], list[Sent]], list[Sent]]:
        """Return every queue, and the log, as the open store shows them."""
        return self.ask(lambda store: read_contents(store, self._log_file_offsets()))

    # ---- private --------------------------------------------------------------------------------------------------

    def _open_store(self, run_blocking: RunBlocking) -> AbstractAsyncContextManager[MessageStore]:
        return open_message_store(
            self.config,
            disk=self.disk,
            clock=self.clock,
            run_blocking=run_blocking,
            store_host=STORE_HOST,
            tags_code=tags_code_of,
            memory_bytes=1 << 40,
        )

    async def _live(self) -> None:
        async with self._open_life(self._run_blocking) as store:
            if store.was_cut:
                await store.tables_were_cut()  # there are none
            self._store = store
            while self._request is not _stop:
                if self._request is None:
                    await self._wake.park()
                else:
                    request, self._request = self._request, None
                    await request(store)

    async def _run_blocking(self, function: Callable[..., T], /, *arguments: object) -> T:
        if not self._is_reading:
            await self._worker_is_at_it()
            if self._is_killed:
                raise _Killed
        result = function(*arguments)
        if not self._is_reading and self.disk_delay_ms:
            await self._worker_is_at_it()
        return result

    async def _worker_is_at_it(self) -> None:
        await trio.lowlevel.checkpoint()
        if self.disk_delay_ms:
            with trio.CancelScope(shield=True):
                await trio.sleep(self.disk_delay_ms / 1000)

    def _remove_tree(self, path: str) -> None:
        if not self.disk.is_directory(path):
            self.disk.unlink(path)
            return
        for name in self.disk.list_directory(path):
            self._remove_tree(f"{path}/{name}")
        self.disk.remove_directory(path)

    def _log_file_offsets(self) -> list[int]:
        return [int(name) for name in self.disk.list_directory(self.config.commit_log_path) if name.isdigit()]

    def _time_passes(self, seconds: float) -> None:
        self._owed_ms += seconds * 1000
        whole_ms = int(self._owed_ms + _ROUNDING_MS)
        self._owed_ms -= whole_ms
        self.clock.advance_ms(whole_ms)

    def _known_durable(self) -> int:
        if self._store is not None:
            self.durable_end = max(self.durable_end, self._store.statistics().commit_log_flushed_offset)
        return self.durable_end

    def _go(self, step: Callable[[SteppedRun], object]) -> None:
        assert self._run is not None, "the store is open"
        step(self._run)
        self._known_durable()
        if self._run.is_over:
            self._end()

    def _fail(self, error: BaseException) -> None:
        async def request(store: MessageStore) -> None:
            raise error

        self._request = request
        self._wake.unpark_all()
        with suppress(LifeEnded):
            self._end()

    def _end(self) -> None:
        """Run the life to its end; LifeEnded if that is not a clean shutdown."""
        run = self._run
        assert run is not None, "the store is open"
        run.run_until(lambda: run.is_over, _STOP_SECONDS_MAX)
        assert run.is_over, f"the store has not ended in {_STOP_SECONDS_MAX} s"
        self._run = self._store = None
        try:
            run.result()
        except BaseException as error:
            leaves = list(single_failures(error))
            causes: list[ProcessDied | StoreError] = [each for each in leaves if isinstance(each, ProcessDied)]
            causes += [each for each in leaves if isinstance(each, StoreError)]
            if len(causes) + sum(isinstance(each, _Killed) for each in leaves) < len(leaves):
                raise
            if causes:
                raise LifeEnded(causes[0]) from error
        finally:
            self.disk.kill_process()


class _Killed(Exception):
    """Ends a life without any shutdown."""


@attrs.frozen
class _Sender:
    """A sender that waits for the disk."""

    _world: StoreWorld
    _physical_end: int

    def __call__(self, status: PutMessageStatus) -> None:
        if status is PutMessageStatus.PUT_OK:
            self._world.durable_end = max(self._world.durable_end, self._physical_end)


async def _stop(store: MessageStore) -> None:
    raise AssertionError("this request is only a sign")


def _encoded(keys: Sequence[str]) -> tuple[bytes, ...]:
    return tuple(key.encode() for key in keys)


def _properties(keys: Sequence[str], tags: str, delay_level: int, more: Mapping[str, str] | None = None) -> bytes:
    properties = {PROPERTY_KEYS: " ".join(keys), PROPERTY_TAGS: tags, **(more or {})}
    if delay_level:
        properties[PROPERTY_DELAY_TIME_LEVEL] = str(delay_level)
    return encode_properties({name: value for name, value in properties.items() if value}).encode()
