"""One client of one group: entries compare by identity, whatever their ids."""

from __future__ import annotations

from typing import cast

from rocketpy.broker.clients.channel import ClientChannelInfo
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
