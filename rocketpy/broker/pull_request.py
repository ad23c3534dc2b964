"""A pull on its way: asked, perhaps held, answered once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.codes import SerializeType
from rocketpy.remoting.connection import Connection
from rocketpy.store.results import MessageFilter


class PullHeader(Protocol):
    """The fields of PULL_MESSAGE, however they were decoded."""

    @property
    def consumer_group(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def queue_id(self) -> int: ...

    @property
    def queue_offset(self) -> int: ...

    @property
    def max_msg_nums(self) -> int: ...

    @property
    def sys_flag(self) -> int: ...

    @property
    def commit_offset(self) -> int: ...

    @property
    def suspend_timeout_millis(self) -> int: ...

    @property
    def sub_version(self) -> int: ...

    @property
    def subscription(self) -> str | None: ...

    @property
    def expression_type(self) -> str | None: ...


@attrs.define(eq=False, slots=True)
class PullRequest:
    """What was asked, by whom, and how far the search for a message has come."""

    connection: Connection
    opaque: int
    serialize_type: SerializeType
    is_oneway: bool
    header: PullHeader
    queue_offset: int  # where the search goes on: further than what was asked for while nothing matches
    message_filter: MessageFilter | None
    group_config: SubscriptionGroupConfig
    deadline: float  # Trio time
    resume: Callable[[PullRequest, bool], bool]
    """Try again; the bool says that time is up and any answer is final. True when the pull has been answered."""
    owner: str | None = None  # whose account it is for, as hooks want to know
