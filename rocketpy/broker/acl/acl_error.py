"""Errors of access control, with RocketMQ's texts."""

from __future__ import annotations

from rocketpy.errors import RequestError, RocketpyError
from rocketpy.protocol.codes import ResponseCode

_JAVA_NAME = "org.apache.rocketmq.acl.common.AclException"
_TEXT_MAX = 1024


class AclError(RocketpyError):
    """An invalid file, account, address pattern or request; the text is RocketMQ's."""


def refusal(text: str) -> RequestError:
    """Return the response to a request that is not allowed: SYSTEM_ERROR with the remark that Java clients show.

    Compatibility: RocketMQ appends the first line of its own stack trace.
    """
    return RequestError(ResponseCode.SYSTEM_ERROR, f"{_JAVA_NAME}: {text[:_TEXT_MAX]}")
