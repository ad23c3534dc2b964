"""A connection of the simulated network, for its tests."""

from __future__ import annotations

from rocketpy.testing.sim.network import SimNetwork
from rocketpy.testing.sim.stream import SimStream

A, B, PORT = "10.0.0.1", "10.0.0.2", 1


async def a_pair(network: SimNetwork, port: int = PORT) -> tuple[SimStream, SimStream]:
    """Return both ends of a connection from A to B."""
    (listener,) = await network.host(B).listen(None, port)
    ours = await network.host(A).connect(f"{B}:{port}")
    theirs, _ = await listener.accept()
    return ours, theirs
