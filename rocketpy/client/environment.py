"""What a client takes from the machine that it runs on, passed in so that a simulation can replace it."""

from __future__ import annotations

import os
from random import Random, SystemRandom

import attrs
import trio

from rocketpy.clock import Clock, SystemClock
from rocketpy.remoting.network import Network, SocketNetwork
from rocketpy.runner import RunBlocking


@attrs.frozen(kw_only=True)
class ClientEnvironment:
    """What a client takes from the operating system, unless another one is given."""

    network: Network = attrs.field(factory=SocketNetwork)
    clock: Clock = attrs.field(factory=SystemClock)
    randomness: Random = attrs.field(factory=SystemRandom)
    process_id: int = attrs.field(factory=os.getpid)
    """Part of client ids and unique keys; with the host's address it tells the processes of a cluster apart."""
    run_blocking: RunBlocking = trio.to_thread.run_sync
    """Reads long answers off the event loop."""
