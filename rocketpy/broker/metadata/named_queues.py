"""Policy for the queues that a message may name in INNER_MULTI_DISPATCH.

The store asks for every message with such names, whether it comes from a send, a commit or a delivery. A send is
checked earlier, so that its refusal has a remark.

Compatibility: ``MultiDispatch`` (4.9.8), which checks nothing: a message can reach any topic, including system and
retry topics, whatever its sender's permissions, and creates directories for topics that do not exist. Here a name that
is not a light queue must be an existing topic that is not the broker's own.
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketpy.broker.metadata.topics import TopicConfigManager
from rocketpy.errors import RequestError
from rocketpy.protocol.codes import ResponseCode
from rocketpy.protocol.properties import PROPERTY_INNER_MULTI_DISPATCH
from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.store.queue.multi_dispatch import NAMES_MAX, name_fault, named_queues

_SHOWN_MAX = 127


class NamedQueues:
    """Checks names in INNER_MULTI_DISPATCH against the topics of one broker."""

    def __init__(self, topics: TopicConfigManager) -> None:
        self._topics = topics

    def may_be_named(self, name: str) -> bool:
        """Whether a legal name is an allowed topic, or a light queue, which needs none."""
        if name.startswith(LMQ_PREFIX):
            return True
        return name in self._topics.topic_config_table and not self._topics.is_system_topic(name)

    def check(self, properties: Mapping[str, str]) -> None:
        """Raise RequestError(MESSAGE_ILLEGAL) for a message that names a queue that is not allowed."""
        text = properties.get(PROPERTY_INNER_MULTI_DISPATCH)
        if text is None:
            return
        names = named_queues(text)
        if len(names) > NAMES_MAX:
            raise _refusal(f"expected at most {NAMES_MAX} names, found {len(names)}")
        for name in names:
            fault = name_fault(name)
            if fault is None and not self.may_be_named(name):
                is_there = name in self._topics.topic_config_table
                fault = "the topic is the broker's own" if is_there else "expected a topic that exists"
            if fault is not None:
                raise _refusal(f"{fault}, found {name[:_SHOWN_MAX]!r}")


def _refusal(why: str) -> RequestError:
    remark = f"the message is illegal: property {PROPERTY_INNER_MULTI_DISPATCH}: {why}"
    return RequestError(ResponseCode.MESSAGE_ILLEGAL, remark)
