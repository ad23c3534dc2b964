"""Settings of a nameserver, and the file to which changes by request are written.

:class:`NamesrvConfiguration` answers UPDATE_NAMESRV_CONFIG and GET_NAMESRV_CONFIG. Rule: a change is accepted whole or
refused whole, and an accepted one is in the file before it is answered. It knows no request.
"""

from __future__ import annotations

import functools
import os.path
from collections.abc import Callable, Mapping

import attrs

from rocketpy.live_settings import ChangeableSettings
from rocketpy.remoting.config import NettyServerConfig
from rocketpy.remoting.limits import allow_list
from rocketpy.runner import RunBlocking
from rocketpy.settings import Between, OneOf, setting, settings_values, with_values_in_force
from rocketpy.store.disk.interface import Disk
from rocketpy.store.disk.text_files import rewrite_properties_file

NAMESRV_PORT = 9876

BLACK_LIST_ALWAYS = frozenset({"configBlackList", "configStorePath", "kvConfigPath", "rocketmqHome"})


@attrs.frozen(kw_only=True)
class NamesrvConfig:
    """The keys of RocketMQ's NamesrvConfig, then our own. Paths may begin with ``~``."""

    rocketmq_home: str | None = setting(None, ignored="nothing is loaded from RocketMQ's home", fixed=True)
    kv_config_path: str = setting("~/namesrv/kvConfig.json", expected="a file name", fixed=True)
    config_store_path: str = setting("~/namesrv/namesrv.properties", expected="a file name", fixed=True)
    product_env_name: str = setting("center", ignored="topics of other environments are not looked up")
    cluster_test: bool = setting(False, live=True)
    order_message_enable: bool = setting(False, important=True, live=True)
    log_directory: str = setting("", expected="a directory; empty: standard error", fixed=True)
    log_level: str = setting("INFO", validator=OneOf("DEBUG", "INFO", "WARN", "ERROR", "OFF"), live=True)
    config_black_list: str = setting(
        "configBlackList;configStorePath;kvConfigPath", expected="keys separated by ;", fixed=True
    )
    route_change_allow_list: str = setting(
        "",
        expected=allow_list.EXPECTED,
        fixed=True,
        validator=allow_list.are_networks,
    )
    broker_takeover_enable: bool = setting(True, fixed=True)
    brokers_max: int = setting(1_000, unit="addresses", validator=Between(1, 1_000_000))
    brokers_per_connection_max: int = setting(64, unit="addresses", validator=Between(1, 1_000_000))
    topics_max: int = setting(200_000, unit="topics", validator=Between(1, 100_000_000))
    topics_per_broker_max: int = setting(100_000, unit="topics", validator=Between(1, 100_000_000))
    routes_max: int = setting(2_000_000, unit="topics", validator=Between(1, 1_000_000_000))
    kv_config_entries_max: int = setting(10_000, unit="entries", validator=Between(0, 1_000_000))
    kv_config_bytes_max: int = setting(1_048_576, unit="bytes", validator=Between(0, 67_108_864))

    @property
    def kv_config_file(self) -> str:
        """Path of the KV table, with ``~`` resolved."""
        return os.path.expanduser(self.kv_config_path)

    @property
    def config_store_file(self) -> str:
        """Path to which changed settings are written, with ``~`` resolved."""
        return os.path.expanduser(self.config_store_path)

    @property
    def black_list(self) -> frozenset[str]:
        """The keys that no request may change."""
        return BLACK_LIST_ALWAYS.union(filter(None, self.config_black_list.split(";")))


def default_server_config() -> NettyServerConfig:
    """Return the remoting settings with a nameserver's own default port."""
    return NettyServerConfig(listen_port=NAMESRV_PORT)


class NamesrvConfiguration:
    """The settings as they are now, and how to change them while the nameserver runs.

    Compatibility: Java answers SUCCESS to a value that does not parse and goes on with the old one, and to a key that
    it does not know; here both are refused.
    A setting that is read only at start is written to the file and counts from the next start, as in Java,
    which shows the new value only; here the value in force has a key of its own until then;
    paths and addresses (``listenPort``, ``bindAddress``) no request changes. Comments in the file survive.
    """

    def __init__(
        self,
        *,
        namesrv: NamesrvConfig,
        server: NettyServerConfig,
        unknown: Mapping[str, str],
        disk: Disk,
        run_blocking: RunBlocking,
        log_level_changed: Callable[[NamesrvConfig], None],
    ) -> None:
        self._namesrv = namesrv
        self._settings = ChangeableSettings((namesrv, server), unknown=unknown, write=self._write)
        self._disk = disk
        self._run_blocking = run_blocking
        self._log_level_changed = log_level_changed

    @property
    def namesrv(self) -> NamesrvConfig:
        """The nameserver's settings now."""
        return self._namesrv

    def values(self) -> dict[str, str]:
        """Return every key with the text that was accepted, those without meaning here included.

        A value that counts from the next start is followed by the one in force, as ``key.inForce``.
        """
        settings = self._settings
        accepted = {**settings.unknown, **settings_values(*settings.next_values)}
        return with_values_in_force(accepted, settings.values_in_force())

    def refused_key(self, text: str) -> str | None:
        """Return a key of properties text that no request may change, if there is one: by the black list or `fixed`."""
        black_list, settings = self._namesrv.black_list, self._settings
        for key, value in settings.changes_in(text).items():
            if key in black_list or settings.changes_fixed(key, value):
                return key
        return None

    async def update(self, text: str) -> list[str]:
        """Apply properties text and write the file; return the keys that count from the next start only.

        Raises :class:`~rocketpy.errors.SettingsError` naming the key for a wrong value or an unknown key,
        ``StoreError`` if the file cannot be written; nothing has changed then. A value in force that is sent back as
        :meth:`values` shows it changes nothing.
        """
        changes = self._settings.changes_in(text)
        for key in changes:
            self._settings.check_known(key)
        change = await self._settings.apply(changes)
        if "logLevel" in change.live:
            self._log_level_changed(self._namesrv)
        return list(change.from_next_start)

    async def _write(self, changes: Mapping[str, str], accepted: Mapping[str, str]) -> None:
        """Change these keys in the file; a new file has every setting, as in Java."""
        rewrite = functools.partial(rewrite_properties_file, initial=accepted)
        await self._run_blocking(rewrite, self._disk, self._namesrv.config_store_file, changes)
