"""A broker's tables over a directory, with clocks that stand still."""

from __future__ import annotations

from pathlib import Path
from random import Random

import attrs

from rocketpy.broker import tables
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.context import BrokerContext
from rocketpy.clock import ManualClock
from rocketpy.protocol.host import pack_host
from rocketpy.runner import RunBlocking, run_inline
from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.message_store import MessageStore

STORE_HOST = pack_host("127.0.0.1", 10_911)
GOLDEN_CONFIG = Path(__file__).parents[1] / "golden" / "config"


class Time:
    """Seconds that never step back, and advance only on request."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@attrs.frozen(kw_only=True)
class Tables(tables.Tables):
    """Every table of one broker, and what stands still beside them."""

    config: BrokerConfig
    clock: ManualClock
    time: Time


def make_tables(
    directory: Path, *, enable_lmq: bool = False, run_blocking: RunBlocking = run_inline, **settings: object
) -> Tables:
    names = {"broker_name": "broker-a", "broker_ip1": "127.0.0.1", "broker_ip2": "127.0.0.1"}
    config = BrokerConfig(**{**names, **settings})  # type: ignore[arg-type]
    clock, time = ManualClock(), Time()
    made = tables.make_tables(
        config,
        MessageStoreConfig(enable_lmq=enable_lmq),
        directory=str(directory),
        accounts=None,
        disk=OsDisk(),
        clock=clock,
        current_time=time,
        run_blocking=run_blocking,
    )
    return Tables(config=config, clock=clock, time=time, **attrs.asdict(made, recurse=False))


def context_of(tables: Tables, store: MessageStore, store_config: MessageStoreConfig) -> BrokerContext:
    """Return the context of a broker with these tables; its random numbers are the same in every run."""
    return BrokerContext(
        config=tables.config,
        store_config=store_config,
        tables=tables,
        store=store,
        port=10_911,
        ha_port=10_912,
        store_host=STORE_HOST,
        clock=tables.clock,
        randomness=Random(0),
    )
