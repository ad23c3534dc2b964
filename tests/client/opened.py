"""A client instance for tests, which shuffles in the same way each time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

from rocketpy.client.config import ClientConfig
from rocketpy.client.environment import ClientEnvironment
from rocketpy.client.instance import ClientInstance, open_client_instance


@asynccontextmanager
async def opened(
    name_servers: str, *, environment: ClientEnvironment | None = None, **settings: object
) -> AsyncIterator[ClientInstance]:
    """A client instance whose shuffling is always the same."""
    environment = environment or ClientEnvironment(randomness=Random(7))
    config = ClientConfig(name_servers=name_servers, **settings)  # type: ignore[arg-type]
    async with open_client_instance(config, environment=environment) as instance:
        yield instance
