"""Asks a whole program bad requests and holds each answer against what is promised for every well-framed request.

The promises: exactly one answer, on a connection that lives; a refusal has a remark that names the field, and no
exception's name in it that is not RocketMQ's; what is refused has changed nothing; no failure is unforeseen (none
reaches the broad catch of the dispatcher).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import encode_frame
from rocketpy.protocol.headers.codec import wire_names
from rocketpy.remoting.connection import Connection
from tests.broker.fuzz_cases import Case, header_classes
from tests.broker.whole_broker import Whole

OUTCOMES = {
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
    ResponseCode.QUERY_NOT_FOUND,
}
"""Answers to requests that make sense, whatever is found: not refusals."""

AUTOMATIC_CREATION = "a topic or group is created before the rest of the request is looked at, as in RocketMQ"

CREATE_IN_SPITE = {
    RequestCode.SEND_MESSAGE: AUTOMATIC_CREATION,
    RequestCode.SEND_MESSAGE_V2: AUTOMATIC_CREATION,
    RequestCode.SEND_BATCH_MESSAGE: AUTOMATIC_CREATION,
    RequestCode.PULL_MESSAGE: AUTOMATIC_CREATION,
    RequestCode.CONSUMER_SEND_MSG_BACK: AUTOMATIC_CREATION,
}
"""Codes that may change something although they refuse a request, while automatic creation is on."""

KEPT_IN_SPITE = {
    RequestCode.SEND_REPLY_MESSAGE: "the reply is stored although its requester is gone, as in RocketMQ",
    RequestCode.SEND_REPLY_MESSAGE_V2: "the reply is stored although its requester is gone, as in RocketMQ",
}
"""Codes that may refuse a request and keep something of it all the same."""

ALSO_NAMED = {
    "sysFlag": {"subscription", "group"},  # what the bits choose, and what is then missing
    "expressionType": {"filter message by"},
}
"""Words of RocketMQ's own remarks that stand for a field."""

FOREIGN_NAME = re.compile(
    r"Traceback|\b(?!RemotingCommandException|AclException|MQ\w*Exception)[A-Z]\w*(?:Error|Exception)\b"
)
PROBLEMS_SHOWN = 25


@attrs.define
class Fuzz:
    """One run against one program."""

    whole: Whole
    creates: bool = True
    """Whether topics and groups are created automatically."""
    case_count: int = 0
    refused_count: int = 0
    held_count: int = 0
    """Requests whose answer is owed: pulls that wait for a message."""
    problems: list[str] = attrs.field(factory=list)
    _connection: Connection | None = None
    _held: set[int] = attrs.field(factory=set)  # opaques of what is owed over the present connection
    _kept: str | None = None  # as of the last comparison; None after a request that was accepted

    async def ask_base(self, base: RemotingCommand) -> RemotingCommand | None:
        """Ask something that makes sense; return the answer, None if it is owed."""
        answers = await self.whole.ask_frame(encode_frame(base), self.whole.connect())
        self._kept = None
        return answers[0] if answers else None

    async def ask_all(self, base: RemotingCommand, cases: Iterable[Case]) -> None:
        """Ask a base, then every case, and note each broken promise."""
        good = await self.ask_base(base)
        for case in cases:
            await self.ask(case, good)
        self.compare(f"code {base.code}, the cases of one base together")

    async def ask(self, case: Case, good: RemotingCommand | None) -> None:
        """Ask one case; ``good`` is what its base was answered."""
        connection = self._open()
        self.case_count += 1
        opaque = case.command.opaque = self.case_count
        everything = [  # but for what a broker itself asks its clients: "your group has changed"
            each for each in await self.whole.ask_frame(case.frame, connection) if each.flag & 1
        ]
        answers = [answer for answer in everything if answer.opaque == opaque]
        late = {answer.opaque for answer in everything} - {opaque}
        if len(everything) != len(answers) + len(late) or not late <= self._held:
            self.problems.append(f"{case}: answers to {late} came, which no request waits for")
        self._held -= late
        for text in self.whole.errors.take():
            self.problems.append(f"{case}: {text}")
        if connection.is_closed:
            self.problems.append(f"{case}: the connection was closed")
        elif not answers and connection.deferred_count == len(self._held) + 1:
            self.held_count += 1
            self._held.add(opaque)
            self._kept = None
        elif len(answers) != 1:
            self.problems.append(f"{case}: {len(answers)} answers")
        else:
            self._judge(case, answers[0], good)

    def compare(self, what: str) -> None:
        """Note when what was refused since the last request that was accepted has changed something."""
        kept = self.whole.kept()
        if self._kept is not None and kept != self._kept:
            self.problems.append(f"{what}: refused, and changed: {_difference(self._kept, kept)}")
        self._kept = kept

    # ---- private --------------------------------------------------------------------------------------------------

    def _judge(self, case: Case, answer: RemotingCommand, good: RemotingCommand | None) -> None:
        remark = answer.remark or ""
        if FOREIGN_NAME.search(remark):
            self.problems.append(f"{case}: the remark has the name of an exception: {remark[:200]!r}")
        may_keep = case.command.code in KEPT_IN_SPITE or (self.creates and case.command.code in CREATE_IN_SPITE)
        if answer.code in OUTCOMES or may_keep:
            self._kept = None
        elif self._kept is None or self.refused_count % 16 == 0:
            self.compare(str(case))
        if answer.code in OUTCOMES:
            return
        self.refused_count += 1
        if not remark:
            self.problems.append(f"{case}: refused with {answer.code} and no remark")
        elif good is not None and good.code == 0 and case.field is not None and not _names(case, remark):
            self.problems.append(f"{case}: refused with a remark that does not name the field: {remark[:200]!r}")

    def _open(self) -> Connection:
        if self._connection is None or self._connection.is_closed:
            self._connection = self.whole.connect()
            self._held.clear()
        return self._connection


def _names(case: Case, remark: str) -> bool:
    """Whether a remark names the spoiled field: by its name, by a word of its name, or by what was found in it."""
    assert case.field is not None
    names = {case.field}
    for header_class in header_classes().get(case.command.code, []):
        attributes = [field.name for field in attrs.fields(header_class)]
        names |= {
            attribute
            for attribute, name in zip(attributes, wire_names(header_class), strict=True)
            if name == case.field
        }
    words = {
        word.lower()[:6] for name in names for word in re.findall(r"[A-Z]?[a-z]+", name)
    }  # compressed, compression
    words |= ALSO_NAMED.get(case.field, set())
    value = (case.command.ext_fields or {}).get(case.field, "").strip().encode(errors="replace").decode()[:20]
    return any(word in remark.lower() for word in words) or (
        value != "" and (value in remark or repr(value)[1:-1] in remark)
    )


def _difference(before: str, after: str) -> str:
    """The first position at which two texts differ."""
    at = next(
        (i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old != new),
        min(map(len, (before, after))),
    )
    start = max(0, at - 60)
    return f"{before[start : at + 80]!r} became {after[start : at + 80]!r}"
