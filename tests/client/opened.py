"""A client instance for tests, which shuffles in the same way each time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from rocketpy.client.config import ClientConfig
from rocketpy.client.environment import ClientEnvironment
from rocketpy.client.instance import ClientInstance, open_client_instance


@asynccontextmanager
async def opened(name_servers: str, **settings: object) -> AsyncIterator[ClientInstance]:
    """A client instance whose shuffling is always the same."""
    config = ClientConfig(name_servers=name_servers, **settings)  # type: ignore[arg-type]
    async with open_client_instance(config, environment=ClientEnvironment(randomness=Random(7))) as instance:
        yield instance
