"""Content of one ACL file: the global white list, the accounts, and the data version.

::

    globalWhiteRemoteAddresses:
      - 10.10.103.*
    accounts:
      - accessKey: RocketMQ
        secretKey: 12345678
        whiteRemoteAddress: 192.168.9.*
        admin: false
        defaultTopicPerm: DENY
        defaultGroupPerm: SUB
        topicPerms:
          - topicA=PUB|SUB
        groupPerms:
          - groupA=SUB
    dataVersion:
      - counter: 3
        timestamp: 1700000000000

Compatibility: ``PlainPermissionManager.load`` (4.9.8). SnakeYAML converts unquoted digits to numbers (a secret key
``0123456`` is the number 42798 there); here a key is the text as written.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.acl_yaml import YamlList, YamlMap, YamlNode, YamlScalar, parse_yaml
from rocketpy.broker.acl.permission import PERMISSION_WORDS, is_permission, split_resource
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.protocol.bodies.topic import DataVersion

GLOBAL_WHITE_ADDRESSES = "globalWhiteRemoteAddresses"
ACCOUNTS = "accounts"
DATA_VERSION = "dataVersion"

_KEYS = (GLOBAL_WHITE_ADDRESSES, ACCOUNTS, DATA_VERSION)
_ACCOUNT_KEYS = (
    "accessKey",
    "secretKey",
    "whiteRemoteAddress",
    "admin",
    "defaultTopicPerm",
    "defaultGroupPerm",
    "topicPerms",
    "groupPerms",
)
_INT64_MAX = (1 << 63) - 1
_SHOWN_MAX = 64


@attrs.frozen
class AclDocument:
    """The values of one file. ``unknown_keys`` are the unused keys, each with its line.

    ``notes`` are the values that are read as something else than they seem to say, each with its line and with what
    counts instead. Java reads them in the same way, so they refuse no file.
    """

    white_addresses: tuple[str, ...] = ()
    accounts: tuple[PlainAccessConfig, ...] = ()
    version: DataVersion | None = None
    unknown_keys: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def read_acl_document(text: str) -> AclDocument:
    """Parse a file's text; AclError names the line and key of a syntax or type error.

    Values are validated later, when accounts and address patterns are built from them.
    """
    root = read_root(text)
    if root is None:
        return AclDocument()
    unknown = [f"line {key.line}: {key.text}" for key, _ in root.pairs if key.text not in _KEYS]
    notes = list(_repeated_keys(root))
    accounts = []
    for node in _items(root, ACCOUNTS):
        if not isinstance(node, YamlMap):
            raise AclError(f"line {node.line}: expected an account with accessKey and secretKey in {ACCOUNTS}")
        accounts.append(_account(node))
        unknown += [f"line {key.line}: {key.text}" for key, _ in node.pairs if key.text not in _ACCOUNT_KEYS]
        notes += _notes(node)
    return AclDocument(
        tuple(_texts(root, GLOBAL_WHITE_ADDRESSES) or ()), tuple(accounts), _version(root), tuple(unknown), tuple(notes)
    )


def read_root(text: str) -> YamlMap | None:
    """Return the file's top-level mapping, None when the file is empty."""
    root = parse_yaml(text)
    if root is None or (isinstance(root, YamlScalar) and root.is_null):
        return None
    if not isinstance(root, YamlMap):
        raise AclError(f"line {root.line}: expected {ACCOUNTS}: or {GLOBAL_WHITE_ADDRESSES}:, found something else")
    return root


def _account(node: YamlMap) -> PlainAccessConfig:
    admin = node.get("admin")
    return PlainAccessConfig(
        access_key=_text(node, "accessKey") or "",
        secret_key=_text(node, "secretKey"),
        white_remote_address=_text(node, "whiteRemoteAddress"),
        admin=isinstance(admin, YamlScalar) and admin.is_true,
        default_topic_perm=_text(node, "defaultTopicPerm"),
        default_group_perm=_text(node, "defaultGroupPerm"),
        topic_perms=_texts(node, "topicPerms"),
        group_perms=_texts(node, "groupPerms"),
    )


def _notes(account: YamlMap) -> Iterator[str]:
    """Yield what is read as something else than it seems to say, each with its line."""
    yield from _repeated_keys(account)
    admin = account.get("admin")
    if admin is not None and not (isinstance(admin, YamlScalar) and (admin.is_true or admin.is_false)):
        shown = repr(admin.text[:_SHOWN_MAX]) if isinstance(admin, YamlScalar) else "a collection"
        yield f"line {admin.line}: admin is {shown}, expected true or false: it counts as false"
    for key in ("defaultTopicPerm", "defaultGroupPerm"):
        value = account.get(key)
        if isinstance(value, YamlScalar) and not is_permission(value.text):
            yield _denied(value, f"{key} is {value.text[:_SHOWN_MAX]!r}")
    for key in ("topicPerms", "groupPerms"):
        lines: dict[str, int] = {}
        for item in _items(account, key):
            parts = split_resource(item.text) if isinstance(item, YamlScalar) else None
            if parts is None:
                continue
            if not is_permission(parts[1]):
                yield _denied(item, f"{key} has {item.text[:_SHOWN_MAX]!r}" if isinstance(item, YamlScalar) else key)
            if parts[0] in lines:
                name = parts[0][:_SHOWN_MAX]
                yield f"line {item.line}: {key} has {name} in line {lines[parts[0]]} already, this one counts"
            lines[parts[0]] = item.line


def _denied(node: YamlNode, what: str) -> str:
    return f"line {node.line}: {what}, expected {PERMISSION_WORDS}: it counts as DENY"


def _repeated_keys(node: YamlMap) -> Iterator[str]:
    lines: dict[str, int] = {}
    for key, _ in node.pairs:
        if key.text in lines:
            shown = key.text[:_SHOWN_MAX]
            yield f"line {key.line}: {shown} was set in line {lines[key.text]} already, this one counts"
        lines[key.text] = key.line


def _version(root: YamlMap) -> DataVersion | None:
    for node in _items(root, DATA_VERSION):
        if not isinstance(node, YamlMap):
            raise AclError(f"line {node.line}: expected counter and timestamp in {DATA_VERSION}")
        return DataVersion(_number(node, "timestamp"), _number(node, "counter"))
    return None


def _number(node: YamlMap, key: str) -> int:
    text = _text(node, key) or "0"
    if not (text.isascii() and text.isdecimal() and len(text) <= 19 and int(text) <= _INT64_MAX):
        raise AclError(f"line {node.line}: expected a number for {key}, found {text[:64]!r}")
    return int(text)


def _text(node: YamlMap, key: str) -> str | None:
    value = node.get(key)
    if value is None:
        return None
    if not isinstance(value, YamlScalar):
        raise AclError(f"line {value.line}: expected a text for {key}, found a collection")
    return value.text


def _texts(node: YamlMap, key: str) -> list[str] | None:
    if node.get(key) is None:
        return None
    texts = []
    for item in _items(node, key):
        if not isinstance(item, YamlScalar):
            raise AclError(f"line {item.line}: expected a text in {key}, found a collection")
        if not item.is_null:
            texts.append(item.text)
    return texts


def _items(node: YamlMap, key: str) -> list[YamlNode]:
    value = node.get(key)
    if value is None:
        return []
    if not isinstance(value, YamlList):
        raise AclError(f"line {value.line}: expected a list for {key}, found something else")
    return value.items
