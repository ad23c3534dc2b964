"""One life of a store, watched: what is on the disk, and what is promised, at the moment of each of its disk calls.

It is the real store, ``open_message_store`` with all services, on a simulated disk. Every change of the disk is
announced, and :class:`Life` takes note of the disk as it is at that moment and of what the reference model promises
then: one run shows what a death in any of its disk calls would leave.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TypeVar

import attrs

from rocketpy.clock import ManualClock
from rocketpy.protocol.properties import PROPERTY_INNER_MULTI_DISPATCH, PROPERTY_INNER_MULTI_QUEUE_OFFSET
from rocketpy.store.config import FlushDiskType, MessageStoreConfig
from rocketpy.testing.sim.disk import SimDisk
from rocketpy.testing.sim.disk_state import DiskState
from rocketpy.testing.store_model import InvariantBroken, Sent, StoreModel
from rocketpy.testing.store_world import LifeEnded, StoreWorld
from tests.task_order import TRIO_RANDOM

T = TypeVar("T")

ROOT = "/store"
ABORT_FILE = f"{ROOT}/abort"
LOG_FILE_SIZE = 8192
FLUSH_INTERVAL_MS = 1000
SMALL = 150  # the size of a body
KEY = "key"
"""The key of every message."""


@attrs.frozen(slots=False)
class Setup:
    """How the store is set, and what may happen to it."""

    name: str
    alphabet: tuple[str, ...] = attrs.field(default=(), repr=False)
    flush: FlushDiskType = attrs.field(default=FlushDiskType.SYNC_FLUSH, repr=str)
    has_index: bool = False
    index_keys: int = 3
    """So many keys fill an index file."""

    has_extensions: bool = False
    has_pool: bool = False
    """Whether messages wait in the transient store pool, so that only what is durable is promised."""

    sector_size: int = 512

    @cached_property
    def config(self) -> MessageStoreConfig:
        """The store's configuration: everything small, and every flush a thorough one."""
        return MessageStoreConfig(
            store_path_root_dir=ROOT,
            flush_disk_type=self.flush,
            mapped_file_size_commit_log=LOG_FILE_SIZE,
            mapped_file_size_consume_queue=100,  # five units
            message_index_enable=self.has_index,
            enable_consume_queue_ext=self.has_extensions,
            mapped_file_size_consume_queue_ext=4096,
            transient_store_pool_enable=self.has_pool,
            max_hash_slot_num=4,
            max_index_num=self.index_keys + 1,
            flush_interval_commit_log=FLUSH_INTERVAL_MS,
            flush_commit_log_thorough_interval=FLUSH_INTERVAL_MS,
            flush_interval_consume_queue=FLUSH_INTERVAL_MS,
            flush_consume_queue_thorough_interval=FLUSH_INTERVAL_MS,
        )


@attrs.frozen(eq=False)
class Moment:
    """The disk and the promises at the moment of one disk call, just before it changes something."""

    call: int
    """Its number in this life, 0 for the first; the last moment of an operation is that of a call that never came."""

    operations: tuple[str, ...]
    """What was done in this life until then; the last one is under way."""

    what: str
    """Method and path of the call."""

    disk: DiskState
    model: StoreModel


class World(StoreWorld):
    """A world in which something can happen while a worker thread is at the disk."""

    meanwhile: Callable[[], None] | None = None
    """Done once, when the next sync in a worker thread is over and the store does not know it yet."""

    _is_inside = False  # something happens between two steps of the store, and not between two calls of this world

    async def _run_blocking(self, function: Callable[..., T], /, *arguments: object) -> T:
        sync_count = self.disk.calls["sync"]
        result = await super()._run_blocking(function, *arguments)
        if self.meanwhile is not None and self.disk.calls["sync"] > sync_count:
            meanwhile, self.meanwhile = self.meanwhile, None
            self._is_inside = True
            try:
                meanwhile()
            finally:
                self._is_inside = False
        return result

    @contextmanager
    def failing(self) -> Iterator[None]:
        """A call that fails in the middle of the run ends it by its exception."""
        if self._is_inside:
            yield
        else:
            with super().failing():
                yield


