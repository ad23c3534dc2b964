"""Edits of an ACL file's text that preserve comments, order and spelling.

Nodes know their positions, so an edit is a few replacements in the text. The result is parsed again and compared with
the intended document; if they differ, which unusual layouts can cause, the edit is refused and nothing is written.

Compatibility: ``PlainPermissionManager`` (4.9.8) rewrites the whole file without comments, and moves a changed account
to the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import attrs

from rocketpy.broker.acl.acl_document import (
    ACCOUNTS,
    DATA_VERSION,
    GLOBAL_WHITE_ADDRESSES,
    AclDocument,
    read_acl_document,
    read_root,
)
from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.acl_yaml import YamlList, YamlMap, YamlNode, YamlScalar
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.protocol.bodies.topic import DataVersion

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./|=%@+-]*")
_NOT_PLAIN = re.compile(r"true|false|yes|no|on|off|y|n|null", re.IGNORECASE)

_STRANGE = "the file is laid out in a way that cannot be edited by request, edit it by hand"

_Fields = list[tuple[str, "str | list[str]"]]  # key and value; a text is rendered already, a list is not


def with_account(text: str, change: PlainAccessConfig) -> str:
    """Return the text with an account changed, or appended; fields that ``change`` leaves unset keep their values."""
    before = read_acl_document(text)
    edit = _Edit(text)
    account = edit.account(change.access_key)
    if account is None:
        edit.append(ACCOUNTS, _fields(change))
    else:
        for key, value in _fields(change)[1:]:
            edit.set(account, key, value)
    accounts = list(before.accounts)
    names = [each.access_key for each in accounts]
    if change.access_key in names:
        first = names.index(change.access_key)
        accounts[first] = merged(accounts[first], change)
    else:
        accounts.append(change)
    return edit.result(attrs.evolve(before, accounts=tuple(accounts)))


def without_account(text: str, access_key: str) -> str:
    """Return the text without any entry of an account."""
    before = read_acl_document(text)
    edit = _Edit(text)
    edit.remove_accounts(access_key)
    left = tuple(each for each in before.accounts if each.access_key != access_key)
    return edit.result(attrs.evolve(before, accounts=left))


def with_white_addresses(text: str, addresses: Sequence[str]) -> str:
    """Return the text with a replaced global white list."""
    before = read_acl_document(text)
    edit = _Edit(text)
    edit.set_at_top(GLOBAL_WHITE_ADDRESSES, list(addresses))
    return edit.result(attrs.evolve(before, white_addresses=tuple(addresses)))


def with_version(text: str, version: DataVersion) -> str:
    """Return the text with a replaced data version."""
    before = read_acl_document(text)
    edit = _Edit(text)
    fields: _Fields = [("counter", str(version.counter)), ("timestamp", str(version.timestamp))]
    found = edit.root.get(DATA_VERSION) if edit.root is not None else None
    if isinstance(found, YamlList) and found.items and isinstance(found.items[0], YamlMap):
        for key, value in fields:
            edit.set(found.items[0], key, value)
    else:
        edit.append(DATA_VERSION, fields)
    return edit.result(attrs.evolve(before, version=version))


def merged(account: PlainAccessConfig, change: PlainAccessConfig) -> PlainAccessConfig:
    """Return an account with the fields that ``change`` sets; ``admin`` is always set."""
    said = {
        name: value
        for name in ("secret_key", "default_topic_perm", "default_group_perm", "topic_perms", "group_perms")
        if (value := getattr(change, name))
    }
    if change.white_remote_address is not None:
        said["white_remote_address"] = change.white_remote_address
    return attrs.evolve(account, admin=change.admin, **said)


def _fields(account: PlainAccessConfig) -> _Fields:
    """Return the fields that a request sets, in RocketMQ's order; the first is the access key."""
    fields: _Fields = [("accessKey", _rendered(account.access_key))]
    if account.secret_key:
        fields.append(("secretKey", _rendered(account.secret_key)))
    if account.white_remote_address is not None:
        fields.append(("whiteRemoteAddress", _rendered(account.white_remote_address)))
    fields.append(("admin", "true" if account.admin else "false"))
    if account.default_topic_perm:
        fields.append(("defaultTopicPerm", _rendered(account.default_topic_perm)))
    if account.default_group_perm:
        fields.append(("defaultGroupPerm", _rendered(account.default_group_perm)))
    if account.topic_perms:
        fields.append(("topicPerms", list(account.topic_perms)))
    if account.group_perms:
        fields.append(("groupPerms", list(account.group_perms)))
    return fields


