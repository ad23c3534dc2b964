"""A feature that overrides nothing adds nothing to the broker."""

from __future__ import annotations

from typing import cast

from rocketpy.broker.feature import Feature
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher


class Empty(Feature):
    """A feature without a request code, a service, a figure or a setting."""


def test_the_defaults_stand_for_nothing() -> None:
    empty, dispatcher = Empty(), Dispatcher()
    empty.register(dispatcher)
    empty.connection_closed(cast(Connection, None))
    assert (dispatcher.fast_paths, empty.figures(), empty.services, empty.settings) == ({}, {}, (), {})
