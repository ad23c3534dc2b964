"""Report of an audit: how much was compared, and the findings by kind. A value without Spark, for JSON or as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from rocketpy.spark.pipelines.audit.findings import ERROR, KINDS, NOTICE
from rocketpy.spark.pipelines.summary import Summary

LISTED_MAX = 20
"""Findings of each kind that a report lists; the DataFrame has all."""


@attrs.frozen(kw_only=True)
class KindCount:
    """How often a kind of finding was found, and how many messages that is about."""

    kind: str
    severity: str
    findings: int
    messages: int

    def as_fields(self) -> dict[str, object]:
        """Return the figures as a JSON object."""
        return attrs.asdict(self)


@attrs.frozen(kw_only=True)
class AuditReport:
    """Result of one audit of a store directory."""

    path: str
    is_live: bool
    """Whether a broker had the store open; then only what was there at the beginning is compared."""
    at: str
    """The moment to which ages and due times refer, in ISO 8601."""
    messages: int
    units: int
    index_entries: int
    groups: int
    """Number of pairs of topic and group with offsets."""
    kinds: tuple[KindCount, ...]
    """Kinds that were found, in the order of ``KINDS``."""
    listed: tuple[Mapping[str, object], ...]
    """The first findings of each kind, as rows."""
    written: int = 0
    """Findings that were written to files."""
    skipped: Mapping[str, int] = attrs.field(factory=dict)
    """Messages that were not compared, by reason."""
    seconds: float = 0.0

    @property
    def summary(self) -> Summary:
        """Return what was read, written and skipped."""
        return Summary(
            pipeline="audit", read=self.messages, written=self.written, skipped=self.skipped, seconds=self.seconds
        )

    @property
    def is_clean(self) -> bool:
        """Whether there is nothing but notices."""
        return all(each.severity == NOTICE.value for each in self.kinds)

    @property
    def has_errors(self) -> bool:
        """Whether messages are lost, wrong or out of reach."""
        return any(each.severity == ERROR.value for each in self.kinds)

    def count(self, kind: str) -> int:
        """Return how many findings of a kind there are."""
        return sum(each.findings for each in self.kinds if each.kind == kind)

    def as_fields(self) -> dict[str, object]:
        """Return the report as a JSON object."""
        fields: dict[str, object] = {
            name: getattr(self, name)
            for name in ("path", "is_live", "at", "messages", "units", "index_entries", "groups")
        }
        return {
            **self.summary.as_fields(),
            **fields,
            "is_clean": self.is_clean,
            "kinds": [each.as_fields() for each in self.kinds],
            "findings": [dict(each) for each in self.listed],
        }

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        state = "open in a broker" if self.is_live else "not open"
        lines = [
            f"audit of {self.path} ({state}): {self.messages} messages, {self.units} units, "
            f"{self.index_entries} index entries, {self.groups} groups of topics"
        ]
        meanings = {kind.name: kind.meaning for kind in KINDS}
        for each in self.kinds:
            lines.append(
                f"{each.severity}: {each.kind}: {each.findings} ({each.messages} messages): {meanings[each.kind]}"
            )
            listed = [row for row in self.listed if row["kind"] == each.kind]
            lines += [f"    {described(row)}" for row in listed]
            if each.findings > len(listed):
                lines.append(f"    and {each.findings - len(listed)} more")
        if not self.kinds:
            lines.append("nothing found")
        return [*lines, *self.summary.lines()]


def described(row: Mapping[str, object]) -> str:
    """Return a finding as one line: where, what was expected, what was found."""
    names = ("topic", "queue_id", "queue_offset", "physical_offset", "consumer_group", "since")
    titles = ("topic", "queue", "queue offset", "physical offset", "group", "since")
    where = [f"{title} {row[name]}" for name, title in zip(names, titles, strict=True) if row.get(name) is not None]
    return f"{', '.join(where) or 'store'}: expected {row['expected']}, found {row['found']}"


def ordered(counts: Sequence[KindCount]) -> tuple[KindCount, ...]:
    """Return counts in the order of ``KINDS``."""
    order = {kind.name: number for number, kind in enumerate(KINDS)}
    return tuple(sorted(counts, key=lambda each: order[each.kind]))
