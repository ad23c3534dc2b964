"""Logging of a broker: a file for each concern in ``logDirectory``, or standard error without one.

Names, sizes and numbers of the files are those of RocketMQ's ``logback_broker.xml``. A line that belongs to a concern
is written to its logger (``rocketpy.broker.transaction``, ...), whatever module it is in.

Compatibility: Java writes to ``~/logs/rocketmqlogs`` under any setting. Here no file appears unless one is configured:
without ``logDirectory`` everything goes to standard error, where a service manager finds it, but for the lines
that come every second or minute; those need a directory, or a level of their own.
"""

from __future__ import annotations

import os

from rocketpy.broker.config import BrokerConfig
from rocketpy.errors import StartError
from rocketpy.log_files import Concern, log_to_standard_error, open_log_files, set_levels

_MB = 1 << 20

CONCERNS = (
    Concern("broker", "rocketpy.broker", "broker.log", 128 * _MB, 20),
    Concern("protection", "rocketpy.broker.protection", "protection.log", 100 * _MB, 10),
    Concern("watermark", "rocketpy.broker.watermark", "watermark.log", 100 * _MB, 10, is_periodic=True),
    Concern("store", "rocketpy.store", "store.log", 128 * _MB, 10),
    Concern("storeError", "rocketpy.store.error", "storeerror.log", 100 * _MB, 10),
    Concern("remoting", "rocketpy.remoting", "remoting.log", 100 * _MB, 10),
    Concern("transaction", "rocketpy.broker.transaction", "transaction.log", 100 * _MB, 10),
    Concern("lock", "rocketpy.broker.lock", "lock.log", 100 * _MB, 5),
    Concern("filter", "rocketpy.broker.filter", "filter.log", 100 * _MB, 10),
    Concern("stats", "rocketpy.broker.stats", "stats.log", 100 * _MB, 5, is_periodic=True),
    Concern("commercial", "rocketpy.broker.commercial", "commercial.log", 500 * _MB, 10, is_periodic=True),
    Concern("namesrv", "rocketpy.nameserver", "namesrv.log", 100 * _MB, 5),
    Concern("default", "", "broker_default.log", 100 * _MB, 10),
)

LEVEL_KEYS = ("logLevel", *(f"logLevel.{concern.name}" for concern in CONCERNS))
"""The live settings that :func:`apply_log_levels` reads; call it after a change of one of them."""


def configure_logging(config: BrokerConfig) -> None:
    """Open the logs. Call once, in a ``__main__``; StartError when the directory cannot be written."""
    if not config.log_directory:
        log_to_standard_error(CONCERNS)
    else:
        isolated = f"{config.broker_name}_{config.broker_id}" if config.isolate_log_enable else ""
        directory = os.path.expanduser(config.log_directory)
        try:
            open_log_files(CONCERNS, directory, isolated=isolated)
        except OSError as failure:
            raise StartError(
                f"logDirectory = {config.log_directory!r}: expected a directory that can be written, "
                f"found {failure.strerror}"
            ) from failure
    apply_log_levels(config)


def apply_log_levels(config: BrokerConfig) -> None:
    """Apply the log levels of the settings."""
    levels = {
        "broker": config.log_level_broker,
        "protection": config.log_level_protection,
        "watermark": config.log_level_watermark,
        "store": config.log_level_store,
        "storeError": config.log_level_store_error,
        "remoting": config.log_level_remoting,
        "transaction": config.log_level_transaction,
        "lock": config.log_level_lock,
        "filter": config.log_level_filter,
        "stats": config.log_level_stats,
        "commercial": config.log_level_commercial,
        "namesrv": config.log_level_namesrv,
        "default": config.log_level_default,
    }
    set_levels(CONCERNS, level=config.log_level, levels=levels, in_files=bool(config.log_directory))
