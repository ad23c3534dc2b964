"""Texts of topics and groups for the log: what was set, and not how the program represents a value."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import attrs

from rocketpy.log_files import event_fields
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.topic import TopicConfig
from rocketpy.settings import camel_case

Config = TopicConfig | SubscriptionGroupConfig

_OF_EVERY_TOPIC = ("read_queue_nums", "write_queue_nums", "perm")


def config_text(config: Config) -> str:
    """Return what is set otherwise than by default, under RocketMQ's keys; of a topic always its queues.

    >>> config_text(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=4, perm=6))
    'readQueueNums=4 writeQueueNums=4 perm=6'
    >>> config_text(SubscriptionGroupConfig(group_name="G"))
    'defaults'
    """
    fields = _fields(config)
    defaults = {field.name: field.default for field in attrs.fields(config.__class__)}
    set_fields = {
        name: value for name, value in fields.items() if name in _OF_EVERY_TOPIC or value != defaults.get(name)
    }
    return _text(set_fields) or "defaults"


def change_texts(new: Config, old: Config) -> tuple[str, str]:
    """Return the fields that differ, as they are now and as they were; twice ``unchanged`` if none does."""
    now, was = _fields(new), _fields(old)
    changed = [name for name in now if now[name] != was[name]]
    if not changed:
        return "unchanged", "unchanged"
    return _text({name: now[name] for name in changed}), _text({name: was[name] for name in changed})


def log_put(log: logging.Logger, noun: str, new: Config, old: Config | None) -> None:
    """Log that a topic or a group was created, or changed from ``old``."""
    name = new.topic_name if isinstance(new, TopicConfig) else new.group_name
    if old is None:
        log.info(f"{noun} created", extra=event_fields(**{noun: name}, now=config_text(new)))
    else:
        now, was = change_texts(new, old)
        log.info(f"{noun} changed", extra=event_fields(**{noun: name}, now=now, was=was))


def _fields(config: Config) -> dict[str, object]:
    """Return the fields of a configuration without its name."""
    name, *_ = attrs.fields(config.__class__)
    return attrs.asdict(config, recurse=False, filter=lambda field, value: field.name != name.name)


def _text(fields: Mapping[str, object]) -> str:
    return " ".join(f"{camel_case(name)}={_shown(value)}" for name, value in fields.items())


def _shown(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value
