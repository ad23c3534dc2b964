"""Runs a broker and counts the bytecodes of its main thread; started by ``bench.bytecodes``, not by hand.

SIGUSR1 begins to count; the next one ends it and writes a line per function of the package, ``COUNT NAME``, to
``BYTECODES_FILE``.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
from collections import Counter
from types import CodeType, FrameType
from typing import Any

_counts: Counter[CodeType] = Counter()
_is_counting = False


def _toggle(*_: object) -> None:
    global _is_counting
    _is_counting = not _is_counting
    if _is_counting:
        _counts.clear()
        return
    root = os.path.join(os.environ["PYTHONPATH"], "rocketpy")
    lines = [
        f"{count} {code.co_qualname}\n" for code, count in _counts.most_common() if code.co_filename.startswith(root)
    ]
    path = os.environ["BYTECODES_FILE"]
    with open(f"{path}.tmp", "w") as file:
        file.writelines(lines)
    os.rename(f"{path}.tmp", path)


def _trace_call(frame: FrameType, event: str, argument: object) -> Any:
    frame.f_trace_opcodes, frame.f_trace_lines = True, False
    return _trace_opcode


def _trace_opcode(frame: FrameType, event: str, argument: object) -> Any:
    if event == "opcode" and _is_counting:
        _counts[frame.f_code] += 1
    return _trace_opcode


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _toggle)
    sys.settrace(_trace_call)
    runpy.run_module("rocketpy.broker", run_name="__main__", alter_sys=True)
