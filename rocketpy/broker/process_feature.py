"""The process feature: what belongs to the broker as a process and to no capability.

Composition only; no logic.
"""

from __future__ import annotations

from functools import partial

from rocketpy import BUILD
from rocketpy.broker.context import BrokerContext
from rocketpy.broker.feature import Feature
from rocketpy.broker.logs import LEVEL_KEYS, apply_log_levels
from rocketpy.remoting.tls.contexts import ServerTls
from rocketpy.settings import setting_rows
from rocketpy.store.config import MessageStoreConfig

LIVE_STORE_KEYS = tuple(row.key for row in setting_rows(MessageStoreConfig) if row.live)


class ProcessFeature(Feature):
    """The service that reloads certificates, the live settings of the store and of the logs, and which build runs."""

    def __init__(self, context: BrokerContext, *, tls: ServerTls) -> None:
        self.services = (tls,)
        self.settings = {
            LIVE_STORE_KEYS: context.store.settings_changed,
            LEVEL_KEYS: partial(apply_log_levels, context.config),
        }

    def figures(self) -> dict[str, str]:
        """Return which build runs: compiled modules, or plain Python and why."""
        return {"build": str(BUILD)}
