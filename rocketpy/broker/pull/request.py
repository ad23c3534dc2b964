"""A pull in progress: received, possibly held, answered once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import attrs

from rocketpy.protocol.bodies.group import SubscriptionGroupConfig
from rocketpy.protocol.bodies.heartbeat import SubscriptionData
from rocketpy.protocol.codes import SerializeType
from rocketpy.protocol.sysflag import PULL_SUBSCRIPTION_FLAG
from rocketpy.remoting.connection import Connection
from rocketpy.store.results import MessageFilter

if TYPE_CHECKING:  # a broker without access control does not load it
    from rocketpy.broker.acl.session import HeldPermission


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


@attrs.define(slots=True)
class HeldHeader:
    """Header of a held pull without texts of unbounded length; its filter is kept separately."""

    consumer_group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_msg_nums: int
    sys_flag: int
    commit_offset: int
    suspend_timeout_millis: int
    sub_version: int
    subscription: str | None = None
    expression_type: str | None = None

    @classmethod
    def of(cls, header: PullHeader) -> HeldHeader:
        """Return the header to keep, with the type of the expression if the pull has its own."""
        brings_expression = header.sys_flag & PULL_SUBSCRIPTION_FLAG
        return cls(
            header.consumer_group,
            header.topic,
            header.queue_id,
            header.queue_offset,
            header.max_msg_nums,
            header.sys_flag,
            header.commit_offset,
            header.suspend_timeout_millis,
            header.sub_version,
            expression_type=header.expression_type if brings_expression else None,
        )


def _nothing(pull: PullRequest) -> None:
    """Leave a pull unanswered."""


@attrs.define(eq=False, slots=True)
class HeldOfConnection:
    """The held pulls of one connection, in order of arrival, and the bytes that they keep."""

    pulls: dict[PullRequest, None] = attrs.field(factory=dict)
    size_bytes: int = 0


@attrs.define(eq=False, slots=True)
class PullRequest:
    """One pull: its request, its connection, and how far the search for messages has advanced."""

    connection: Connection
    opaque: int
    serialize_type: SerializeType
    is_oneway: bool
    header: PullHeader
    queue_offset: int  # of the next unit to examine: advances past the requested offset while nothing matches
    message_filter: MessageFilter | None
    group_config: SubscriptionGroupConfig
    deadline: float  # Trio time
    resume: Callable[[PullRequest, bool], bool]
    """Try again; the bool is True at the deadline, when any answer is final. Returns True once answered."""
    fail: Callable[[PullRequest], None] = _nothing
    """Answer a held pull whose ``resume`` has raised."""
    owner: str | None = None  # the commercial owner, for hooks
    is_deferred: bool = False  # held, or answered by a task
    subscription: SubscriptionData | None = None
    """While held: the group's subscription from which its filter is derived; None if the pull has its own."""
    held_bytes: int = 0  # approximate memory while held
    due_slot: int = 0  # the hold service's key in its index by deadline
    permission: HeldPermission | None = None
    """While held: what it was allowed by; None without access control."""
    held_among: HeldOfConnection | None = None  # the hold service's entry of its connection; None unless held
