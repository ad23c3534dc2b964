"""Names of clients in warnings."""

from __future__ import annotations

from rocketpy.client.shells.open_clients import name_of


def test_a_name_has_the_address_and_the_group_and_no_secret() -> None:
    assert name_of("m", "open_client", (), {}) == "m.open_client()"
    assert name_of("m", "open_producer", ("a:1", "secret"), {"group": "g", "config": "secret"}) == (
        "m.open_producer('a:1', group='g')"
    )
