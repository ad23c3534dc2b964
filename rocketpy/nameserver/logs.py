"""Logging of a nameserver: to ``namesrv.log`` in ``logDirectory``, or to standard error without one.

Compatibility: file sizes and counts of RocketMQ's ``logback_namesrv.xml``; without ``logDirectory`` no file is created.
"""

from __future__ import annotations

import os

from rocketpy.errors import StartError
from rocketpy.log_files import Concern, log_to_standard_error, open_log_files, set_levels
from rocketpy.nameserver.config import NamesrvConfig

_MB = 1 << 20

CONCERNS = (
    Concern("namesrv", "rocketpy.nameserver", "namesrv.log", 100 * _MB, 5),
    Concern("default", "", "namesrv_default.log", 100 * _MB, 5),
)


def configure_logging(config: NamesrvConfig) -> None:
    """Open the configured log. Call once, in ``__main__``; StartError when the directory is not writable."""
    if not config.log_directory:
        log_to_standard_error(CONCERNS)
    else:
        try:
            open_log_files(CONCERNS, os.path.expanduser(config.log_directory))
        except OSError as failure:
            raise StartError(
                f"logDirectory = {config.log_directory!r}: expected a directory that can be written, "
                f"found {failure.strerror}"
            ) from failure
    apply_log_level(config)


def apply_log_level(config: NamesrvConfig) -> None:
    """Apply the log level of the settings."""
    set_levels(CONCERNS, level=config.log_level, levels={}, in_files=bool(config.log_directory))
