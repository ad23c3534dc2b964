"""Who is in a group, and who is notified: members join, leave, vanish, are reset, fall silent and change their minds.

The model is a set of members, each with the topics that it asked for and the time of its last heartbeat. After every
step each member that is online must have been notified of what the step has changed, the last time after the whole
change, and of nothing else; and every query returns the same members.

A crowd of members comes at once and is reset at once: each send to one of them fails and ends it, as a socket's would.

::

                 heartbeat_comes, crowd_comes_and_is_reset
    no member  ------------------------------------------------>  member, online  --+
        ^                                                           |      |   ^    | heartbeat_comes: with
        |      leave, vanish, the crowd's reset, broker_restarts    |      |   |    | other topics a change,
        +-----------------------------------------------------------+      |   +----+ else none
        |                                                      fall_silent |
        |      EXPIRED_SECONDS without a heartbeat                         v
        +-------------------------------------------------------- member, silent

    each arrow but a heartbeat that says nothing new is a change: all that are online are notified, after it, once
    absurd_heartbeat_comes is refused and changes nothing; time_passes, with the heartbeats of all but the silent
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from property_tests.group_clients import GROUP, heartbeat, make_world, members, subscribed, unregister
from property_tests.hunts import Bug, Function, MachineTests, PromiseBroken
from rocketpy.broker.clients import heartbeats as client_manage
from rocketpy.broker.clients.consumers import ConsumerGroupInfo, ConsumerManager
from rocketpy.broker.clients.notifications import ConsumerIdsChangedService
from rocketpy.broker.clients.producers import ProducerManager
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.headers.client import NotifyConsumerIdsChangedRequestHeader
from rocketpy.protocol.headers.codec import read_header
from rocketpy.testing.broker_world import BrokerWorld, Client

EXPIRED_SECONDS, SCAN_SECONDS = 120, 10
HEARTBEAT_SECONDS = 30
CROWD = 150
names = st.sampled_from(["a", "b", "c", "d"])
topic_sets = st.sampled_from([("T",), ("T", "U"), ("U", "V")])


class Promise(Enum):
    """What holds of a group and its members."""

    NOTIFIED = "every member online is notified of each change of members or topics, after it"
    TOGETHER = "changes that come together are notified together"
    FORGOTTEN = "nothing is kept of a connection that has ended"
    BOUNDED = "nothing is kept that is longer than a client may send"
    CONTAINED = "nothing fails unexpectedly"
    LEFT_ALONE = "no member is notified without a change"
    SAME_LIST = "every query returns the members that are online, the same for all"
    SAME_TOPICS = "the group wants what the last heartbeat said"


@attrs.define(eq=False)
class Member:
    """A client that is online, or that the broker considers online."""

    client: Client
    topics: tuple[str, ...]
    last_seen: float  # time of its last heartbeat
    is_silent: bool = False
    known: set[str] = attrs.field(factory=set)  # the members, when this one was notified last


class _Failures(logging.Handler):
    """Log lines of unforeseen failures."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info is not None:
            self.texts.append(f"{record.getMessage()}: {record.exc_info[1]!r}")


