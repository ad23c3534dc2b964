"""What every machine needs to be credible: promises that it finds broken, and deliberate bugs that it must find.

A machine that finds no planted bug proves nothing. A bug is a wrong function instead of a right one, for as long
as a block lasts. A script is steps of the machine in a fixed order: cheap, and the same in every run; each bug has one
that shows it. A hunt is the machine itself, with the same examples each time, from which the first break is enough: it
shows that the machine would have found the bug without the script, and takes long (``by_chance``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from enum import Enum
from types import ModuleType
from typing import Any, ClassVar, Protocol, TypeVar

import attrs
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rocketpy import BUILD
from rocketpy.testing.store_world import LifeEnded
from tests.task_order import TRIO_RANDOM

Machine = TypeVar("Machine", bound=RuleBasedStateMachine)
Function = Callable[..., Any]
Wrong = Callable[[Function], Function]
"""Makes the wrong function from the right one."""

Change = tuple[object, str, Wrong]
"""A class or module, the name of a function in it, and what makes the wrong function from the right one."""

Strategies = Mapping[str, st.SearchStrategy[Any]]
"""Where the arguments of a step come from."""

Condition = Callable[[Any], bool]
"""Whether a machine can do a step now."""

Script = Callable[[Any], None]
"""Steps of a machine, in a fixed order."""

# Trio shuffles tasks that are ready together. Hypothesis gives the shuffling a seed for each of its examples; a script,
# which is played outside of it, has the seeds below, or the same script would be another one in each run.
SCHEDULES = range(4)
"""The orders in which a script is played: it must hold in each of them."""

SCHEDULES_FOR_BUGS = range(40)
"""The orders in which a bug may show itself: the first that does is enough."""


class PromiseBroken(AssertionError):
    """A machine has found a way to break one of its promises."""

    def __init__(self, promise: Enum, what: str) -> None:
        super().__init__(f"{promise.value}: {what}")
        self.promise = promise


@attrs.frozen
class Bug:
    """A small change of a real class or module, and the promises of which it breaks one first."""

    owner: object
    function_name: str
    wrong: Wrong
    promises: tuple[Enum, ...]
    script: Script
    """Breaks one of the promises with the bug, and none without it."""

    is_common: bool = True
    """Whether a hunt finds it within seconds."""


@contextmanager
def planted(owner: object, function_name: str, wrong: Wrong) -> Iterator[None]:
    """Have the wrong function as long as the block lasts."""
    skip_where_compiled(owner)
    original = getattr(owner, function_name)
    setattr(owner, function_name, wrong(original))
    try:
        yield
    finally:
        setattr(owner, function_name, original)


def skip_where_compiled(owner: object) -> None:
    """Skip a test that would plant a bug in compiled code, which calls the right function all the same.

    Whether a machine finds a bug does not depend on the build: plain Python shows it.
    """
    module = owner.__name__ if isinstance(owner, ModuleType) else getattr(owner, "__module__", "")
    if module in BUILD.modules and not BUILD.why_pure:
        pytest.skip(f"{module} is compiled: no bug can be planted in it (ROCKETPY_PURE=1)")


@attrs.frozen
class PlantedBug:
    """A bug that can be switched on."""

    what: str
    changes: Sequence[Change]

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Have the bug as long as the block lasts."""
        with ExitStack() as restored:
            for change in self.changes:
                restored.enter_context(planted(*change))
            yield


@contextmanager
def living(broken: Callable[[Enum, str], None], promise: Enum) -> Iterator[None]:
    """Break a promise when the broker fails in the block in any other way than by a death that was arranged."""
    try:
        yield
    except (PromiseBroken, LifeEnded):
        raise
    except Exception as failure:
        broken(promise, f"the broker has ended: {failure!r}")


class Breakable(Protocol):
    """A machine that does nothing more at its end when something in it has failed: it would only hide what."""

    is_broken: bool


@contextmanager
def broken_unless_done(machine: Breakable) -> Iterator[None]:
    """Note that the machine is broken if the block does not come to its end, whatever the reason is."""
    is_done = False
    try:
        yield
        is_done = True
    finally:
        machine.is_broken |= not is_done


