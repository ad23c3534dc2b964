"""Namespaces: instances that share a cluster, told apart by a prefix of their topics and groups.

``T`` of the namespace ``NS`` is ``NS%T``, its retry topic ``%RETRY%NS%G``, its dead letters ``%DLQ%NS%G``. Topics and
groups of the system belong to none.

Compatibility: ``NamespaceUtil`` (4.9.8).
"""

from __future__ import annotations

import re

from rocketpy.protocol.topic_name import DLQ_PREFIX, RETRY_PREFIX, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS

NAMESPACE_SEPARATOR = "%"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

_INSTANCE_ENDPOINT = re.compile(r"(?:\w+://)?(MQ_INST_\w+_\w+)\.")


def wrap_namespace(namespace: str | None, resource: str) -> str:
    """Return a topic or group with its namespace; one that has it, or belongs to the system, stays as it is."""
    if not namespace or not resource or _is_system(resource) or is_already_with_namespace(resource, namespace):
        return resource
    prefix, name = _split(resource)
    return f"{prefix}{namespace}{NAMESPACE_SEPARATOR}{name}"


def wrap_namespace_and_retry(namespace: str | None, group: str) -> str:
    """Return the retry topic of a group; ``group`` is not empty."""
    return RETRY_PREFIX + wrap_namespace(namespace, group)


def without_namespace(resource: str, namespace: str | None = None) -> str:
    """Return a topic or group without its namespace; with ``namespace`` only if it is that one."""
    if namespace is not None and not is_already_with_namespace(resource, namespace):
        return resource
    if _is_system(resource):
        return resource
    prefix, name = _split(resource)
    position = name.find(NAMESPACE_SEPARATOR)
    return prefix + name[position + 1 :] if position > 0 else resource


def is_already_with_namespace(resource: str, namespace: str) -> bool:
    """Whether a topic or group has this namespace."""
    if not namespace or not resource or _is_system(resource):
        return False
    return _split(resource)[1].startswith(namespace + NAMESPACE_SEPARATOR)


def namespace_of(resource: str) -> str:
    """Return the namespace of a topic or group; empty without one."""
    if _is_system(resource):
        return ""
    name = _split(resource)[1]
    position = name.find(NAMESPACE_SEPARATOR)
    return name[:position] if position > 0 else ""


def namespace_of_endpoint(address: str) -> str:
    """Return the namespace that the address of a nameserver implies, ``MQ_INST_x_y.region...``; empty for any other."""
    found = _INSTANCE_ENDPOINT.match(address)
    return found.group(1) if found else ""


def _is_system(resource: str) -> bool:
    return resource in SYSTEM_TOPICS or resource.startswith((SYSTEM_TOPIC_PREFIX, SYSTEM_GROUP_PREFIX))


def _split(resource: str) -> tuple[str, str]:
    """Return the prefix of a retry or dead letter topic, and the rest."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if resource.startswith(prefix):
            return prefix, resource[len(prefix) :]
    return "", resource
