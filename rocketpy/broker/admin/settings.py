"""GET_BROKER_CONFIG and UPDATE_BROKER_CONFIG: the broker's settings by request.

No request changes a path, a command, an address or code to load. This refuses the attacks of CVE-2023-33246 and its
successors through ``rocketmqHome``, ``filterServerNums`` and ``brokerConfigPath``, whatever the configured black list.

Compatibility: ``AdminBrokerProcessor`` (4.9.8). Refusals name the key. Keys that take effect at the next
start are named in the remark of the success. Java refuses only the keys of its black list, so a request can change the
store path, the addresses and the nameservers.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import attrs

from rocketpy.broker.acl.needs import ADMIN, STRICT_ADMIN
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.live_settings import FixedSettingError, LiveSettings
from rocketpy.broker.request_body import SETTINGS_SIZE_MAX
from rocketpy.errors import RequestError, SettingsError, StoreError
from rocketpy.protocol.bodies.codec import encode_text
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.admin import GetBrokerConfigResponseHeader
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher

BLACK_LIST_ALWAYS = frozenset({"brokerConfigPath", "configBlackList", "rocketmqHome"})

_log = logging.getLogger("rocketpy.broker")


@attrs.define(eq=False, kw_only=True)
class AdminConfigProcessor:
    """Serves UPDATE_BROKER_CONFIG and GET_BROKER_CONFIG.

    ``permission_changed`` registers a changed ``brokerPermission`` with the nameservers and never fails.
    """

    _config: BrokerConfig
    _live_settings: LiveSettings
    _permission_changed: Callable[[], Awaitable[None]]

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes."""
        dispatcher.register_task(RequestCode.UPDATE_BROKER_CONFIG, self.process_update_broker_config, needs=ADMIN)
        dispatcher.register(RequestCode.GET_BROKER_CONFIG, self.process_get_broker_config, needs=STRICT_ADMIN)

    async def process_update_broker_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Change all named settings or none; answered once they are in the file."""
        text = _text_of(request.body or b"")
        try:
            change = await self._live_settings.update(text, black_list=self._black_list())
        except FixedSettingError as error:
            _log.warning("settings not changed for %s: %s", connection.peer, error)
            raise RequestError(ResponseCode.NO_PERMISSION, f"Can not update config in black list. {error}") from error
        except SettingsError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, f"nothing has changed: {error}") from error
        except StoreError as error:  # not fatal: messages do not depend on this file
            _log.error("settings not changed: %s", error)
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"nothing has changed, the file could not be written: {error}"
            ) from error
        _log.info(
            "settings changed by %s: now %s, from the next start on %s",
            connection.peer,
            ", ".join(change.live) or "none",
            ", ".join(change.from_next_start) or "none",
        )
        if "brokerPermission" in change.live:
            await self._permission_changed()
        if change.from_next_start:
            remark = f"takes effect with the next start: {', '.join(change.from_next_start)}"
            return make_response(request, ResponseCode.SUCCESS, remark)
        return make_response(request)

    def process_get_broker_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Return as properties every setting's accepted value, and its value in force where it differs."""
        header = GetBrokerConfigResponseHeader(version=encode_text(self._live_settings.data_version))
        return make_response(request, header=header, body=self._live_settings.text().encode())

    def _black_list(self) -> frozenset[str]:
        return BLACK_LIST_ALWAYS.union(filter(None, self._config.config_black_list.split(";")))


def _text_of(body: bytes) -> str:
    """Decode properties text as UTF-8, as Java does for a request."""
    if len(body) > SETTINGS_SIZE_MAX:
        remark = f"nothing has changed: body: expected at most {SETTINGS_SIZE_MAX} bytes of settings, found {len(body)}"
        raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        remark = f"string2Properties error: expected UTF-8, found byte {body[error.start]:#04x} at {error.start}"
        raise RequestError(ResponseCode.SYSTEM_ERROR, remark) from error
