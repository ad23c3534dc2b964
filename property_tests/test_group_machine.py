"""Who is in a group, and who hears of it: members join, leave, vanish, fall silent and change their minds.

The model is a set of members, each with the topics that it asked for and the time of its last heartbeat. After every
step each member that is online must have heard of what the step has changed, and nobody of anything else; and whoever
asks is told the same members.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from property_tests.group_clients import GROUP, heartbeat, make_world, members, subscribed, unregister
from property_tests.hunts import Bug, Function, PromiseBroken, hunt
from rocketpy.broker.consumer_manager import ConsumerGroupInfo, ConsumerManager, GroupChange
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.headers.client import NotifyConsumerIdsChangedRequestHeader
from rocketpy.protocol.headers.codec import read_header
from rocketpy.testing.broker_world import BrokerWorld, Client

EXPIRED_SECONDS, SCAN_SECONDS = 120, 10
HEARTBEAT_SECONDS = 30
names = st.sampled_from(["a", "b", "c", "d"])
topic_sets = st.sampled_from([("T",), ("T", "U"), ("U", "V")])


class Promise(Enum):
    """What holds of a group and its members."""

    TOLD = "whoever is online hears of each change of members or topics"
    LEFT_ALONE = "nobody is told of a change that was none"
    SAME_LIST = "whoever asks is told the members that are online, the same as anybody else"
    SAME_TOPICS = "the group wants what the last heartbeat said"


@attrs.define(eq=False)
class Member:
    """A client that is online, or that the broker believes to be."""

    client: Client
    topics: tuple[str, ...]
    heard: float  # when the broker heard of it last
    is_silent: bool = False


class GroupMachine(RuleBasedStateMachine):
    """One group at one broker."""

    def __init__(self) -> None:
        super().__init__()
        self.world: BrokerWorld = make_world()
        self.members: dict[str, Member] = {}
        self.topics: set[str] = set()  # that the group wants
        self.version = 0

    def teardown(self) -> None:
        self.world.life.kill()

    @initialize()
    def first_start(self) -> None:
        self.world.begin()
        self.world.pass_time(0)

    @property
    def now(self) -> float:
        return self.world.life.clock.timestamp_ms() / 1000

    # ---- what happens ---------------------------------------------------------------------------------------------

    @rule(name=names, topics=topic_sets)
    def heartbeat_comes(self, name: str, topics: tuple[str, ...]) -> None:
        """A client joins, says that it is there, or wants other topics."""
        member = self.members.get(name)
        is_new = member is None
        if member is None:
            member = self.members[name] = Member(self.world.connect(), topics, self.now)
        has_changed = is_new or set(topics) != self.topics
        self.version += 1
        answer = member.client.ask(heartbeat(name, topics, self.version))
        assert answer is not None
        assert answer.code == ResponseCode.SUCCESS, answer
        member.topics, member.heard, member.is_silent = topics, self.now, False
        self.topics = set(topics)
        self.check(has_changed)

    @rule(name=names)
    def leave(self, name: str) -> None:
        """A client says goodbye."""
        member = self.members.pop(name, None)
        if member is not None:
            member.client.ask(unregister(name))
            assert not member.client.requests(), "who has left is told nothing"
            self.left()

    @rule(name=names)
    def vanish(self, name: str) -> None:
        """A client's connection breaks."""
        member = self.members.pop(name, None)
        if member is not None:
            member.client.close()
            self.left()

    @rule(name=names)
    def fall_silent(self, name: str) -> None:
        """A client's connection stays, and it sends no heartbeat any more."""
        if name in self.members:
            self.members[name].is_silent = True

    @rule(seconds=st.sampled_from([1, 29, 150]))
    def time_passes(self, seconds: int) -> None:
        """Whoever is not silent says in time that it is there."""
        end = self.now + seconds
        while self.now < end:
            step = min(SCAN_SECONDS, end - self.now)
            self.world.pass_time(step)
            self.expire()
            for name, member in list(self.members.items()):
                if not member.is_silent and self.now - member.heard >= HEARTBEAT_SECONDS:
                    self.heartbeat_comes(name, member.topics)

    @rule(orderly=st.sampled_from([None, None, None, True, False]))
    def broker_restarts(self, orderly: bool | None) -> None:
        """Groups are in memory: everybody comes again, as clients do."""
        if orderly is None:
            return
        known, self.members = self.members, {}
        if orderly:
            self.world.stop()
        else:
            self.world.kill()
        self.topics = set()
        self.first_start()
        for name, member in known.items():
            if not member.is_silent:
                self.heartbeat_comes(name, member.topics)

    # ---- the model ------------------------------------------------------------------------------------------------

    def left(self) -> None:
        if not self.members:
            self.topics = set()
        self.check(has_changed=True)

    def expire(self) -> None:
        """Take out whom the broker has given up; it may, after so long, and must, a scan later."""
        for name, member in list(self.members.items()):
            silent_for = self.now - member.heard
            if member.client.connection.is_closed:
                if silent_for < EXPIRED_SECONDS:
                    raise PromiseBroken(Promise.SAME_LIST, f"{name} was closed after {silent_for} s")
                del self.members[name]
                self.left()
            elif silent_for > EXPIRED_SECONDS + SCAN_SECONDS:
                raise PromiseBroken(Promise.SAME_LIST, f"{name} is a member after {silent_for} s of silence")

    def check(self, has_changed: bool) -> None:
        for name, member in self.members.items():
            told = 0
            for request in member.client.requests():
                assert request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, request
                assert read_header(request, NotifyConsumerIdsChangedRequestHeader).consumer_group == GROUP
                told += 1
            if has_changed and not told:
                raise PromiseBroken(Promise.TOLD, f"{name} is a member, and was told nothing")
            if told and not has_changed:
                raise PromiseBroken(Promise.LEFT_ALONE, f"{name} was told {told} times that nothing has changed")
        expected = sorted(self.members)
        for asking in [*(member.client for member in self.members.values()), self.world.connect()]:
            found = members(asking)
            if found != expected:
                raise PromiseBroken(Promise.SAME_LIST, f"found {found}, expected {expected}")
        wanted = subscribed(self.world.connect())
        if wanted != self.topics:
            raise PromiseBroken(Promise.SAME_TOPICS, f"found {wanted}, expected {self.topics}")


