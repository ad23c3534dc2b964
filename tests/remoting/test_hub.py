"""What only the hub does; what both drivers do is in test_server."""

from __future__ import annotations

import select

from rocketpy.remoting.hub import Hub


def test_it_needs_epoll() -> None:
    assert Hub.is_supported() == hasattr(select, "epoll")
