"""Where a broker's log goes: to standard error, one line per event, with the time in UTC."""

from __future__ import annotations

import logging
import time


def configure_logging(level: int = logging.INFO) -> None:
    """Log to standard error. Call once, in a ``__main__``."""
    handler = logging.StreamHandler()
    formatter = logging.Formatter("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.basicConfig(level=level, handlers=[handler], force=True)
