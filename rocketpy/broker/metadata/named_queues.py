"""Which queues a message may name (INNER_MULTI_DISPATCH), as far as a broker decides that and not its store.

The store asks for every message that it is about to put into the queues that it names, wherever it comes from: a send,
a commit, a delivery. A send is refused before that, with words.

Compatibility: ``MultiDispatch`` (4.9.8), which asks nothing: a message gets into any topic, those of the broker and of
groups included, whatever its sender may do, and makes directories for topics that do not exist. Here a name that is no
light queue must be that of a topic that exists and is not the broker's own.
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
    """The names that messages of one broker may have in INNER_MULTI_DISPATCH."""

    def __init__(self, topics: TopicConfigManager) -> None:
        self._topics = topics

    def may_be_named(self, name: str) -> bool:
        """Return whether there is such a topic, or it needs none; for names that are legal."""
        if name.startswith(LMQ_PREFIX):
            return True
        return name in self._topics.topic_config_table and not self._topics.is_system_topic(name)

    def check(self, properties: Mapping[str, str]) -> None:
        """Raise RequestError(MESSAGE_ILLEGAL) for a message that names a queue which it may not."""
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
