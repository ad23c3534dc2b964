"""A client for tests of programs with a real disk: its requests wait for as long as a busy machine may need."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import attrs

from rocketpy.protocol.command import RemotingCommand
from rocketpy.remoting.client import RemotingClient, open_remoting_client
from tests.patience import PATIENCE_SECONDS


@asynccontextmanager
async def open_patient_client(**settings: Any) -> AsyncIterator[RemotingClient]:
    """As :func:`open_remoting_client`, without its limit of three seconds where a test names none."""
    async with open_remoting_client(**settings) as client:
        yield cast(RemotingClient, PatientClient(client))


@attrs.frozen
class PatientClient:
    """A client with another default."""

    _client: RemotingClient

    async def request(
        self, address: str, request: RemotingCommand, timeout_s: float = PATIENCE_SECONDS
    ) -> RemotingCommand:
        """Send a request and return its response."""
        return await self._client.request(address, request, timeout_s)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)
