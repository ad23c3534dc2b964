"""What the request codes of a whole broker need of an account, as its processors declare it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from unittest import mock

import trio

from rocketpy.broker.acl.needed_permissions import needs_by_code
from rocketpy.broker.acl.needs import Needs
from rocketpy.broker.hooks import NO_HOOKS
from rocketpy.broker.pull.long_polling import PullRequestHoldService
from rocketpy.broker.wiring import Wiring
from rocketpy.remoting.config import NettyServerConfig, TlsServerConfig
from rocketpy.remoting.tls.contexts import ServerTls
from rocketpy.runner import run_inline
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.tables_of_a_broker import context_of, make_tables
from tests.store.opened_store import config_for, opened
from tests.store.parts import Place


@cache
def declared() -> dict[int, object]:
    """Return what each code is registered with.

    The broker does not run, so settings, client and network may be anything. The store is a real one: compiled
    processors take no other. It is opened in a thread, because async tests call this as well.
    """
    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(trio.run, _declared).result()


async def _declared() -> dict[int, object]:
    tables = make_tables(Path("/nowhere"))
    place = Place(SimDisk(clock=tables.clock), "/store")
    async with opened(place, clock=tables.clock) as store:
        wiring = Wiring(
            context_of(tables, store, config_for(place)),
            server_config=NettyServerConfig(),
            live_settings=mock.Mock(),
            client=mock.Mock(),
            network=mock.Mock(),
            ha_listeners=(),
            hold_service=PullRequestHoldService(),
            stop=trio.Event(),
            tls=ServerTls(TlsServerConfig()),
            hooks=NO_HOOKS,
            run_blocking=run_inline,
        )
        return wiring.dispatcher().needs


def declared_needs() -> dict[int, Needs]:
    """Return the same as an account's checks use it."""
    return needs_by_code(declared())
