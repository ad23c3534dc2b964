"""Plans of cluster histories: what clients ask and what goes wrong, as a list of operations drawn from one integer.

A plan is a value. The same plan is the same history, and a plan with operations left out is a history too, so a failing
one can be made smaller. Every fault ends by itself before the plan does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from random import Random

import attrs

from rocketpy.protocol.sysflag import TRANSACTION_COMMIT_TYPE, TRANSACTION_NOT_TYPE, TRANSACTION_ROLLBACK_TYPE

PRODUCERS, CONSUMERS = 3, 2
TRANSACTIONS = "transactions"
"""The host of the producer that has transactions."""

LIAR, LIES = "liar", ("ahead", "ahead later", "nonsense", "record", "flags")
"""A dishonest client, and what it does."""

DELAY_LEVEL_MAX = 3
"""The highest delay level that is used: of 10 s."""

_DELAYED, _TRANSACTIONS, _LIES = 0.04, 0.04, 0.03
"""Parts of the clients' work."""

_WORK = ("send", "send delayed", "send batch", "transaction", "checked transaction", "lie", "delete topic")
_BATCH_MAX = 5
_DELETIONS = 6

_FAULTS_FROM_S = 5.0
_FAULTS_UNTIL = 0.9
"""Part of a plan's time in which faults begin."""

_BODY_SIZES = ((0, 10, 200, 2000), (50,))
"""Bytes added to bodies, drawn for each plan: of equal records those of two histories begin at the same offsets."""


class Decision(Enum):
    """What a producer decides about a half message; the value is that of the request."""

    COMMIT = TRANSACTION_COMMIT_TYPE
    ROLLBACK = TRANSACTION_ROLLBACK_TYPE
    NEVER = TRANSACTION_NOT_TYPE


@attrs.frozen
class Operation:
    """One thing that happens: a send of a producer, or a fault that lasts some seconds."""

    at_s: float
    kind: str
    target: str
    """A host by its name in the history; two of them, ``a>b``, for a link."""
    seconds: float = 0.0
    value: float = 0.0
    """What the kind needs besides: bytes of a body, a delay level, a decision, milliseconds of a step, a rate."""

    def __str__(self) -> str:
        lasts = f" for {self.seconds:.1f} s" if self.seconds else ""
        value = f" ({self.value:g})" if self.value else ""
        return f"{self.at_s:7.3f}  {self.kind} {self.target}{value}{lasts}"


@attrs.frozen
class Plan:
    """A cluster and what happens in it."""

    seed: int
    is_sync_flush: bool
    operations: tuple[Operation, ...]
    seconds: float = 60.0
    disk_delay_s: float = 0.0005
    masters: tuple[str, ...] = ("broker-a", "broker-b")
    has_slaves: bool = False
    is_sync_master: bool = False
    cuts_tails: bool = False
    """Whether a slave cuts its log where it parts from its master's, and follows again."""

    slave_count: int = 1
    """Slaves of each master, if there are any."""
    has_pool: bool = False
    """Whether masters have the transient store pool; only with ASYNC_FLUSH."""
    log_directories: tuple[str, ...] = ()
    """Where brokers have their logs; none for the default."""
    moves_directories: bool = False
    """Whether the first of these is only read from a broker's second start on, and there is another one."""

    sends_back: bool = False
    """Whether consumers send some messages back."""

    expires: bool = False
    """Whether the log has small files, and brokers delete the oldest ones of a disk that is nearly full."""

    @property
    def brokers(self) -> list[str]:
        """The masters, and then their slaves by the masters' names with ``/1``, ``/2``."""
        return [*self.masters, *(each for name in self.masters for each in self.slaves_of(name))]

    def slaves_of(self, name: str) -> list[str]:
        """The slaves of a name as it begins."""
        return [f"{name}/{number + 1}" for number in range(self.slave_count)] if self.has_slaves else []

    def hosts_of(self, name: str) -> set[str]:
        """All hosts of a name."""
        return {name, *self.slaves_of(name)}

    def __str__(self) -> str:
        flush = "SYNC_FLUSH" if self.is_sync_flush else "ASYNC_FLUSH"
        role = "SYNC_MASTER" if self.is_sync_master else "ASYNC_MASTER"
        lines = [
            f"plan of seed {self.seed}: {', '.join(self.brokers)}; {role}, {flush}, "
            f"{'slaves cut their tails, ' if self.cuts_tails else ''}"
            f"{'transient pool, ' if self.has_pool else ''}"
            f"{', '.join(self.log_directories)}{' that move, ' if self.moves_directories else ''}"
            f"{'old files are deleted, ' if self.expires else ''}"
            f"a disk call takes {self.disk_delay_s:g} s, {len(self.operations)} operations"
        ]
        return "\n".join([*lines, *map(str, self.operations)])


