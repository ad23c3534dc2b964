"""The file descriptors of this process: how many there may be, and how many of them connections may take.

A connection costs a descriptor, and so does a file of the store. A peer that opens connections must not be able to
leave none for the store, so what the store and everything else need is set aside before connections get the rest.
"""

from __future__ import annotations

import contextlib
import logging
import resource

DESCRIPTORS_RESERVED = 256
"""For what is not counted: log files, epoll, connections to nameservers, files that are read for a moment, and clients
of the nameserver that a broker may bring in its own process."""
CONNECTIONS_MIN = 16
"""So many connections are allowed however few descriptors there are: without any nobody could ask what is wrong."""

_log = logging.getLogger("rocketpy.remoting")


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open descriptors to the hard one: 1,024 is what shells give, and serves few clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    for wanted in (hard, 10_240):  # macOS names no hard limit, and allows no more than this
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


def allowed_connections(wanted: int, *, needed_by_files: int) -> int:
    """Return how many connections there may be: ``wanted``, or what the limit leaves, with a warning.

    :param needed_by_files: descriptors that are the store's.
    """
    limit = descriptor_limit()
    if limit is None:
        return wanted
    reserved = min(DESCRIPTORS_RESERVED, limit // 8)
    allowed = max(CONNECTIONS_MIN, limit - needed_by_files - reserved)
    if allowed >= wanted:
        return wanted
    _log.warning(
        "connectionsMax is %d, but only %d connections are taken: this process may open %d files (ulimit -n), "
        "and keeps the others for its own",
        wanted,
        allowed,
        limit,
    )
    return allowed


def descriptor_limit() -> int | None:
    """How many descriptors this process may have, None where there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
