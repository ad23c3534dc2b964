"""Properties that hooks add to messages before they are sent: the identifiers of a trace, a tenant.

A hook is called once for each message, when its send begins and in the context variables of its sender, so all attempts
carry the same. The message of the caller stays as it is: hooks get a copy, and what they return travels with the rest.
Properties that RocketMQ reserves, keys and tags among them, are not for hooks: they decide where a message goes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from rocketpy.client.hooks import PropertiesHook
from rocketpy.client.program_call import ProgramCall
from rocketpy.client.validators import UNSPECIFIED, check_properties
from rocketpy.errors import ClientError
from rocketpy.protocol.message import Message
from rocketpy.protocol.properties import RESERVED_PROPERTIES

_log = logging.getLogger("rocketpy.client")


class AddedProperties:
    """The properties hooks of one producer, in the order in which they were given; the last one to set a name wins."""

    def __init__(self, hooks: Sequence[PropertiesHook]) -> None:
        self._hooks = tuple(hooks)

    def of(self, message: Message) -> dict[str, str]:
        """Return what the hooks add to a message. A hook that fails is logged and adds nothing."""
        added: dict[str, str] = {}
        for hook in self._hooks:
            with ProgramCall(_log, "propertiesHook %s, before a send,", hook.hook_name):
                copy = Message(message.topic, message.body, dict(message.properties) | added, message.flag)
                found = dict(hook.properties_of(copy))
                _check(found)
                added |= found
        return added


def _check(properties: dict[str, str]) -> None:
    check_properties(properties)
    for name in properties.keys() & RESERVED_PROPERTIES:
        raise ClientError(UNSPECIFIED, f"The Property<{name}> is used by system, input another please")
