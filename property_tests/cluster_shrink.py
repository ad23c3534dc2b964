"""Makes a failing plan smaller: leaves operations out for as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from property_tests.cluster_plan import Plan


def smallest(plan: Plan, fails: Callable[[Plan], bool], *, runs_max: int = 150) -> Plan:
    """Return a part of a failing plan that fails too. Operations keep their times.

    Leaves out halves first, then quarters, down to single operations, until no single one can go or ``runs_max`` plans
    were tried.
    """
    size, runs = max(1, len(plan.operations) // 2), 0
    while True:
        shrank, position = False, 0
        while position < len(plan.operations):
            if runs == runs_max:
                return plan
            runs += 1
            rest = plan.operations[:position] + plan.operations[position + size :]
            smaller = attrs.evolve(plan, operations=rest)
            if fails(smaller):
                plan, shrank = smaller, True
            else:
                position += size
        if size == 1 and not shrank:
            return plan
        size = max(1, size // 2) if not shrank or size > 1 else 1