class GroupMachine(RuleBasedStateMachine):
    """One group at one broker."""

    def __init__(self) -> None:
        super().__init__()
        self.world: BrokerWorld = make_world()
        self.members: dict[str, Member] = {}
        self.topics: set[str] = set()  # that the group wants
        self.version = 0
        self.failures = _Failures()
        logging.getLogger("rocketpy").addHandler(self.failures)

    def teardown(self) -> None:
        logging.getLogger("rocketpy").removeHandler(self.failures)
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
            member = self.members[name] = self.joined(topics)
        has_changed = is_new or set(topics) != self.topics
        self.version += 1
        answer = member.client.ask(heartbeat(name, topics, self.version))
        assert answer is not None
        assert answer.code == ResponseCode.SUCCESS, answer
        member.topics, member.last_seen, member.is_silent = topics, self.now, False
        self.topics = set(topics)
        self.check(has_changed)

    @rule(name=names, size=st.sampled_from([128, 1_000, 40_000, 600_000]))
    def absurd_heartbeat_comes(self, name: str, size: int) -> None:
        """A client subscribes to a topic with an impossible name: it is refused, and nothing else happens."""
        member = self.members.get(name)
        client = member.client if member is not None else self.world.connect()
        answer = client.ask(heartbeat(name, ("T", "x" * size), self.version + 1))
        assert answer is not None
        if answer.code == ResponseCode.SUCCESS:
            raise PromiseBroken(Promise.BOUNDED, f"a topic of {size} characters was taken")
        self.check(has_changed=False)

    @rule(name=names)
    def leave(self, name: str) -> None:
        """A client says goodbye."""
        member = self.members.pop(name, None)
        if member is not None:
            member.client.ask(unregister(name))
            assert not member.client.requests(), "a client that has left is not notified"
            self.left()

    @rule(name=names)
    def vanish(self, name: str) -> None:
        """A client's connection breaks."""
        member = self.members.pop(name, None)
        if member is not None:
            member.client.close()
            self.world.pass_time(0)
            self.left()

    @rule(count=st.sampled_from([2, 3]))
    def crowd_comes_and_is_reset(self, count: int) -> None:
        """Many clients join in the same moment; then the node that they run on dies, and one of the ends is seen."""
        topics = tuple(sorted(self.topics)) or ("T",)
        crowd = {f"x{number:03}": self.joined(topics) for number in range(count)}
        for name, member in crowd.items():
            self.version += 1
            for client_id, producer_group in ((name, "P"), (f"{name} again", "Q"), (name, None)):
                beat = heartbeat(client_id, topics, self.version, producer_group=producer_group)
                answer = member.client.ask(beat, settle=False)
                assert answer is not None
                assert answer.code == ResponseCode.SUCCESS, answer
        self.topics = set(topics)
        self.members |= crowd
        self.world.pass_time(0)
        self.check(has_changed=True, notified_max=2)
        self.heartbeat_comes("d", topics)  # the last in the order of members stays
        for member in crowd.values():
            member.client.is_reset = True
        next(iter(crowd.values())).client.close()
        self.world.pass_time(0)
        for name, member in crowd.items():
            if not member.client.connection.is_closed:
                raise PromiseBroken(Promise.NOTIFIED, f"{name} was never sent anything, or its end was not seen")
            found = self.world.tables.producers
            if found.find_channel(name) is not None or found.find_channel(f"{name} again") is not None:
                raise PromiseBroken(Promise.FORGOTTEN, f"{name} is a producer after its end")
            del self.members[name]
        self.left()

    @rule(name=names)
    def fall_silent(self, name: str) -> None:
        """A client's connection stays, and it sends no heartbeat any more."""
        if name in self.members:
            self.members[name].is_silent = True

    @rule(seconds=st.sampled_from([1, 29, 150]))
    def time_passes(self, seconds: int) -> None:
        """A client that is not silent sends its heartbeats in time."""
        end = self.now + seconds
        while self.now < end:
            step = min(SCAN_SECONDS, end - self.now)
            self.world.pass_time(step)
            self.expire()
            for name, member in list(self.members.items()):
                if not member.is_silent and self.now - member.last_seen >= HEARTBEAT_SECONDS:
                    self.heartbeat_comes(name, member.topics)

    @rule(orderly=st.sampled_from([None, None, None, True, False]))
    def broker_restarts(self, orderly: bool | None) -> None:
        """Groups are in memory: every client registers again."""
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

    def joined(self, topics: tuple[str, ...]) -> Member:
        """Return a client that remembers the members at its last notification, as one that asks at once would."""
        member = Member(self.world.connect(), topics, self.now)

        def asks() -> None:
            group = self.world.tables.consumers.get_consumer_group_info(GROUP)
            member.known = set() if group is None else set(group.client_ids)

        member.client.on_flush = asks
        return member

    def left(self) -> None:
        if not self.members:
            self.topics = set()
        self.check(has_changed=True)

    def expire(self) -> None:
        """Take out whom the broker has given up; it may, after so long, and must, a scan later."""
        before = len(self.members)
        for name, member in list(self.members.items()):
            silent_for = self.now - member.last_seen
            if member.client.connection.is_closed:
                if silent_for < EXPIRED_SECONDS:
                    raise PromiseBroken(Promise.SAME_LIST, f"{name} was closed after {silent_for} s")
                del self.members[name]
            elif silent_for > EXPIRED_SECONDS + SCAN_SECONDS:
                raise PromiseBroken(Promise.SAME_LIST, f"{name} is a member after {silent_for} s of silence")
        if len(self.members) < before:
            self.left()

    def check(self, has_changed: bool, notified_max: int = 1_000) -> None:
        if self.failures.texts:
            raise PromiseBroken(Promise.CONTAINED, self.failures.texts[0])
        for name, member in self.members.items():
            notified = 0
            for request in member.client.requests():
                assert request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, request
                assert read_header(request, NotifyConsumerIdsChangedRequestHeader).consumer_group == GROUP
                notified += 1
            if has_changed and not notified:
                raise PromiseBroken(Promise.NOTIFIED, f"{name} is a member, and was not notified")
            if has_changed and member.known != self.members.keys():
                raise PromiseBroken(
                    Promise.NOTIFIED, f"{name} was notified last when the members were {sorted(member.known)}"
                )
            if notified > notified_max:
                raise PromiseBroken(Promise.TOGETHER, f"{name} was notified {notified} times of one change")
            if notified and not has_changed:
                raise PromiseBroken(Promise.LEFT_ALONE, f"{name} was notified {notified} times without a change")
        expected = sorted(self.members)
        some = list(self.members.values())[:5]
        for asking in [*(member.client for member in some), self.world.connect()]:
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


def _expires_no_client(scan: Function) -> Function:
    return lambda self: []


