"""Parser for the YAML subset of ACL files: mappings, lists and scalars with their positions in the text.

It uses ruamel.yaml's events, not its documents, for three reasons. A scalar keeps its text (a secret key ``0123456`` is
not a number). Every node has its position, so an edit changes only the necessary text and an error names the line.
Constructs that make small files large or deep are refused before they are built: anchors, aliases, tags and nesting
beyond :data:`DEPTH_MAX`.

ruamel.yaml is imported with the first file: a broker without access control does not need it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

import attrs

from rocketpy.broker.acl.acl_error import AclError

DEPTH_MAX: Final = 8

_NULL_TEXTS: Final = ("", "~", "null", "Null", "NULL")
_TRUE_TEXTS: Final = ("true", "yes", "on", "y", "1")
_FALSE_TEXTS: Final = ("false", "no", "off", "n", "0")


@attrs.frozen
class YamlScalar:
    """A single value. The position of an empty one is anywhere after its key."""

    text: str
    is_null: bool
    start: int
    end: int
    line: int

    @property
    def is_true(self) -> bool:
        """Whether this is one of YAML 1.1's spellings of true."""
        return self.text.strip().lower() in _TRUE_TEXTS

    @property
    def is_false(self) -> bool:
        """Whether this is one of YAML 1.1's spellings of false."""
        return self.text.strip().lower() in _FALSE_TEXTS


@attrs.frozen
class YamlList:
    """A sequence. ``end`` is after its last item, before any following comments."""

    items: list[YamlNode]
    is_flow: bool
    start: int
    end: int
    line: int
    column: int


@attrs.frozen
class YamlMap:
    """A mapping in text order; the last of equal keys is effective, as in RocketMQ."""

    pairs: list[tuple[YamlScalar, YamlNode]]
    is_flow: bool
    start: int
    end: int
    line: int
    column: int

    def get(self, key: str) -> YamlNode | None:
        """Return the value of a key; None when it has none, or null."""
        _, value = self.find(key) or (None, None)
        return None if isinstance(value, YamlScalar) and value.is_null else value

    def find(self, key: str) -> tuple[YamlScalar, YamlNode] | None:
        """Return the key and its value as nodes, None when the key is missing."""
        for name, value in reversed(self.pairs):
            if name.text == key:
                return name, value
        return None


YamlNode = YamlScalar | YamlList | YamlMap


def parse_yaml(text: str) -> YamlNode | None:
    """Parse the single document of ``text``, None when it is empty; AclError names the line of the fault."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        return _Builder(YAML(typ="safe", pure=True).parse(text)).document()
    except YAMLError as failure:
        raise AclError(_described(failure)) from failure


class _Mark(Protocol):
    line: int
    column: int
    index: int


class _Event(Protocol):
    start_mark: _Mark
    end_mark: _Mark


class _Builder:
    """Builds nodes from events. Recursion is bounded by DEPTH_MAX."""

    def __init__(self, events: Iterator[_Event]) -> None:
        self._events = events

    def document(self) -> YamlNode | None:
        """Read all events; AclError when there are two documents."""
        from ruamel.yaml.events import DocumentStartEvent

        root: YamlNode | None = None
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                if root is not None:
                    raise AclError(f"line {event.start_mark.line + 1}: expected one document, found a second one")
                root = self._node(next(self._events), 0)
        return root

    def _node(self, event: _Event, depth: int) -> YamlNode:
        from ruamel.yaml.events import AliasEvent, MappingStartEvent, ScalarEvent, SequenceStartEvent

        line = event.start_mark.line + 1
        if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
            raise AclError(f"line {line}: expected no anchors and aliases, found one")
        if depth > DEPTH_MAX:
            raise AclError(f"line {line}: expected at most {DEPTH_MAX} levels, found more")
        if isinstance(event, ScalarEvent):
            is_null = bool(event.implicit[0]) and event.value in _NULL_TEXTS and event.style is None
            return YamlScalar(event.value, is_null, event.start_mark.index, event.end_mark.index, line)
        if isinstance(event, MappingStartEvent):
            return self._map(event, depth)
        assert isinstance(event, SequenceStartEvent), event
        return self._list(event, depth)

    def _list(self, event: _Event, depth: int) -> YamlList:
        from ruamel.yaml.events import SequenceEndEvent

        items: list[YamlNode] = []
        for inner in self._events:
            if isinstance(inner, SequenceEndEvent):
                break
            items.append(self._node(inner, depth + 1))
        start, is_flow = event.start_mark, _is_flow(event)
        end = inner.end_mark.index if is_flow else max((each.end for each in items), default=start.index)
        return YamlList(items, is_flow, start.index, end, start.line + 1, start.column)

    def _map(self, event: _Event, depth: int) -> YamlMap:
        from ruamel.yaml.events import MappingEndEvent

        pairs: list[tuple[YamlScalar, YamlNode]] = []
        for inner in self._events:
            if isinstance(inner, MappingEndEvent):
                break
            key = self._node(inner, depth + 1)
            if not isinstance(key, YamlScalar):
                raise AclError(f"line {key.line}: expected a plain key, found a collection")
            value = self._node(next(self._events), depth + 1)
            if isinstance(value, YamlScalar) and value.start == value.end:  # its mark is that of the next token
                value = attrs.evolve(value, start=key.end, end=key.end, line=key.line)
            pairs.append((key, value))
        start, is_flow = event.start_mark, _is_flow(event)
        ends = (max(key.end, value.end) for key, value in pairs)
        end = inner.end_mark.index if is_flow else max(ends, default=start.index)
        return YamlMap(pairs, is_flow, start.index, end, start.line + 1, start.column)


def _is_flow(event: _Event) -> bool:
    return bool(getattr(event, "flow_style", False))


def _described(failure: Exception) -> str:
    """Return ruamel.yaml's multi-line error message as one line."""
    mark = getattr(failure, "problem_mark", None)
    what = getattr(failure, "problem", None) or getattr(failure, "reason", None) or str(failure).splitlines()[0]
    return f"line {mark.line + 1}: {what}" if mark is not None else f"not YAML: {what}"
