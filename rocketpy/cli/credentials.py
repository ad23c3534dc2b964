"""Credentials for brokers with ACL, read from a file like RocketMQ's ``tools.yml``.

::

    accessKey: RocketMQ
    secretKey: 12345678
    securityToken: optional

A key is the text as written, even where YAML would read it as a number. Compatibility: ``AclUtils.getAclRPCHook``
(4.9.8), which goes on without signing when the file is wrong; here that is an error, as is a key that
has no meaning (``securitytoken``), or one that comes twice.
"""

from __future__ import annotations

from rocketpy.broker.acl.acl_error import AclError
from rocketpy.broker.acl.acl_yaml import YamlMap, YamlScalar, parse_yaml
from rocketpy.errors import SettingsError
from rocketpy.protocol.signature import SessionCredentials

_FILE_SIZE_MAX = 1 << 16
_KEYS = ("accessKey", "secretKey", "securityToken")


def load_credentials(path: str) -> SessionCredentials:
    """Return the credentials of a file; SettingsError names the file and what is wrong with it."""
    try:
        with open(path, "rb") as file:
            content = file.read(_FILE_SIZE_MAX + 1)
        if len(content) > _FILE_SIZE_MAX:
            raise SettingsError(f"{path}: expected at most {_FILE_SIZE_MAX} bytes, found more")
        root = parse_yaml(content.decode("utf-8-sig"))
    except OSError as failure:
        raise SettingsError(f"{path}: cannot be read: {failure.strerror}") from failure
    except (AclError, UnicodeDecodeError) as failure:
        raise SettingsError(f"{path}: {failure}") from failure
    if not isinstance(root, YamlMap):
        raise SettingsError(f"{path}: expected accessKey: and secretKey:, found something else")
    lines: dict[str, int] = {}
    for key, _ in root.pairs:
        if key.text not in _KEYS:
            raise SettingsError(f"{path} line {key.line}: expected {', '.join(_KEYS)}, found {key.text[:64]!r}")
        if key.text in lines:
            raise SettingsError(f"{path} line {key.line}: {key.text} was set in line {lines[key.text]} already")
        lines[key.text] = key.line
    access_key, secret_key = _text(path, root, "accessKey"), _text(path, root, "secretKey")
    if not access_key or not secret_key:
        raise SettingsError(f"{path}: expected a value for {'secretKey' if access_key else 'accessKey'}, found none")
    return SessionCredentials(access_key, secret_key, _text(path, root, "securityToken"))


def _text(path: str, root: YamlMap, key: str) -> str | None:
    value = root.get(key)
    if value is None:
        return None
    if not isinstance(value, YamlScalar):
        raise SettingsError(f"{path} line {value.line}: expected a text for {key}, found a collection")
    return value.text.strip()
