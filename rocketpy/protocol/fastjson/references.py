"""Resolution of fastjson's references ``{"$ref":"$.path"}``.

fastjson writes the second occurrence of the same object in a document as such a reference. Resolved here are references
to a value that ends before the reference begins, which covers every tree with shared values. ``@``, ``..``, ``$`` and
paths to a value that contains the reference would make a cycle and become ``None``, as does a dangling path. A
reference used as a map *key* refers to an earlier key; it is resolved if exactly one is possible, and kept otherwise.

Rule: references share values, so a small text can stand for an enormous tree. All targets together may have
:data:`REFERENCED_VALUES_MAX` values when expanded. A document has at most :data:`REFERENCES_MAX` references, and each
costs the length of its path: the keys of a map are looked up once for all references to them.
"""

from __future__ import annotations

import re

import attrs

from rocketpy.errors import RemoteProtocolError
from rocketpy.protocol.fastjson.reader import FrozenBean

REFERENCED_VALUES_MAX = 100_000
REFERENCES_MAX = 10_000
"""The largest body with references is a consumer's offsets, one per queue; requests of RocketMQ have none."""

_KEY = "$ref"
# "$" then ".name" (with a backslash before special characters) or "[index]".
_SEGMENT = re.compile(r"\.((?:[^.\[\]\\]|\\.)+)|\[([0-9]{1,9})\]")
_ESCAPED = re.compile(r"\\(.)")
_NOTHING = object()


def resolve_references(document: object) -> object:
    """Resolve the references of ``document``, in document order, and return it; containers are modified."""
    if _reference(document) is not None:
        return None  # to itself, or to nothing
    _Resolver(document).resolve(document)
    return document


@attrs.define(eq=False)
class _Resolver:
    _root: object
    _open: set[int] = attrs.field(factory=set)  # identities of the containers around the value being visited
    _values_left: int = REFERENCED_VALUES_MAX
    _references_left: int = REFERENCES_MAX
    # The one key of a map that a reference may mean, by the map's identity; the map is kept, so that it stays its own.
    _only_keys: dict[int, tuple[object, FrozenBean | None]] = attrs.field(factory=dict)

    def resolve(self, value: object) -> None:
        """Resolve what is within ``value``; recursion is bounded by the reader.

        A container is emptied first and refilled in order. So a path can only reach values before the reference, which
        are already resolved, and the expanded size of a reference is known when it is resolved.
        """
        if isinstance(value, dict | list):
            self._open.add(id(value))
            if isinstance(value, dict):
                self._resolve_members(value)
            else:
                self._resolve_items(value)
            self._open.discard(id(value))

    def _resolve_items(self, items: list[object]) -> None:
        waiting = items.copy()
        items.clear()
        for item in waiting:
            path = _reference(item)
            items.append(item if path is None else self._target(path))
            if path is None:
                self.resolve(item)

    def _resolve_members(self, members: dict[object, object]) -> None:
        waiting = list(members.items())
        members.clear()
        for key, item in waiting:
            key_path, path = _reference(key), _reference(item)
            key = key if key_path is None else self._target_key(key_path, key)
            members[key] = item if path is None else self._target(path)
            if path is None:
                self.resolve(item)

    def _target(self, path: str) -> object:
        target, _ = self._found(path)
        if target is _NOTHING or id(target) in self._open:
            return None
        self._spend(target)
        return target

    def _target_key(self, path: str, key: object) -> object:
        """The last segment of a path to a key names no key (fastjson writes ``null``), so its map must have one."""
        parent = self._found(path)[1]
        if isinstance(parent, dict) and id(parent) not in self._open:
            bean = self._only_key(parent)
            if bean is not None:
                return bean
        return key

    def _only_key(self, parent: dict[object, object]) -> FrozenBean | None:
        """Return the only key of a map that is a bean. A map that is not open is resolved, so this never changes."""
        known = self._only_keys.get(id(parent))
        if known is None:
            beans = [each for each in parent if isinstance(each, FrozenBean) and _reference(each) is None]
            known = self._only_keys[id(parent)] = parent, beans[0] if len(beans) == 1 else None
        return known[1]

    def _found(self, path: str) -> tuple[object, object]:
        """Return the value at ``path`` and the container it is looked up in; ``_NOTHING`` when it leads nowhere."""
        self._references_left -= 1
        if self._references_left < 0:
            raise RemoteProtocolError(f"JSON: expected at most {REFERENCES_MAX} references, found more")
        value: object = self._root
        parent: object = _NOTHING
        position = 1
        if not path.startswith("$"):
            return _NOTHING, _NOTHING
        while position < len(path):
            segment = _SEGMENT.match(path, position)
            if not segment:
                return _NOTHING, _NOTHING
            position = segment.end()
            parent, value = value, _member(value, segment)
        return value, parent

    def _spend(self, target: object) -> None:
        waiting = [target]
        while waiting:
            value = waiting.pop()
            self._values_left -= 1
            if self._values_left < 0:
                raise RemoteProtocolError(f"JSON: expected references to at most {REFERENCED_VALUES_MAX} values")
            if isinstance(value, dict):
                waiting.extend(value.values())
            elif isinstance(value, list):
                waiting.extend(value)


def _reference(value: object) -> str | None:
    """Return the path of a reference, ``None`` when ``value`` is not one."""
    if isinstance(value, dict | FrozenBean) and len(value) == 1:
        path = value.get(_KEY)
        return path if isinstance(path, str) else None
    return None


def _member(value: object, segment: re.Match[str]) -> object:
    name, index = segment.groups()
    if index is not None:
        if isinstance(value, list) and int(index) < len(value):
            return value[int(index)]
        name = index
    if not isinstance(value, dict):
        return _NOTHING
    name = _ESCAPED.sub(r"\1", name)
    if name in value:
        return value[name]
    return value.get(int(name), _NOTHING) if name.isascii() and name.isdecimal() and len(name) < 20 else _NOTHING