def _always_tells(register: Function) -> Function:
    def registered(self: Any, client: Any, consumer: Any) -> bool:
        register(self, client, consumer)
        return True

    return registered


def _notifies_only_the_newest(next_member: Function) -> Function:
    def following(self: Any) -> Any:
        member = next_member(self)
        if self._members:
            member = self._members.pop()
            self._members.clear()
        return member

    return following


def _sends_inside_the_change(changed: Function) -> Function:
    def sent(self: Any, group: str) -> None:
        changed(self, group)
        while self.notify_some():
            pass

    return sent


def _takes_a_pass_under_way_for_enough(changed: Function) -> Function:
    def marked(self: Any, group: str) -> None:
        if not (self._members and self._group == group):
            changed(self, group)

    return marked


def _takes_any_length(fault: Function) -> Function:
    return lambda consumer: None


def _keeps_ids(left_under: Function) -> Function:
    def left(self: Any, client: Any) -> None:
        if client.channel not in self._groups_of:
            left_under(self, client)
        else:
            counts = self._group_counts[client.channel]
            counts[client.client_id] -= 1

    return left


# ---- scripts that lead there: the right code passes them, the wrong one does not ------------------------------------


def members_that_come_stay_leave_and_vanish(state: GroupMachine) -> None:
    state.first_start()
    for name in "abc":
        state.heartbeat_comes(name, ("T",))
    state.heartbeat_comes("a", ("T",))
    state.leave("b")
    state.vanish("c")


def a_member_that_wants_other_topics(state: GroupMachine) -> None:
    state.first_start()
    state.heartbeat_comes("a", ("T",))
    state.heartbeat_comes("b", ("T",))
    state.heartbeat_comes("a", ("T", "U"))
    state.heartbeat_comes("a", ("U", "V"))


def a_member_that_falls_silent(state: GroupMachine) -> None:
    state.first_start()
    state.heartbeat_comes("a", ("T",))
    state.heartbeat_comes("b", ("T",))
    state.fall_silent("a")
    state.time_passes(seconds=150)


def a_name_that_is_one_character_too_long(state: GroupMachine) -> None:
    state.first_start()
    state.heartbeat_comes("a", ("T",))
    state.absurd_heartbeat_comes("a", size=128)


def a_few_members_that_are_reset(state: GroupMachine) -> None:
    state.first_start()
    state.heartbeat_comes("a", ("T",))
    state.crowd_comes_and_is_reset(count=2)


def a_crowd_that_is_reset(state: GroupMachine) -> None:
    """Some members stay while a crowd that is larger than Python's stack is deep comes and is reset."""
    state.first_start()
    state.heartbeat_comes("a", ("T",))
    state.heartbeat_comes("b", ("T",))
    state.crowd_comes_and_is_reset(CROWD)


PLANTED: Mapping[str, Bug] = {
    "topics do not count": Bug(
        ConsumerGroupInfo,
        "update_subscription",
        _does_not_look_at_topics,
        (Promise.NOTIFIED,),
        a_member_that_wants_other_topics,
    ),
    "topics stay": Bug(
        ConsumerGroupInfo,
        "update_subscription",
        _keeps_old_topics,
        (Promise.SAME_TOPICS, Promise.NOTIFIED),
        a_member_that_wants_other_topics,
    ),
    "no client expires": Bug(
        ConsumerManager,
        "scan_not_active_channel",
        _expires_no_client,
        (Promise.SAME_LIST,),
        a_member_that_falls_silent,
    ),
    "only the newest is notified": Bug(
        ConsumerIdsChangedService,
        "_next_member",
        _notifies_only_the_newest,
        (Promise.NOTIFIED,),
        members_that_come_stay_leave_and_vanish,
    ),
    "names of any length": Bug(
        client_manage,
        "_subscription_fault",
        _takes_any_length,
        (Promise.BOUNDED,),
        a_name_that_is_one_character_too_long,
    ),
    "ids of producers stay": Bug(
        ProducerManager, "_leave_client_id", _keeps_ids, (Promise.FORGOTTEN,), a_few_members_that_are_reset
    ),
    "everything is a change": Bug(
        ConsumerManager,
        "register_consumer",
        _always_tells,
        (Promise.LEFT_ALONE,),
        members_that_come_stay_leave_and_vanish,
    ),
    "a change sends": Bug(
        ConsumerIdsChangedService,
        "changed",
        _sends_inside_the_change,
        (Promise.CONTAINED, Promise.TOGETHER, Promise.NOTIFIED),
        a_crowd_that_is_reset,
        is_common=False,
    ),
    "a change during a pass is lost": Bug(
        ConsumerIdsChangedService,
        "changed",
        _takes_a_pass_under_way_for_enough,
        (Promise.NOTIFIED,),
        a_crowd_that_is_reset,
        is_common=False,
    ),
}


class TestScripts(MachineTests):
    machine, bugs = GroupMachine, PLANTED
