"""Account of a cluster, from the two options that belong together."""

from __future__ import annotations

from rocketpy.errors import SettingsError
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.spark.options.connection import ACCESS_KEY, SECRET_KEY
from rocketpy.spark.options.option import OptionValues


def credentials_of(values: OptionValues) -> SessionCredentials | None:
    """Return the account that signs requests; :class:`SettingsError` for half of one."""
    access_key, secret_key = values[ACCESS_KEY], values[SECRET_KEY]
    if (access_key is None) != (secret_key is None):
        raise SettingsError("the options accessKey and secretKey belong together, found only one of them")
    return None if access_key is None or secret_key is None else SessionCredentials(access_key, secret_key)
