"""Refusal of changes of topics and groups on a slave, which takes both from its master.

Compatibility: ``AdminBrokerProcessor.validateSlave`` (4.9.8), before the request is looked at.
"""

from __future__ import annotations

from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode

_REMARK = "Can't modify topic or subscription group from slave broker, please execute it from master broker."


def refuse_on_slave(*, is_slave: bool) -> None:
    """Raise RequestError on a slave."""
    if is_slave:
        raise RequestError(ResponseCode.SYSTEM_ERROR, _REMARK)
