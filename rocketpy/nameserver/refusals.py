"""Refusals shared by the request processors: empty names, files that cannot be written."""

from __future__ import annotations

import logging

from rocketpy.errors import RequestError, StoreError
from rocketpy.protocol.codes import ResponseCode

_log = logging.getLogger("rocketpy.nameserver")


def check_names(header: object, **names: str) -> None:
    """Refuse an empty name. A binary header cannot distinguish empty from missing, so JSON headers do not either."""
    for field, name in names.items():
        if not name:
            remark = f"{type(header).__name__}.{field}: expected a name, found an empty text"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)


def not_written(error: StoreError) -> RequestError:
    """Return the refusal of a change whose file cannot be written. Routes need no disk and stay available."""
    _log.error("%s", error)
    return RequestError(ResponseCode.SYSTEM_ERROR, f"nothing has changed, the file could not be written: {error}")
