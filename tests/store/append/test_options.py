"""Options of append: which of them send every message to the general path."""

from __future__ import annotations

import pytest

from rocketpy.store.append.options import AppendOptions
from rocketpy.store.append.transient_store_pool import TransientStorePool
from rocketpy.store.append.unit_extensions import UnitExtensions
from rocketpy.store.queue.multi_dispatch import LmqLimit, MultiDispatch
from tests.store.parts import STORE_HOST, STORE_HOST_V6, Parts, Place


@pytest.mark.parametrize("with_pool", [False, True])
def test_a_plain_store_has_a_fast_path(with_pool: bool) -> None:
    pool = TransientStorePool(size_bytes=4096, is_fail_fast=False) if with_pool else None
    limit = LmqLimit(topics={}, count_max=1)
    assert AppendOptions(store_host=STORE_HOST, message_size_max=1, pool=pool, lmq_limit=limit).has_fast_path


def test_whatever_adds_to_each_message_takes_the_fast_path_away(place: Place) -> None:
    queues = Parts(place).queues
    for more in (
        {"multi_dispatch": MultiDispatch(queues=queues)},
        {"unit_extensions": UnitExtensions(bit_map_of=None)},
        {"store_host": STORE_HOST_V6},
    ):
        given: dict[str, object] = {"store_host": STORE_HOST, "message_size_max": 1, **more}
        assert not AppendOptions(**given).has_fast_path, more  # type: ignore[arg-type]