def hunted(*, examples: int, steps: int) -> settings:
    """Return how a bug is looked for: the same steps each time, until it shows itself; nothing is made smaller."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


@attrs.frozen
class Hunt:
    """Where a bug is looked for: the steps that may lead to it, and how the machine begins."""

    invariants: Sequence[Enum]  # one of them is named: which one depends on what comes first
    rules: Mapping[str, Strategies]
    first_start: Strategies = attrs.Factory(dict)


@attrs.frozen
class Hunters:
    """The hunts of one machine, which has an ``initialize`` step ``first_start``.

    A hunter is the machine with the rules of one hunt only, each with these arguments; what it checks is the same.
    ``conditions`` are those of its rules by their names, ``otherwise`` is that of all others.
    """

    machine: type[RuleBasedStateMachine]
    broken: type[AssertionError]
    """What the machine raises, with the ``invariant`` that is not true."""
    how: settings
    conditions: Mapping[str, Condition]
    otherwise: Condition = lambda machine: True

    def find(self, name: str, bug: PlantedBug, hunt: Hunt) -> None:
        """Look for a bug; fail unless one of the invariants is broken that it is known to break."""
        with bug.planted(), pytest.raises(self.broken) as raised:
            run_state_machine_as_test(self._hunter(hunt), settings=self.how)
        invariant: Enum = vars(raised.value)["invariant"]
        assert invariant in hunt.invariants
        print(f"planted bug found: {name}: {invariant.name}")

    def find_nothing(self, hunts: Iterable[Hunt]) -> None:
        """Hunt for a little where there is no bug: a hunter that finds something there finds no bug either."""
        for hunt in hunts:
            run_state_machine_as_test(self._hunter(hunt), settings=settings(self.how, max_examples=4))

    def _hunter(self, hunt: Hunt) -> type[RuleBasedStateMachine]:
        members: dict[str, object] = {}
        for name, member in vars(self.machine).items():
            if hasattr(member, "hypothesis_stateful_rule"):
                members[name] = self._plain(name)
        for name, strategies in hunt.rules.items():
            condition = self.conditions.get(name, self.otherwise)
            members[name] = precondition(condition)(rule(**strategies)(self._plain(name)))
        members["first_start"] = initialize(**hunt.first_start)(self._plain("first_start"))
        return type("Hunter", (self.machine,), members)

    def _plain(self, name: str) -> Callable[..., None]:
        """Return a step that is no rule."""

        def step(machine: RuleBasedStateMachine, *positional: Any, **named: Any) -> None:
            getattr(self.machine, name)(machine, *positional, **named)

        step.__name__ = name
        return step


def hunt(machine: type[RuleBasedStateMachine], bug: Bug, *, examples: int = 2_000, steps: int = 30) -> None:
    """Let a machine look for a bug; fail unless it breaks one of the promises that the bug is known to break.

    The examples are many times what a find takes: which they are changes with each number that the code contains.
    """
    with planted(bug.owner, bug.function_name, bug.wrong), pytest.raises(PromiseBroken) as raised:
        run_state_machine_as_test(machine, settings=hunted(examples=examples, steps=steps))
    assert raised.value.promise in bug.promises, raised.value


def play(machine: type[Machine], script: Callable[[Machine], None], *, schedules: range = SCHEDULES) -> None:
    """Let a machine do what a script says, and what it does at its end, once in each order of tasks."""
    before = TRIO_RANDOM.getstate()
    try:
        for schedule in schedules:
            TRIO_RANDOM.seed(schedule)
            state = machine()
            try:
                script(state)
            finally:
                state.teardown()
    finally:
        TRIO_RANDOM.setstate(before)


def play_with_bug(machine: type[RuleBasedStateMachine], bug: Bug) -> None:
    """Play the script of a bug with it; fail unless some order of tasks breaks a promise that it is known to break."""
    with planted(bug.owner, bug.function_name, bug.wrong), pytest.raises(PromiseBroken) as raised:
        play(machine, bug.script, schedules=SCHEDULES_FOR_BUGS)
    assert raised.value.promise in bug.promises, raised.value


class MachineTests:
    """The tests of a machine that is wrong only where a bug is planted; a subclass says which machine.

    A script holds without a bug. Each bug is found by its script, and a common one by chance too.
    """

    machine: ClassVar[type[RuleBasedStateMachine]]
    bugs: ClassVar[Mapping[str, Bug]]
    more_scripts: ClassVar[Sequence[Script]] = ()
    """Scripts that no bug has: histories in which the product was wrong once."""

    hunt_steps: ClassVar[int] = 30

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "script" in metafunc.fixturenames:
            scripts = dict.fromkeys([*self.more_scripts, *(bug.script for bug in self.bugs.values())])
            metafunc.parametrize("script", scripts)
        elif "bug" in metafunc.fixturenames:
            metafunc.parametrize("bug", self.bugs.values(), ids=self.bugs.keys())
        elif "common_bug" in metafunc.fixturenames:
            common = {name: bug for name, bug in self.bugs.items() if bug.is_common}
            metafunc.parametrize("common_bug", common.values(), ids=common.keys())

    def test_scripts(self, script: Script) -> None:
        play(self.machine, script)

    def test_each_planted_bug_is_found_by_its_script(self, bug: Bug) -> None:
        play_with_bug(self.machine, bug)

    @pytest.mark.by_chance
    def test_each_common_bug_is_found_by_chance(self, common_bug: Bug) -> None:
        hunt(self.machine, common_bug, steps=self.hunt_steps)
