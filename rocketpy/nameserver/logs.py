"""Where a nameserver's log goes: to ``namesrv.log`` in ``logDirectory``, or without one to standard error.

Compatibility: sizes and numbers of RocketMQ's ``logback_namesrv.xml``; without ``logDirectory`` no file appears.
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
    """Let logs go where the settings say. Call once, in a ``__main__``; StartError when the directory cannot be."""
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
    """Let the level of the settings count from now on."""
    set_levels(CONCERNS, level=config.log_level, levels={}, in_files=bool(config.log_directory))
