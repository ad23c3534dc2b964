"""What the request codes of a whole broker need of an account, as its processors declare it."""

from __future__ import annotations

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
from rocketpy.store.config import MessageStoreConfig
from tests.broker.tables_of_a_broker import context_of, make_tables


@cache
def declared() -> dict[int, object]:
    """Return what each code is registered with. Nothing runs, so store, settings and client may be anything."""
    wiring = Wiring(
        context_of(make_tables(Path("/nowhere")), mock.Mock(), MessageStoreConfig()),
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
