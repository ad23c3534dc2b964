"""Plan and progress of a replay: files in its work directory, from which a run that was killed is resumed.

::

    WORK/plan.json                       what is sent where; there only once all slices are written
    WORK/slices/slice=3/task=0/part-...  the messages, as the sink takes them, in slices that are sent one by one
    WORK/sent/00000003.json              slice 3 was sent
    WORK/lock                            held while a run sends (local file systems)

The messages are selected once. A later run sends what the first one selected, whatever has become of the source.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import attrs

from rocketpy.errors import StoreError
from rocketpy.spark.pipelines.archive_log.file_system import FileSystem
from rocketpy.spark.pipelines.archive_log.json_fields import read_fields

SLICE_DIGITS = 8
TARGET_FIELDS = ("topics", "keeps_queues")
"""What a plan has of its target."""

_FIELDS = ("id", "target", "read", "skipped", "shares", "slices")
_SENT = re.compile(rf"[0-9]{{{SLICE_DIGITS}}}\.json")


@attrs.frozen(kw_only=True)
class ReplayPlan:
    """What a replay sends. ``shares`` are the parts of the rate that the tasks have, ``slices`` rows by slice."""

    id: str
    target: Mapping[str, Any]
    read: int
    skipped: Mapping[str, int]
    shares: tuple[float, ...]
    slices: tuple[int, ...]

    @property
    def row_count(self) -> int:
        """Return how many messages are sent in all."""
        return sum(self.slices)


class ReplayWork:
    """The work directory of one replay."""

    def __init__(self, root: str, *, files: FileSystem) -> None:
        self.root = root.rstrip("/")
        self.files = files

    @property
    def slices(self) -> str:
        """Return the directory of the slices."""
        return f"{self.root}/slices"

    def plan(self) -> ReplayPlan | None:
        """Return the plan, None if none was completed; ``StoreError`` for a file that is none."""
        if "plan.json" not in self.files.list_names(self.root):
            return None
        path = f"{self.root}/plan.json"
        fields = read_fields(self.files.read(path), path, "the plan of a replay")
        fields.expect_only(_FIELDS)
        target, skipped = fields.inner("target"), fields.inner("skipped")
        target.expect_only(TARGET_FIELDS)
        shares, slices = fields.items("shares"), fields.items("slices")
        return ReplayPlan(
            id=fields.name("id"),
            target={name: target.members[name] for name in TARGET_FIELDS if name in target.members},
            read=fields.number("read"),
            skipped={reason: skipped.number(reason) for reason in skipped.members},
            shares=tuple(fields.share("shares", index, value) for index, value in enumerate(shares)),
            slices=tuple(fields.count("slices", index, value) for index, value in enumerate(slices)),
        )

    def note_plan(self, plan: ReplayPlan) -> None:
        """Write the plan: from now on a run sends the slices that are there."""
        self.files.create(f"{self.root}/plan.json", json.dumps(attrs.asdict(plan), indent=1).encode())

    def sent(self, plan: ReplayPlan) -> frozenset[int]:
        """Return the slices that were sent; ``StoreError`` for a file that names none of the plan."""
        directory, sent = f"{self.root}/sent", set()
        for name in self.files.list_names(directory):
            if name[0] == ".":
                continue
            number = int(name[:SLICE_DIGITS]) if _SENT.fullmatch(name) else len(plan.slices)
            if number >= len(plan.slices):
                expected = f"a slice of the plan, which has {len(plan.slices)}"
                raise StoreError(f"expected the number of {expected}, found another name", path=f"{directory}/{name}")
            sent.add(number)
        return frozenset(sent)

    def note_sent(self, number: int, rows: int) -> None:
        """Note that a slice was sent: no run sends it again."""
        self.files.create(f"{self.root}/sent/{number:0{SLICE_DIGITS}}.json", json.dumps({"rows": rows}).encode())


def shared_out(counts: Mapping[Any, int], tasks_max: int) -> list[list[Any]]:
    """Return the queues by task: up to ``tasks_max``, each with about as many messages. Not empty if there are any.

    Each queue goes whole to one task, which keeps its order: the longest first, to the task that has least.
    """
    tasks: list[list[Any]] = [[] for _ in range(min(tasks_max, len(counts)))]
    sizes = [0] * len(tasks)
    for queue in sorted(counts, key=lambda each: (-counts[each], each)):
        least = sizes.index(min(sizes))
        tasks[least].append(queue)
        sizes[least] += counts[queue]
    return tasks
