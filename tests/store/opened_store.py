"""An open store with small files, its sends and reads, for tests of the store as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs
import pytest

from rocketpy.clock import ManualClock
from rocketpy.protocol.java_hash import tags_code
from rocketpy.protocol.stored_message import decode_messages
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.message_store import MessageStore
from rocketpy.store.opening import open_message_store
from rocketpy.store.recovery.recovery import RecoveryReport
from rocketpy.store.results import GetMessageStatus, PutMessageStatus
from rocketpy.store.status import NO_REPORTS, StoreReports
from rocketpy.testing.sim.disk import SimDisk
from tests.store.parts import BORN_HOST, STORE_HOST, Place
from tests.turns import run_in_turn

Reports = list[RecoveryReport]
_SETTINGS = attrs.fields_dict(MessageStoreConfig).keys()


def config_for(place: Place, **changes: object) -> MessageStoreConfig:
    config = MessageStoreConfig(
        store_path_root_dir=place.root,
        mapped_file_size_commit_log=1 << 16,
        mapped_file_size_consume_queue=6000,
        max_hash_slot_num=100,
        max_index_num=1000,
        max_message_size=8192,
    )
    return attrs.evolve(config, **changes)  # type: ignore[arg-type]


@asynccontextmanager
async def opened(
    place: Place,
    *,
    clock: ManualClock | None = None,
    reports: Reports | StoreReports = NO_REPORTS,
    config: MessageStoreConfig | None = None,
    **more: object,
) -> AsyncIterator[MessageStore]:
    """Open a store; ``more`` are its settings, and what :func:`open_message_store` is given besides them."""
    given: dict[str, object] = {
        "disk": place.disk,
        "clock": clock or ManualClock(),
        "run_blocking": run_in_turn,
        "store_host": STORE_HOST,
        "reports": StoreReports(recovered=reports.append) if isinstance(reports, list) else reports,
        "memory_bytes": 1 << 40,
        **{name: value for name, value in more.items() if name not in _SETTINGS},
    }
    config = config or config_for(place, **{name: value for name, value in more.items() if name in _SETTINGS})
    async with open_message_store(config, **given) as store:  # type: ignore[arg-type]
        yield store


class Killed(Exception):
    """Ends a store without a clean shutdown."""


@asynccontextmanager
async def killed(place: Place, **more: object) -> AsyncIterator[MessageStore]:
    """Open a store as :func:`opened` does, and kill it in the end: what was not written is gone."""
    with pytest.RaisesGroup(Killed, allow_unwrapped=True, flatten_subgroups=True):
        async with opened(place, **more) as store:  # type: ignore[arg-type]
            yield store
            raise Killed
    if isinstance(place.disk, SimDisk):
        place.disk.kill_process()


async def kill(scope: AbstractAsyncContextManager[MessageStore]) -> None:
    """End a scope that was entered by hand as a kill does."""
    killed = Killed()
    with pytest.raises(BaseException) as raised:
        await scope.__aexit__(Killed, killed, None)
    assert raised.group_contains(Killed) if isinstance(raised.value, BaseExceptionGroup) else raised.value is killed


def send(store: MessageStore, body: bytes, topic: str = "T", queue_id: int = 0, key: bytes = b"") -> tuple[int, int]:
    properties = b"TAGS\x01A" + (b"\x02UNIQ_KEY\x01" + key if key else b"")
    keys = (key,) if key else ()
    status, physical_offset, queue_offset = store.put(
        topic, queue_id, body, properties, tags_code("A"), keys, 0, 0, 1, BORN_HOST, 0
    )
    assert status is PutMessageStatus.PUT_OK, store.writable_or_why()
    return physical_offset, queue_offset


def bodies(store: MessageStore, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    found: list[bytes] = []
    while True:
        result = store.get_message_nowait(topic, queue_id, len(found), 32)
        assert result is not None
        if result.status is not GetMessageStatus.FOUND:
            return found
        found += [each.body for each in decode_messages(result.body)]
