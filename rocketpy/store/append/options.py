"""What a store's settings ask of append, besides a record and a unit for each message."""

from __future__ import annotations

import attrs

from rocketpy.protocol.host import HOST_V4_SIZE
from rocketpy.store.append.transient_store_pool import TransientStorePool
from rocketpy.store.append.unit_extensions import UnitExtensions
from rocketpy.store.queue.multi_dispatch import LmqLimit, MultiDispatch


@attrs.frozen(kw_only=True)
class AppendOptions:
    """Options of one appender, fixed while the store is open. ``store_host`` is the address bytes with the port."""

    store_host: bytes
    message_size_max: int
    multi_dispatch: MultiDispatch | None = None
    lmq_limit: LmqLimit | None = None
    unit_extensions: UnitExtensions | None = None
    pool: TransientStorePool | None = None

    @property
    def has_fast_path(self) -> bool:
        """Whether a message may be plain: no longer addresses in it, no further units, and no extensions of units."""
        is_v4 = len(self.store_host) == HOST_V4_SIZE
        return is_v4 and self.multi_dispatch is None and self.unit_extensions is None