class Life:
    """One life of a store, watched."""

    def __init__(self, setup: Setup, disk: DiskState | None, model: StoreModel, *, number: int = 0) -> None:
        """Prepare a life on a disk; ``number`` says which it is in this disk's history, 0 for the first one."""
        sim_disk = SimDisk(state=disk, choose=lambda count: 0, sector_size=setup.sector_size)
        self.world = World(setup.config, disk=sim_disk, clock=ManualClock())
        self.model = copied(model)
        self.moments: list[Moment] = []
        self.error: Exception | None = None
        """What went wrong without any death; the moments end there."""

        self._is_watched = False
        self.has_index = setup.has_index
        self._has_pool = setup.has_pool
        self._number = number
        self._change_count = 0
        self.operations: tuple[str, ...] = ()
        """What was done until now; the last one is under way."""

        self._message_count = 0
        self._promise: StoreModel | None = None  # a copy of the model, as long as it does not change

    def run(
        self,
        operations: Sequence[str],
        functions: Mapping[str, Callable[[Life], None]],
        *,
        watched_from: int = 0,
    ) -> None:
        """Open the store and do something with it; take note of moments from that operation on, 0 for the opening.

        ``functions`` has the function of each operation by its name, that of "open" included.

        The life ends with a kill, unless the store ends because its disk fails, or is wrong.
        """
        self.world.disk.before_change = self._before_change
        TRIO_RANDOM.seed(0)  # the same disk calls every time; other orders are for the state machines to find out
        try:
            for index, operation in enumerate(("open", *operations)):
                self.operations += (operation,)
                self._is_watched = index >= watched_from
                functions[operation](self)
                self._note_what_is_durable()
                self._take_note("nothing more")
        except LifeEnded as ended:
            self._take_note("nothing: the store has stopped itself")
            if "simulated" not in str(ended.cause):
                self.error = ended
        except (InvariantBroken, AssertionError) as error:
            self.error = error
        finally:
            self.world.disk.before_change = None
            self.world.kill()

    # ---- for the operations -----------------------------------------------------------------------------------------

    def tell(self, event: Callable[..., None], *arguments: object) -> None:
        """Tell the model what has happened."""
        event(*arguments)
        self._promise = None

    def put(self, size: int) -> None:
        """Send one message; the burst goes on."""
        # Another life sends the same sizes to the same offsets with other tags: so a unit that it left is seen.
        sent = self.world.put("A", 0, self._body(size), keys=[KEY], tags=f"t{self._number}")
        assert isinstance(sent, Sent), sent
        self.tell(self.model.sent, [sent])

    def put_batch(self, count: int) -> None:
        """Send some messages at once; the burst goes on."""
        bodies = [self._body(SMALL) for _ in range(count)]
        sent = self.world.put_batch("B", 0, bodies, keys=[KEY], tags=f"t{self._number}")
        assert isinstance(sent, list), sent
        self.tell(self.model.sent, sent)

    def put_naming(self, topic: str) -> None:
        """Send a message, in a batch, which the store dispatches to no queue that it names; the burst goes on."""
        more = {PROPERTY_INNER_MULTI_DISPATCH: topic, PROPERTY_INNER_MULTI_QUEUE_OFFSET: "0"}
        sent = self.world.put_batch("B", 0, [self._body(SMALL)], keys=[KEY], tags=f"t{self._number}", more=more)
        assert isinstance(sent, list), sent
        self.tell(self.model.sent, sent)

    def end_burst(self, *, waits: bool) -> None:
        """End the burst; under SYNC_FLUSH the sender may wait for the disk or not."""
        if waits:
            self.world.end_burst()
        else:
            self.world.store.end_burst()
        if not self._has_pool:
            self.tell(self.model.written)

    def _body(self, size: int) -> bytes:
        self._message_count += 1
        return (b"%d.%d " % (self._number, self._message_count)).ljust(size, b".")

    # ---- what is seen -----------------------------------------------------------------------------------------------

    def _before_change(self, method: str, path: str) -> None:
        self._note_what_is_durable()
        self._take_note(f"{method} {path}")
        self._change_count += 1
        if (method, path) == ("unlink", ABORT_FILE):
            # From here on the file may be missing; so everything must be durable before it goes.
            self.tell(self.model.written)
            self.tell(self.model.stopped)

    def _note_what_is_durable(self) -> None:
        if self.world.durable_end:
            self.tell(self.model.synced, self.world.durable_end)
            self.model.written_count = max(self.model.written_count, self.model.synced_count)

    def _take_note(self, what: str) -> None:
        if self._is_watched:
            if self._promise is None:
                self._promise = copied(self.model)
            disk = self.world.disk.state()
            self.moments.append(Moment(self._change_count, self.operations, what, disk, self._promise))


def copied(model: StoreModel) -> StoreModel:
    """Return a model that goes its own way from here."""
    other = copy.copy(model)
    other.log, other.cut = list(model.log), set(model.cut)
    return other
