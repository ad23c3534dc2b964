"""Compiled functions answer as their sources do, and end no program, whatever numbers and texts they are given.

Both builds are programs of their own, so that a signal is seen and named with its call. Two kinds of errors are one:
``ValueError``, ``OverflowError`` and ``IndexError`` of a number out of range: compiled code has other ways. It may
also raise where a number does not fit its annotation, and an ``IndexError`` for a position near the ends of 64 bits,
where its sums wrap.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rocketpy import BUILD
from tests.extreme_calls import Calls, plan
from tests.extreme_values import Maker, NotMadeError, words

ROOT = Path(__file__).parents[1]
EXAMPLES = 2000 if os.environ.get("ROCKETPY_TIER") == "deep" else 100
ENDS_MAX = 20
"""Calls that end the program, after which no more are looked for."""
OUT_OF_RANGE = {"raised ValueError", "raised OverflowError", "raised IndexError"}
FAR = 2**62 - 8
FLOOR = "rocketpy.protocol."
"""Modules above it are made of disks, connections and clocks, for which annotations give no values."""


def run(directory: Path, pure: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ROCKETPY_PURE": pure, "PYTHONHASHSEED": "0"}
    command = [sys.executable, "-m", "tests.extreme_calls", *arguments]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)


def outcomes_of(directory: Path, pure: str, count: int) -> list[Any]:
    """Return what came of each call: a list, or a text of what ended the program."""
    path = directory / f"outcomes-{pure}"
    path.touch()
    for _ in range(ENDS_MAX):
        done = run(directory, pure, "make", str(directory / "plan"), str(path), str(path.read_bytes().count(b"\n")))
        if done.returncode == 0:
            break
        assert done.returncode < 0, done.stderr
        with path.open("a") as file:
            file.write(json.dumps(f"ended the program: {signal.Signals(-done.returncode).name}") + "\n")
    outcomes = [json.loads(line) for line in path.read_text().splitlines()]
    assert outcomes
    assert len(outcomes) == count or "ended" in str(outcomes[-1])
    return outcomes


def difference(call: Mapping[str, Any], expected: Any, found: Any) -> str:
    """Return what of a call differs between the sources and compiled modules; empty if nothing does that matters."""
    if isinstance(found, str) or isinstance(expected, str):
        return "" if expected == found else f"{call['lines']}: expected {expected}, found {found}"
    is_far = any(abs(int(number)) >= FAR for number in re.findall(r"\d{19,}", " ".join(call["lines"])))
    for line, wanted, got in zip([*call["lines"], *expected], expected, found, strict=False):
        if wanted == got or ({str(wanted), str(got)} <= OUT_OF_RANGE):
            if call["is_odd"] and str(got).startswith("raised "):
                return ""  # the state after an argument of a wrong type
            continue
        if call["is_odd"] and str(got) in {*OUT_OF_RANGE, "raised TypeError"}:
            return ""
        if is_far and got == "raised IndexError":
            return ""
        return f"{line} of {call['lines']}: expected {wanted}, found {got}"
    return ""


def test_both_builds_answer_alike(tmp_path: Path) -> None:
    """Where the sources run and compiled modules lie beside them: the stage ``both-builds``."""
    if BUILD.why_pure != "ROCKETPY_PURE=1" or run(tmp_path, "0", "build").stdout.strip() != "compiled":
        pytest.skip("compares compiled modules with their sources: the stage both-builds")
    modules = sorted(name for name in BUILD.modules if name.startswith(FLOOR))
    planning = run(tmp_path, "1", "plan", str(tmp_path / "plan"), str(EXAMPLES), "0", *modules)
    assert planning.returncode == 0, planning.stderr
    planned = json.loads((tmp_path / "plan").read_text())
    calls = planned["calls"]
    expected, found = (outcomes_of(tmp_path, pure, len(calls)) for pure in ("1", "0"))
    differences = [difference(*each) for each in zip(calls, expected, found, strict=False)]
    assert [each for each in differences if each] == []


def test_every_function_of_a_kernel_is_called() -> None:
    """A kernel whose arguments cannot be made by their annotations needs a way to make them."""
    if BUILD.has_kernels:
        pytest.skip("compiled functions have no annotations")
    modules = [f"rocketpy.protocol.kernels.{path.stem}" for path in kernels()]
    planned = plan(modules, 1, 0)
    assert planned["not_made"] == {}
    assert {call["label"].split(".")[2] for call in planned["calls"]} == {path.stem for path in kernels()}


def kernels() -> Sequence[Path]:
    folder = ROOT / "rocketpy" / "protocol" / "kernels"
    return [path for path in folder.glob("*.py") if path.stem != "__init__"]


def test_each_number_is_each_extreme() -> None:
    def function(first: int, text: bytes, second: int) -> None: ...

    made = list(Maker(Random(0), {}).every_extreme(function, {}))
    for number in (-(2**63), 2**63 - 1, 2**31, -1, 0):
        assert [arguments[0] for arguments in made].count(f"first={number}")
        assert [arguments[2] for arguments in made].count(f"second={number}")


def test_what_no_annotation_makes_is_said() -> None:
    def function(file: Path) -> None: ...

    with pytest.raises(NotMadeError):
        Maker(Random(0), {}).arguments(function, {"Path": Path})


def test_the_state_after_a_call_is_part_of_its_outcome() -> None:
    calls = Calls({})
    assert calls.outcome(["words(1)"]) == calls.outcome(["words(1)"])
    assert calls.outcome(["words(1).__setitem__(0, 7)"])[-1] == ascii((7).to_bytes(4, sys.byteorder))
    assert calls.outcome(["it = bytes(1, 2, 3)", "it.hex()"]) == ["raised TypeError"]
    assert words(1).tolist() != [7]


@pytest.mark.parametrize(
    ("lines", "expected", "found", "is_seen"),
    [
        (["f(n=1)"], ["1"], ["2"], True),
        (["f(n=1)"], ["1"], "ended the program: SIGSEGV", True),
        (["f(n=1)"], ["raised ValueError"], ["raised OverflowError"], False),
        (["f(n=1)"], [1], ["raised IndexError"], True),
        (["f(n=9223372036854775807)"], [1], ["raised IndexError"], False),
        (["f(n=9223372036854775807)"], [1], ["raised SystemError"], True),
        (["f(n=9223372036854775807)"], ["raised ValueError"], [1], True),
    ],
)
def test_differences_that_matter_are_seen(lines: list[str], expected: Any, found: Any, is_seen: bool) -> None:
    assert bool(difference({"lines": lines, "is_odd": False}, expected, found)) == is_seen
