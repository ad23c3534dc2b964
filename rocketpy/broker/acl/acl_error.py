"""What access control refuses, in RocketMQ's words."""

from __future__ import annotations

from rocketpy.errors import RequestError, RocketpyError
from rocketpy.protocol.codes import ResponseCode

_JAVA_NAME = "org.apache.rocketmq.acl.common.AclException"
_TEXT_MAX = 1024


class AclError(RocketpyError):
    """A file, an account, an address pattern or a request is wrong; the text is RocketMQ's."""


def refusal(text: str) -> RequestError:
    """Return the answer to a request that is not allowed: SYSTEM_ERROR, and what a Java client shows its user.

    Compatibility: RocketMQ appends the first line of its own stack trace.
    """
    return RequestError(ResponseCode.SYSTEM_ERROR, f"{_JAVA_NAME}: {text[:_TEXT_MAX]}")
