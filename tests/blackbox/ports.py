"""Ports for programs that must be told a number before they bind it.

A number that the kernel chooses is better, and taken wherever a program can report it. Here are the others: brokers
whose neighbouring ports are fixed by theirs, programs that start again where they were, and foreign ones. Three kinds
of programs could take such a port between its choice and its use:

1. One that connects: numbers are below those that the kernel gives to outgoing connections (32768 and up on Linux).
2. Another run of these tests: numbers come from ranges, each of which belongs to one process at a time, to that which
   has its first port bound. The kernel ends a claim with its process, however that ends.
3. One with a port of its own, such as a database: a port is tried by binding it, and skipped if it is in use.
"""

from __future__ import annotations

import errno
import os
import random
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

FIRST, END = 12_000, 32_000
RANGE_SIZE = 400
RANGES_MAX = 5
"""Of one process: after nearly 2,000 ports it takes its own again, those first that it had first."""


@attrs.define(eq=False)
class ClaimedPorts:
    """The ranges of one process, and which ports of them were not given out yet."""

    _guards: list[socket.socket] = attrs.field(factory=list)  # each on the first port of a range; the last is in use
    _next: int = 0
    _end: int = 0

    def take(self, count: int) -> int:
        """Return the first of ``count`` consecutive ports that are free now, and not given out again for long."""
        assert 0 < count < RANGE_SIZE
        skipped = 0
        while skipped <= RANGES_MAX * RANGE_SIZE:
            if self._next + count > self._end:
                skipped += self._end - self._next
                self._change_range()
            in_use = [port for port in range(self._next, self._next + count) if not is_free(port)]
            if not in_use:
                self._next += count
                return self._next - count
            skipped += in_use[-1] + 1 - self._next
            self._next = in_use[-1] + 1
        raise RuntimeError(f"no {count} consecutive free ports")

    def release(self) -> None:
        """Give all ranges back."""
        while self._guards:
            self._guards.pop().close()
        self._next = self._end = 0

    def _change_range(self) -> None:
        guard = _claim_range() if len(self._guards) < RANGES_MAX else None
        if guard is None:
            if not self._guards:
                raise RuntimeError(f"every range of ports from {FIRST} to {END} belongs to another process")
            guard = self._guards.pop(0)
        self._guards.append(guard)
        first: int = guard.getsockname()[1]
        self._next, self._end = first + 1, first + RANGE_SIZE


def _claim_range() -> socket.socket | None:
    """Return a socket that is bound to the first port of a range, or None when all ranges have an owner.

    Without SO_REUSEADDR no two sockets can have one port. Ranges are tried in any order, so that what an ended run has
    left behind, and still looks for its nameserver, meets no program of the next run.
    """
    firsts = list(range(FIRST, END, RANGE_SIZE))
    random.Random(f"{os.getpid()} {time.monotonic_ns()}").shuffle(firsts)
    for first in firsts:
        guard = socket.socket()
        try:
            guard.bind(("127.0.0.1", first))
        except OSError:
            guard.close()
        else:
            return guard
    return None


_OURS = ClaimedPorts()


def free_ports(count: int) -> int:
    """Return the first of ``count`` consecutive ports that are free, and stay so for the programs of this process."""
    return _OURS.take(count)


def broker_port() -> int:
    """Return such a port for a broker.

    The broker also listens two below its port; the one above is for replication.
    """
    return free_ports(4) + 2


def is_free(port: int) -> bool:
    """Return whether a server could bind the port on all addresses, as Java's do, and so on any of them."""
    return _can_bind(socket.AF_INET, "0.0.0.0", port) and _can_bind(socket.AF_INET6, "::", port)


def _can_bind(family: socket.AddressFamily, host: str, port: int) -> bool:
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        return error.errno != errno.EADDRINUSE  # without IPv6 no program can use the port there
    return True


@contextmanager
def port_in_use() -> Iterator[int]:
    """Listen on a port for as long as the block lasts; those around it are free for brokers beside it."""
    port = free_ports(40) + 20
    with socket.create_server(("127.0.0.1", port)):
        yield port
