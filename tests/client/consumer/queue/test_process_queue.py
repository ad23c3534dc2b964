"""What is in flight of one queue, against a model that a reader can check by eye."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rocketpy.client.consumer.queue.process_queue import ProcessQueue
from rocketpy.protocol.message import MessageExt, MessageQueue

QUEUE = MessageQueue("T", "b", 0)


def message(offset: int, body: bytes = b"xy") -> MessageExt:
    return MessageExt("T", body, queue_offset=offset)


def test_removal_is_told_only_when_something_was_removed() -> None:
    told: list[bool] = []
    process_queue = ProcessQueue(QUEUE, on_removed=lambda: told.append(True))
    process_queue.put([message(1)])
    process_queue.remove([message(7)])
    assert not told
    process_queue.remove([message(1)])
    assert told


def test_a_dropped_queue_forgets_everything() -> None:
    process_queue = ProcessQueue(QUEUE)
    process_queue.put([message(1), message(2)])
    process_queue.take(1)
    process_queue.clear()
    assert (process_queue.message_count, process_queue.size_bytes) == (0, 0)
    assert message(1) not in process_queue
    assert message(2) not in process_queue


class ProcessQueueMachine(RuleBasedStateMachine):
    """The model: offsets that wait, offsets that are taken, and the highest there has been."""

    def __init__(self) -> None:
        super().__init__()
        self.process_queue = ProcessQueue(QUEUE)
        self.waiting: list[int] = []
        self.taken: list[int] = []
        self.highest = -1

    @rule(offsets=st.lists(st.integers(0, 40), unique=True).map(sorted))
    def put(self, offsets: list[int]) -> None:
        new = [each for each in offsets if each > self.highest]
        put = self.process_queue.put([message(each, bytes(each)) for each in offsets])
        assert [each.queue_offset for each in put] == new
        self.waiting += new
        self.highest = max([self.highest, *new])

    @rule(offsets=st.sets(st.integers(0, 40)))
    def acknowledge(self, offsets: set[int]) -> None:
        known = offsets.intersection(self.waiting)
        self.waiting = [each for each in self.waiting if each not in known]
        answer = self.process_queue.remove(message(each, bytes(each)) for each in sorted(offsets))
        assert answer == (self.committable() if known else None)

    @rule(count=st.integers(1, 5))
    def take(self, count: int) -> None:
        expected = self.waiting[:count]
        assert [each.queue_offset for each in self.process_queue.take(count)] == expected
        self.waiting = self.waiting[count:]
        self.taken += expected

    @precondition(lambda self: self.taken)
    @rule(count=st.integers(1, 5))
    def put_last_back(self, count: int) -> None:
        back = self.taken[-count:]
        self.process_queue.put_back([message(each) for each in back])
        self.taken = self.taken[: -len(back)]
        self.waiting = back + self.waiting

    @rule()
    def put_all_back(self) -> None:
        self.process_queue.put_back()
        self.waiting, self.taken = self.taken + self.waiting, []

    @precondition(lambda self: self.taken)
    @rule()
    def give_first_up(self) -> None:
        self.process_queue.give_up([message(self.taken[0], bytes(self.taken[0]))])
        del self.taken[0]

    @rule()
    def commit(self) -> None:
        had, self.taken = self.taken, []
        assert self.process_queue.commit() == (self.committable() if had else None)

    def committable(self) -> int | None:
        if self.taken or self.waiting:
            return min(self.taken + self.waiting)
        return self.highest + 1 if self.highest >= 0 else None

    @invariant()
    def it_agrees_with_the_model(self) -> None:
        process_queue = self.process_queue
        assert [each.queue_offset for each in process_queue.waiting] == self.waiting
        assert [each.queue_offset for each in process_queue.taken] == self.taken
        assert process_queue.has_waiting == bool(self.waiting)
        assert process_queue.consumer_offset == self.committable()
        assert process_queue.message_count == len(self.waiting) + len(self.taken)
        assert process_queue.size_bytes == sum(self.waiting) + sum(self.taken)
        is_empty = not self.waiting and not self.taken
        assert process_queue.bounds == (None if is_empty else (self.committable(), self.highest))
        assert process_queue.span == (0 if is_empty else self.highest - (self.committable() or 0))


ProcessQueueMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestProcessQueue = ProcessQueueMachine.TestCase


# ---- planted bugs ---------------------------------------------------------------------------------------------------


def _takes_in_again(self: ProcessQueue, messages: Sequence[MessageExt]) -> Sequence[MessageExt]:
    for each in messages:
        self._waiting[each.queue_offset] = each
        self._highest = max(self._highest, each.queue_offset)
    self.message_count += len(messages)
    self.size_bytes += sum(len(each.body) for each in messages)
    return messages


def _puts_back_in_reverse(self: ProcessQueue, messages: Sequence[MessageExt] | None = None) -> None:
    for message in self.taken if messages is None else messages:
        known = self._taken.pop(message.queue_offset, None)
        if known is not None:
            self._waiting[message.queue_offset] = known
            self._waiting.move_to_end(message.queue_offset, last=False)


def _commits_to_the_end(self: ProcessQueue, count: int, size: int) -> int | None:
    if not count:
        return None
    self.message_count -= count
    self.size_bytes -= size
    return self._highest + 1


def _passes_what_is_taken(self: ProcessQueue) -> int | None:
    return next(iter(self._waiting)) if self._waiting else self._highest + 1 if self._highest >= 0 else None


SCRIPT: Sequence[tuple[str, object]] = (
    ("put", [1, 2, 3, 4]),
    ("put", [3, 4, 5]),
    ("take", 3),
    ("put_last_back", 2),
    ("give_first_up", None),
    ("take", 1),
    ("acknowledge", {4}),
    ("put_all_back", None),
    ("take", 2),
    ("commit", None),
)
"""Steps of the machine, each with its argument."""

PLANTED = {
    "taken in again": ("put", _takes_in_again),
    "put back in reverse": ("put_back", _puts_back_in_reverse),
    "committed to the end": ("_removed", _commits_to_the_end),
    "past what is taken": ("consumer_offset", property(_passes_what_is_taken)),
    "not given up": ("give_up", lambda self, messages: None),
}


def play_script() -> None:
    machine = ProcessQueueMachine()
    for step, argument in SCRIPT:
        getattr(machine, step)(*([] if argument is None else [argument]))
        machine.it_agrees_with_the_model()


def test_the_script_finds_nothing_without_a_bug() -> None:
    play_script()


@pytest.mark.parametrize("name", PLANTED)
def test_the_script_finds_each_planted_bug(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessQueue, *PLANTED[name])
    with pytest.raises(AssertionError):
        play_script()


@pytest.mark.by_chance
@pytest.mark.parametrize("name", PLANTED)
def test_the_machine_finds_each_planted_bug(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessQueue, *PLANTED[name])
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            ProcessQueueMachine,
            settings=settings(ProcessQueueMachine.TestCase.settings, max_examples=1000, phases=[Phase.generate]),
        )
