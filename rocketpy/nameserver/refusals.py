"""Refusals that several kinds of requests share."""

from __future__ import annotations

import logging

from rocketpy.errors import RequestError, StoreError
from rocketpy.protocol.codes import ResponseCode

_log = logging.getLogger("rocketpy.nameserver")


def check_names(header: object, **names: str) -> None:
    """Refuse an empty name: a binary header cannot tell empty from missing either."""
    for field, name in names.items():
        if not name:
            remark = f"{type(header).__name__}.{field}: expected a name, found an empty text"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)


def not_written(error: StoreError) -> RequestError:
    """A file of a few lines that cannot be written refuses the change; the routes, which need no disk, go on."""
    _log.error("%s", error)
    return RequestError(ResponseCode.SYSTEM_ERROR, f"nothing has changed, the file could not be written: {error}")
