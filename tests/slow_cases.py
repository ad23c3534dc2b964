"""Marks cases as ``slow`` that take more than some 0.3 s of processor time: ``make test`` leaves them to CI.

A pytest plugin. The list ``slow_cases.txt`` is measured, not judged. It has a case a line, or a function without its
parameters where all of its cases are slow. ``python -m tests.slow_cases`` compares the list with the last measurements
(:mod:`tests.costs`) and prints what has changed sides: a listed case below 0.25 s, one that is not listed above 0.5 s.
Between them either is right, so that no case moves to and fro. With ``--write`` it writes the list.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests import costs

LIST = Path(__file__).with_name("slow_cases.txt")
SLOW_S = 0.5
QUICK_S = 0.25
LISTED_S = 0.3
"""From what on ``--write`` lists a case: one that is measured again does not change sides at once."""

STAGES = ("unit", "spark")
"""The stages whose cases are listed."""

NAME = "rocketpy-slow-cases"


@cache
def listed() -> frozenset[str]:
    """Return the lines of the list."""
    return frozenset(LIST.read_text(encoding="utf-8").splitlines())


def is_listed(case: str, names: Collection[str]) -> bool:
    """Whether a case, or the function that it is one of, is in a list."""
    return case in names or case.partition("[")[0] in names


class SlowCases:
    """Gives each listed case its mark, before pytest chooses by marks."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Mark the cases that are listed."""
        for item in items:
            if is_listed(item.nodeid, listed()):
                item.add_marker(pytest.mark.slow)


def register(config: pytest.Config) -> None:
    """Mark slow cases, once even where two conftests ask for it."""
    if not config.pluginmanager.has_plugin(NAME):
        config.pluginmanager.register(SlowCases(), NAME)


def changed_sides(names: Collection[str], measured: Mapping[str, float]) -> tuple[list[str], list[str], list[str]]:
    """Return the cases that are now slow, the ones that no longer are, and the listed names that no case has."""
    now_slow = sorted(case for case, cpu_s in measured.items() if cpu_s > SLOW_S and not is_listed(case, names))
    now_quick = sorted(case for case, cpu_s in measured.items() if cpu_s < QUICK_S and is_listed(case, names))
    known = {*measured, *(case.partition("[")[0] for case in measured)}
    return now_slow, now_quick, sorted(set(names) - known)


def new_list(measured: Mapping[str, float]) -> list[str]:
    """Return the list as the measurements want it; a function stands for its cases where none of them is quick."""
    slow = {case for case, cpu_s in measured.items() if cpu_s > LISTED_S}
    functions = defaultdict[str, list[str]](list)
    for case in measured:
        functions[case.partition("[")[0]].append(case)
    whole = {name for name, cases in functions.items() if slow.issuperset(cases)}
    return sorted(whole | {case for case in slow if case.partition("[")[0] not in whole})


def measured_cases(directory: Path, stages: Sequence[str]) -> dict[str, float]:
    """Return the processor time of each case that stages have run, in seconds of the usual processor."""
    found = [each for each in costs.read_costs(directory) if each.stage in stages]
    loops = [each.cpu_s for each in found if each.kind == costs.SPEED]
    slowness = sum(loops) / len(loops) / costs.LOOP_S if loops else 1.0
    return {each.name: each.cpu_s / slowness for each in found if each.kind == costs.TEST}


def report(directory: Path) -> list[str]:
    """Return a line for each case that has changed sides in the last run of the unit tests."""
    measured, names = measured_cases(directory, STAGES), listed()
    now_slow, now_quick, unknown = changed_sides(names, measured)
    return [
        *(f"above {SLOW_S} s, not listed as slow: {measured[case]:.2f} s {case}" for case in now_slow),
        *(f"below {QUICK_S} s, listed as slow: {measured[case]:.2f} s {case}" for case in now_quick),
        *(f"listed as slow, and no such case was run: {name}" for name in unknown),
    ]


def main(arguments: list[str]) -> int:
    """Print the report, or write the list."""
    if "--write" in arguments:
        lines = new_list(measured_cases(costs.DEFAULT, STAGES))
        LIST.write_text("".join(f"{name}\n" for name in lines), encoding="utf-8")
    else:
        print("\n".join(report(costs.DEFAULT)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
