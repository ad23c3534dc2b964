"""One client of one group: entries compare by identity, whatever their ids."""

from __future__ import annotations

from typing import cast

import pytest

from rocketpy.broker.clients.channel import CHANNEL_EXPIRED_SECONDS, ClientChannelInfo
from rocketpy.protocol.codes import LanguageCode
from rocketpy.remoting.connection import Connection

NO_CONNECTION = cast("Connection", None)


def client() -> ClientChannelInfo:
    return ClientChannelInfo(NO_CONNECTION, "10.0.0.1@1", LanguageCode.JAVA, 407, 3.0)


def test_two_clients_of_one_id_stay_two() -> None:
    """Two programs may have the same id by mistake: a table that took them for one would lose a connection."""
    first, second = client(), client()
    assert first != second
    assert len({first, second}) == 2


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(AttributeError):
        client().last_update_seconds = 1.0  # type: ignore[attr-defined]


def test_a_client_is_silent_for_two_minutes_before_it_is_forgotten() -> None:
    """``ClientHousekeepingService`` of 4.9.8: CHANNEL_EXPIRED_TIMEOUT = 1000 * 120."""
    assert CHANNEL_EXPIRED_SECONDS * 1000 == 120_000
