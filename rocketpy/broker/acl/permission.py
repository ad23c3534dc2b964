"""Permissions of an account on a topic or group: PUB, SUB, both or none.

A resource is the name of a topic, or that of a retry topic for a group, so that one table holds both, as in RocketMQ.

Compatibility: ``Permission`` of RocketMQ's acl module (4.9.8).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.protocol.topic_name import RETRY_PREFIX

DENY: Final = 1
ANY: Final = 2
PUB: Final = 4
SUB: Final = 8

_BY_TEXT: Final = {"DENY": DENY, "PUB": PUB, "SUB": SUB, "PUB|SUB": PUB | SUB, "SUB|PUB": PUB | SUB}
PERMISSION_WORDS: Final = "DENY, PUB, SUB or PUB|SUB"


def parse_permission(text: str | None) -> int:
    """Return the bits of a permission text; an invalid text means DENY."""
    return DENY if text is None else _BY_TEXT.get(text.strip(), DENY)


def is_permission(text: str) -> bool:
    """Whether a text is one of the words that :func:`parse_permission` knows."""
    return text.strip() in _BY_TEXT


def check_permission(needed: int, owned: int) -> bool:
    """Whether ``owned`` includes ``needed``; DENY overrides all other bits."""
    if owned & DENY:
        return False
    if needed & ANY:
        return owned & (PUB | SUB) != 0
    return needed & owned != 0


def group_resource(group: str) -> str:
    """Return the resource name of a group."""
    return RETRY_PREFIX + group


def is_group_resource(resource: str) -> bool:
    """Whether a resource is a group."""
    return resource.startswith(RETRY_PREFIX)


def split_resource(text: str) -> tuple[str, str] | None:
    """Split ``resource=PERM``, None for any other form; empty parts are ignored, as in RocketMQ."""
    parts = [part for part in text.split("=") if part]
    return (parts[0].strip(), parts[1].strip()) if len(parts) == 2 else None


def check_resource_permissions(resources: Sequence[str] | None) -> None:
    """Validate permissions that a request writes into a file; AclError for any form but ``resource=PERM``."""
    for resource in resources or ():
        parts = split_resource(resource)
        if parts is None:
            raise AclError(
                f"Parse Resource format error for {resource}.\n"
                "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
            )
        if parts[1] != "DENY" and parse_permission(parts[1]) == DENY:
            raise AclError(
                f"Parse resource permission error for {resource}.\n"
                "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
            )