def _rendered(text: str) -> str:
    """Render a scalar that every YAML reader parses as exactly this text."""
    if _PLAIN.fullmatch(text) and not _NOT_PLAIN.fullmatch(text):
        return text
    if text.isprintable() and text:
        return "'" + text.replace("'", "''") + "'"
    return json.dumps(text)


def _flow(value: str | list[str]) -> str:
    return value if isinstance(value, str) else f"[{', '.join(map(_rendered, value))}]"


class _Edit:
    """Replacements in one text. Positions refer to the original text, so replacements are applied from the end."""

    def __init__(self, text: str) -> None:
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._text = text if not text or text.endswith("\n") else text + self._newline
        self.root = read_root(self._text)
        self._replacements: list[tuple[int, int, int, str]] = []  # start, minus the depth, end, new text

    def result(self, wanted: AclDocument) -> str:
        """Return the new text; AclError when it does not parse to the intended document."""
        text = self._text
        # Among insertions at one position the deepest comes first, then the one requested first.
        ordered = sorted(self._replacements, key=lambda each: each[:2])
        for start, _, end, new in reversed(ordered):
            text = text[:start] + new + text[end:]
        try:
            found = read_acl_document(text)
        except AclError as failure:
            raise AclError(_STRANGE) from failure
        if _only_values(found) != _only_values(wanted):
            raise AclError(_STRANGE)
        return text

    def account(self, access_key: str) -> YamlMap | None:
        """Return the first account with this access key, which is the effective one."""
        accounts = self.root.get(ACCOUNTS) if self.root is not None else None
        for each in accounts.items if isinstance(accounts, YamlList) else ():
            if isinstance(each, YamlMap) and _has_key(each, access_key):
                return each
        return None

    def set_at_top(self, key: str, value: list[str]) -> None:
        """Set a key of the top-level mapping."""
        if self.root is None:
            self._insert_lines(len(self._text), self._lines("", key, value), depth=0)
        else:
            self.set(self.root, key, value)

    def set(self, node: YamlMap, key: str, value: str | list[str]) -> None:
        """Replace a key's value in a mapping, or append the key."""
        found = node.find(key)
        if found is None:
            self._insert(node, key, value)
            return
        name, old = found
        if isinstance(old, YamlScalar) and old.start == old.end:
            after_colon = self._text.index(":", name.end) + 1
            self._replace(after_colon, after_colon, " " + _flow(value))
        elif isinstance(old, YamlList) and not old.is_flow and isinstance(value, list) and value:
            self._set_items(old, value)
        elif isinstance(old, YamlScalar) or old.is_flow or not value:
            self._replace(old.start, old.end, _flow(value))

    def append(self, key: str, fields: _Fields) -> None:
        """Append a mapping to the list ``key``, creating the list if it is missing."""
        found = self.root.find(key) if self.root is not None else None
        value = found[1] if found is not None else None
        as_flow = "{" + ", ".join(f"{name}: {_flow(each)}" for name, each in fields) + "}"
        if isinstance(value, YamlList) and value.is_flow:
            self._replace(value.end - 1, value.end - 1, f", {as_flow}" if value.items else as_flow)
        elif isinstance(value, YamlList):
            lines = self._item_lines(" " * value.column, fields)
            self._insert_lines(value.end, lines, depth=2 * value.column + 1)
        elif found is not None and isinstance(value, YamlScalar) and value.start == value.end:
            assert self.root is not None
            lines = self._item_lines(" " * (self.root.column + 2), fields)
            self._insert_lines(found[0].end, lines, depth=2 * self.root.column + 1)
        elif found is not None and isinstance(value, YamlScalar):
            self._replace(value.start, value.end, f"[{as_flow}]")
        elif self.root is not None and self.root.is_flow:
            start = self.root.end - 1
            self._replace(start, start, f"{', ' if self.root.pairs else ''}{key}: [{as_flow}]")
        else:
            margin = " " * (self.root.column if self.root is not None else 0)
            at = self.root.end if self.root is not None else len(self._text)
            lines = f"{margin}{key}:{self._newline}" + self._item_lines(margin + "  ", fields)
            self._insert_lines(at, lines, depth=2 * len(margin))

    def remove_accounts(self, access_key: str) -> None:
        """Remove every account with this access key, and the comments inside it."""
        accounts = self.root.get(ACCOUNTS) if self.root is not None else None
        if not isinstance(accounts, YamlList):
            return  # another broker of --groups, or a person, has removed the last one since this broker read the file
        for index, each in enumerate(accounts.items):
            if isinstance(each, YamlMap) and _has_key(each, access_key):
                if accounts.is_flow:
                    self._replace(*_flow_item_span(accounts, index), "")
                else:
                    self._replace(self._dash_line(accounts, each), self._line_end(each.end), "")

    # ---- private ----------------------------------------------------------------------------------------------------

    def _replace(self, start: int, end: int, new: str, *, depth: int = 0) -> None:
        self._replacements.append((start, -depth, end, new))

    def _insert(self, node: YamlMap, key: str, value: str | list[str]) -> None:
        if node.is_flow:
            comma = ", " if node.pairs else ""
            self._replace(node.end - 1, node.end - 1, f"{comma}{key}: {_flow(value)}")
        else:
            self._insert_lines(node.end, self._lines(" " * node.column, key, value), depth=2 * node.column)

    def _insert_lines(self, position: int, lines: str, *, depth: int) -> None:
        """Insert whole lines after the line of ``position``. Items nest deeper than keys in the same column."""
        at = self._line_end(position)
        self._replace(at, at, lines, depth=depth)

    def _set_items(self, old: YamlList, new: list[str]) -> None:
        """Replace items one by one, so that the comments between them are kept."""
        for item, text in zip(old.items, new, strict=False):
            if not isinstance(item, YamlScalar) or item.text != text or item.is_null:
                self._replace(item.start, item.end, _rendered(text))
        for item in old.items[len(new) :]:
            self._replace(self._dash_line(old, item), self._line_end(item.end), self._end_comment(item, old.column))
        margin = " " * old.column
        more = "".join(f"{margin}- {_rendered(text)}{self._newline}" for text in new[len(old.items) :])
        if more:
            self._insert_lines(old.end, more, depth=2 * old.column + 1)

    def _end_comment(self, item: YamlNode, column: int) -> str:
        """Return the comment at the end of an item's line, as a line of its own."""
        rest = self._text[item.end : self._line_end(item.end)]
        return " " * column + rest.strip() + self._newline if rest.strip().startswith("#") else ""

    def _lines(self, margin: str, key: str, value: str | list[str]) -> str:
        if isinstance(value, str) or not value:
            return f"{margin}{key}: {_flow(value)}{self._newline}"
        items = "".join(f"{margin}  - {_rendered(each)}{self._newline}" for each in value)
        return f"{margin}{key}:{self._newline}{items}"

    def _item_lines(self, margin: str, fields: _Fields) -> str:
        lines = "".join(self._lines(margin + "  ", key, value) for key, value in fields)
        return margin + "- " + lines[len(margin) + 2 :]

    def _line_end(self, position: int) -> int:
        """Return the start of the line after that of ``position``; a block scalar ends at the start of a line."""
        if position and self._text[position - 1] == "\n":
            return position
        end = self._text.find("\n", position)
        return len(self._text) if end < 0 else end + 1

    def _dash_line(self, owner: YamlList, item: YamlNode) -> int:
        """Return the start of the line with an item's dash, which may be above the item."""
        start = self._text.rfind("\n", 0, item.start) + 1
        while start > owner.start and not self._text[start:].lstrip(" ").startswith("-"):
            start = self._text.rfind("\n", 0, start - 1) + 1
        return start


def _has_key(account: YamlMap, access_key: str) -> bool:
    name = account.get("accessKey")
    return isinstance(name, YamlScalar) and name.text == access_key


def _flow_item_span(owner: YamlList, index: int) -> tuple[int, int]:
    """Return the span of an item of ``[a, b]`` with one adjacent comma."""
    items = owner.items
    if index:
        return items[index - 1].end, items[index].end
    return items[0].start, items[1].start if len(items) > 1 else items[0].end


def _only_values(document: AclDocument) -> AclDocument:
    """Return a document without details that an edit may change: line numbers, and null instead of an empty list."""
    accounts = tuple(
        attrs.evolve(
            each,
            topic_perms=tuple(each.topic_perms or ()),
            group_perms=tuple(each.group_perms or ()),
            secret_key=each.secret_key or None,
            white_remote_address=each.white_remote_address or None,
            default_topic_perm=each.default_topic_perm or None,
            default_group_perm=each.default_group_perm or None,
        )
        for each in document.accounts
    )
    return attrs.evolve(document, accounts=accounts, unknown_keys=(), notes=())