def is_fault(operation: Operation) -> bool:
    """Whether it is no client's work."""
    return operation.kind not in _WORK


def plan_of(
    seed: int,
    *,
    pairs: bool = False,
    aimed: bool = False,
    wide: bool = False,
    deletes: bool = False,
    pools: bool = False,
    expires: bool = False,
    seconds: float = 60.0,
    count: int = 200,
    faults: int = 12,
    only: str = "",
) -> Plan:
    """Draw a plan: ``count`` operations, of which ``faults`` are faults; of the kinds that ``only`` names, if it does.

    With ``pairs`` each master has a slave, and most masters answer when it has a message. Faults that are drawn one by
    one hardly ever meet: ``aimed`` plans have fewer of them, and a sequence: the port for slaves is closed, roles
    change meanwhile, and perhaps back once more. ``wide`` plans differ in more settings, and have batches and
    messages that are sent back. With ``deletes`` topics are deleted too; with ``pools`` some have the transient pool.
    With ``expires`` brokers delete old files of their logs.
    """
    random = Random(f"plan {seed}{' aimed' if aimed else ''}")
    plan = Plan(
        seed,
        is_sync_flush=random.random() < 0.7,
        operations=(),
        seconds=seconds,
        disk_delay_s=random.choice((0.0005, 0.02, 0.1)),
    )
    if pairs:
        plan = attrs.evolve(
            plan,
            is_sync_flush=random.random() < 0.3,
            disk_delay_s=random.choice((0.0005, 0.02)),
            masters=random.choice((("broker-a",), ("broker-a", "broker-b"))),
            has_slaves=True,
            is_sync_master=random.random() < 0.8,
            cuts_tails=seed % 6 == 1,
        )
    more = Random(f"more {seed}")  # of its own: plans that have none of it stay what they are
    if wide:
        plan = _widened(more, plan, pools=pools)
    sends: list[Operation] = []
    sizes = random.choice(_BODY_SIZES)
    while len(sends) < count - faults:
        sends += _work(random, plan, sizes, often=4.0 if aimed else 1.0)[: count - faults - len(sends)]
    if wide:
        sends = [_as_batch(more, each) for each in sends]
    if deletes:
        sends += [_deletion(more, plan) for _ in range(_DELETIONS)]
    sends.sort(key=lambda each: each.at_s)
    drawn = [_fault(random, plan, sends, only) for _ in range(faults)]
    if pairs and aimed:
        around = _around_a_change_of_roles(random, plan)
        drawn = [*drawn[: faults // 3], *(_wide_sequence(more, plan) if wide else around)]
    if expires:
        plan = attrs.evolve(plan, expires=True)
        drawn += _expirations(Random(f"expires {seed}"), plan)
    return attrs.evolve(plan, operations=tuple(sorted([*sends, *drawn], key=lambda each: each.at_s)))


def _widened(random: Random, plan: Plan, *, pools: bool) -> Plan:
    if plan.has_slaves:
        plan = attrs.evolve(
            plan,
            is_sync_flush=random.random() < 0.5,
            slave_count=2 if len(plan.masters) == 1 and random.random() < 0.4 else 1,
        )
    directories = random.choice(((), (), ("/store/log-0",), ("/store/log-0", "/store/log-1")))
    return attrs.evolve(
        plan,
        has_pool=random.random() < 0.4 and pools and not plan.is_sync_flush,
        log_directories=directories,
        sends_back=True,
        moves_directories=bool(directories) and random.random() < 0.5,
    )


def _as_batch(random: Random, operation: Operation) -> Operation:
    """Let some sends be of several messages at once."""
    if operation.kind != "send" or random.random() > 0.1:
        return operation
    return attrs.evolve(operation, kind="send batch", value=random.randint(2, _BATCH_MAX))


def _deletion(random: Random, plan: Plan) -> Operation:
    """Return when a topic of its own is made, gets messages, and is deleted some seconds later."""
    at_s = random.uniform(0, plan.seconds * 0.5)
    return Operation(round(at_s, 4), "delete topic", random.choice(plan.masters), round(random.uniform(0.0, 5.0), 3))


def _expirations(random: Random, plan: Plan) -> list[Operation]:
    """Return when disks are so full that old files are deleted, once while a consumer is away that has not read them.

    The value is how full the disk is. Above 85 % files are deleted until it is not, above 90 % no message is taken.
    """
    kind, lasts = "delete old files", 3.5
    sequence = [
        (random.uniform(0.25, 0.85) * plan.seconds, kind, random.choice((*plan.masters, *plan.brokers)), lasts, 0.86)
        for _ in range(2)
    ]
    away_s = random.uniform(0.05, 0.3) * plan.seconds
    back_s = away_s + random.uniform(0.3, 0.5) * plan.seconds
    sequence += [
        (away_s, "restart consumer", _consumer(random, plan), back_s - away_s, 0.0),
        (back_s - random.uniform(0.1, lasts), kind, random.choice(plan.brokers), lasts, random.choice((0.9, 0.97))),
    ]
    return [Operation(round(at, 4), name, of, round(seconds, 3), value) for at, name, of, seconds, value in sequence]


def _work(random: Random, plan: Plan, sizes: Sequence[int], *, often: float) -> list[Operation]:
    """Return what a client does: mostly a send. ``often`` is how often it is a delayed one or a transaction."""
    kind = random.random() / often
    if kind < _DELAYED:
        at_s, target = random.uniform(0, plan.seconds), f"producer-{random.randrange(PRODUCERS)}"
        return [Operation(round(at_s, 4), "send delayed", target, value=random.randint(1, DELAY_LEVEL_MAX))]
    if kind < _DELAYED + _TRANSACTIONS:
        at_s, decides_after_s = (
            random.uniform(0, plan.seconds),
            random.choice((0.0, 0.5, 5.0) if often == 1 else (0.5, 5.0, 20.0)) * random.random(),
        )
        decision = random.choice((Decision.COMMIT, Decision.COMMIT, Decision.ROLLBACK, Decision.NEVER))
        kind_of_end = random.choice(("transaction", "checked transaction"))
        return [Operation(round(at_s, 4), kind_of_end, TRANSACTIONS, round(decides_after_s, 3), decision.value)]
    if kind < _DELAYED + _TRANSACTIONS + _LIES:
        at_s, lie = random.uniform(0, plan.seconds), random.randrange(len(LIES))
        return [Operation(round(at_s, 4), "lie", random.choice(plan.masters), 10.0, lie)]
    return _sends(random, plan, sizes)


def _sends(random: Random, plan: Plan, sizes: Sequence[int]) -> list[Operation]:
    """Return a send, or one of each producer almost at once, so that they are on the way to the disk together."""
    at_s = random.uniform(0, plan.seconds)
    numbers = range(PRODUCERS) if random.random() < 0.3 else [random.randrange(PRODUCERS)]
    return [
        Operation(
            at_s=round(min(plan.seconds, at_s + random.uniform(0, 2 * plan.disk_delay_s)), 4),
            kind="send",
            target=f"producer-{number}",
            value=random.choice(sizes),
        )
        for number in numbers
    ]


def _fault(random: Random, plan: Plan, sends: list[Operation], only: str) -> Operation:
    at_s = random.uniform(_FAULTS_FROM_S, plan.seconds * _FAULTS_UNTIL)
    if random.random() < 0.5:  # most of the time nothing is under way, so half of them hit a send
        begun = min((each.at_s for each in sends if each.at_s >= at_s), default=at_s)
        at_s = begun + random.uniform(0, 4 * plan.disk_delay_s)
    at_s = round(min(at_s, plan.seconds), 4)
    longest = min(20.0, plan.seconds - at_s)
    lasts = round(min(random.choice((0.1, 0.5, 2.0, 8.0, 20.0)) * random.uniform(0.5, 1.0), longest), 3)
    kinds = _KINDS + _KINDS_OF_PAIRS if plan.has_slaves else _KINDS
    kind, target, value = random.choice([each for each in kinds if not only or each[0] in only.split(", ")])
    return Operation(at_s, kind, target(random, plan), lasts, value(random))


def _around_a_change_of_roles(random: Random, plan: Plan) -> list[Operation]:
    target = random.choice(plan.masters)
    at_s = random.uniform(_FAULTS_FROM_S, plan.seconds * 0.4)
    lasts = min(26.0, plan.seconds - at_s)
    change_s = at_s + random.choice((2.0, 16.0, 24.0, 24.0)) * random.uniform(0.6, 1.0)  # tables come every 10 s
    sequence = [
        Operation(round(at_s, 4), "close port", target, round(lasts, 3)),
        Operation(round(change_s, 4), "change roles", target, round(random.uniform(0.1, 2.0), 3)),
    ]
    if random.random() < 0.5:
        back_s = min(at_s + lasts + random.choice((0.5, 2.0, 5.0, 15.0)) * random.uniform(0.2, 1.0), plan.seconds)
        sequence.append(Operation(round(back_s, 4), "change roles", target, round(random.uniform(0.1, 2.0), 3)))
    return sequence


def _wide_sequence(random: Random, plan: Plan) -> list[Operation]:
    return (_left_tail if random.random() < 0.4 else _sequence)(random, plan)


def _left_tail(random: Random, plan: Plan) -> list[Operation]:
    """Return a tail of the old master that groups have consumed, while new messages get the same queue offsets.

    Slaves do not get the tail, and are told of no group's progress in it. Consumers are away from before the change of
    roles until the new master was stopped in order, or roles have changed back: at its start it asks the old one, which
    has offsets of its tail. Then fresh consumers ask for the offsets of their groups: one that has lived through would
    know its place itself.
    """
    target = random.choice(plan.masters)
    at_s = random.uniform(_FAULTS_FROM_S, plan.seconds * 0.25)
    change_s = at_s + random.uniform(6.0, 12.0)  # a group consumes and commits meanwhile
    down_s = random.uniform(0.1, 1.0)
    again_s = change_s + down_s + random.uniform(5.0, 12.0)  # new messages come, fewer than the tail has, or more
    again = random.choice(("stop master", "stop master", "change roles"))
    back_s = again_s + random.uniform(1.5, 4.0)
    consumers = random.choice((["consumer-0"], [f"consumer-{number}" for number in range(CONSUMERS)]))
    away_s = change_s - random.uniform(0.05, 0.5)
    sequence = [
        (at_s, "close port", target, random.choice((change_s - at_s + 2.0, back_s - at_s))),
        (change_s, "change roles", target, down_s),
        (again_s, again, target, random.uniform(0.1, 0.6)),
        *((away_s, "restart consumer", each, back_s - away_s) for each in consumers),
    ]
    return _operations(plan, sequence)


def _sequence(random: Random, plan: Plan) -> list[Operation]:
    """Return a port or a direction that is closed, a change of roles meanwhile, and what hits a pair in that state.

    Roles change back within seconds of the first return, or the new master is stopped in order while the old one may
    stand with its alarm; and a consumer may be away while roles change, so that the next one begins at an offset.
    """
    target = random.choice(plan.masters)
    at_s = random.uniform(_FAULTS_FROM_S, plan.seconds * 0.4)
    lasts = min(26.0, plan.seconds - at_s)
    change_s = at_s + random.choice((2.0, 16.0, 24.0)) * random.uniform(0.6, 1.0) * lasts / 26.0
    down_s = random.uniform(0.1, 2.0)
    slave = plan.slaves_of(target)[0]
    closed = random.choice(("close port", "close port", f"{target}>{slave}", f"{slave}>{target}"))
    kind, link = (closed, target) if closed == "close port" else ("cut one way", closed)
    sequence = [(at_s, kind, link, lasts), (change_s, "change roles", target, down_s)]
    if random.random() < 0.6:
        sequence.append(
            (change_s - random.uniform(0.1, 1.0), "restart consumer", _consumer(random, plan), down_s + 4.0)
        )
    after_s = change_s + down_s + random.choice((0.3, 2.0, 5.0, 12.0)) * random.uniform(0.5, 1.0)
    for follows in random.choice(((), ("change roles",), ("stop master",), ("stop master", "change roles"))):
        sequence.append((after_s, follows, target, random.uniform(0.1, 2.0)))
        after_s += random.uniform(2.5, 8.0)
    if random.random() < 0.4:  # a fresh consumer asks for the offsets of its group; others know their places themselves
        sequence.append((after_s, "restart consumer", _consumer(random, plan), 0.5))
    return _operations(plan, sequence)


def _operations(plan: Plan, sequence: Sequence[tuple[float, str, str, float]]) -> list[Operation]:
    return [
        Operation(round(min(at, plan.seconds), 4), name, of, round(seconds, 3)) for at, name, of, seconds in sequence
    ]


def _broker(random: Random, plan: Plan) -> str:
    return random.choice(plan.brokers)


def _nameserver(random: Random, plan: Plan) -> str:
    return f"nameserver-{random.randrange(2)}"


def _consumer(random: Random, plan: Plan) -> str:
    return f"consumer-{random.randrange(CONSUMERS)}"


def _link(random: Random, plan: Plan) -> str:
    clients = [f"producer-{number}" for number in range(PRODUCERS)]
    clients += [f"consumer-{number}" for number in range(CONSUMERS)]
    clients.append(TRANSACTIONS)
    ends = [random.choice(plan.brokers), random.choice([*clients, "nameserver-0", "nameserver-1"])]
    random.shuffle(ends)
    return ">".join(ends)


def _master(random: Random, plan: Plan) -> str:
    return random.choice(plan.masters)


def _slave(random: Random, plan: Plan) -> str:
    return random.choice(plan.slaves_of(random.choice(plan.masters)))


def _pair(random: Random, plan: Plan) -> str:
    name = random.choice(plan.masters)
    return random.choice((f"{name}>{name}/1", f"{name}/1>{name}"))


def _none(random: Random) -> float:
    return 0.0


Target = Callable[[Random, Plan], str]
Value = Callable[[Random], float]

_KINDS: tuple[tuple[str, Target, Value], ...] = (
    ("kill", _broker, _none),
    ("kill", _broker, _none),
    ("lose power", _broker, _none),
    ("lose power", _broker, _none),
    ("stop", _broker, _none),
    ("pause", _broker, _none),
    ("fail sync", _broker, _none),
    ("fail write", _broker, _none),
    ("fill disk", _broker, lambda random: random.choice((0, 8192, 1 << 16))),
    ("slow disk", _broker, lambda random: random.choice((0.02, 0.3, 6.0))),
    ("step clock", _broker, lambda random: random.choice((-60_000, -500, 500, 60_000, 3_600_000))),
    ("run clock", _broker, lambda random: random.choice((0.5, 0.99, 1.5))),
    ("kill nameserver", _nameserver, _none),
    ("restart consumer", _consumer, _none),
    ("reset offsets", _consumer, lambda random: random.choice((1, 5, 20))),
    ("kill producer", lambda random, plan: TRANSACTIONS, _none),
    ("cut", _link, _none),
    ("cut one way", _link, _none),
    ("reset", _link, _none),
    ("slow link", _link, lambda random: random.choice((0.05, 0.5, 4.0))),
)

_KINDS_OF_PAIRS: tuple[tuple[str, Target, Value], ...] = (
    ("wipe", _slave, _none),
    ("change roles", _master, _none),
    ("change roles", _master, _none),
    ("cut", _pair, _none),
    ("cut", _pair, _none),
    ("cut one way", _pair, _none),
    ("reset", _pair, _none),
    ("slow link", _pair, lambda random: random.choice((0.05, 0.5, 4.0))),
)