TestGroup = GroupMachine.TestCase
TestGroup.settings = settings(max_examples=max(15, settings.default.max_examples // 6))


# ---- deliberate bugs ------------------------------------------------------------------------------------------------


def _does_not_look_at_topics(update: Function) -> Function:
    def updated(self: Any, subscriptions: Any) -> bool:
        update(self, subscriptions)
        return False

    return updated


def _keeps_old_topics(update: Function) -> Function:
    def updated(self: Any, subscriptions: Any) -> bool:
        known = dict(self.subscription_table)
        has_changed = update(self, subscriptions)
        self.subscription_table.update({topic: known[topic] for topic in known.keys() - self.subscription_table.keys()})
        return bool(has_changed)

    return updated


def _expires_nobody(scan: Function) -> Function:
    return lambda self: []


def _always_tells(register: Function) -> Function:
    def registered(self: Any, client: Any, consumer: Any) -> Any:
        register(self, client, consumer)
        info = self.get_consumer_group_info(consumer.group_name)
        return GroupChange(info.group_name, info.channels)

    return registered


def _tells_all_but_one(register: Function) -> Function:
    def registered(self: Any, client: Any, consumer: Any) -> Any:
        change = register(self, client, consumer)
        return change and attrs.evolve(change, channels=change.channels[-1:])

    return registered


PLANTED: Mapping[str, Bug] = {
    "topics do not count": Bug(ConsumerGroupInfo, "update_subscription", _does_not_look_at_topics, (Promise.TOLD,)),
    "topics stay": Bug(
        ConsumerGroupInfo, "update_subscription", _keeps_old_topics, (Promise.SAME_TOPICS, Promise.TOLD)
    ),
    "nobody expires": Bug(ConsumerManager, "scan_not_active_channel", _expires_nobody, (Promise.SAME_LIST,)),
    "only the newest is told": Bug(ConsumerManager, "register_consumer", _tells_all_but_one, (Promise.TOLD,)),
    "everything is a change": Bug(ConsumerManager, "register_consumer", _always_tells, (Promise.LEFT_ALONE,)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_bug_is_found(name: str) -> None:
    hunt(GroupMachine, PLANTED[name])
