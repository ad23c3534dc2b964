"""What a client takes from the machine that it runs on, passed in so that a simulation can replace it."""

from __future__ import annotations

import os
from random import Random, SystemRandom

import attrs

from rocketpy.clock import Clock, SystemClock
from rocketpy.remoting.network import Network, SocketNetwork


@attrs.frozen(kw_only=True)
class ClientEnvironment:
    """Network, wall clock, randomness and process id of one client; by default those of the operating system."""

    network: Network = attrs.field(factory=SocketNetwork)
    clock: Clock = attrs.field(factory=SystemClock)
    randomness: Random = attrs.field(factory=SystemRandom)
    process_id: int = attrs.field(factory=os.getpid)
    """Part of client ids and unique keys; with the host's address it tells the processes of a cluster apart."""
