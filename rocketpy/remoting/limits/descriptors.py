"""Limits on file descriptors: raise the process limit, and derive the number of connections from it.

A connection costs a descriptor, and so does a file of the store. Peers that open connections must not exhaust the
descriptors of the store, so those of the store and of everything else are reserved first; connections get the rest.
"""

from __future__ import annotations

import contextlib
import logging
import resource

DESCRIPTORS_RESERVED = 256
"""Reserved for descriptors that are not counted: log files, epoll, connections to nameservers and of slaves, files that
are open briefly, and clients of a nameserver in the same process as the broker."""
CONNECTIONS_MIN = 16
"""Allowed however few descriptors there are, so that an administrator can still connect and look for the cause."""

_log = logging.getLogger("rocketpy.remoting")


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open descriptors to the hard one: the usual 1,024 serves too few clients."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    for wanted in (hard, 10_240):  # macOS names no hard limit, and allows no more than this
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return


def allowed_connections(wanted: int, *, needed_by_files: int) -> int:
    """Return the limit on connections: ``wanted``, or fewer, with a warning, if descriptors do not suffice.

    :param needed_by_files: descriptors that the store needs.
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
    """Return the soft limit on descriptors of this process, None where there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
