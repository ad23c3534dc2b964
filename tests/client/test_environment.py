"""What a client takes from its machine: real by default, and passed on to what uses it."""

from __future__ import annotations

import os
from random import Random

from rocketpy.client.config import ClientConfig
from rocketpy.client.environment import ClientEnvironment
from rocketpy.client.instance import open_client_instance
from rocketpy.clock import ManualClock, SystemClock
from rocketpy.remoting.local_address import outgoing_address
from rocketpy.remoting.network import SocketNetwork


class ElsewhereNetwork(SocketNetwork):
    """The real network, on a host of another address."""

    def local_address(self) -> str:
        return "10.0.0.9"


def test_by_default_everything_is_the_operating_system() -> None:
    environment = ClientEnvironment()
    assert environment.process_id == os.getpid()
    assert environment.network.local_address() == outgoing_address()
    assert isinstance(environment.clock, SystemClock)
    assert environment.randomness.random() != ClientEnvironment().randomness.random()


async def test_a_client_takes_its_identity_from_it() -> None:
    environment = ClientEnvironment(network=ElsewhereNetwork(), clock=ManualClock(), randomness=Random(1), process_id=7)
    async with open_client_instance(ClientConfig(), environment=environment) as instance:
        assert instance.client_id.startswith("10.0.0.9@7#")
        assert instance.clock is environment.clock
